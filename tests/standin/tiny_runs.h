// Whole training runs of the fixtures' tiny models on either device, from a plan to the saved adapter.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "config/plan.h"
#include "standin/standin.h"
#include "train/facts/step_facts.h"

namespace hone::standin {

// Holds what a run left behind.
struct Outcome {
  std::vector<train::StepFacts> steps;
  std::vector<std::string> completions;      // of the methods that sample, in order
  std::vector<std::string> samples;          // of sample_prompts, in order
  std::vector<train::NamedValue> evaluated;  // what evaluations found, but for times
  std::vector<Counts> after;                 // as they stood after each step
  // The tensors of adapter_model.safetensors, or of model.safetensors where the whole model is trained.
  std::map<std::string, std::vector<float>> weights;
};

// The plan of `words` (options of the method's command), in fp32 on one thread, on `device` ("cpu" or kName).
config::Plan tiny_plan(config::Method method, const std::string& device, const base::fs::path& output_dir,
                       const std::vector<std::string>& words);

// `stop_after` > 0: stops as Ctrl-C does, after that step. `by_layers`: the optimizer steps in the backward.
Outcome run_tiny(const config::Plan& plan, std::int64_t stop_after = 0, bool by_layers = false);

// Every number of `found` within `bound` of `expected`: absolute below 1, relative above; of a tensor, relative
// to its largest. The same completions. `what` names the run in failures.
void expect_close(const Outcome& expected, const Outcome& found, const std::string& what,
                  double bound = 1e-5);
void expect_close_weights(const Outcome& expected, const Outcome& found, const std::string& what,
                          double bound = 1e-5);

}  // namespace hone::standin
