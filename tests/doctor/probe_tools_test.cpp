// What the doctor says of a run with tools before step 1: each class planted into a tiny run, and nothing of a healthy one.
#include <gtest/gtest.h>

#include "base/helpers.h"
#include "base/json.h"
#include "doctor/exam_cache.h"
#include "doctor/probes/judge_tools.h"
#include "probe_runs.h"

namespace hone::doctor {
namespace probe_tools_test {

using base::Json;
using base::Level;

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

// `body` is the function's.
std::string tool(const std::string& body, const std::string& before = "") {
  return before +
         "def search(q: str) -> str:\n    \"\"\"\n    Finds a page.\n\n    Args:\n        q: What for.\n    \"\"\"\n" +
         body;
}

// Pays what `read` makes of a completion's messages.
std::string reward(const std::string& read) {
  return "\n\ndef score(completions, answer, **kwargs):\n    return [float(a in " + read +
         ") for c, a in zip(completions, answer)]\n";
}
const std::string kLast = reward("c[-1]['content']");

std::string environment(const std::string& reset, const std::string& init = "") {
  return "import itertools\n\nNUMBERS = itertools.count()\n\n\nclass World:\n    def __init__(self):\n        self.seen = 0\n" +
         init + "\n    def reset(self, **row):\n" + reset +
         "\n    def look(self, at: int) -> str:\n        \"\"\"\n        Looks.\n\n        Args:\n            at: Where.\n        \"\"\"\n"
         "        self.seen += 1\n        return str(self.seen)\n";
}

class ProbeTools : public ProbeTest {
 protected:
  void SetUp() override {
    ProbeTest::SetUp();
    const fs::path model = root_ / "model", from = fixtures() / "tiny_llama";
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
    std::string rows;
    for (int i = 0; i < 12; ++i) {
      const Json prompt = Json::array({{{"role", "user"}, {"content", "Number " + std::to_string(i)}}});
      rows += base::dump_json(Json{{"prompt", prompt}, {"answer", "code" + std::to_string(i)}}) + "\n";
    }
    base::put(root_ / "rows.jsonl", rows);
  }

  // A run whose tools.py is `python`.
  std::unique_ptr<train::OpenedRun> with(const std::string& python, Words more = {}, bool acts = false) {
    base::put(root_ / "tools.py", python);
    const std::string file = (root_ / "tools.py").string();
    Words words = {"--model_name_or_path",
                   (root_ / "model").string(),
                   "--dataset_name",
                   (root_ / "rows.jsonl").string(),
                   "--reward_funcs",
                   acts ? "length(target=6)" : file + ":score",
                   acts ? "--environment" : "--tools",
                   file + (acts ? ":World" : ":search"),
                   "--output_dir",
                   (root_ / ("out" + std::to_string(++runs_))).string()};
    for (const char* one :
         {"--use_peft", "--max_steps", "3", "--lora_dropout", "0", "--threads", "1", "--num_generations", "4",
          "--per_device_train_batch_size", "4", "--max_completion_length", "300"})
      words.emplace_back(one);
    words.insert(words.end(), more.begin(), more.end());
    return open(config::parse_run(config::Method::kGrpo, words));
  }
  Verdicts examined(const std::string& python, Words more = {}, bool acts = false) {
    const auto run = with(python, std::move(more), acts);
    return probe_tools(*run, Depth::kRun);
  }
  Verdicts called(const std::string& pattern) {
    const auto run = with(tool("    return q\n") + kLast, {"--vllm_structured_outputs_regex", pattern});
    return probe_calls(*run, Depth::kRun);
  }

 private:
  int runs_ = 0;
};

TEST_F(ProbeTools, AHealthyOneIsQuiet) {
  const Verdicts found = examined(tool("    return 'a page about ' + q\n") + kLast);
  EXPECT_EQ(worst(found), Level::kOk) << describe(found);
  EXPECT_VERDICT(found, "TOOL-01", Level::kOk, "a page about 1");
  EXPECT_VERDICT(found, "TOOL-05", Level::kOk, "pays what the last turn says");
  const Verdicts world =
      examined(environment("        self.seen = 0\n        return ' Look around.'\n"), {}, true);
  EXPECT_EQ(worst(world), Level::kOk) << describe(world);
  EXPECT_TRUE(probe_tools(*open(grpo("plain")), Depth::kRun).empty());
}

TEST_F(ProbeTools, AToolThatFails) {
  EXPECT_VERDICT(examined(tool("    return indexx[q]\n") + kLast), "TOOL-01", Level::kWarn,
                 "NameError is seldom about arguments");
  EXPECT_VERDICT(examined(tool("    while True:\n        pass\n") + kLast, {"--tool_timeout", "1"}),
                 "TOOL-01", Level::kWarn, "it hangs");
  EXPECT_VERDICT(examined(tool("    os._exit(3)\n", "import os\n\n\n") + kLast), "TOOL-01", Level::kWarn,
                 "its process ended");
  // What the arguments may be wrong for is no fault.
  EXPECT_VERDICT(examined(tool("    raise ValueError('no page')\n") + kLast), "TOOL-01", Level::kNote,
                 "made-up arguments");
  EXPECT_VERDICT(examined(tool("    print('found')\n    return q\n") + kLast), "TOOL-01", Level::kNote,
                 "prints");
}

TEST_F(ProbeTools, AResetThatFails) {
  EXPECT_VERDICT(examined(environment("        return row['task']\n"), {}, true), "TOOL-01", Level::kFail,
                 "task");
}

TEST_F(ProbeTools, WhatIsNotDeterministic) {
  EXPECT_VERDICT(examined(tool("    return str(time.perf_counter_ns())\n", "import time\n\n\n") + kLast),
                 "TOOL-02", Level::kWarn, "clock");
  EXPECT_VERDICT(
      examined(environment("        return str(id(self)) + str(__import__('os').getpid())\n"), {}, true),
      "TOOL-02", Level::kFail, "each completion of a prompt");
  EXPECT_VERDICT(
      examined(environment(
                   "        self.resets = getattr(self, 'resets', 0) + 1\n        return str(self.resets)\n"),
               {}, true),
      "TOOL-02", Level::kWarn, "the second time");
}

TEST_F(ProbeTools, TheRoomForADialogue) {
  const std::string python = tool("    return q\n") + kLast;
  EXPECT_VERDICT(examined(python, {"--max_completion_length", "30"}), "TOOL-03", Level::kFail,
                 "shorter than a call");
  EXPECT_VERDICT(examined(python, {"--max_tool_calling_iterations", "40"}), "TOOL-03", Level::kNote,
                 "allows 40");
  EXPECT_VERDICT(examined(python, {"--max_tool_calling_iterations", "1"}), "TOOL-03", Level::kOk,
                 "fit into a completion");
  const std::string wordy = tool("    return 'words ' * 500\n") + kLast;
  EXPECT_VERDICT(examined(wordy), "TOOL-03", Level::kWarn, "returns all that it has");
  EXPECT_LT(worst(examined(wordy, {"--max_tool_result_tokens", "50"})), Level::kWarn);
}

TEST_F(ProbeTools, ControlTokensInAResult) {
  const std::string python = tool("    return 'x<|im_end|>y'\n") + kLast;
  EXPECT_VERDICT(examined(python), "TOOL-04", Level::kNote, "plain text");
  EXPECT_VERDICT(examined(python, {"--tool_text_control_tokens", "as_is"}), "TOOL-04", Level::kWarn, "as_is");
}

TEST_F(ProbeTools, ARewardThatMisreadsADialogue) {
  const std::string good = tool("    return q\n");
  EXPECT_VERDICT(examined(good + reward("' '.join(m['content'] for m in c)")), "TOOL-05", Level::kWarn,
                 "takes what a tool answers");
  EXPECT_VERDICT(examined(good + reward("c[0]['content']")), "TOOL-05", Level::kWarn,
                 "reads the first message");
  EXPECT_VERDICT(
      examined(good + reward("[m['content'] for m in c if {'user': 1, 'assistant': 1}[m['role']]][-1]")),
      "TOOL-05", Level::kWarn, "list of several messages");
}

TEST_F(ProbeTools, SlowTools) {
  const auto run = with(tool("    return q\n") + kLast, {"--tool_workers", "1"});
  ToolTrials trials{.tools = {{.name = "search", .arguments = {{"q", "1"}}, .twice = true}}};
  trials.tools[0].first.seconds = 40;
  trials.tools[0].second.seconds = 3;  // the first call pays for an import
  EXPECT_VERDICT(judge_trials(*run, trials), "TOOL-10", Level::kOk, "a call of search takes 3 s");
  trials.tools[0].second.seconds = 20;
  EXPECT_VERDICT(judge_trials(*run, trials), "TOOL-10", Level::kWarn, "80 s in each generation batch");
  ToolTrials resets{.environments = {{.class_name = "World", .where = "row 1", .seconds = 9}}};
  EXPECT_VERDICT(judge_trials(*run, resets), "TOOL-10", Level::kWarn, "reset() of World takes 9 s");
}

TEST_F(ProbeTools, WhetherTheModelCalls) {
  EXPECT_VERDICT(
      called(
          "(<tool_call>\\n\\{\"name\": \"search\", \"arguments\": \\{\"q\": \"[a-z]\"\\}\\}\\n</tool_call>)"),
      "TOOL-06", Level::kOk, "a call is begun for");
  EXPECT_VERDICT(called("(no|yes)"), "TOOL-06", Level::kWarn, "a base model");
  EXPECT_VERDICT(called("<tool_call>search\\([a-z]\\)</tool_call>"), "TOOL-07", Level::kWarn, "another form");
  EXPECT_VERDICT(called("<think>[a-z ]{400}</think>no"), "TOOL-06", Level::kNote, "still thinks");
}

TEST_F(ProbeTools, NothingIsCalledWhereThatIsNotWanted) {
  const std::string python = tool("    raise NameError('called')\n") + kLast;
  EXPECT_VERDICT(examined(python, {"--probe_rewards", "false"}), "TOOL-01", Level::kNote,
                 "probe_rewards is false");
}

// What the doctor calls is not what the run calls: its own instances begin where a run without an examination begins.
TEST_F(ProbeTools, LeavesNothingBehind) {
  const auto run = with(
      environment("        self.resets = getattr(self, 'resets', 0) + 1\n        return str(self.resets)\n"),
      {"--vllm_structured_outputs_regex", "(no|yes)"}, true);
  EXPECT_VERDICT(probe_tools(*run, Depth::kRun), "TOOL-02", Level::kWarn, "the second time");
  EXPECT_VERDICT(probe_calls(*run, Depth::kRun), "TOOL-06", Level::kWarn, "a base model");
  train::ToolUse& use = *run->data.sampled().tools;
  const data::PromptRow& row = run->data.sampled().train_prompts.rows[0];
  rollout::GenerateOptions options;
  options.samples = 4;
  const auto asked = train::begin_dialogues({&row}, options, run->text->tokenizer, use);
  EXPECT_EQ(asked[0].prompt.back()["content"], row.prompt.back()["content"].get<std::string>() + "1");
}

TEST_F(ProbeTools, ARunWithToolsHasItsPartsInAnExamination) {
  const auto run = with(
      tool("    return missing\n") + kLast,
      {"--vllm_structured_outputs_regex",
       "(ok|<tool_call>\\n\\{\"name\": \"search\", \"arguments\": \\{\"q\": \"[a-z]\"\\}\\}\\n</tool_call>)"});
  const Examination found = examine(*run, {});
  Verdicts all;
  std::string parts;
  for (const ExamPart& part : found.parts) {
    parts += part.name + " ";
    all.insert(all.end(), part.verdicts.begin(), part.verdicts.end());
  }
  EXPECT_NE(parts.find("reward tools "), std::string::npos) << parts;
  EXPECT_NE(parts.find(" calls "), std::string::npos) << parts;
  EXPECT_VERDICT(all, "TOOL-01", Level::kWarn, "NameError");
  EXPECT_FALSE(found.failed()) << describe(all);
}

// What was found of a run is kept for the same tools only.
TEST_F(ProbeTools, AnotherTextOfTheToolsIsAnotherExamination) {
  base::put(root_ / "hone", "a program");
  const auto is_known = [&](train::OpenedRun& run) {
    return ExamCache(root_ / "cache", root_ / "hone", run).find("calls").has_value();
  };
  const std::string python = tool("    return q\n") + kLast;
  {
    ExamCache cache(root_ / "cache", root_ / "hone", *with(python));
    cache.add({.name = "calls"});
    cache.write();
  }
  EXPECT_TRUE(is_known(*with(python)));
  EXPECT_FALSE(is_known(*with(tool("    return q + q\n") + kLast)));
  const auto again = with(python);
  base::put(root_ / "helper.py", "x = 1\n");  // the tool may import it
  EXPECT_FALSE(is_known(*again));
}

}  // namespace probe_tools_test
}  // namespace hone::doctor
