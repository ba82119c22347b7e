#include "rewards/open_reward.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "rewards/pattern/native_rewards.h"
#include "rewards/reward_spec.h"

namespace hone::rewards {
namespace open_reward_test {

std::string error_of(const std::string& word, const OpenOptions& options = {}) {
  try {
    open_rewards({word}, options);
  } catch (const base::UserError& error) {
    return error.what();
  }
  return "no error";
}

void expect_error(const std::string& word, const std::string& part) {
  const std::string error = error_of(word);
  EXPECT_NE(error.find(part), std::string::npos) << word << "\n" << error;
}

TEST(RewardSpec, ReadsQuotes) {
  const RewardSpec word = parse_reward_spec(R"(regex(pattern="a, \"b\" (\d+)\\n", x='say "hi"', n= 12 ))");
  ASSERT_EQ(word.parameters.size(), 3U);
  EXPECT_EQ(word.parameters[0].second, R"(a, "b" (\d+)\n)");
  EXPECT_EQ(word.parameters[1].second, R"(say "hi")");
  EXPECT_EQ(word.parameters[2].second, "12");
  EXPECT_TRUE(parse_reward_spec("length()").parameters.empty());
}

TEST(OpenReward, UnknownNames) {
  expect_error("acuracy_reward", "Did you mean 'accuracy_reward'");
  expect_error("exact_mtach(column=a)", "Did you mean 'exact_match'");
  expect_error("", "a reward");
  expect_error("rewards.py", "the function's name is missing");
  expect_error("no/such/folder", "a folder with config.json");
}

TEST(OpenReward, WrongParameters) {
  expect_error("exact_match(colum=a)", "Did you mean 'column'");
  expect_error("length(target=abc)", "a whole number, 1 or more");
  expect_error("length(target=0)", "a whole number, 1 or more");
  expect_error("length(unit=tokens)", "a parameter of it: name, column");
  expect_error("length(target=5, unit=words)", "one of tokens, characters");
  expect_error("regex", "regex(pattern=");
  expect_error("regex(pattern=\"(a\")", "')'");
  expect_error("regex(pattern=\"a", "closing quote");
  expect_error("exact_match(column=a", "',' or ')'");
  expect_error("exact_match(column=a, column=b)", "column once");
  expect_error("exact_match(column)", "'=' after column");
  expect_error("exact_match(column=a) b", "nothing after");
  expect_error("get_repetition_penalty_reward(max_penalty=1)", "not positive");
  expect_error("accuracy_reward(engine=sympy)", "one of native, math_verify");
}

TEST(OpenReward, NeededColumns) {
  const auto needs = [](const std::string& word) { return required_columns(word, OpenOptions{}); };
  EXPECT_EQ(needs("accuracy_reward"), std::vector<std::string>{"solution"});
  EXPECT_EQ(needs("accuracy_reward(column=answer)"), std::vector<std::string>{"answer"});
  EXPECT_EQ(needs("exact_match"), std::vector<std::string>{"answer"});
  EXPECT_EQ(needs("accuracy_reward(engine=math_verify, column=x)"), std::vector<std::string>{"x"});
  EXPECT_TRUE(needs("think_format_reward").empty());
  EXPECT_TRUE(needs("regex(pattern=a)").empty());
  EXPECT_EQ(needs("regex(pattern=a, column=b)"), std::vector<std::string>{"b"});
}

TEST(OpenReward, AModelFolder) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "reward_model_folder";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.json") << "{}";
  expect_error(folder, "need no model here");
  OpenOptions options;
  std::string opened;
  options.open_model = [&](const std::string& path) {
    opened = path;
    return make_reward("model", [](const Request& request) {
      Scores out;
      out.values.assign(request.size(), 0.5);
      return out;
    });
  };
  const auto rewards = open_rewards({"think_format_reward", folder}, options);
  EXPECT_EQ(opened, folder.string());
  EXPECT_EQ(rewards[1]->name(), "model");
  EXPECT_TRUE(required_columns(folder, options).empty());
}

}  // namespace open_reward_test
}  // namespace hone::rewards
