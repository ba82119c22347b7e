// Whole runs of GRPO, RLOO and distillation whose model calls tools: what it draws is held to calls and short answers by a pattern, so that a tiny model
// with random weights acts. The dialogue, its ids and masks, and that nothing of it depends on when tools answer.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <fstream>
#include <map>

#include "base/error.h"
#include "base/files/file.h"
#include "base/helpers.h"
#include "base/json.h"
#include "config/parse.h"
#include "train/batches/rollout_batch.h"
#include "train/opening/open_run.h"
#include "train/saves/run_folder.h"

namespace hone::train {
namespace tool_runs_test {

namespace fs = base::fs;
using base::Json;

// Hermes' form of calls and results, as Qwen2.5 and others have it.
constexpr const char* kTemplate =
    "{%- if tools %}<|im_start|>system\nTools:{% for tool in tools %} {{ tool.function.name }}{% endfor %}<|im_end|>\n{% endif %}"
    "{%- for message in messages %}"
    "{%- if message.role == 'tool' %}"
    "{%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}<|im_start|>user{% endif %}\n"
    "<tool_response>\n{{ message.content }}\n</tool_response>"
    "{%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}<|im_end|>\n{% endif %}"
    "{%- else %}<|im_start|>{{ message.role }}\n{{ message.content }}"
    "{%- if message.tool_calls %}{% for call in message.tool_calls %}"
    "{%- if not loop.first or message.content %}\n{% endif %}"
    "<tool_call>\n{\"name\": \"{{ call.function.name }}\", \"arguments\": {{ call.function.arguments | tojson }}}\n</tool_call>"
    "{%- endfor %}{% endif %}<|im_end|>\n{% endif %}"
    "{%- endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

constexpr const char* kTools = R"(
import os
import time

DELAY = float(os.environ.get("TOOLS_TEST_DELAY", "0"))
OTHERWISE = " or not" if "TOOLS_TEST_LIE" in os.environ else ""


def add(a: int, b: int) -> int:
    """
    Adds two numbers.

    Args:
        a: The first number.
        b: The second number.
    """
    time.sleep(DELAY * ((a * 7 + b * 3) % 5))
    if "TOOLS_TEST_COUNT" in os.environ:
        with open(os.environ["TOOLS_TEST_COUNT"], "a") as file:
            file.write("x")
    return 0 if "TOOLS_TEST_LIE" in os.environ else a + b


async def double(a: int) -> str:
    """
    Doubles a number.

    Args:
        a: The number.
    """
    if a == 7:
        raise KeyError("seven")
    return "*" * (2 * a)


class Counter:
    def reset(self, start, **row):
        self.count = start
        return " The counter is at %d%s." % (start, OTHERWISE)

    def more(self, by: int) -> int:
        """
        Counts.

        Args:
            by: How far.
        """
        self.count += by
        return str(self.count) + OTHERWISE

    def get_reward(self):
        return float(self.count)


def calls(completions, **kwargs):
    return [float(sum(m["role"] == "tool" for m in c)) + 0.25 * (c[-1].get("content") == "ok") for c in completions]
)";

constexpr const char* kActs =
    "(<tool_call>\\n\\{\"name\": \"(add|double)\", \"arguments\": \\{\"a\": [0-9](, \"b\": [0-9])?\\}\\}\\n</tool_call>|ok|no)";
constexpr const char* kCounts =
    "(<tool_call>\\n\\{\"name\": \"more\", \"arguments\": \\{\"by\": [1-9]\\}\\}\\n</tool_call>|ok)";

class Watcher final : public RunListener {
 public:
  void on_step(const StepFacts& facts, std::int64_t) override {
    steps.push_back(facts);
    if (facts.step == stop_after) stop = true;
  }
  void on_rollout(const RolloutFacts& facts) override { rollouts.push_back(facts); }
  void on_log(const LogRecord& record) override {
    for (const auto& [key, value] : record.values) logged[key] = value;
  }
  double metric(std::size_t step, const std::string& name) const {
    for (const auto& [key, value] : steps.at(step).metrics) {
      if (key == name) return value;
    }
    return std::nan("");
  }
  std::vector<StepFacts> steps;
  std::vector<RolloutFacts> rollouts;
  std::map<std::string, double> logged;  // the last of each
  std::int64_t stop_after = 0;
  std::atomic<bool> stop = false;
};

class ToolRuns : public testing::Test {
 protected:
  void SetUp() override {
    const fs::path model = root_ / "model", from = fs::path(HONE_FIXTURES) / "parity" / "tiny_llama";
    fs::create_directories(model);
    for (const char* name : {"model.safetensors", "tokenizer.json", "generation_config.json"})
      base::put(model / name, base::read_text(from / name));
    Json config = base::parse_json(base::read_text(from / "config.json"), "config.json");
    config["max_position_embeddings"] = 2048;
    base::put(model / "config.json", base::dump_json(config));
    const Json words = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                        {"eos_token", "<|im_end|>"},
                        {"chat_template", kTemplate}};
    base::put(model / "tokenizer_config.json", base::dump_json(words));
    base::put(root_ / "tools.py", kTools);
    std::string rows;
    for (int i = 0; i < 6; ++i) {
      const Json row = {{"prompt", {{{"role", "user"}, {"content", "Number " + std::to_string(i)}}}},
                        {"start", i}};
      rows += base::dump_json(row) + "\n";
    }
    base::put(root_ / "rows.jsonl", rows);
  }
  void TearDown() override {
    fs::remove_all(root_);
    unsetenv("TOOLS_TEST_DELAY");
    unsetenv("TOOLS_TEST_LIE");
    unsetenv("TOOLS_TEST_COUNT");
  }

  std::vector<std::string> tools() const {
    return {"--tools", (root_ / "tools.py").string() + ":add,double"};
  }
  std::vector<std::string> counter() const {
    return {"--environment", (root_ / "tools.py").string() + ":Counter"};
  }

  config::Plan plan(const std::string& name, const std::vector<std::string>& more,
                    config::Method method = config::Method::kGrpo) const {
    std::vector<std::string> words = {"--model_name_or_path",
                                      (root_ / "model").string(),
                                      "--dataset_name",
                                      (root_ / "rows.jsonl").string(),
                                      "--use_peft",
                                      "--lora_dropout",
                                      "0",
                                      "--bf16",
                                      "false",
                                      "--max_steps",
                                      "2",
                                      "--per_device_train_batch_size",
                                      "8",
                                      "--num_generations",
                                      "4",
                                      "--max_completion_length",
                                      "220",
                                      "--dump_rollouts",
                                      "--logging_steps",
                                      "1",
                                      "--save_strategy",
                                      "no",
                                      "--output_dir",
                                      (root_ / name).string()};
    if (method == config::Method::kDistill) {
      const auto group = std::find(words.begin(), words.end(), "--num_generations");
      words.erase(group, group + 2);
      words.insert(words.end(), {"--teacher_model_name_or_path", (root_ / "teacher").string(),
                                 "--per_device_train_batch_size", "3"});
    }
    words.insert(words.end(), more.begin(), more.end());
    return config::parse_run(method, words);
  }
  std::unique_ptr<Watcher> go(const std::string& name, const std::vector<std::string>& more,
                              config::Method method = config::Method::kGrpo,
                              std::int64_t stop_after = 0) const {
    auto watcher = std::make_unique<Watcher>();
    watcher->stop_after = stop_after;
    const auto run = open_run(plan(name, more, method), *watcher);
    begin_run(*run, *watcher, watcher->stop);
    return watcher;
  }
  std::unique_ptr<Watcher> act(const std::string& name, std::vector<std::string> more = {},
                               config::Method method = config::Method::kGrpo,
                               std::int64_t stop_after = 0) const {
    const std::vector<std::string> words = {"--reward_funcs", (root_ / "tools.py").string() + ":calls",
                                            "--vllm_structured_outputs_regex", kActs};
    more.insert(more.end(), words.begin(), words.end());
    const std::vector<std::string> named = tools();
    more.insert(more.end(), named.begin(), named.end());
    return go(name, more, method, stop_after);
  }
  std::vector<RolloutBatch> rollouts(const std::string& name) const {
    return read_rollouts(root_ / name / kRolloutsFile);
  }
  // Without what the clock says.
  std::string drawn(const std::string& name) const {
    std::string out;
    for (RolloutBatch& batch : rollouts(name)) {
      for (RolloutSample& sample : batch.samples) {
        for (ToolCall& call : sample.calls) call.seconds = 0;
      }
      out += base::dump_json(to_json(batch)) + "\n";
    }
    return out;
  }

  fs::path root_ = fs::temp_directory_path() / ("hone_tools_" + std::to_string(getpid()));
};

int call_count(const std::vector<RolloutBatch>& batches) {
  int out = 0;
  for (const RolloutBatch& batch : batches) {
    for (const RolloutSample& sample : batch.samples) out += static_cast<int>(sample.calls.size());
  }
  return out;
}

TEST_F(ToolRuns, TheModelCallsReadsAndIsTrainedOnWhatItDrew) {
  for (const config::Method method : {config::Method::kGrpo, config::Method::kRloo}) {
    const std::string name = method == config::Method::kGrpo ? "grpo" : "rloo";
    const auto run = act(name, {"--max_steps", "3"}, method);
    ASSERT_EQ(run->steps.size(), 3U);
    int failed = 0, calls = 0;
    for (const RolloutBatch& batch : rollouts(name)) {
      EXPECT_TRUE(batch.has_tools);
      for (const RolloutSample& sample : batch.samples) {
        EXPECT_EQ(sample.old_logprobs.size(), sample.drawn());
        EXPECT_LE(sample.ids.size(), 220U);
        std::size_t results = 0;
        for (const Json& message : sample.messages) results += message["role"] == "tool" ? 1 : 0;
        EXPECT_EQ(sample.messages[0]["role"], "assistant");
        EXPECT_EQ(results == 0, sample.given.empty());
        calls += static_cast<int>(sample.calls.size());
        for (const ToolCall& call : sample.calls) {
          const Json& arguments = call.arguments;
          const bool is_right =
              call.name == "add" ? arguments.contains("b") : arguments["a"] != 7 && !arguments.contains("b");
          EXPECT_EQ(call.failed, !is_right) << call.name << base::dump_json(arguments) << call.result;
          failed += call.failed ? 1 : 0;
          EXPECT_EQ(call.failed, call.result.starts_with("{'error': ")) << call.result;
          if (!call.failed && call.name == "add") {
            EXPECT_EQ(call.result, std::to_string(arguments["a"].get<int>() + arguments["b"].get<int>()));
          }
        }
      }
    }
    EXPECT_GT(calls, 3);
    EXPECT_GT(failed, 0);
    EXPECT_LT(failed, calls);
    double frequency = 0;
    int compared = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      frequency += run->metric(i, "tools/call_frequency");
      const double gap = run->metric(i, "ratio_gap");  // the sampler is the trainer, behind an answer too
      if (std::isnan(gap)) continue;
      EXPECT_LE(gap, 1e-4);
      compared += 1;
    }
    EXPECT_GT(compared, 0);
    EXPECT_NEAR(frequency * 8, calls, 1e-6);
  }
}

// What the page and the completions' files show.
TEST_F(ToolRuns, TheFactsSayWhatWasDrawnAndWhatBecameOfEachCall) {
  const std::unique_ptr<Watcher> run = act("facts", {"--max_completion_length", "130"});
  const std::vector<RolloutBatch> batches = rollouts("facts");
  ASSERT_EQ(run->rollouts.size(), batches.size());
  int given = 0, unread = 0;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    for (std::size_t k = 0; k < batches[i].samples.size(); ++k) {
      const RolloutSample& sample = batches[i].samples[k];
      const CompletionFacts& facts = run->rollouts[i].completions.at(k);
      EXPECT_EQ(facts.messages, sample.messages);
      for (std::size_t s = 0; s < facts.spans.size(); ++s) {
        const bool drawn = facts.spans[s][1];
        EXPECT_EQ(drawn, s % 2 == 0);
        EXPECT_EQ(facts.spans[s][0].get<std::string>().find("<tool_response>") == std::string::npos, drawn);
        given += drawn ? 0 : 1;
      }
      ASSERT_EQ(facts.calls.size(), sample.calls.size());
      const auto read =
          static_cast<std::size_t>(std::count_if(sample.messages.begin(), sample.messages.end(),
                                                 [](const Json& one) { return one["role"] == "tool"; }));
      for (std::size_t c = 0; c < sample.calls.size(); ++c) {
        EXPECT_EQ(facts.calls[c].name, sample.calls[c].name);
        EXPECT_EQ(facts.calls[c].failed, sample.calls[c].failed);
        EXPECT_EQ(facts.calls[c].is_unread, c >= read);
        EXPECT_EQ(facts.calls[c].unread, c >= read ? sample.calls[c].result : "");
        unread += c >= read ? 1 : 0;
      }
    }
  }
  EXPECT_GT(given, 0);
  EXPECT_GT(unread, 0);
}

TEST_F(ToolRuns, NoIdDependsOnDelaysWorkersMemoryOrTheBatch) {
  act("plain");
  ASSERT_GT(call_count(rollouts("plain")), 3);
  setenv("TOOLS_TEST_DELAY", "0.03", 1);
  act("slow", {"--tool_workers", "8"});
  EXPECT_EQ(drawn("slow"), drawn("plain"));
  act("one", {"--tool_workers", "1", "--kv_memory", "300KB"});
  EXPECT_EQ(drawn("one"), drawn("plain"));
}

// What the doctor watches.
TEST_F(ToolRuns, FactsHaveTheCallsOfEachCompletion) {
  setenv("TOOLS_TEST_DELAY", "0.03", 1);
  const std::unique_ptr<Watcher> run = act("called");
  const std::vector<RolloutBatch> batches = rollouts("called");
  ASSERT_EQ(run->rollouts.size(), batches.size());
  double waited = 0;
  for (std::size_t b = 0; b < batches.size(); ++b) {
    const RolloutFacts& facts = run->rollouts[b];
    ASSERT_EQ(facts.completions.size(), batches[b].samples.size());
    for (std::size_t i = 0; i < facts.completions.size(); ++i) {
      const std::vector<ToolCall>& calls = batches[b].samples[i].calls;
      const CompletionFacts& one = facts.completions[i];
      ASSERT_EQ(one.calls.size(), calls.size());
      EXPECT_EQ(one.messages, batches[b].samples[i].messages);
      for (std::size_t k = 0; k < calls.size(); ++k) {
        EXPECT_EQ(one.calls[k].name, calls[k].name);
        EXPECT_EQ(one.calls[k].arguments, base::dump_json(calls[k].arguments));
        EXPECT_EQ(one.calls[k].failed, calls[k].failed);
        EXPECT_EQ(one.calls[k].seconds, calls[k].seconds);
      }
      // The results of others are no calls of its own.
      EXPECT_EQ(one.opens_call, one.completion.find("<tool_call>") != std::string::npos) << one.completion;
    }
    EXPECT_LE(facts.tool_wait_seconds, facts.sampling_seconds);
    waited += facts.tool_wait_seconds;
  }
  EXPECT_GT(waited, 0);
}

TEST_F(ToolRuns, RoundsFailuresAndLengthsHaveBounds) {
  const auto none = act("none", {"--max_tool_calling_iterations", "0"});
  EXPECT_EQ(call_count(rollouts("none")), 0);
  EXPECT_EQ(none->metric(0, "tools/call_frequency"), 0);
  act("one", {"--max_tool_calling_iterations", "1"});
  for (const RolloutBatch& batch : rollouts("one")) {
    for (const RolloutSample& sample : batch.samples) EXPECT_LE(sample.given.size(), 1U);
  }
  // 90 tokens hold a call, and not what it answers: the call was made, and the dialogue ends before its result, as in TRL.
  act("short", {"--max_completion_length", "90"});
  int calls = 0;
  for (const RolloutBatch& batch : rollouts("short")) {
    for (const RolloutSample& sample : batch.samples) {
      EXPECT_LE(sample.ids.size(), 90U);
      calls += static_cast<int>(sample.calls.size());
      EXPECT_EQ(sample.given.empty(), sample.messages.size() == 1);
    }
  }
  EXPECT_GT(calls, 0);
  act("strict", {"--tool_failures_to_stop", "1"});
  for (const RolloutBatch& batch : rollouts("strict")) {
    for (const RolloutSample& sample : batch.samples) {
      for (std::size_t i = 0; i + 1 < sample.calls.size(); ++i) EXPECT_FALSE(sample.calls[i].failed);
    }
  }
}

TEST_F(ToolRuns, EachCompletionHasAnEnvironmentOfItsOwnWithItsReward) {
  std::vector<std::string> words = counter();
  words.insert(words.end(),
               {"--vllm_structured_outputs_regex", kCounts, "--max_tool_calling_iterations", "2"});
  const auto run = go("counter", words);
  ASSERT_FALSE(run->rollouts.empty());
  EXPECT_EQ(run->rollouts[0].reward_names, std::vector<std::string>{"Counter"});
  EXPECT_NE(run->rollouts[0].completions[0].prompt.find("The counter is at "), std::string::npos);
  const std::vector<RolloutBatch> batches = rollouts("counter");
  EXPECT_GT(call_count(batches), 0);
  for (const RolloutBatch& batch : batches) {
    for (const RolloutSample& sample : batch.samples) {
      double expected = static_cast<double>(batch.prompts[sample.prompt].row);
      for (const ToolCall& call : sample.calls) expected += call.arguments["by"].get<double>();
      EXPECT_EQ(sample.rewards, std::vector<double>{expected});
    }
  }
}

// A distillation has no rewards: neither reward_funcs, nor those of environments.
class ToolDistillations : public ToolRuns {
 protected:
  void SetUp() override {
    ToolRuns::SetUp();
    const fs::path teacher = root_ / "teacher", from = fs::path(HONE_FIXTURES) / "parity" / "tiny_gemma2";
    fs::create_directories(teacher);
    for (const char* name : {"model.safetensors", "tokenizer.json", "tokenizer_config.json"})
      base::put(teacher / name, base::read_text(from / name));
    Json config = base::parse_json(base::read_text(from / "config.json"), "config.json");
    config["max_position_embeddings"] = 2048;
    base::put(teacher / "config.json", base::dump_json(config));
  }
  std::vector<std::string> with_tools(const std::vector<std::string>& more) const {
    std::vector<std::string> out = tools();
    out.insert(out.end(), {"--vllm_structured_outputs_regex", kActs});
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }
  std::unique_ptr<Watcher> distill(const std::string& name, const std::vector<std::string>& more,
                                   std::int64_t stop_after = 0) const {
    return go(name, more, config::Method::kDistill, stop_after);
  }
  std::string adapter(const std::string& name) const {
    return base::read_text(root_ / name / std::string(kAdapterWeightsFile));
  }
};

TEST_F(ToolDistillations, TheTeacherReadsWhatToolsGaveAndTheLossHasWhatWasDrawn) {
  const auto run =
      distill("run", with_tools({"--max_steps", "3", "--eval_dataset", (root_ / "rows.jsonl").string(),
                                 "--eval_strategy", "steps", "--eval_steps", "3"}));
  const std::vector<RolloutBatch> batches = rollouts("run");
  ASSERT_EQ(batches.size(), 3U);
  EXPECT_GT(call_count(batches), 3);
  std::int64_t tokens = 0;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    EXPECT_TRUE(batches[i].has_tools);
    double calls = 0, drawn = 0;
    for (const RolloutSample& sample : batches[i].samples) {
      calls += static_cast<double>(sample.calls.size());
      drawn += static_cast<double>(sample.drawn());
      EXPECT_EQ(sample.given.empty(), sample.drawn() == sample.ids.size());
      tokens += std::ssize(batches[i].prompts[sample.prompt].ids);
    }
    tokens += static_cast<std::int64_t>(drawn);
    EXPECT_NEAR(run->metric(i, "tools/call_frequency"), calls / 3, 1e-6);
    EXPECT_NEAR(run->metric(i, "completions/mean_length"), drawn / 3, 1e-5);
    EXPECT_EQ(run->steps[i].num_tokens, tokens);
    EXPECT_GT(run->steps[i].loss, 0);
  }
  EXPECT_EQ(run->logged.count("eval_tools/call_frequency"), 1U);
  EXPECT_GT(run->logged["eval_tools/call_frequency"], 0);
  distill("again", {"--max_steps", "3", "--replay", (root_ / "run" / std::string(kRolloutsFile)).string(),
                    "--dump_rollouts", "false"});
  EXPECT_EQ(adapter("again"), adapter("run"));
}

TEST_F(ToolDistillations, EnvironmentsAreNotAskedForRewards) {
  std::vector<std::string> words = counter();
  words.insert(words.end(),
               {"--vllm_structured_outputs_regex", kCounts, "--max_tool_calling_iterations", "2"});
  const auto run = distill("run", words);
  ASSERT_FALSE(run->rollouts.empty());
  EXPECT_TRUE(run->rollouts[0].reward_names.empty());
  EXPECT_NE(run->rollouts[0].completions[0].prompt.find("The counter is at "), std::string::npos);
  EXPECT_GT(call_count(rollouts("run")), 0);
  for (const RolloutSample& sample : rollouts("run").front().samples) EXPECT_TRUE(sample.rewards.empty());
}

TEST_F(ToolDistillations, EveryLossTakesDialoguesAndAResumedRunEndsTheSame) {
  const std::vector<std::string> sampled = with_tools(
      {"--loss_type", "sampled", "--max_steps", "3", "--save_strategy", "steps", "--save_steps", "1"});
  const auto run = distill("whole", sampled);
  EXPECT_FALSE(std::isnan(run->metric(0, "teacher_kl")));
  EXPECT_GT(call_count(rollouts("whole")), 3);
  distill("parts", sampled, 2);
  std::vector<std::string> resumed = sampled;
  resumed.insert(resumed.end(), {"--resume_from_checkpoint", "true"});
  distill("parts", resumed);
  EXPECT_EQ(adapter("parts"), adapter("whole"));
}

// A run that was killed in its second batch draws the same calls again, and reads what their tools answered the first time.
TEST_F(ToolRuns, ARunThatGoesOnCallsNoToolTwice) {
  const std::vector<std::string> saves = {"--max_steps",  "3", "--save_strategy", "steps",
                                          "--save_steps", "1"};
  act("whole", {"--max_steps", "3", "--save_strategy", "no"});
  ASSERT_GT(call_count(rollouts("whole")), 6);
  act("parts", saves, config::Method::kGrpo, 1);
  fs::copy_file(root_ / "whole" / ".hone-tools-0.jsonl", root_ / "parts" / ".hone-tools-0.jsonl",
                fs::copy_options::overwrite_existing);
  std::ofstream(root_ / "parts" / ".hone-tools-0.jsonl", std::ios::app)
      << "{\"call\": [2, 0";  // the machine went down
  setenv("TOOLS_TEST_LIE", "1", 1);
  setenv("TOOLS_TEST_COUNT", (root_ / "count").c_str(), 1);
  std::vector<std::string> words = saves;
  words.insert(words.end(), {"--resume_from_checkpoint", "true"});
  act("parts", words);
  EXPECT_EQ(drawn("parts"), drawn("whole"));
  EXPECT_EQ(base::read_text(root_ / "parts" / std::string(kAdapterWeightsFile)),
            base::read_text(root_ / "whole" / std::string(kAdapterWeightsFile)));
  EXPECT_FALSE(fs::exists(root_ / "count"));
  words[1] = "4";
  act("parts", words);  // the line that was cut is no part of one that came later
  act("lie", saves);
  // Its checkpoints have taken out what no run can need, and left the batches since the one before the last.
  const std::string left = base::read_text(root_ / "lie" / ".hone-tools-0.jsonl");
  EXPECT_EQ(left.find("\"call\":[0,"), std::string::npos);
  EXPECT_EQ(left.find("\"call\":[1,"), std::string::npos);
  EXPECT_NE(base::read_text(root_ / "whole" / ".hone-tools-0.jsonl").find("\"call\":[0,"), std::string::npos);
  EXPECT_NE(drawn("lie"), drawn("whole")) << "otherwise this test shows nothing";
}

// Environments have to get into their state again. What they say otherwise by then is told, and is not read.
TEST_F(ToolRuns, WhatAnEnvironmentSaysOtherwiseIsToldAndNotRead) {
  std::vector<std::string> words = counter();
  words.insert(words.end(), {"--vllm_structured_outputs_regex", kCounts, "--max_tool_calling_iterations", "2",
                             "--max_steps", "3"});
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = words;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  go("whole", words);
  go("parts", with({"--save_strategy", "steps", "--save_steps", "1"}), config::Method::kGrpo, 1);
  fs::copy_file(root_ / "whole" / ".hone-tools-0.jsonl", root_ / "parts" / ".hone-tools-0.jsonl",
                fs::copy_options::overwrite_existing);
  setenv("TOOLS_TEST_LIE", "1", 1);
  const auto run = go("parts", with({"--resume_from_checkpoint", "true"}));
  EXPECT_EQ(drawn("parts"), drawn("whole"));
  EXPECT_EQ(base::read_text(root_ / "parts" / std::string(kAdapterWeightsFile)),
            base::read_text(root_ / "whole" / std::string(kAdapterWeightsFile)));
  ASSERT_EQ(run->rollouts.size(), 2U);
  std::string told;
  for (const std::string& warning : run->rollouts[0].warnings) told += warning + "\n";
  EXPECT_NE(told.find("the tool more changed its answer"), std::string::npos) << told;
  EXPECT_NE(told.find("reset() of Counter says ' The counter is at "), std::string::npos) << told;
  go("lie", words);
  EXPECT_NE(drawn("lie"), drawn("whole")) << "otherwise this test shows nothing";
}

// What was sampled with tools is trained on again without them, bit for bit.
TEST_F(ToolRuns, AReplayNeedsNoTools) {
  const auto first = act("first");
  const auto again =
      go("again", {"--replay", (root_ / "first" / std::string(kRolloutsFile)).string(), "--dump_rollouts",
                   "false", "--reward_funcs", (root_ / "tools.py").string() + ":calls"});
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(again->steps[i].loss, first->steps[i].loss);
    EXPECT_EQ(again->metric(i, "tools/call_frequency"), first->metric(i, "tools/call_frequency"));
  }
}

TEST_F(ToolRuns, WhatCannotBeIsSaidBeforeStep1) {
  const auto refused = [&](const std::vector<std::string>& words) -> std::string {
    try {
      Watcher watcher;
      open_run(plan("refused", words), watcher);
    } catch (const base::UserError& error) {
      return error.what();
    }
    return "taken";
  };
  std::vector<std::string> words = tools();
  EXPECT_NE(refused(words).find("reward_funcs"), std::string::npos);
  words = {"--tools", (root_ / "tools.py").string() + ":calls", "--reward_funcs", "length(target=6)"};
  EXPECT_NE(refused(words).find("calls"), std::string::npos);
  base::put(root_ / "text.jsonl", "{\"prompt\": \"text\"}\n");
  words = tools();
  words.insert(words.end(),
               {"--reward_funcs", "length(target=6)", "--dataset_name", (root_ / "text.jsonl").string()});
  EXPECT_NE(refused(words).find("conversation"), std::string::npos) << refused(words);
}

}  // namespace tool_runs_test
}  // namespace hone::train
