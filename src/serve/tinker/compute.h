// The Tinker API asks this of the compute thread: a view of serve/scheduler.h, which tests replace.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "serve/scheduler.h"

namespace hone::serve {

class Compute {
 public:
  virtual ~Compute() = default;
  // From any thread. The job's functions are called on the compute thread.
  virtual JobId sample(SampleJob job) = 0;
  virtual void cancel(JobId job) = 0;
  // Works of one queue run one after another.
  virtual void work(std::unique_ptr<Work> work, std::uint64_t queue) = 0;
};

class ScheduledCompute : public Compute {
 public:
  explicit ScheduledCompute(Scheduler& scheduler) : scheduler_(scheduler) {}  // which must outlive it
  JobId sample(SampleJob job) override { return scheduler_.submit(std::move(job)); }
  void cancel(JobId job) override { scheduler_.cancel(job); }
  void work(std::unique_ptr<Work> work, std::uint64_t queue) override {
    scheduler_.submit(std::move(work), queue);
  }

 private:
  Scheduler& scheduler_;
};

}  // namespace hone::serve
