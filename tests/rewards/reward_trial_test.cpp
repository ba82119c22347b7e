#include "rewards/reward_trial.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "rewards/open_reward.h"
#include "rewards/pattern/native_rewards.h"

namespace hone::rewards {
namespace reward_trial_test {

TrialData sums() {
  TrialData out;
  for (const char* const prompt : {"2+3", "4+5", "10+11"}) out.prompts.emplace_back(prompt);
  out.columns["answer"] = base::Json::array({"5", "work ... #### 9", "21"});
  return out;
}

Trial trial_of(const std::string& word, const TrialData& data) {
  return try_reward(*open_rewards({word}, {})[0], required_columns(word, OpenOptions{}), data);
}

double mean(const Trial& trial, const std::string& kind) {
  return std::ranges::find(trial.rows, kind, &TrialRow::kind)->mean;
}

// A reward of the user's that looks at the completion alone.
Trial trial_of(double (*function)(const std::string&), bool reads_gold = true) {
  const auto reward = make_reward("mine", [function](const Request& request) {
    Scores out;
    for (const auto& text : completion_texts(request, "mine")) out.values.push_back(function(text));
    return out;
  });
  return try_reward(*reward, reads_gold ? std::vector<std::string>{"answer"} : std::vector<std::string>(),
                    sums());
}

bool says(const Trial& trial, const std::string& part) {
  return std::ranges::any_of(trial.suspicious,
                             [&](const auto& one) { return one.find(part) != std::string::npos; });
}

TEST(RewardTrial, ARightReward) {
  const Trial trial = trial_of("accuracy_reward(column=answer)", sums());
  EXPECT_TRUE(trial.suspicious.empty()) << trial.suspicious.front();
  EXPECT_EQ(trial.gold_column, "answer");
  EXPECT_EQ(mean(trial, "gold in \\boxed{}"), 1);
  EXPECT_EQ(mean(trial, "gold after ####"), 0);  // as TRL scores it
  EXPECT_EQ(mean(trial, "another row's gold"), 0);
  EXPECT_EQ(mean(trial, "empty"), 0);
  EXPECT_EQ(mean(trial_of("accuracy_reward(column=answer, lenient=true)", sums()), "gold after ####"), 1);
}

TEST(RewardTrial, OtherNativeOnes) {
  EXPECT_TRUE(trial_of("think_format_reward", sums()).suspicious.empty());
  EXPECT_TRUE(trial_of("reasoning_accuracy_reward(column=answer)", sums()).suspicious.empty());
  EXPECT_TRUE(
      says(trial_of("get_soft_overlong_punishment", sums()), "the same score"));  // 512 words are short
  TrialData shorter = sums();
  shorter.columns["answer"] = base::Json::array({"5", "9", "21"});
  EXPECT_TRUE(trial_of("exact_match", shorter).suspicious.empty());
}

// Half a point for a wrong answer teaches wrong answers.
TEST(RewardTrial, AnotherRowsGoldThatIsPaidFor) {
  const auto reward = make_reward("mine", [](const Request& request) {
    Scores out;
    const auto golds = column_texts(request, "answer", "mine");
    const auto texts = completion_texts(request, "mine");
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const bool number = texts[i].find_first_of("0123456789") != std::string::npos;
      out.values.push_back(texts[i] == golds[i] ? 1 : number ? 0.5 : 0);
    }
    return out;
  });
  TrialData data = sums();
  data.columns["answer"] = base::Json::array({"5", "9", "21"});
  const Trial trial = try_reward(*reward, {"answer"}, data);
  EXPECT_TRUE(says(trial, "another row's gold earns")) << mean(trial, "another row's gold");
  TrialData twins = sums();
  twins.columns["answer"] = base::Json::array({"5", "5", "21"});
  EXPECT_EQ(mean(trial_of("accuracy_reward(column=answer)", twins), "another row's gold"), 0)
      << "of rows with another gold";
}

class OfTheBatch final : public Reward {
 public:
  explicit OfTheBatch(bool across) : across_(across) {}
  const std::string& name() const override { return name_; }
  bool takes_batch() const override { return true; }
  Scores score(const Request& request) override {
    Scores out;
    for (const auto& text : completion_texts(request, name_)) {
      out.values.push_back(static_cast<double>(text.size()) /
                           static_cast<double>(across_ ? request.size() : 1));
    }
    return out;
  }

 private:
  std::string name_ = "mine";
  bool across_;
};

TEST(RewardTrial, WhetherCallsByGroupAreSafe) {
  OfTheBatch alone(false), across(true);
  EXPECT_EQ(try_reward(alone, {}, sums()).safe_by_group, std::optional(true));
  EXPECT_EQ(try_reward(across, {}, sums()).safe_by_group, std::optional(false));
  EXPECT_EQ(trial_of("accuracy_reward(column=answer)", sums()).safe_by_group, std::nullopt)
      << "always called so";
}

TEST(RewardTrial, AColumnThatTheDataLack) {
  const Trial trial = trial_of("accuracy_reward", sums());
  EXPECT_TRUE(says(trial, "needs a column \"solution\""));
  EXPECT_TRUE(trial.rows.empty());
}

TEST(RewardTrial, WhatIsSuspicious) {
  EXPECT_TRUE(says(trial_of([](const std::string&) { return 0.5; }), "the same score"));
  EXPECT_TRUE(
      says(trial_of([](const std::string& text) { return text.empty() ? 1.0 : 0.0; }), "rewards an empty"));
  EXPECT_TRUE(says(trial_of([](const std::string& text) { return text.find("lorem") == 0 ? 1.0 : 0.0; }),
                   "than junk"));
  EXPECT_TRUE(
      says(trial_of([](const std::string& text) { return static_cast<double>(text.size()); }), "repeating"));
  EXPECT_TRUE(says(trial_of([](const std::string& text) { return text.find("lorem") == 0 ? 0.0 : 1.0; }),
                   "half of the answer"));
  EXPECT_TRUE(
      says(trial_of([](const std::string& text) { return text.empty() || text[0] == 'l' ? 0.0 : 1.0; }),
           "than another row's"));
  EXPECT_TRUE(says(trial_of([](const std::string&) { return kNone; }), "gives no answer a score"));
}

TEST(RewardTrial, Failures) {
  const auto reward = make_reward("mine", [](const Request& request) {
    Scores out;
    out.values.assign(request.size(), kNone);
    out.values[0] = 1;
    out.failures = {{1, "ValueError: no"}};
    out.seconds = 2;
    return out;
  });
  const Trial trial = try_reward(*reward, {"answer"}, sums());
  EXPECT_TRUE(says(trial, "could not be scored"));
  ASSERT_EQ(trial.failures.size(), 3U);
  EXPECT_EQ(trial.failures[0], "gold, row 1: ValueError: no");
}

}  // namespace reward_trial_test
}  // namespace hone::rewards
