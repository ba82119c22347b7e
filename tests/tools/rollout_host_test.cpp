// The process of a rollout function: what it is given, what it may ask for meanwhile, and what becomes of one that raises or ends.
#include "tools/rollout/rollout_host.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tools/pool_helpers.h"

namespace hone::tools {
namespace rollout_host_test {

constexpr const char* kFunctions = R"(
import os

def asks(prompts, trainer):
    print("asked", trainer.num_generations)
    made = trainer.generate_rollout_completions(prompts, generation_overrides={"max_tokens": 3})
    return {"prompt_ids": [one["prompt_ids"] for one in made], "completion_ids": [one["completion_ids"] for one in made],
            "logprobs": None, "env_mask": [[1, 0]] * len(prompts), "step": trainer.state.global_step,
            "mode": trainer.model.training}

def refused(prompts, trainer):
    try:
        trainer.generate_rollout_completions(prompts)
    except ValueError as error:
        raise KeyError(str(error).splitlines()[0])

def outside(prompts, trainer):
    return {"prompt_ids": [[1]] * len(prompts), "completion_ids": [[1], [99]], "logprobs": None}

def ends(prompts, trainer):
    os._exit(7)

def three(a, b, c):
    return {}
)";

struct RolloutHostTest : ::testing::Test {
  ToolsFile file = ToolsFile(kFunctions);

  RolloutHost host(const std::string& function) const {
    return RolloutHost({.python = {}, .word = file.word(function)});
  }
  static Json about() {
    return {{"state", {{"global_step", 4}}},
            {"training", false},
            {"options", {{"num_generations", 2}}},
            {"model", "none"},
            {"vocab_size", 10},
            {"positions", 8}};
  }
  static Json nothing(const Json& /*request*/) {
    throw base::UserError({.where = "here", .expected = "no request", .found = "one"});
  }
};

TEST_F(RolloutHostTest, ItMayAskWhileItRuns) {
  RolloutHost one = host("asks");
  std::vector<Json> requests;
  const auto complete = [&](const Json& request) -> Json {
    requests.push_back(request);
    const Json made = {
        {"prompt_ids", {1, 2}}, {"completion_ids", {3, 4}}, {"logprobs", {0, 0}}, {"text", "x"}};
    return {{"completions", {made, made}}};
  };
  for (int round = 0; round < 2; ++round) {
    const Json made = one.call(Json::array({"a", "b"}), about(), complete);
    EXPECT_EQ(made["completion_ids"], Json({{3, 4}, {3, 4}}));
    EXPECT_TRUE(made["logprobs"].is_null());
    EXPECT_EQ(made["env_mask"], Json({{1, 0}, {1, 0}}));
    EXPECT_EQ(made["columns"], (Json{{"step", {4, 4}}, {"mode", {false, false}}}));
    EXPECT_EQ(one.printed(), "asked 2\n");
  }
  ASSERT_EQ(requests.size(), 2U);
  EXPECT_EQ(requests[0]["prompts"], Json::array({"a", "b"}));
  EXPECT_EQ(requests[0]["overrides"]["max_tokens"], 3);
}

TEST_F(RolloutHostTest, ErrorsAreNamedAndTheNextCallStartsAgain) {
  RolloutHost one = host("refused");
  for (int round = 0; round < 2; ++round) {
    const std::string found = message_of([&] { one.call(Json::array({"a"}), about(), nothing); });
    EXPECT_NE(found.find("KeyError: '[here] expected no request'"), std::string::npos) << found;
    EXPECT_NE(found.find("in refused"), std::string::npos) << "the traceback: " << found;
  }
  RolloutHost outside = host("outside");
  const std::string found = message_of([&] { outside.call(Json::array({"a", "b"}), about(), nothing); });
  EXPECT_NE(found.find("completion_ids[1]"), std::string::npos) << found;
  RolloutHost ends = host("ends");
  EXPECT_NE(message_of([&] { ends.call(Json::array({"a"}), about(), nothing); }).find("ended with status 7"),
            std::string::npos);
}

TEST_F(RolloutHostTest, WhatIsNoFunctionIsRefusedAtOnce) {
  EXPECT_NE(message_of([&] { host("three"); }).find("a function of (prompts, trainer)"), std::string::npos);
  EXPECT_NE(message_of([&] { host("ask"); }).find("did you mean asks?"), std::string::npos);
  EXPECT_NE(message_of([&] { host("asks,ends"); }).find("one function"), std::string::npos);
  EXPECT_NE(message_of([] {
              RolloutHost({.python = {}, .word = "no_such_package_x:f"});
            }).find("no_such_package_x"),
            std::string::npos);
}

}  // namespace rollout_host_test
}  // namespace hone::tools
