// What the watch says of dialogues with tools: each class from planted batches, and nothing of healthy ones.
#include <gtest/gtest.h>

#include <functional>

#include "doctor/probes/tool_trials.h"
#include "doctor/watch/watch_state.h"
#include "doctor/watch/watch_tools.h"

namespace hone::doctor {
namespace tool_watch_test {

using base::Json;
using base::Level;

constexpr std::int64_t kGroup = 4, kGroups = 8;

Json asks(const std::string& name) {
  return {
      {"role", "assistant"},
      {"content", ""},
      {"tool_calls",
       Json::array({{{"type", "function"}, {"function", {{"name", name}, {"arguments", Json::object()}}}}})}};
}

Json says(const std::string& role, const std::string& text) {
  return {{"role", role}, {"content", text}};
}

// A call of `search` with its answer, and a last turn.
train::CompletionFacts dialogue(int k, bool failed = false, int calls = 1) {
  train::CompletionFacts out;
  out.completion = "an answer";
  out.rewards = {double(k % 2)};
  out.advantage = k % 2 == 0 ? -1 : 1;
  out.messages = Json::array();
  out.opens_call = calls > 0;
  for (int i = 0; i < calls; ++i) {
    out.calls.push_back({.name = "search",
                         .arguments = "{\"q\":" + std::to_string(k) + "}",
                         .failed = failed,
                         .seconds = 0.01});
    out.messages.push_back(asks("search"));
    out.messages.push_back(says("tool", failed ? "{'error': 'no index'}" : "a page"));
  }
  out.messages.push_back(says("assistant", "an answer"));
  return out;
}

using Change = std::function<void(train::CompletionFacts&, int)>;

train::RolloutFacts batch(const Change& change = {}) {
  train::RolloutFacts out;
  out.reward_names = {"score"};
  out.sampling_seconds = 10;
  out.tool_wait_seconds = 1;
  for (int k = 0; k < kGroup * kGroups; ++k) {
    out.completions.push_back(dialogue(k));
    if (change) change(out.completions.back(), k);
  }
  return out;
}

Findings watched(const train::RolloutFacts& facts,
                 ToolWatch::Setup setup = {.group_size = kGroup, .most_rounds = 4, .most_tokens = 256},
                 int batches = 4) {
  ToolWatch watch(setup);
  Findings out;
  for (int i = 0; i < batches; ++i) out = watch.see(facts);
  return out;
}

std::string codes(const Findings& found) {
  std::string out;
  for (const Finding& one : found) out += (out.empty() ? "" : " ") + one.key;
  return out;
}

std::string all_of(const base::Verdict& one) {
  return one.what + " | " + one.evidence + " | " + one.cause + " | " + one.fix;
}

void expect_only(const Findings& found, const std::string& key, const std::string& words,
                 Level level = Level::kWarn) {
  ASSERT_EQ(codes(found), key);
  const base::Verdict& one = found.front().verdict;
  EXPECT_EQ(one.level, level);
  EXPECT_NE(all_of(one).find(words), std::string::npos) << all_of(one);
  for (const std::string& field : {one.what, one.evidence, one.cause, one.fix, one.cost})
    EXPECT_FALSE(field.empty());
}

TEST(ToolWatch, HealthyDialoguesSayNothing) {
  EXPECT_EQ(codes(watched(batch())), "");
  // A third of the calls fails, a few completions do not call, a few are cut: it is learning.
  const auto learning = [](train::CompletionFacts& one, int k) {
    if (k % 3 == 0) one = dialogue(k, /*failed=*/true, 1 + k % 2);
    if (k % 5 == 0) one = dialogue(k, false, 0);
    if (k == 7) one.messages.erase(one.messages.size() - 2);
  };
  EXPECT_EQ(codes(watched(batch(learning))), "");
  EXPECT_EQ(codes(watched({})), "");
}

TEST(ToolWatch, WaitsForEnoughBatches) {
  const auto silent = batch([](train::CompletionFacts& one, int k) { one = dialogue(k, false, 0); });
  EXPECT_EQ(codes(watched(silent, {.group_size = kGroup}, 2)), "");
  EXPECT_EQ(codes(watched(silent, {.group_size = kGroup}, 3)), "TOOL-06");
}

TEST(ToolWatch, AModelThatDoesNotCall) {
  const auto silent = batch([](train::CompletionFacts& one, int k) { one = dialogue(k, false, 0); });
  expect_only(watched(silent), "TOOL-06", "has not called a tool yet");
  EXPECT_EQ(codes(watched(silent, {.group_size = kGroup, .most_rounds = 0})), "");  // none may be made
  ToolWatch watch({.group_size = kGroup});
  watch.see(batch());
  Findings last;
  for (int i = 0; i < 8; ++i) last = watch.see(silent);
  expect_only(last, "TOOL-06", "not call its tools any more");
}

TEST(ToolWatch, CallsThatCannotBeRead) {
  const auto unread = batch([](train::CompletionFacts& one, int k) {
    one = dialogue(k, false, 0);
    one.opens_call = k % 2 == 0;
    one.completion = "<tool_call>search(1)</tool_call>";
  });
  expect_only(watched(unread), "TOOL-07", "search(1)");
}

TEST(ToolWatch, AToolWhoseCallsFail) {
  const auto failing = batch([](train::CompletionFacts& one, int k) { one = dialogue(k, k % 4 != 0); });
  expect_only(watched(failing), "TOOL-08 search", "no index");
  const auto made_up = batch([](train::CompletionFacts& one, int k) {
    one = dialogue(k, true);
    one.messages[1]["content"] = "{'error': 'Tool search not found.'}";
  });
  expect_only(watched(made_up), "TOOL-08 search", "the model makes it up");
}

TEST(ToolWatch, OneFailingCallAgainAndAgain) {
  const auto circling = batch([](train::CompletionFacts& one, int k) {
    if (k % 4 == 0)
      one = dialogue(k, true, 3);
    else
      one = dialogue(k, false, 4);
  });
  expect_only(watched(circling), "TOOL-09 repeated", "search{\"q\":");
}

TEST(ToolWatch, DialoguesThatTheCapEnds) {
  const auto capped = batch([](train::CompletionFacts& one, int k) {
    if (k % 2 == 0) one.messages.back() = asks("search");
  });
  expect_only(watched(capped), "TOOL-09 cap", "max_tool_calling_iterations: 8");
}

TEST(ToolWatch, ResultsThatDoNotFit) {
  const auto change = [](train::CompletionFacts& one, int k) {
    if (k % 4 != 0) return;
    one.messages = Json::array({asks("search")});  // called, and the result is not there
  };
  expect_only(watched(batch(change)), "TOOL-03", "max_completion_length (256)");
  // What tool_failures_to_stop ends is no lack of room.
  const auto given_up = [](train::CompletionFacts& one, int k) {
    if (k % 4 != 0) return;
    one = dialogue(k, true);
    one.messages = Json::array({asks("search")});
  };
  EXPECT_EQ(
      codes(watched(batch(given_up), {.group_size = kGroup, .failures_to_stop = 1, .most_tokens = 256})), "");
}

TEST(ToolWatch, SamplingThatWaits) {
  train::RolloutFacts slow = batch();
  slow.tool_wait_seconds = 8;
  expect_only(watched(slow), "TOOL-10", "80 %");
  slow.sampling_seconds = 0.1;
  slow.tool_wait_seconds = 0.08;
  EXPECT_EQ(codes(watched(slow)), "");  // a share of nothing
}

TEST(ToolWatch, GroupsThatAreDeadSinceAllCallAlike) {
  const auto alike = [](double reward) {
    return batch([reward](train::CompletionFacts& one, int k) {
      if (k < kGroup) return;  // one group lives
      one = dialogue(k / kGroup);
      one.advantage = 0;
      one.rewards = {reward};
    });
  };
  expect_only(watched(alike(0)), "TOOL-11", "gives the answer away or withholds it");
  expect_only(watched(alike(1)), "TOOL-11", "solved", Level::kNote);
  const auto apart = batch([](train::CompletionFacts& one, int) { one.advantage = 0; });
  EXPECT_EQ(codes(watched(apart)), "");  // dead for another reason: RL-02
}

TEST(ToolWatch, AResumedOneGoesOn) {
  const auto silent = batch([](train::CompletionFacts& one, int k) { one = dialogue(k, false, 0); });
  ToolWatch first({.group_size = kGroup}), second({.group_size = kGroup});
  first.see(silent);
  first.see(silent);
  second.restore(base::parse_json(base::dump_json(first.state()), "state"));
  EXPECT_EQ(codes(second.see(silent)), "TOOL-06");
  EXPECT_EQ(base::dump_json(second.state()),
            base::dump_json([&] { return first.see(silent), first.state(); }()));
  EXPECT_THROW(second.restore(Json::object()), BadWatchState);
}

TEST(SmallestArguments, AreWhatTheSchemaRequires) {
  const Json schema =
      base::parse_json(R"({"type": "function", "function": {"name": "f", "parameters": {"type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "string", "enum": ["x", "y"]}, "c": {"type": "array", "items": {"type": "number"}},
      "d": {"type": "boolean"}, "e": {"anyOf": [{"type": "object"}, {"type": "null"}]}, "f": {"type": ["null", "string"]}, "g": {}},
    "required": ["a", "b", "c", "d", "e", "f"]}}})",
                       "schema");
  EXPECT_EQ(base::dump_json(smallest_arguments(schema)),
            base::dump_json(base::parse_json(
                R"({"a": 1, "b": "x", "c": [1.0], "d": true, "e": {}, "f": null})", "expected")));
  EXPECT_EQ(base::dump_json(smallest_arguments(Json::object())), "{}");
}

}  // namespace tool_watch_test
}  // namespace hone::doctor
