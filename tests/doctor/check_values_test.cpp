// Values of options that hold every update down, or drown it; reward_weights; threads. Each with a neighbor of the
// same kind that is healthy.
#include <string>
#include <thread>

#include "doctor/check_runs.h"
#include "doctor/checks/check_parts.h"

namespace hone::test_tools {
namespace check_values_test {

using base::Level;
using doctor::Verdicts;

class CheckValues : public CheckRuns {
 protected:
  base::Verdict of_sft(const Words& words, const std::string& code = "NUM-10") {
    const Verdicts all = doctor::check_optimizer(*open_sft(words));
    expect_complete(all);
    return verdict_of(all, code);
  }
  Verdicts weights(const std::vector<double>& values) {
    const auto run = open_grpo();
    run->plan.policy.reward_funcs = {"length(target=6)", "length(target=3, name=other)"};
    run->plan.policy.reward_weights = values;
    const Verdicts found = doctor::check_weights(*run);
    expect_complete(found);
    return found;
  }
};

TEST_F(CheckValues, UsualOnesAreFine) {
  for (const Words& words : {Words{}, Words{"--weight_decay", "0.1"}, Words{"--adam_epsilon", "1e-5"},
                             Words{"--max_grad_norm", "0.01"}, Words{"--max_grad_norm", "0"},
                             Words{"--lora_dropout", "0.3"}, Words{"--threads", "1"}}) {
    EXPECT_EQ(of_sft(words).level, Level::kOk) << of_sft(words).what;
    EXPECT_EQ(of_sft(words, "ENV-02").level, Level::kOk);
  }
}

TEST_F(CheckValues, WeightDecayThatTakesMoreThanAStepGives) {
  const auto found = of_sft({"--weight_decay", "1000"});
  EXPECT_EQ(found.level, Level::kWarn);
  EXPECT_SAYS(found.what, "weight_decay 1000 takes 20 % of every trained weight in each step");
  EXPECT_SAYS(found.not_this, "learning_rate");
  EXPECT_EQ(of_sft({"--weight_decay", "1000", "--learning_rate", "1e-3"}).level, Level::kFail);
}

TEST_F(CheckValues, EpsilonAndClippingAreToldApart) {
  const auto epsilon = of_sft({"--adam_epsilon", "1"});
  EXPECT_EQ(epsilon.level, Level::kWarn);
  EXPECT_SAYS(epsilon.what, "adam_epsilon 1 is larger than the gradients");
  EXPECT_SAYS(epsilon.fix, "adam_epsilon: 1e-8");
  EXPECT_EQ(epsilon.fix.find("max_grad_norm"), std::string::npos);
  const auto clip = of_sft({"--max_grad_norm", "1e-9"});
  EXPECT_EQ(clip.level, Level::kWarn);
  EXPECT_SAYS(clip.what, "max_grad_norm 1e-09 leaves gradients below adam_epsilon");
  EXPECT_SAYS(clip.fix, "max_grad_norm: 1.0");
  EXPECT_EQ(clip.fix.find("adam_epsilon"), std::string::npos);
  // Another optimizer divides by nothing that an epsilon is added to.
  EXPECT_EQ(of_sft({"--adam_epsilon", "1", "--optim", "sgd"}).level, Level::kOk);
}

TEST_F(CheckValues, DropoutIsWhatIsDropped) {
  const auto found = of_sft({"--lora_dropout", "0.99"});
  EXPECT_EQ(found.level, Level::kWarn);
  EXPECT_SAYS(found.what, "drops 99 %");
  EXPECT_SAYS(found.evidence, "multiplied by 100");
}

TEST_F(CheckValues, MoreThreadsThanProcessors) {
  // One more is enough, and costs no processor time.
  const std::string threads = std::to_string(std::thread::hardware_concurrency() + 1);
  const auto found = of_sft({"--threads", threads}, "ENV-02");
  EXPECT_EQ(found.level, Level::kWarn);
  EXPECT_SAYS(found.what, threads + " threads on ");
  EXPECT_SAYS(found.fix, "remove threads");
}

TEST_F(CheckValues, RewardWeights) {
  const auto pair = [&](const std::vector<double>& values) { return weights(values); };
  EXPECT_EQ(verdict_of(pair({1, 0.2}), "RL-17").level, Level::kOk);
  EXPECT_EQ(verdict_of(pair({0, 0}), "RL-17").level, Level::kFail);
  EXPECT_SAYS(verdict_of(pair({0, 0}), "RL-17").cost, "every gradient is 0");
  EXPECT_EQ(verdict_of(pair({1, 0}), "RL-17").level, Level::kNote) << "it may be there to be logged";
  const auto negative = verdict_of(pair({1, -1}), "RL-17");
  EXPECT_EQ(negative.level, Level::kWarn);
  EXPECT_SAYS(negative.what, "length(target=3, name=other) a negative weight");
  const auto unlike = verdict_of(pair({1000, 0.001}), "RL-17");
  EXPECT_EQ(unlike.level, Level::kWarn);
  EXPECT_SAYS(unlike.what, "1000000 times the smallest");
}

TEST_F(CheckValues, SamplingThatTakesOneTokenOnly) {
  const auto of = [this](const std::function<void(config::PolicyPlan&)>& change) {
    const auto run = open_grpo();
    change(run->plan.policy);
    const Verdicts all = doctor::check_values(*run);
    expect_complete(all);
    return verdict_of(all, "RL-02");
  };
  EXPECT_EQ(of([](auto&) {}).code, "");
  EXPECT_EQ(of([](auto& policy) {
              policy.temperature = 0.3, policy.top_p = 0.5, policy.top_k = 5, policy.min_p = 0.1;
            }).code,
            "");
  EXPECT_SAYS(of([](auto& policy) { policy.top_k = 1; }).fix, "top_k: 0");
  EXPECT_SAYS(of([](auto& policy) { policy.min_p = 1; }).what, "min_p 1");
  EXPECT_SAYS(of([](auto& policy) { policy.top_p = 0.001; }).fix, "top_p: 1.0");
  EXPECT_SAYS(of([](auto& policy) { policy.temperature = 0.01; }).what, "temperature 0.01");
}

TEST_F(CheckValues, BetaAndSmoothing) {
  const auto policy = [this](double beta) {
    const auto run = open_grpo();
    run->plan.policy.beta = beta;
    return verdict_of(doctor::check_values(*run), "NUM-10").level;
  };
  EXPECT_EQ(policy(0.1), Level::kOk);
  EXPECT_EQ(policy(5), Level::kWarn);
  const auto pairs = [this](double beta, double smoothing) {
    const auto run = open_dpo();
    run->plan.preference.beta = beta;
    run->plan.preference.label_smoothing = smoothing;
    const Verdicts all = doctor::check_values(*run);
    expect_complete(all);
    return all;
  };
  EXPECT_TRUE(pairs(2.5, 0.2).empty());
  EXPECT_EQ(verdict_of(pairs(100, 0), "NUM-10").level, Level::kWarn);
  EXPECT_SAYS(verdict_of(pairs(0.1, 0.5), "PREF-01").what, "chosen and rejected count the same");
  EXPECT_SAYS(verdict_of(pairs(0.1, 0.7), "PREF-01").what, "rejected counts more");
}

}  // namespace check_values_test
}  // namespace hone::test_tools
