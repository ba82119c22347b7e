// A thread pool for work units of about ten microseconds. libgomp's threads fall asleep between two units and
// take about 70 us to wake up; ours spin for a moment, and nobody waits for a late thread: the others take
// its units.
#pragma once

#include <cstdint>
#include <type_traits>

namespace hone::ops {

using TeamWork = void (*)(void* context, std::int64_t unit, std::int64_t thread);
void run_in_team(std::int64_t units, std::int64_t threads, TeamWork work, void* context);

// work(unit, thread) for each unit of 0..units-1 on at most `threads` threads and at::get_num_threads(), with
// thread in 0..threads-1: 0 is the caller. A thread starts with a contiguous range of units, in order; when
// it is done it takes units from the end of another's range. Returns when all are done; an exception of
// `work` is rethrown here after the other units. Nested and concurrent calls run all units on the calling
// thread.
template <typename Work>
void in_team(std::int64_t units, std::int64_t threads, Work&& work) {
  using Plain = std::remove_reference_t<Work>;
  const TeamWork call = [](void* context, std::int64_t unit, std::int64_t thread) {
    (*static_cast<Plain*>(context))(unit, thread);
  };
  run_in_team(units, threads, call, const_cast<void*>(static_cast<const void*>(&work)));
}

}  // namespace hone::ops
