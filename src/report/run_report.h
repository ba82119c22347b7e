// Everything a run says while it goes on: terminal, metrics.jsonl, TensorBoard; of GRPO and RLOO besides:
// completions/ and, where it was asked for, their table at each logging step; the doctor's verdicts as they
// come; warnings, once each and counted at the end; and what became of the reward.
#pragma once

#include <memory>
#include <optional>
#include <ostream>
#include <string>

#include "report/completions_file.h"
#include "report/completions_table.h"
#include "report/metrics_file.h"
#include "report/progress_line.h"
#include "report/tensorboard.h"
#include "report/terminal.h"
#include "report/warnings.h"
#include "train/step_facts.h"

namespace hone::report {

class RunReport final : public train::RunListener {
 public:
  // `out` outlives the report.
  RunReport(std::ostream& out, Terminal terminal, bool tensorboard, CompletionsShown shown = {})
      : out_(out), line_(terminal), tensorboard_(tensorboard), shown_(shown) {}

  void started(const train::StartFacts& facts) override;
  void judged(const base::Verdict& verdict, std::int64_t step) override;
  void rolled_out(const train::RolloutFacts& facts) override;
  void stepped(const train::StepFacts& facts, std::int64_t total_steps) override;
  void logged(const train::LogRecord& record) override;
  void measured(const train::MemoryFacts& facts) override;
  void saved(const std::string& folder, std::int64_t step) override;
  void finished(const std::string& folder, bool interrupted, std::int64_t step) override;

 private:
  void end_live_line();
  void say_evaluation(const train::LogRecord& record);
  void say_logged_step();
  void say_reward_of_the_run();

  std::ostream& out_;
  ProgressLine line_;
  bool tensorboard_;
  CompletionsShown shown_;
  Warnings warnings_;
  std::optional<train::RolloutFacts> to_show_;  // the newest, until its table is shown
  base::fs::path folder_;                       // output_dir
  std::int64_t first_step_ = 0;
  std::unique_ptr<CompletionsFiles> completions_;  // made with the first rollouts
  bool live_ = false;                              // an unfinished line stands in the terminal
  std::string last_line_;                          // of the newest step, for logs
  std::unique_ptr<MetricsFile> metrics_;
  std::unique_ptr<TensorboardWriter> events_;
};

}  // namespace hone::report
