// Threads of our own for pieces of work of some ten microseconds. libgomp's fall asleep between two of them
// and take some 70 us to wake; ours stay awake for a moment, and one that comes late is not waited for: what
// it has not begun, the others do.
#pragma once

#include <cstdint>
#include <type_traits>

namespace hone::ops {

using TeamWork = void (*)(void* context, std::int64_t unit, std::int64_t thread);
void run_in_team(std::int64_t units, std::int64_t threads, TeamWork work, void* context);

// work(unit, thread) for each unit of 0..units-1 on at most `threads` threads and at::get_num_threads(), with
// thread in 0..threads-1: 0 is the caller. A thread begins with neighbouring units in order; who is done
// takes from the end of another's. Returns when all are done; an exception of `work` is thrown again here,
// after the other units. From within a team, or beside another thread's, all is done by the caller.
template <typename Work>
void in_team(std::int64_t units, std::int64_t threads, Work&& work) {
  using Plain = std::remove_reference_t<Work>;
  const TeamWork call = [](void* context, std::int64_t unit, std::int64_t thread) {
    (*static_cast<Plain*>(context))(unit, thread);
  };
  run_in_team(units, threads, call, const_cast<void*>(static_cast<const void*>(&work)));
}

}  // namespace hone::ops
