// The process's peak of memory, counted again from a moment on.
#pragma once

namespace hone::base {

// process_memory().peak counts from now on: what an examination used before step 1 is no part of the run's
// peak. False where the kernel cannot (other systems than Linux): the peak then counts from the start.
bool reset_memory_peak();

}  // namespace hone::base
