// Where the sampler's log-probabilities are not the trainer's, what a run learns does not depend on them: the old ones of GRPO and
// RLOO are the step's own, or those of a pass before the first of several steps.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "emulated/machine/guarded_kernels.h"
#include "standin/emulated_kernels.h"
#include "standin/run_cases.h"
#include "standin/tiny_runs.h"

namespace hone::standin {
namespace old_logprobs_test {

namespace fs = base::fs;
namespace kernels = ops::cuda::kernels;

constexpr float kOff = 0.25;

int sample_tokens_off(const kernels::SampleTokens& call, void* stream) {
  const int error = emulated::emulated_kernels().sample_tokens(call, stream);
  for (std::int64_t i = 0; call.logprobs != nullptr && i < call.rows; ++i) call.logprobs[i] += kOff;
  return error;
}

// The same tokens, whose log-probabilities in the model's own distribution are off.
const kernels::Kernels& off_kernels() {
  static const kernels::Kernels table = [] {
    kernels::Kernels out = emulated::emulated_kernels();
    out.sample_tokens = sample_tokens_off;
    return out;
  }();
  return table;
}

struct Setting {
  std::string name;
  config::Method method;
  std::vector<std::string> words;
};

class OldLogprobs : public testing::TestWithParam<Setting> {
 protected:
  void TearDown() override { fs::remove_all(root_); }

  Outcome run(bool off) const {
    const UseEmulatedKernels kernels(off ? &off_kernels() : nullptr);
    const std::vector<Case> cases = policy_cases();
    const std::string name = GetParam().method == config::Method::kRloo ? "rloo" : "grpo";
    const auto one = std::find_if(cases.begin(), cases.end(), [&](const Case& x) { return x.name == name; });
    std::vector<std::string> words = options_of(*one);
    words.insert(words.end(), GetParam().words.begin(), GetParam().words.end());
    return run_tiny(tiny_plan(GetParam().method, kName, root_ / (off ? "off" : "right"), words));
  }

  fs::path root_ = fs::temp_directory_path() / ("hone_old_logprobs_" + std::to_string(getpid()));
};

// Of the first step that has it: one whose groups are all dead computes nothing.
double first_of(const Outcome& outcome, const std::string& name) {
  for (const train::StepFacts& step : outcome.steps)
    for (const auto& [key, value] : step.metrics)
      if (key == name) return value;
  return std::nan("");
}

TEST_P(OldLogprobs, AreTheTrainers) {
  const Outcome right = run(false), off = run(true);
  EXPECT_EQ(off.completions, right.completions);
  bool moved = false;
  for (const auto& [name, values] : right.weights)
    for (const float value : values)
      moved = moved || (name.find("lora_B") != std::string::npos && value != 0);
  EXPECT_TRUE(moved) << "a run without a gradient shows nothing";
  EXPECT_EQ(off.weights, right.weights);
  EXPECT_LT(first_of(right, "ratio_gap_mean"), 1e-5);
  EXPECT_NEAR(first_of(off, "ratio_gap_mean"), kOff, 1e-5);
  EXPECT_NEAR(first_of(off, "ratio_gap"), kOff, 1e-4);
}

std::string name_of(const testing::TestParamInfo<Setting>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Standin, OldLogprobs,
                         testing::Values(Setting{
                             "two_steps", config::Method::kGrpo, {"--num_iterations", "2"}}),
                         name_of);
INSTANTIATE_TEST_SUITE_P(StandinSlow, OldLogprobs,
                         testing::Values(Setting{"one_step", config::Method::kGrpo, {}},
                                         Setting{"rloo", config::Method::kRloo, {}}),
                         name_of);

}  // namespace old_logprobs_test
}  // namespace hone::standin
