// All output of a run: terminal, metrics.jsonl, TensorBoard; for GRPO and RLOO also completions/ and, if
// requested, their table at each logging step; the doctor's verdicts; warnings, each once and counted at the
// end; and the change of the reward.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "report/completions_file.h"
#include "report/completions_table.h"
#include "report/metrics_file.h"
#include "report/reward_output.h"
#include "report/samples_file.h"
#include "report/tensorboard.h"
#include "report/terminal/progress_line.h"
#include "report/terminal/run_follower.h"
#include "report/terminal/step_ticker.h"
#include "report/terminal/terminal.h"
#include "report/terminal/warnings.h"
#include "train/facts/step_facts.h"

namespace hone::report {

class RunReport final : public train::RunListener {
 public:
  // `out` outlives the report.
  RunReport(std::ostream& out, Terminal terminal, bool tensorboard, CompletionsTableOptions shown = {})
      : out_(out), line_(terminal), tensorboard_(tensorboard), shown_(shown) {}

  ~RunReport() override;

  // From now to on_finish() a thread shows how far a long step is, and what comes before the first (step_ticker.h).
  void show_progress_in_steps();
  // An examination follows the start page, and tells of the data what the page would.
  void leave_data_to_examination() { examined_ = true; }
  // Tells it what this is told, from start_followers() on, and prints what it says.
  void add_follower(std::unique_ptr<RunFollower> follower) { followers_.push_back(std::move(follower)); }
  // After on_start, when the run has been examined: of one that is refused, nothing is sent to anybody.
  void start_followers();

  void on_start(const train::StartFacts& facts) override;
  void on_verdict(const base::Verdict& verdict, std::int64_t step) override;
  void on_rollout(const train::RolloutFacts& facts) override;
  void on_samples(const train::SampleFacts& facts) override;
  void on_step(const train::StepFacts& facts, std::int64_t total_steps) override;
  void on_log(const train::LogRecord& record) override;
  void on_memory(const train::MemoryFacts& facts) override;
  void on_save(const std::string& folder, std::int64_t step) override;
  void on_finish(const std::string& folder, bool interrupted, std::int64_t step) override;

 private:
  using Clock = std::chrono::steady_clock;
  using Lock = std::lock_guard<std::recursive_mutex>;  // followers speak while they are told something

  void tick();
  void note_event() { last_event_ = last_tick_ = Clock::now(); }
  void end_live_line();
  RunFollower::Say say_line();
  template <typename Tell>
  void tell_followers(const Tell& tell) {
    if (!following_) return;
    for (const auto& follower : followers_) tell(*follower);
  }
  void print_evaluation(const train::LogRecord& record);
  void print_logged_step();
  void print_run_reward();

  std::ostream& out_;
  ProgressLine line_;
  bool tensorboard_;
  bool full_ = false;  // the whole model is trained
  CompletionsTableOptions shown_;
  Warnings warnings_;
  std::optional<train::RolloutFacts> to_show_;  // the newest, until its table is shown
  base::fs::path folder_;                       // output_dir
  std::int64_t first_step_ = 0;
  std::unique_ptr<CompletionsFiles> completions_;  // created with the first rollouts
  std::optional<RewardOutput> printed_;
  std::optional<SamplesFile> samples_;
  bool peak_told_ = false;  // that it is above the plan
  bool live_ = false;       // the terminal shows an unfinished line
  bool passing_ = false;    // which says how far a step is, and is not to stay
  std::string last_line_;   // of the newest step, for logs
  std::unique_ptr<MetricsFile> metrics_;
  std::unique_ptr<TensorboardWriter> events_;
  std::vector<std::unique_ptr<RunFollower>> followers_;
  std::optional<train::StartFacts> start_;                              // for followers that were not started
  std::vector<std::pair<base::Verdict, std::int64_t>> early_verdicts_;  // for them too, with their steps
  bool following_ = false;
  std::recursive_mutex mutex_;  // of all above: the ticker's thread writes too
  bool examined_ = false;
  std::int64_t total_steps_ = 0;
  Clock::time_point last_event_, last_tick_;
  std::int64_t ticked_step_ = 0;  // at the last tick: the time of a step does not hold what was before it
  std::unique_ptr<StepTicker> ticker_;  // last: its thread ends first
};

}  // namespace hone::report
