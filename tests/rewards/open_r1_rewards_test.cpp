// open-r1's rewards beside recorded values of its formulas (tests/parity/record_open_r1.py).
#include "rewards/open_r1/open_r1_rewards.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/files/file.h"
#include "rewards/open_reward.h"

namespace hone::rewards {
namespace open_r1_rewards_test {

using base::Json;

Request request_of(const Json& one) {
  Request out;
  if (one.contains("lengths")) {
    for (const auto length : one.at("lengths").get<std::vector<std::size_t>>()) {
      out.completions.emplace_back("");
      out.completion_ids.emplace_back(length, 1);
    }
  } else {
    for (const Json& text : one.at("completions")) {
      out.completions.push_back(Json::array({{{"role", "assistant"}, {"content", text}}}));
      out.completion_ids.emplace_back();
    }
  }
  if (one.contains("columns")) out.columns = one.at("columns");
  return out;
}

TEST(OpenR1Rewards, AreThoseOfTheirFormulas) {
  const std::string path = HONE_FIXTURES "/parity/rewards/open_r1.json";
  const Json cases = base::parse_json(base::read_text(path), path).at("cases");
  ASSERT_GE(cases.size(), 15U);
  for (const Json& one : cases) {
    const std::string word = one.at("word");
    const Scores scores = open_rewards({word}, {})[0]->score(request_of(one));
    ASSERT_EQ(scores.values.size(), one.at("scores").size()) << word;
    for (std::size_t i = 0; i < scores.values.size(); ++i) {
      const Json& expected = one.at("scores")[i];
      const std::string shown =
          word + " " + (one.contains("completions") ? one.at("completions")[i].dump().substr(0, 120) : "");
      if (expected.is_null()) {
        EXPECT_TRUE(std::isnan(scores.values[i])) << shown << scores.values[i];
      } else {
        EXPECT_NEAR(scores.values[i], expected.get<double>(), 1e-12) << shown;
      }
    }
  }
}

TEST(OpenR1Rewards, Names) {
  std::vector<std::string> names;
  for (const auto& one : open_rewards(
           {"accuracy", "format", "tag_count", "reasoning_steps", "cosine", "repetition_penalty", "length",
            "code_format", "soft_overlong_punishment", "length(target=3)", "format(name=shape)"},
           {}))
    names.push_back(one->name());
  EXPECT_EQ(names, (std::vector<std::string>{"accuracy_reward", "format_reward", "tag_count_reward",
                                             "reasoning_steps_reward", "cosine_scaled_reward",
                                             "repetition_penalty_reward", "len_reward", "code_format_reward",
                                             "soft_overlong_punishment_reward", "length", "shape"}));
}

TEST(OpenR1Rewards, ColumnsThatTheyRead) {
  const auto columns = [](const std::string& word) { return required_columns(word, OpenOptions{}); };
  EXPECT_EQ(columns("accuracy"), std::vector<std::string>{"solution"});
  EXPECT_EQ(columns("length"), std::vector<std::string>{"solution"});
  EXPECT_EQ(columns("length(target=3)"), std::vector<std::string>{});
  EXPECT_EQ(columns("cosine(column=answer)"), std::vector<std::string>{"answer"});
  EXPECT_EQ(columns("format"), std::vector<std::string>{});
}

TEST(OpenR1Rewards, ServersAreRefusedWithTheWayToAFunction) {
  for (const std::string word : {"ioi_code", "cf_code"}) {
    try {
      open_rewards({word}, {});
      ADD_FAILURE() << word;
    } catch (const base::UserError& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find(word), std::string::npos);
      EXPECT_NE(text.find("Piston"), std::string::npos);
      EXPECT_NE(text.find("rewards.py:score"), std::string::npos);
    }
  }
}

TEST(OpenR1Rewards, AWrongParameterIsNamed) {
  EXPECT_THROW(open_rewards({"cosine(max_length=3)"}, {}), base::UserError);
  EXPECT_THROW(open_rewards({"repetition_penalty(max_penalty=1)"}, {}), base::UserError);
  EXPECT_THROW(open_rewards({"format(column=x)"}, {}), base::UserError);
}

TEST(OpenR1Rewards, LongTextsTakeNoTime) {
  Request request;
  for (const std::string& piece : {std::string("<think>\n"), std::string("\n</answer>x"),
                                   std::string("Step 1"), std::string("```python"), std::string("1")}) {
    std::string text = "<think>\na\n</think>\n<answer>\n";
    while (text.size() < 1'000'000) text += piece;
    request.completions.emplace_back(text);
    request.completion_ids.emplace_back();
  }
  for (const std::string word :
       {"format", "tag_count", "reasoning_steps", "repetition_penalty", "code_format"}) {
    const Scores scores = open_rewards({word}, {})[0]->score(request);
    EXPECT_LT(scores.seconds, 5) << word;
  }
}

}  // namespace open_r1_rewards_test
}  // namespace hone::rewards
