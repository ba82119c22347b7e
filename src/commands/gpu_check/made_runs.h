// Runs of the made models, on the CPU or on the device that is checked.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "config/plan.h"
#include "train/facts/step_facts.h"

namespace hone::commands {

struct RunResult {
  std::vector<train::StepFacts> steps;
  std::vector<std::string> completions;               // of GRPO, in order
  std::map<std::string, std::vector<float>> weights;  // of the adapter that was saved; empty where it was not
};

struct MadeRun {
  config::Method method = config::Method::kSft;
  base::fs::path model, rows, output;
  bool bf16 = false;
  std::vector<std::string> words = {};  // more options
  std::string device = "cpu";
  bool full = false;            // full fine-tuning, else a LoRA
  std::int64_t stop_after = 0;  // > 0: as Ctrl-C does, after that step
};

config::Plan plan_of(const MadeRun& run);
RunResult train_made(const MadeRun& run);

// Says for a message which loss, gradient norm, completion or weight is the first that differs from `expected` by more
// than `bound`; empty: none does. Differences are shares of the largest number; `worst` becomes the largest of them.
std::string first_difference(const RunResult& expected, const RunResult& found, double bound, double& worst);

}  // namespace hone::commands
