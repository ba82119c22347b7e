// Secrets in options: what plans keep of them, and what happens to a plan that has lost one.
#include "config/option_secrets.h"

#include "base/helpers.h"
#include "config/helpers.h"
#include "config/reading/difference.h"
#include "config/write_plan.h"

namespace hone::config {
namespace secret_words_test {

using base::expect_says;
using SecretWords = ConfigTest;

TEST_F(SecretWords, AreLeftOutOfThePlan) {
  const Plan plan = grpo({"--reward_funcs", "https://me:pass@host/score", "https://host/?a=1&api_key=abc, 1",
                          "accuracy_reward", "--hub_token", "hf_abc"});
  EXPECT_EQ(plan.policy.reward_funcs[0], "https://me:pass@host/score");  // the run's own
  const std::string text = write_plan(plan);
  expect_says(text, {"https://me:***@host/score", "api_key=***", "accuracy_reward"});
  for (const char* const secret : {"pass", "abc"}) EXPECT_EQ(text.find(secret), std::string::npos) << text;
  expect_says(error_of([&] { parse_run_text(Method::kGrpo, text, "plan.yaml"); }),
              {"plan.yaml:", "the whole address", "me:***@host", "environment variable", "${NAME}"});
}

TEST_F(SecretWords, ReferencesStay) {
  Plan plan =
      grpo({"--reward_funcs", "https://me:${PASS}@host/score?token=${TOKEN}", "--hub_token", "hf_abc"});
  const std::string text = write_plan(plan);
  plan.hub_token.clear();  // left out
  expect_says(text, {"https://me:${PASS}@host/score?token=${TOKEN}"});
  EXPECT_EQ(parse_run_text(Method::kGrpo, text, "plan.yaml"), plan);
}

TEST_F(SecretWords, OfAJudge) {
  const auto judged = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"--judge", "https://host/v1?key=abc", "--judge_model", "wise"};
    words.insert(words.end(), more.begin(), more.end());
    return online_dpo(words);
  };
  const Plan plan = judged({"--judge_api_key_env", "MY_KEY"});
  EXPECT_EQ(judge_key_variable(plan), "MY_KEY");
  EXPECT_EQ(judge_key_variable(judged({})), "");
  EXPECT_EQ(write_plan(plan).find("abc"), std::string::npos);
  const std::string pasted = error_of([&] { judged({"--judge_api_key_env", "sk-abc"}); });
  expect_says(pasted, {"the name of an environment variable"});
  EXPECT_EQ(pasted.find("sk-abc"), std::string::npos);
  EXPECT_EQ(write_plan(judged({"--judge_api_key_env", "MY_KEY"})), write_plan(plan));
}

TEST_F(SecretWords, OfDifferences) {
  const std::string lines =
      difference_lines({.name = "reward_funcs", .good = {}, .bad = base::Json("https://host/?token=abc")});
  EXPECT_EQ(lines.find("abc"), std::string::npos) << lines;
}

}  // namespace secret_words_test
}  // namespace hone::config
