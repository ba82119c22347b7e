// The files of the runtime share these: one lock, the counts, and who owns which memory. Everything happens
// at once: a kernel is written down, a copy is made when it is asked for, an event is past when it is
// recorded.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>

#include "counts.h"

namespace paper {

// Guards everything below; no function here takes it by itself unless it says so.
std::mutex& lock();
using Guard = std::lock_guard<std::mutex>;

// Memory by the address of its first byte.
struct Ranges {
  std::map<const char*, std::size_t> sizes;
  // The range that holds `at`, or sizes.end().
  std::map<const char*, std::size_t>::const_iterator find(const void* at) const;
  bool holds(const void* at) const { return find(at) != sizes.end(); }
  // [at, at + bytes) is one range with those that it touches, as pages side by side in reserved addresses are; and is none any more.
  void join(const char* at, std::size_t bytes);
  void cut(const char* at, std::size_t bytes);
};

struct State {
  PaperCounts counts;
  Ranges card, pinned;
  std::unordered_map<const void*, const char*> kernels;          // registered, by the address of their stub
  std::unordered_map<const void*, std::int64_t> launched;        // by the same address
  std::unordered_map<const char*, std::int64_t> library_called;  // by the address of a constant
  bool follows = false;
  std::string order;  // of what happened (paper_follow)
};
State& state();
// Writes it down where that is asked for.
void happened(char what);

// ---- captures (graphs.cpp)
// Of a stream that is being captured; 0: it is not.
std::uint64_t capture_of(cudaStream_t stream);
// Writes a kernel down in the capture of the stream, if there is one.
void record_kernel(cudaStream_t stream);
// The same for the one capture that this thread began: libraries are not asked for their stream.
void record_library_call();
// Whether a wait for the stream, or with `any` a call that CUDA forbids while something is captured, has to fail. It is counted,
// and the capture is spoiled.
bool refuses_wait(cudaStream_t stream);
bool refuses_unsafe_call();
// The same of an event that a captured stream has recorded: nobody may ask for it.
bool refuses_event(cudaEvent_t event);
// An event that was recorded, and a stream that waits for it: it joins the event's capture.
void event_recorded(cudaEvent_t event, cudaStream_t stream);
void stream_waits_for(cudaStream_t stream, cudaEvent_t event);
void forget_event(cudaEvent_t event);

// ---- copies (copies.cpp)
// A kernel was launched: what was copied to the card may be something else now.
void forget_copies();

// ---- waits (streams.cpp)
// Work was put on the stream; the next synchronization is a wait again.
void stream_is_busy(cudaStream_t stream);
// A copy of pageable memory: it counts as a wait, and the synchronization that libtorch puts behind it is the same one.
void waited_in_copy(cudaStream_t stream);
// An event was recorded; how many kernels were launched after it; it is gone.
void event_is_recorded(cudaEvent_t event);
std::int64_t kernels_after(cudaEvent_t event);
void forget_recorded(cudaEvent_t event);

// Something was started: on the current card of this thread, whatever the stream.
void started_on_current_card();

// What cudaGetLastError gives once; returns `error`.
cudaError_t fail(cudaError_t error);

}  // namespace paper
