// What a run shows of rewards' output, of a step that takes long, and in a narrow terminal.
#include <gtest/gtest.h>

#include <chrono>
#include <sstream>
#include <thread>

#include "base/step_progress.h"
#include "base/where.h"
#include "report/completions_table.h"
#include "report/metrics_file.h"
#include "report/reward_output.h"
#include "report/rollouts.h"
#include "report/run_report.h"
#include "report/terminal/start_page.h"
#include "report/terminal/step_ticker.h"
#include "report/terminal/text_width.h"

namespace hone::report {
namespace long_step_test {

TEST(RewardOutput, IsShownInPartAndKeptWhole) {
  const TestFolder folder("rewards_log");
  RewardOutput output(folder.path(), 0);
  EXPECT_EQ(output.take(rollouts(3), 0), "");
  EXPECT_FALSE(base::fs::exists(folder.path() / "rewards.log")) << "nothing was printed";
  train::RolloutFacts facts = rollouts(3);
  std::string eleven;
  for (int i = 1; i <= 11; ++i) eleven += "line " + std::to_string(i) + "\n";
  facts.printed = {{.reward = "loud", .first = 0, .count = 4, .text = "10 %\r50 %\r100 %\n\x1b[2Jclear\n"},
                   {.reward = "loud", .first = 7, .count = 1, .text = eleven}};
  const std::string shown = output.take(facts, 60);
  EXPECT_EQ(shown.substr(0, shown.find("          line 1\n")),
            "print     loud, step 3, samples 0 to 3\n"
            "          100 %\n"
            "          \\x1b[2Jclear\n"
            "print     loud, step 3, sample 7\n");
  EXPECT_NE(shown.find("          line 10\n          ... 1 more line in " + folder.path().string()),
            std::string::npos)
      << shown;
  const std::string kept = base::read_text(folder.path() / "rewards.log");
  EXPECT_EQ(kept.find("loud, step 3, samples 0 to 3\n10 %\r50 %\r100 %\n"), 0U) << kept;
  EXPECT_NE(kept.find("line 11\n"), std::string::npos);
  RewardOutput resumed(folder.path(), 3);
  EXPECT_EQ(base::read_text(folder.path() / "rewards.log"), kept) << "a resumed run goes on in it";
}

TEST(StepTicker, SaysWhichPartOfAStepRuns) {
  base::where.step.store(3);
  base::begin_part("sampling", "completions", 8);
  base::advance_part();
  EXPECT_EQ(step_progress_text(80, 4.6), "step 3/80  sampling 1 of 8 completions  5 s");
  base::begin_part("training", "micro-batches", 1);
  EXPECT_EQ(step_progress_text(80, 4.6), "step 3/80  training 0 of 1 micro-batch  5 s");
  base::begin_part("sampling", "completions", 1);
  EXPECT_EQ(step_progress_text(80, 4.6), "step 3/80  sampling 0 of 1 completion  5 s");
  base::begin_part("waiting for rewards", "", 0);
  EXPECT_EQ(step_progress_text(80, 61), "step 3/80  waiting for rewards  1 min 01 s");
  base::end_parts();
  base::where.step.store(0);
  EXPECT_EQ(step_progress_text(80, 3), "before step 1  3 s");
}

TEST(StepTicker, ALongStepIsSeenInATerminalAndLeavesNothing) {
  const TestFolder folder("ticker");
  std::ostringstream out;
  RunReport report(out, {.interactive = true, .columns = 60}, false);
  report.show_progress_in_steps();
  train::StartFacts start;
  start.output_dir = folder.path().string();
  start.total_steps = 9;
  report.on_start(start);
  base::where.step.store(2);
  base::begin_part("training", "micro-batches", 4);
  std::this_thread::sleep_for(std::chrono::milliseconds(3300));
  report.on_finish(folder.path().string(), false, 9);
  base::end_parts();
  base::where.step.store(0);
  const std::string text = out.str();
  EXPECT_NE(text.find("\r\x1b[Kstep 2/9  training 0 of 4 micro-batches  "), std::string::npos) << text;
  EXPECT_NE(text.find("\r\x1b[Kdone "), std::string::npos) << "the line is written over: " << text;
}

TEST(MetricsFile, WhatDiffersFromRunToRunIsABlockOfItsOwn) {
  const TestFolder folder("performance");
  MetricsFile file(folder.path() / "metrics.jsonl", 0);
  file.write(
      {.step = 1, .epoch = 0.5, .values = {{"loss", 2.5}}, .performance = {{"seconds", 1.5}, {"steps", 2}}});
  EXPECT_EQ(base::read_text(folder.path() / "metrics.jsonl"),
            "{\"step\":1,\"epoch\":0.5,\"loss\":2.5,\"performance\":{\"seconds\":1.5,\"steps\":2.0}}\n");
}

TEST(CompletionsTable, ShowsTheUsersTurnOfAConversation) {
  train::RolloutFacts facts = rollouts(1);
  for (auto& completion : facts.completions) {
    completion.prompt = "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n" + completion.prompt;
    completion.asked = "And 2 + 3?";
  }
  const std::string table = completions_table(facts, {}, {});
  EXPECT_NE(table.find("  prompt  And 2 + 3?\n"), std::string::npos) << table;
  EXPECT_EQ(table.find("Be brief"), std::string::npos) << table;
}

TEST(StartPage, OneIsNotPluralAndNoWordIsBrokenAt60Columns) {
  train::StartFacts facts;
  facts.total_steps = 1;
  facts.output_dir = "out";
  train::ExampleStartFacts rows;
  rows.data.kept = 1;
  rows.data.rows_losing_eos = 1;
  facts.method = rows;
  facts.notes = {
      "use_vllm: hone samples with the trainer's own weights: nothing is copied to another engine"};
  const std::string wide = start_page(facts, {});
  EXPECT_NE(wide.find("data      1 row, "), std::string::npos) << wide;
  EXPECT_NE(wide.find("1 row lost its end-of-sequence token when it was cut"), std::string::npos) << wide;
  EXPECT_NE(wide.find("run       1 step ("), std::string::npos) << wide;
  const std::string narrow = start_page(facts, {.interactive = true, .columns = 60});
  std::istringstream lines(narrow);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(columns_of(line), 60) << line;
  EXPECT_NE(narrow.find("          weights: nothing is copied to another engine"), std::string::npos)
      << narrow;
}

// What the doctor says of the data, with its cause, the page does not say before it.
TEST(StartPage, LeavesTheDataToAnExamination) {
  train::StartFacts facts;
  train::ExampleStartFacts rows;
  rows.data.kept = 10;
  rows.packed_rows = 1;
  rows.data.rows_cut = 3;
  rows.data.tokens_cut = 1;
  rows.data.rows_without_target = 2;
  facts.method = rows;
  const std::string alone = start_page(facts, {}), examined = start_page(facts, {}, true);
  EXPECT_NE(alone.find("3 rows cut at max_length (1 token lost)"), std::string::npos) << alone;
  EXPECT_NE(alone.find("2 rows dropped"), std::string::npos) << alone;
  for (const char* told : {"rows cut", "rows dropped"})
    EXPECT_EQ(examined.find(told), std::string::npos) << examined;
  EXPECT_NE(examined.find("1 packed row (bfd)"), std::string::npos) << "is no fault: " << examined;
  train::PreferenceStartFacts pairs;
  pairs.data.kept = 10;
  pairs.data.equal = 1;
  pairs.data.mean_chosen = 20;
  pairs.data.mean_rejected = 10;
  facts.method = pairs;
  EXPECT_NE(start_page(facts, {}).find("PREF-01"), std::string::npos);
  EXPECT_EQ(start_page(facts, {}, true).find("PREF-0"), std::string::npos);
}

}  // namespace long_step_test
}  // namespace hone::report
