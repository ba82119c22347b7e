// A sequence-classification model as reward, beside transformers' scores (tests/parity/record_rewards.py).
#include "train/opening/model_reward.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/files/file.h"

namespace hone::train {
namespace model_reward_test {

using base::Json;

const std::string kFolder = HONE_FIXTURES "/parity/rewards/tiny_reward";

Json cases() {
  const std::string path = HONE_FIXTURES "/parity/rewards/model.json";
  return base::parse_json(base::read_text(path), path).at("cases");
}

rewards::Request request_of(const Json& one) {
  rewards::Request out;
  for (const Json& prompt : one.at("prompts")) out.prompts.push_back(prompt);
  for (const Json& completion : one.at("completions")) out.completions.push_back(completion);
  return out;
}

TEST(ModelReward, ScoresAsTransformersDoes) {
  const auto reward = open_model_reward(kFolder, config::Precision::kFloat32);
  EXPECT_EQ(reward->name(), "tiny_reward");
  for (const Json& one : cases()) {
    const rewards::Scores scores = reward->score(request_of(one));
    ASSERT_EQ(scores.values.size(), one.at("scores").size());
    EXPECT_TRUE(scores.failures.empty());
    for (std::size_t i = 0; i < scores.values.size(); ++i)
      EXPECT_NEAR(scores.values[i], one.at("scores")[i].get<double>(), 2e-5) << i;
  }
}

TEST(ModelReward, AScoreDoesNotDependOnTheBatch) {
  for (const auto precision : {config::Precision::kFloat32, config::Precision::kAutocast}) {
    const auto reward = open_model_reward(kFolder, precision);
    const rewards::Request all = request_of(cases()[0]);
    const rewards::Scores together = reward->score(all);
    for (std::size_t i = 0; i < all.size(); ++i) {
      rewards::Request alone;
      alone.prompts = {all.prompts[i]};
      alone.completions = {all.completions[i]};
      EXPECT_NEAR(reward->score(alone).values[0], together.values[i], 1e-5) << i;
    }
  }
}

TEST(ModelReward, ManyPasses) {
  const auto reward = open_model_reward(kFolder, config::Precision::kFloat32);
  rewards::Request request;
  for (int i = 0; i < 40; ++i) {
    request.prompts.emplace_back("one two three ");
    request.completions.emplace_back(std::string(static_cast<std::size_t>(400 + i), 'x'));
  }
  request.prompts.emplace_back("");  // and one that has nothing to score
  request.completions.emplace_back("");
  request.first_sample = 5;
  const rewards::Scores scores = reward->score(request);
  ASSERT_EQ(scores.failures.size(), 1U);
  EXPECT_EQ(scores.failures[0].sample, 45);
  EXPECT_TRUE(std::isnan(scores.values[40]));
  for (int i = 0; i < 40; ++i) EXPECT_TRUE(std::isfinite(scores.values[static_cast<std::size_t>(i)]));
}

TEST(ModelReward, ALanguageModelIsNone) {
  try {
    open_model_reward(HONE_FIXTURES "/parity/tiny_llama", config::Precision::kFloat32);
    FAIL();
  } catch (const base::UserError& error) {
    EXPECT_NE(std::string(error.what()).find("no score.weight"), std::string::npos) << error.what();
  }
}

}  // namespace model_reward_test
}  // namespace hone::train
