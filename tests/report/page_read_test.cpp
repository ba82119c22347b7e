// What the page reads: metrics.jsonl while it grows, completions/, and what is damaged in them.
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "report/dialogue_turns.h"
#include "report/page/read_completions.h"
#include "report/page/read_metrics.h"
#include "report/rollouts.h"
#include "train/saves/run_folder.h"

namespace hone::report {
namespace page_read_test {

class PageRead : public testing::Test {
 protected:
  void append(const std::string& text) { std::ofstream(metrics_, std::ios::app) << text; }
  void put(const std::string& text) { std::ofstream(metrics_, std::ios::trunc) << text; }
  TestFolder folder_{"page_read"};
  base::fs::path metrics_ = folder_.path() / "metrics.jsonl";
};

TEST_F(PageRead, EachCallReadsWhatWasAdded) {
  append("{\"step\":1,\"epoch\":0.5,\"loss\":2.5,\"reward\":null}\n");
  MetricsReader reader(metrics_);
  EXPECT_EQ(reader.read().lines, 1);
  append("{\"step\":2,\"epoch\":1,\"loss\":1.5,\"rew");
  EXPECT_EQ(reader.read().lines, 1);
  EXPECT_TRUE(reader.metrics().unfinished);
  append("ard\":0.25}\n{\"step\":2,\"epoch\":1,\"eval_loss\":1.25}\n");
  const RunMetrics& read = reader.read();
  EXPECT_FALSE(read.unfinished);
  EXPECT_EQ(read.lines, 3);
  EXPECT_EQ(read.skipped, 0);
  EXPECT_EQ(read.last_step, 2);
  EXPECT_EQ(read.find("loss")->count(), 2);
  EXPECT_EQ(read.find("reward")->count(), 1);
  EXPECT_EQ(read.find("eval_loss")->last()->value, 1.25);
  EXPECT_EQ(read.find("step"), nullptr);
}

TEST_F(PageRead, SecondsOfAllStepsBecomeThoseOfOne) {
  append(
      "{\"step\":10,\"loss\":1,\"performance\":{\"seconds\":5,\"steps\":10,\"tokens_per_second\":100,"
      "\"memory_peak\":2000,\"rollout_seconds\":3,\"evaluation_seconds\":7}}\n");
  MetricsReader reader(metrics_);
  const RunMetrics& read = reader.read();
  EXPECT_DOUBLE_EQ(read.find("performance/seconds")->last()->value, 0.5);
  EXPECT_DOUBLE_EQ(read.find("performance/rollout_seconds")->last()->value, 0.3);
  EXPECT_DOUBLE_EQ(read.find("performance/evaluation_seconds")->last()->value, 7);
  EXPECT_DOUBLE_EQ(read.find("performance/memory_peak")->last()->value, 2000);
  EXPECT_EQ(read.find("performance/steps"), nullptr);
  EXPECT_DOUBLE_EQ(read.step_seconds, 5);
  EXPECT_DOUBLE_EQ(read.evaluation_seconds, 7);
  EXPECT_DOUBLE_EQ(read.tokens / read.token_seconds, 100);
}

TEST_F(PageRead, TheEndOfARunThatGoesOnIsReadAgain) {
  const std::string first = "{\"step\":1,\"loss\":2}\n";
  put(first + "{\"step\":1,\"train_runtime\":9,\"train_loss\":2}\n");
  MetricsReader reader(metrics_);
  EXPECT_EQ(reader.read().end["train_runtime"], 9);
  EXPECT_EQ(reader.read().lines, 1) << "the end counts once, and is no line of the curves";
  EXPECT_EQ(reader.metrics().find("train_runtime"), nullptr);
  put(first + "{\"step\":2,\"loss\":1.75,\"a\":1,\"b\":2,\"c\":3}\n");  // as MetricsFile does on a resume
  const RunMetrics& read = reader.read();
  EXPECT_TRUE(read.end.is_null());
  EXPECT_EQ(read.skipped, 0);
  EXPECT_EQ(read.find("loss")->count(), 2);
  EXPECT_EQ(read.find("loss")->last()->value, 1.75);
}

TEST_F(PageRead, AFileThatBecameShorterIsReadFromItsBeginning) {
  put("{\"step\":1,\"loss\":2}\n{\"step\":2,\"loss\":3}\n");
  MetricsReader reader(metrics_);
  reader.read();
  put("{\"step\":1,\"loss\":7}\n");
  EXPECT_EQ(reader.read().lines, 1);
  EXPECT_EQ(reader.metrics().find("loss")->last()->value, 7);
}

TEST_F(PageRead, DamagedLinesAreLeftOutAndCounted) {
  put("{\"step\":1,\"loss\":2}\nnonsense\n[1,2]\n{\"loss\":3}\n{\"step\":\"x\",\"loss\":3}\n\n" +
      std::string(100'000, '[') + "\n{\"step\":1e300,\"loss\":3}\n{\"step\":-4,\"loss\":3}\n" +
      "{\"step\":5,\"loss\":\"4\",\"bad \xff name\":1}\n{\"step\":3,\"loss\":9}\n");
  MetricsReader reader(metrics_);
  const RunMetrics& read = reader.read();
  EXPECT_EQ(read.lines, 2);
  EXPECT_EQ(read.skipped, 8) << "seven that are no records, and one of an earlier step";
  EXPECT_EQ(read.find("loss")->count(), 1) << "a text is no number";
  EXPECT_EQ(read.find("bad \xEF\xBF\xBD name")->count(), 1);
}

TEST_F(PageRead, NoFileIsASentence) {
  MetricsReader reader(folder_.path() / "none" / "metrics.jsonl");
  try {
    reader.read();
    ADD_FAILURE() << "expected a UserError";
  } catch (const base::UserError& error) {
    EXPECT_NE(std::string(error.what()).find("output_dir of a run of hone"), std::string::npos);
  }
}

class PageCompletions : public testing::Test {
 protected:
  void write(std::int64_t step, const std::string& text) {
    base::fs::create_directories(folder_.path());
    std::ofstream(folder_.path() / train::completions_name(step)) << text;
  }
  static std::string line(const std::string& prompt, const std::string& completion, double reward) {
    return base::dump_json({{"step", 1},
                            {"prompt", prompt},
                            {"completion", completion},
                            {"right", reward},
                            {"truncated", false}}) +
           "\n";
  }
  static std::vector<std::int64_t> steps(const CompletionsSample& sample) {
    std::vector<std::int64_t> out;
    for (const base::Json& one : sample.steps) out.push_back(one["step"]);
    return out;
  }
  TestFolder folder_{"page_completions"};
};

TEST_F(PageCompletions, HoldsRewardsByNameAndAPromptOnce) {
  write(3, line("2 + 3?", "5", 1) + line("2 + 3?", "6\x1b[2J", 0) + line("4?", "4", 1) + "broken\n");
  CompletionsReader reader(folder_.path());
  const CompletionsSample sample = reader.read();
  EXPECT_EQ(sample.files, 1);
  EXPECT_EQ(sample.skipped, 1);
  ASSERT_EQ(sample.steps.size(), 1U);
  EXPECT_EQ(sample.steps[0]["step"], 3);
  EXPECT_EQ(sample.steps[0]["columns"], (base::Json{"right", "truncated"}));
  EXPECT_EQ(sample.steps[0]["prompts"], (base::Json{"2 + 3?", "4?"}));
  EXPECT_EQ(sample.steps[0]["completions"][1], (base::Json{0, "6\\x1b[2J", 0.0, false}));
  EXPECT_EQ(sample.steps[0]["completions"][2][0], 1);
}

TEST_F(PageCompletions, ADialogueIsReadTurnByTurn) {
  const train::RolloutFacts facts = dialogues(1);
  const auto& one = facts.completions[0];
  const auto written = [&](const base::Json& messages) {
    const base::Json line = {{"step", 1},
                             {"prompt", "2 + 3?"},
                             {"completion", messages},
                             {"calls", calls_json(one.calls)},
                             {"spans", one.spans},
                             {"right", 1.0}};
    return base::dump_json(line) + "\n";
  };
  write(1, written(one.messages) +
               written(base::Json{7, nullptr, {{"role", "tool"}}, {{"tool_calls", {1, "x"}}}}));
  CompletionsReader reader(folder_.path());
  const base::Json step = reader.read().steps.at(0);
  EXPECT_EQ(step["columns"], base::Json::array({"right"}));
  const base::Json& said = step["completions"][0][1];
  EXPECT_EQ(said["turns"], (base::Json{{"reasoning", "Add.\nThen look.", "", false, false},
                                       {"call", "{\"a\":2}", "add", false, false},
                                       {"call", "not an object", "look", false, false},
                                       {"result", "5", "add", false, false},
                                       {"result", "{'error': 'gone'}", "look", true, false},
                                       {"said", "So 5, or more.", "", false, false},
                                       {"call", "{\"a\":3}", "add", false, false},
                                       {"result", "too long", "add", false, true}}));
  EXPECT_EQ(said["spans"], one.spans);
  EXPECT_EQ(said["left_out"], 0);
  EXPECT_EQ(step["completions"][0][2], 1.0);
  EXPECT_EQ(step["completions"].size(), 2U) << "what is no dialogue is shown as far as it goes";
}

TEST_F(PageCompletions, ALongDialogueIsCut) {
  base::Json messages = base::Json::array();
  for (int i = 0; i < 50; ++i)
    messages.push_back({{"role", "tool"}, {"name", "look"}, {"content", std::string(2'000, 'r')}});
  base::Json spans = base::Json::array();
  spans.push_back({std::string(90'000, 's'), true});
  write(1, base::dump_json({{"prompt", "p"}, {"completion", messages}, {"spans", spans}}) + "\n");
  CompletionsReader reader(folder_.path(), {.completion_bytes = 4'000});
  const base::Json said = reader.read().steps.at(0)["completions"][0][1];
  EXPECT_EQ(said["turns"].size(), 4U) << "a result has a quarter of the bytes at most";
  EXPECT_EQ(said["left_out"], 46);
  EXPECT_EQ(said["spans"].size(), 1U);
  EXPECT_LT(base::dump_json(said).size(), 9'000U);
}

TEST_F(PageCompletions, ManyFilesAreSampledAtEvenDistancesWithTheNewest) {
  for (std::int64_t step = 1; step <= 100; ++step) write(step, line("p", std::to_string(step), 0));
  CompletionsReader reader(folder_.path(), {.files = 10});
  EXPECT_EQ(steps(reader.read()), (std::vector<std::int64_t>{1, 17, 33, 49, 65, 81, 97, 100}));
  write(101, line("p", "101", 0));
  const CompletionsSample more = reader.read();
  EXPECT_EQ(more.files, 101);
  EXPECT_EQ(steps(more), (std::vector<std::int64_t>{1, 17, 33, 49, 65, 81, 97, 101}));
}

TEST_F(PageCompletions, AFileThatGrewIsReadAgain) {
  write(1, line("p", "a", 0));
  CompletionsReader reader(folder_.path());
  EXPECT_EQ(reader.read().steps[0]["rows"], 1);
  write(1, line("p", "a", 0) + line("p", "b", 0));
  EXPECT_EQ(reader.read().steps[0]["rows"], 2);
}

TEST_F(PageCompletions, AreCutToASize) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += line("p", std::string(10'000, 'x'), 0);
  for (std::int64_t step = 1; step <= 5; ++step) write(step, text);
  CompletionsReader reader(folder_.path(), {.files = 24, .bytes = 100'000});
  const CompletionsSample sample = reader.read();
  std::size_t size = 0;
  for (const base::Json& one : sample.steps) {
    size += base::dump_json(one).size();
    EXPECT_EQ(one["rows"], 100);
    EXPECT_LT(one["completions"].size(), 100U);
  }
  EXPECT_LT(size, 150'000U);
}

TEST_F(PageCompletions, ARunWithoutThemHasNone) {
  CompletionsReader reader(folder_.path() / "absent");
  EXPECT_EQ(reader.read().files, 0);
}

}  // namespace page_read_test
}  // namespace hone::report
