#include "commands/gpu_check/made_runs.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "base/files/safetensors.h"
#include "config/parse.h"
#include "train/opening/open_run.h"
#include "train/saves/run_folder.h"

namespace hone::commands {

namespace {

class RunRecorder final : public train::RunListener {
 public:
  explicit RunRecorder(std::int64_t stop_after) : stop_after_(stop_after) {}
  void on_rollout(const train::RolloutFacts& facts) override {
    for (const train::CompletionFacts& one : facts.completions) result.completions.push_back(one.completion);
  }
  void on_step(const train::StepFacts& facts, std::int64_t /*total*/) override {
    result.steps.push_back(facts);
    if (facts.step == stop_after_) stop = true;
  }

  RunResult result;
  std::atomic<bool> stop = false;

 private:
  std::int64_t stop_after_;
};

std::map<std::string, std::vector<float>> read_floats(const base::fs::path& file) {
  std::map<std::string, std::vector<float>> out;
  const base::SafetensorsFile stored = base::SafetensorsFile::open(file);
  for (const base::StoredTensor& tensor : stored.tensors()) {
    if (tensor.dtype != base::DType::kF32) continue;
    std::vector<float>& values = out[tensor.name];
    values.resize(tensor.bytes.size() / sizeof(float));
    std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  }
  return out;
}

double share(double expected, double found, double size) {
  const double off = std::abs(found - expected) / std::max(size, 1e-12);
  return std::isfinite(off) ? off : HUGE_VAL;
}

}  // namespace

config::Plan plan_of(const MadeRun& run) {
  std::vector<std::string> all = {"--model_name_or_path",
                                  run.model.string(),
                                  "--dataset_name",
                                  run.rows.string(),
                                  "--output_dir",
                                  run.output.string(),
                                  "--bf16",
                                  run.bf16 ? "true" : "false",
                                  "--logging_steps",
                                  "1",
                                  "--use_peft",
                                  run.full ? "false" : "true",
                                  "--report_to",
                                  "none",
                                  "--adam_epsilon",
                                  "1e-2"};
  all.insert(all.end(), run.words.begin(), run.words.end());
  config::Plan plan = config::parse_run(run.method, all);
  plan.device = run.device;
  return plan;
}

RunResult train_made(const MadeRun& run) {
  const config::Plan plan = plan_of(run);
  RunRecorder recorder(run.stop_after);
  {
    const auto opened = train::open_run(plan, recorder);
    train::begin_run(*opened, recorder, recorder.stop);
  }
  const base::fs::path saved = run.output / train::kAdapterWeightsFile;
  if (run.stop_after == 0 && base::fs::exists(saved)) recorder.result.weights = read_floats(saved);
  return std::move(recorder.result);
}

std::string first_difference(const RunResult& expected, const RunResult& found, double bound, double& worst) {
  std::string first;
  const auto see = [&](double error, const std::string& what, double a, double b) {
    worst = std::max(worst, error);
    if (error <= bound || !first.empty()) return;
    first = what + " is " + std::to_string(b) + " instead of " + std::to_string(a);
  };
  if (found.steps.size() != expected.steps.size())
    return std::to_string(found.steps.size()) + " steps instead of " + std::to_string(expected.steps.size());
  for (std::size_t i = 0; i < expected.steps.size(); ++i) {
    const train::StepFacts &a = expected.steps[i], &b = found.steps[i];
    const std::string step = " of step " + std::to_string(i + 1);
    see(share(a.loss, b.loss, std::max(1.0, std::abs(a.loss))), "the loss" + step, a.loss, b.loss);
    see(share(a.grad_norm, b.grad_norm, std::max(1.0, a.grad_norm)), "the gradient's norm" + step,
        a.grad_norm, b.grad_norm);
  }
  if (found.completions != expected.completions && first.empty()) first = "other completions";
  for (const auto& [name, values] : expected.weights) {
    const auto other = found.weights.find(name);
    if (other == found.weights.end() || other->second.size() != values.size()) return name + " was not saved";
    float size = 0;
    for (const float one : values) size = std::max(size, std::fabs(one));
    for (std::size_t i = 0; i < values.size(); ++i)
      see(share(values[i], other->second[i], size), name, values[i], other->second[i]);
  }
  return first;
}

}  // namespace hone::commands
