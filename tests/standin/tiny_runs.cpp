#include "standin/tiny_runs.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "base/safetensors.h"
#include "config/parse.h"
#include "train/open_run.h"
#include "train/run_folder.h"

namespace hone::standin {
namespace {

constexpr double kBound = 1e-5;

// The models are so small that threads would only wait for each other.
struct OneThread final : testing::Environment {
  void SetUp() override { at::set_num_threads(1); }
};
const testing::Environment* const one_thread = testing::AddGlobalTestEnvironment(new OneThread);

class Recorder final : public train::RunListener {
 public:
  explicit Recorder(std::int64_t stop_after) : stop_after_(stop_after) {}

  void on_rollout(const train::RolloutFacts& facts) override {
    for (const train::CompletionFacts& one : facts.completions) outcome.completions.push_back(one.completion);
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
    std::vector<float>& values = out[tensor.name];
    values.resize(tensor.bytes.size() / sizeof(float));
    std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  }
  return out;
}

void expect_close(double expected, double found, const std::string& what) {
  if (std::isnan(expected) && std::isnan(found)) return;
  EXPECT_NEAR(found, expected, kBound * std::max(1.0, std::fabs(expected))) << what;
}

void expect_close(const std::vector<float>& expected, const std::vector<float>& found,
                  const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  float largest = 0, furthest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::fabs(expected[i]));
    furthest = std::max(furthest, std::fabs(found[i] - expected[i]));
  }
  EXPECT_LE(furthest, kBound * static_cast<double>(largest)) << what;
}

}  // namespace

config::Plan tiny_plan(config::Method method, const std::string& device, const base::fs::path& output_dir,
                       const std::vector<std::string>& words) {
  std::vector<std::string> all = {"--use_peft", "--bf16", "false", "--threads", "1", "--logging_steps", "1"};
  all.insert(all.end(), {"--output_dir", output_dir.string()});
  all.insert(all.end(), words.begin(), words.end());
  config::Plan plan = config::parse_run(method, all);
  plan.device = device;
  return plan;
}

Outcome run_tiny(const config::Plan& plan, std::int64_t stop_after) {
  Recorder recorder(stop_after);
  {
    const auto run = train::open_run(plan, recorder);
    train::begin_run(*run, recorder, recorder.stop);
  }
  if (stop_after == 0) {
    recorder.outcome.adapter = read_tensors(base::fs::path(plan.output_dir) / train::kAdapterWeightsFile);
  }
  return recorder.outcome;
}

void expect_close(const Outcome& expected, const Outcome& found, const std::string& what) {
  EXPECT_EQ(found.completions, expected.completions) << what;
  ASSERT_EQ(found.steps.size(), expected.steps.size()) << what;
  for (std::size_t i = 0; i < expected.steps.size(); ++i) {
    const train::StepFacts &a = expected.steps[i], &b = found.steps[i];
    const std::string step = what + ", step " + std::to_string(i + 1) + ": ";
    expect_close(a.loss, b.loss, step + "loss");
    expect_close(a.grad_norm, b.grad_norm, step + "grad_norm");
    ASSERT_EQ(b.metrics.size(), a.metrics.size()) << step;
    for (std::size_t m = 0; m < a.metrics.size(); ++m) {
      EXPECT_EQ(b.metrics[m].first, a.metrics[m].first);
      expect_close(a.metrics[m].second, b.metrics[m].second, step + a.metrics[m].first);
    }
  }
  ASSERT_EQ(found.adapter.size(), expected.adapter.size()) << what;
  for (const auto& [name, values] : expected.adapter) {
    ASSERT_TRUE(found.adapter.contains(name)) << what << ": " << name;
    expect_close(values, found.adapter.at(name), what + ": " + name);
  }
}

}  // namespace hone::standin
