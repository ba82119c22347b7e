// Work that a device does again and again with other numbers in the same places, such as a token of a sampler: on CUDA it is recorded as
// a graph when it comes for the second time, and one start does all of it from then on. Elsewhere the work is simply done.
//
// HONE_STEP_GRAPHS=on asks for it. It is off otherwise: no card has shown it yet (docs/cuda.md).
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

namespace hone::ops {

bool step_graphs_wanted();

class StepGraphs {
 public:
  // Keeps at most `most`, and drops those that were not used for longest.
  explicit StepGraphs(at::Device device, std::size_t most = 32);
  ~StepGraphs();
  StepGraphs(const StepGraphs&) = delete;
  StepGraphs& operator=(const StepGraphs&) = delete;

  // Does `work`, or what an earlier work of the same form was: `form` has to tell everything apart that decides what `work` starts on
  // the device, but for numbers that are there already. `work` neither waits for the device nor copies from memory of the
  // host, and what it leaves is in tensors that stay. Where it cannot be recorded it is done each time, and why_not() says why.
  void run(const std::vector<std::int64_t>& form, const std::function<void()>& work);
  void clear();  // as at first: what was recorded is forgotten

  std::int64_t recorded() const { return recorded_; }  // so far
  std::int64_t started() const { return started_; }    // of those that were recorded
  const std::string& why_not() const { return why_not_; }

 private:
  class Graph;
  struct Kept {
    std::vector<std::int64_t> form;
    std::function<void()> work;    // of the first time
    std::unique_ptr<Graph> graph;  // null before the second time, and on other devices than CUDA
  };
  void record(Kept& one);

  const at::Device device_;
  const std::size_t most_;
  std::list<Kept> kept_;  // the one that was used last comes first
  std::int64_t recorded_ = 0, started_ = 0;
  std::string why_not_;
};

}  // namespace hone::ops
