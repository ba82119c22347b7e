// The library paper_captures has these functions; it is linked to nothing of CUDA and finds it in the process
// that loads it.
#pragma once

#include <cstdint>

extern "C" {

// Captures two products with an elementwise kernel between them on a stream of its own, and starts the graph so many times. Returns 0,
// or 1 with the reason on stderr.
int paper_capture(std::int64_t replays);
// The same with a number read back in the middle, which CUDA refuses; returns 0 when libtorch threw.
int paper_capture_with_a_wait();
// Captures what `work` puts on a stream of its own, after it ran there once, and starts the graph so many times. Returns 0, or 1 with
// the reason on stderr.
int paper_capture_of(void (*work)(void*), void* user, std::int64_t replays);
// With an allocation of the driver's in the middle.
int paper_capture_with_an_allocation();

}  // extern "C"
