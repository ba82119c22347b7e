// TRL's other rewards beside recorded ones, and hone's own.
#include "rewards/pattern/native_rewards.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/files/file.h"
#include "base/helpers.h"
#include "rewards/open_reward.h"

namespace hone::rewards {
namespace native_rewards_test {

using base::Json;

const Json& golden() {
  static const std::string path = HONE_FIXTURES "/parity/rewards/formats.json";
  static const Json value = base::parse_json(base::read_text(path), path);
  return value;
}

Request of_texts(const std::vector<std::string>& texts) {
  Request out;
  for (const auto& text : texts) {
    out.completions.emplace_back(text);
    out.completion_ids.emplace_back(text.size(), 1);
  }
  return out;
}

Request of_ids(const std::vector<std::vector<std::int32_t>>& ids) {
  Request out;
  out.completion_ids = ids;
  out.completions.assign(ids.size(), "");
  return out;
}

Scores score(const std::string& word, const Request& request) {
  return open_rewards({word}, {})[0]->score(request);
}

void expect_scores(const Scores& scores, const Json& expected) {
  ASSERT_EQ(scores.values.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (expected[i].is_null()) {
      EXPECT_TRUE(std::isnan(scores.values[i])) << i;
    } else {
      EXPECT_DOUBLE_EQ(scores.values[i], expected[i].get<double>()) << i;
    }
  }
}

TEST(NativeRewards, ThinkFormatIsTrls) {
  const Json& one = golden().at("think_format_reward");
  const auto texts = one.at("completions").get<std::vector<std::string>>();
  expect_scores(score("think_format_reward", of_texts(texts)), one.at("scores"));
  Request messages = of_texts(texts);
  for (Json& each : messages.completions) each = Json::array({{{"role", "assistant"}, {"content", each}}});
  expect_scores(score("think_format_reward", messages), one.at("scores"));
}

TEST(NativeRewards, OverlongPunishmentIsTrls) {
  for (const Json& one : golden().at("get_soft_overlong_punishment")) {
    std::vector<std::vector<std::int32_t>> ids;
    for (const auto length : one.at("lengths").get<std::vector<std::size_t>>()) ids.emplace_back(length, 1);
    expect_scores(score(one.at("word"), of_ids(ids)), one.at("scores"));
  }
}

TEST(NativeRewards, RepetitionPenaltyIsTrls) {
  for (const Json& one : golden().at("get_repetition_penalty_reward"))
    expect_scores(score(one.at("word"), of_ids(one.at("ids").get<std::vector<std::vector<std::int32_t>>>())),
                  one.at("scores"));
}

TEST(NativeRewards, ReasoningAccuracyIsTrls) {
  const Json& one = golden().at("reasoning_accuracy_reward");
  Request request = of_texts(one.at("completions").get<std::vector<std::string>>());
  request.columns["solution"] = one.at("solution");
  const Scores scores = score("reasoning_accuracy_reward", request);
  expect_scores(scores, one.at("scores"));
  EXPECT_EQ(scores.extra[2].second[1], "[incomplete reasoning]");
}

TEST(NativeRewards, SeveralReasoningDelimitersAreTrls) {
  const Json& one = golden().at("several_delimiters");
  Request request = of_texts(one.at("completions").get<std::vector<std::string>>());
  request.columns["solution"] = one.at("solution");
  expect_scores(score(one.at("word"), request), one.at("scores"));
  const auto refused = [](const std::string& word) {
    return base::message_of([&] { open_rewards({word}, {}); });
  };
  // Python's split refuses an empty one, and TRL's function raises.
  base::expect_says(refused("reasoning_accuracy_reward(reasoning_delimiters=\"</think>,\")"),
                    {"reasoning_delimiters", "none of them empty", "'</think>,'"});
  base::expect_says(refused("reasoning_accuracy_reward(reasoning_delimiters=\"\")"),
                    {"reasoning_delimiters", "empty"});
  base::expect_says(refused("reasoning_accuracy_reward(delimiter=\"\")"), {"delimiter", "an empty one"});
  base::expect_says(refused("reasoning_accuracy_reward(delimiter=a, reasoning_delimiters=b)"), {"both"});
}

TEST(NativeRewards, CosineScaledIsTrls) {
  const Json& one = golden().at("get_cosine_scaled_reward");
  Request request = of_texts(one.at("completions").get<std::vector<std::string>>());
  request.columns["solution"] = one.at("solution");
  const auto lengths = one.at("lengths").get<std::vector<std::size_t>>();
  for (std::size_t i = 0; i < lengths.size(); ++i) request.completion_ids[i].assign(lengths[i], 1);
  expect_scores(score(one.at("word"), request), one.at("scores"));
}

TEST(NativeRewards, Names) {
  std::vector<std::string> names;
  for (const auto& one :
       open_rewards({"accuracy_reward", "reasoning_accuracy_reward", "think_format_reward",
                     "get_soft_overlong_punishment", "get_repetition_penalty_reward",
                     "get_cosine_scaled_reward(max_len=9)", "exact_match", "regex(pattern=a)",
                     "length(target=3)", "regex(pattern=b, name=has_b)"},
                    {}))
    names.push_back(one->name());
  EXPECT_EQ(names,
            (std::vector<std::string>{"accuracy_reward", "reasoning_accuracy_reward", "think_format_reward",
                                      "soft_overlong_punishment_reward", "repetition_penalty_reward",
                                      "cosine_scaled_reward", "exact_match", "regex", "length", "has_b"}));
}

TEST(NativeRewards, ExactMatch) {
  Request request = of_texts({" 42\n", "43", "Yes", "x"});
  request.columns["answer"] = Json::array({42, "42", "yes", nullptr});
  expect_scores(score("exact_match", request), Json::array({1, 0, 0, nullptr}));
  expect_scores(score("exact_match(ignore_case=true)", request), Json::array({1, 0, 1, nullptr}));
}

TEST(NativeRewards, ExactMatchWithoutItsColumn) {
  Request request = of_texts({"a"});
  request.columns["answr"] = Json::array({"a"});
  try {
    score("exact_match", request);
    FAIL();
  } catch (const base::UserError& error) {
    EXPECT_NE(std::string(error.what()).find("Did you mean 'answr'"), std::string::npos) << error.what();
  }
}

TEST(NativeRewards, RegexReads) {
  const Request request = of_texts({"a 12 b 345", "none", "LAST 7"});
  expect_scores(score(R"(regex(pattern="\d+$"))", request), Json::array({1, 0, 1}));
  expect_scores(score(R"(regex(pattern="^last", ignore_case=true))", request), Json::array({0, 0, 1}));
  Request with_gold = request;
  with_gold.columns["answer"] = Json::array({345, 1, " 7 "});
  expect_scores(score("regex(pattern='(\\d+)', column=answer)", with_gold), Json::array({1, 0, 1}));
}

TEST(NativeRewards, RegexThatTakesTooLongIsAFailureOfItsSample) {
  Request request = of_texts({std::string(60, 'a') + "!", "aaa"});
  request.first_sample = 8;
  const Scores scores = score(R"(regex(pattern="^(a|a)*\1$"))", request);
  EXPECT_TRUE(std::isnan(scores.values[0]));
  EXPECT_EQ(scores.values[1], 1);
  ASSERT_EQ(scores.failures.size(), 1U);
  EXPECT_EQ(scores.failures[0].sample, 8);
}

TEST(NativeRewards, RepetitionOfLongNGrams) {  // copies of n-grams took 400 MB here
  std::vector<std::int32_t> ids(20'000);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i % 9'999);
  // 10,002 windows of 9,999 tokens; the first 9,999 are new.
  EXPECT_DOUBLE_EQ(score("get_repetition_penalty_reward(ngram_size=9999)", of_ids({ids})).values[0],
                   -(1 - 9'999.0 / 10'002));
}

TEST(NativeRewards, Length) {
  const Request request = of_texts({"", "ab", "abcd", "abcde", std::string(9, 'x')});
  expect_scores(score("length(target=4)", request), Json::array({-1, -0.5, 0, -0.25, -1}));
  expect_scores(score("length(target=4, unit=characters)", request), Json::array({-1, -0.5, 0, -0.25, -1}));
}

TEST(NativeRewards, CompletionsOfAnotherForm) {
  Request request = of_texts({"a"});
  request.completions[0] = 7;
  EXPECT_THROW(score("think_format_reward", request), base::UserError);
}

}  // namespace native_rewards_test
}  // namespace hone::rewards
