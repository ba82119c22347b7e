// What a run of GRPO says: its line, table, warnings, word on the loss, evaluation and end.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>

#include "base/json.h"
#include "report/rollouts.h"
#include "report/run_report.h"
#include "report/terminal/progress_line.h"
#include "report/terminal/text_width.h"

namespace hone::report {
namespace policy_report_test {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

train::StepFacts facts(std::int64_t step) {
  train::StepFacts out;
  out.step = step;
  out.loss = -1e-8;
  out.grad_norm = 0.2134;
  out.metrics = {{"reward", 0.5312},    {"reward_std", 0.42},
                 {"dead_groups", 0.25}, {"completions/clipped_ratio", 0.03},
                 {"kl", 0.003},         {"completions/mean_length", 14},
                 {"entropy", 0.912},    {"ratio_gap", 2e-7}};
  out.timings = {{"rollout", 1.94}, {"reward", 0}, {"train", 2.1}};
  out.seconds = 4;
  return out;
}

TEST(PolicyLine, HoldsRewardFirstAndWhatExplainsIt) {
  ProgressLine line({});
  EXPECT_EQ(line.text(facts(12), 80),
            "step 12/80  reward 0.531 ±0.42  dead 25%  cut 3%  len 14  entropy 0.91  kl 0.003  gap 2e-7  "
            "grad 0.213  rollout 1.9s reward 0.0s train 2.1s  left 5 min");
  train::StepFacts without_beta = facts(12);
  without_beta.metrics.erase(without_beta.metrics.begin() + 4);
  EXPECT_EQ(line.text(without_beta, 80),
            "step 12/80  reward 0.531 ±0.42  dead 25%  cut 3%  len 14  entropy 0.91  gap 2e-7  loss 0.0000  "
            "grad 0.213  rollout 1.9s reward 0.0s train 2.1s  left 5 min");
}

TEST(PolicyLine, LeavesOutWhatIsNotKnown) {
  train::StepFacts some = facts(12);
  some.metrics = {{"reward", kNaN}, {"reward_std", kNaN}, {"entropy", 1}, {"ratio_gap", kNaN}};
  some.timings.clear();
  ProgressLine line({});
  EXPECT_EQ(line.text(some, 80),
            "step 12/80  reward none  entropy 1.00  loss 0.0000  grad 0.213  left 5 min");
}

TEST(PolicyLine, FitsTheTerminalAndKeepsTheMostImportant) {
  train::StepFacts wide = facts(12345);
  wide.metrics[0].second = -123.4567;
  wide.timings = {{"rollout", 1119}, {"reward", 112}, {"train", 1212}};
  wide.seconds = 4444;
  for (const int columns : {0, 30, 60, 80, 100, 120, 160, 300}) {
    ProgressLine line({.interactive = true, .columns = columns});
    const std::string text = line.text(wide, 80000);
    EXPECT_LE(columns_of(text), columns == 0 || columns > 160 ? 160 : columns - 1) << text;
    if (columns == 0) {
      EXPECT_EQ(text.find("gap"), std::string::npos) << text;
      EXPECT_NE(text.find("train 1212.0s"), std::string::npos) << text;
    }
    if (columns == 60) {
      EXPECT_EQ(text, "step 12345/80000  reward -123.457 ±0.42  left 83516.3 h");
    }
  }
}

class PolicyReport : public testing::Test {
 protected:
  void start(bool table = false, bool interactive = false, std::int64_t first_step = 0) {
    report_ = std::make_unique<RunReport>(out_, Terminal{.interactive = interactive}, false,
                                          CompletionsTableOptions{.table = table});
    train::StartFacts start;
    start.output_dir = folder_.path().string();
    start.first_step = first_step;
    report_->on_start(start);
    out_.str("");
  }
  void log(std::int64_t step, double reward) {
    report_->on_step(facts(step), 40);
    report_->on_log(
        {.step = step, .epoch = 0, .values = {{"loss", 0.0}, {"grad_norm", 0.2}, {"reward", reward}}});
  }
  std::size_t count(const std::string& what) const {
    const std::string text = out_.str();
    std::size_t found = 0;
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
    return found;
  }

  TestFolder folder_{"policy_report"};
  std::ostringstream out_;
  std::unique_ptr<RunReport> report_;
};

TEST_F(PolicyReport, WritesCompletionsAlwaysAndShowsThemOnceWhenAsked) {
  for (const bool table : {false, true}) {
    start(table);
    report_->on_rollout(rollouts(1));
    EXPECT_EQ(out_.str(), "") << "the table waits for the logging step";
    log(1, 0.1);
    log(2, 0.1);
    EXPECT_EQ(count("completions of step 1\n"), table ? 1U : 0U) << out_.str();
    EXPECT_TRUE(base::fs::exists(folder_.path() / "completions" / "completions_00001.jsonl"));
  }
}

TEST_F(PolicyReport, SaysWarningsOnceAndCountsThemAtTheEnd) {
  start();
  train::RolloutFacts facts = rollouts(1);
  facts.warnings = {"score: sample 2: no answer within 30 s", "score: worker 1 died, started again \x1b[2J"};
  for (int i = 0; i < 3; ++i) report_->on_rollout(facts);
  EXPECT_EQ(count("warning   score: sample 2: no answer within 30 s\n"), 1U) << out_.str();
  EXPECT_EQ(count("started again \\x1b[2J\n"), 1U) << out_.str();
  out_.str("");
  report_->on_finish("out", false, 3);
  EXPECT_EQ(out_.str().find("warning   3 times: score: sample 2: no answer within 30 s\n"), 0U) << out_.str();
}

TEST_F(PolicyReport, EndsWithTheRewardOfTheWholeRunAlsoWhenItWasResumed) {
  start();
  for (int step = 1; step <= 20; ++step) log(step, step <= 2 ? 0.1 * step : 0.5);
  report_->on_finish("out", true, 20);
  EXPECT_EQ(count("reward    0.150 -> 0.500 (means of the first and the last 2 of 20 logged)\nstopped"), 1U)
      << out_.str();
  start(false, false, 20);
  for (int step = 21; step <= 40; ++step) log(step, 0.9);
  report_->on_finish("out", false, 40);
  EXPECT_EQ(count("reward    0.325 -> 0.900 (means of the first and the last 4 of 40 logged)\ndone"), 1U)
      << out_.str();
}

TEST_F(PolicyReport, SaysTheRewardOfAnEvaluation) {
  start();
  report_->on_log({.step = 40,
                   .epoch = 1,
                   .values = {{"eval_loss", -1e-9},
                              {"eval_reward", 0.8125},
                              {"eval_reward_std", 0.21},
                              {"eval_completions/clipped_ratio", 0.5},
                              {"eval_completions/mean_length", 7.4}}});
  EXPECT_EQ(out_.str(), "eval at step 40  reward 0.812 ±0.21  cut 50%  len 7  loss 0.0000\n");
  out_.str("");
  report_->on_log(
      {.step = 40, .epoch = 1, .values = {{"eval_loss", kNaN}, {"eval_mean_token_accuracy", 0.5}}});
  EXPECT_EQ(out_.str(), "eval at step 40  loss nan  acc 0.500\n") << "SFT's, whatever comes";
}

}  // namespace policy_report_test
}  // namespace hone::report
