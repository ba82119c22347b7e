#include "standin/tiny_runs.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "base/files/safetensors.h"
#include "config/parse.h"
#include "train/opening/open_run.h"
#include "train/saves/run_folder.h"

namespace hone::standin {
namespace {

// The models are so small that threads would only wait for each other.
struct OneThread final : testing::Environment {
  void SetUp() override { at::set_num_threads(1); }
};
const testing::Environment* const kOneThread = testing::AddGlobalTestEnvironment(new OneThread);

class Recorder final : public train::RunListener {
 public:
  explicit Recorder(std::int64_t stop_after) : stop_after_(stop_after) {}

  void on_rollout(const train::RolloutFacts& facts) override {
    for (const train::CompletionFacts& one : facts.completions) outcome.completions.push_back(one.completion);
  }
  void on_samples(const train::SampleFacts& facts) override {
    for (const train::CompletionFacts& one : facts.completions) outcome.samples.push_back(one.completion);
  }
  void on_log(const train::LogRecord& record) override {
    for (const train::NamedValue& one : record.values) {
      const bool is_time = one.first.ends_with("_runtime") || one.first.ends_with("_per_second");
      if (one.first.starts_with("eval_") && !is_time) outcome.evaluated.push_back(one);
    }
  }
  void on_step(const train::StepFacts& facts, std::int64_t /*total*/) override {
    outcome.steps.push_back(facts);
    outcome.after.push_back(counts());
    if (facts.step == stop_after_) stop = true;
  }

  Outcome outcome;
  std::atomic<bool> stop = false;

 private:
  std::int64_t stop_after_;
};

std::map<std::string, std::vector<float>> read_tensors(const base::fs::path& file) {
  const base::SafetensorsFile stored = base::SafetensorsFile::open(file);
  std::map<std::string, std::vector<float>> out;
  for (const base::StoredTensor& tensor : stored.tensors()) {
    EXPECT_EQ(tensor.dtype, base::DType::kF32) << tensor.name;
    std::vector<float>& values = out[tensor.name];
    values.resize(tensor.bytes.size() / sizeof(float));
    std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  }
  return out;
}

void expect_near(double expected, double found, const std::string& what, double bound) {
  if (std::isnan(expected) && std::isnan(found)) return;
  EXPECT_NEAR(found, expected, bound * std::max(1.0, std::fabs(expected))) << what;
}

void expect_near(const std::vector<float>& expected, const std::vector<float>& found, const std::string& what,
                 double bound) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  float largest = 0, furthest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::fabs(expected[i]));
    furthest = std::max(furthest, std::fabs(found[i] - expected[i]));
  }
  EXPECT_LE(furthest, bound * static_cast<double>(largest)) << what;
}

}  // namespace

config::Plan tiny_plan(config::Method method, const std::string& device, const base::fs::path& output_dir,
                       const std::vector<std::string>& words) {
  std::vector<std::string> all = {"--bf16", "false", "--threads", "1", "--logging_steps", "1"};
  all.insert(all.end(), {"--output_dir", output_dir.string()});
  all.insert(all.end(), words.begin(), words.end());
  config::Plan plan = config::parse_run(method, all);
  plan.device = device;
  return plan;
}

Outcome run_tiny(const config::Plan& plan, std::int64_t stop_after, bool by_layers) {
  Recorder recorder(stop_after);
  {
    const auto run = train::open_run(plan, recorder);
    if (by_layers) run->start.memory.layer_steps = true;
    train::begin_run(*run, recorder, recorder.stop);
  }
  if (stop_after == 0) {
    const base::fs::path folder = plan.output_dir;
    recorder.outcome.weights =
        read_tensors(folder / (plan.use_peft ? train::kAdapterWeightsFile : "model.safetensors"));
  }
  return recorder.outcome;
}

void expect_close_weights(const Outcome& expected, const Outcome& found, const std::string& what,
                          double bound) {
  ASSERT_EQ(found.weights.size(), expected.weights.size()) << what;
  for (const auto& [name, values] : expected.weights) {
    ASSERT_TRUE(found.weights.contains(name)) << what << ": " << name;
    expect_near(values, found.weights.at(name), what + ": " + name, bound);
  }
}

void expect_close(const Outcome& expected, const Outcome& found, const std::string& what, double bound) {
  const auto expect_same = [&](const std::vector<train::NamedValue>& a, std::vector<train::NamedValue> b,
                               const std::string& where) {
    // Where the sampler is the trainer there is none.
    std::erase_if(b, [](const auto& one) { return one.first == "ratio_gap_mean"; });
    ASSERT_EQ(b.size(), a.size()) << where;
    for (std::size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(b[i].first, a[i].first) << where;
      expect_near(a[i].second, b[i].second, where + a[i].first, bound);
    }
  };
  EXPECT_EQ(found.completions, expected.completions) << what;
  EXPECT_EQ(found.samples, expected.samples) << what;
  expect_same(expected.evaluated, found.evaluated, what + ", evaluated: ");
  ASSERT_EQ(found.steps.size(), expected.steps.size()) << what;
  for (std::size_t i = 0; i < expected.steps.size(); ++i) {
    const train::StepFacts &a = expected.steps[i], &b = found.steps[i];
    const std::string step = what + ", step " + std::to_string(i + 1) + ": ";
    expect_near(a.loss, b.loss, step + "loss", bound);
    expect_near(a.grad_norm, b.grad_norm, step + "grad_norm", bound);
    expect_same(a.metrics, b.metrics, step);
  }
  expect_close_weights(expected, found, what, bound);
}

}  // namespace hone::standin
