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

namespace cuda {
struct GraphLibrary;
}

bool step_graphs_wanted();

// It counts those of all of them in this process so far.
struct StepGraphFacts {
  std::int64_t recorded = 0, started = 0;
};
StepGraphFacts step_graph_facts();
// A sentence for a run's log: that steps were done without graphs although graphs are wanted, and the first reason. Empty: none were.
std::string step_graphs_note();
// Some step was done without a graph.
void tell_no_step_graph(const std::string& why);

class StepGraphs {
 public:
  // Keeps at most `most` graphs, and drops those that were not used for longest. A form that came once is remembered apart
  // from them, with kFormsOnce others.
  explicit StepGraphs(at::Device device, std::size_t most = 32);
  ~StepGraphs();
  StepGraphs(const StepGraphs&) = delete;
  StepGraphs& operator=(const StepGraphs&) = delete;

  // Does `work`, or what an earlier work of the same form was: `form` has to tell everything apart that decides what `work` starts on
  // the device, but for numbers that are there already. `work` neither waits for the device nor copies from memory of the
  // host, and what it leaves is in tensors that stay. Where it cannot be recorded it is done each time, and why_not() says why.
  void run(const std::vector<std::int64_t>& form, const std::function<void()>& work);
  void clear();  // as at first: what was recorded is forgotten

  // Why nothing is recorded (any more): each work is done by itself. Empty: works are recorded.
  const std::string& why_not() const { return why_not_; }

 private:
  class Graph;
  struct Kept {
    std::vector<std::int64_t> form;
    std::function<void()> work;    // of the second time
    std::unique_ptr<Graph> graph;  // null where nothing records: the work is done again
  };
  static constexpr std::size_t kFormsOnce = 64;
  std::string record(Kept& one) const;
  void start(Kept& one) const;

  const at::Device device_;
  const std::size_t most_;
  const cuda::GraphLibrary* library_ = nullptr;  // what records; null: nothing does on this device
  std::list<Kept> kept_;                         // the one that was used last comes first
  std::list<std::vector<std::int64_t>> once_;    // the one that came last is first
  std::string why_not_;
};

}  // namespace hone::ops
