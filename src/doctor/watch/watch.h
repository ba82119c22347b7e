// The doctor during a run: it receives every event of the report (and forwards it) and is a guard of the
// loop. Each finding is reported once through RunListener::on_verdict, and again only when it gets worse; a
// failure warns, pauses or stops the run (on_fault). From the first suspicion the last healthy checkpoint is
// kept.
//
//   doctor::Watch watch(report, plan.on_fault);
//   const auto run = train::open_run(plan, watch);
//   const train::LoopResult result = train::begin_run(*run, watch, stop_requested, &watch.guard());
//   if (result.paused) ... watch.failures()
//
// A resumed run continues with the watch's state from the checkpoint (watch_state.h): it is treated as if it
// had not been stopped. With on_fault pause or stop, a failure that was already reported needs new evidence.
//
// Thresholds and their sources: watch_limits.h. It watches these:
//   watch_rewards.h  RL-02 RL-03 RL-04 RL-07 RL-08      of generation batches
//   saturation_watch.h  RL-07                           of each reward by itself
//   depth_watch.h    RL-19                              of the KL in each part of the completions
//   watch_tools.h    TOOL-03 TOOL-06 to TOOL-11         of dialogues with tools
//   watch_steps.h    RL-08 RL-10 GRAD-02 NUM-08 MEM-02 PREF-01 PREF-02   of a step's numbers
//   overfit_watch.h  NUM-11                             of evaluations
//   spike_watch.h    NUM-13                             of the loss of each step
//   pace_watch.h     ENV-03                             of the time of a step
//   tensor_watch.h   GRAD-02 GRAD-05                    of tensors, at steps 1 to 3 and every 50th
//   not_finite.h     NUM-02                             by tensor, layer and sample
//   loss_table.h     RL-01                              what a loss of 0 means: once, at the first log
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/verdict.h"
#include "config/plan.h"
#include "doctor/probes/probe_state.h"
#include "doctor/running_file.h"
#include "doctor/watch/depth_watch.h"
#include "doctor/watch/finding.h"
#include "doctor/watch/overfit_watch.h"
#include "doctor/watch/pace_watch.h"
#include "doctor/watch/saturation_watch.h"
#include "doctor/watch/spike_watch.h"
#include "doctor/watch/tensor_watch.h"
#include "doctor/watch/watch_rewards.h"
#include "doctor/watch/watch_steps.h"
#include "doctor/watch/watch_tools.h"
#include "train/facts/step_facts.h"
#include "train/loop/guard.h"

namespace hone::doctor {

class Watch final : public train::RunListener {
 public:
  // `report` outlives the watch, the watch the run.
  Watch(train::RunListener& report, config::OnFault on_fault) : report_(report), on_fault_(on_fault) {}

  train::RunGuard& guard() { return guard_adapter_; }

  // The failures that made it pause or stop, in order.
  const std::vector<base::Verdict>& failures() const { return failures_; }
  // Something is wrong with the model itself: a later checkpoint may be worse than the healthy one (its step;
  // -1: there is none).
  bool harmed() const { return suspected_; }
  std::int64_t healthy_checkpoint() const { return healthy_checkpoint_; }

  void on_start(const train::StartFacts& facts) override;
  void on_verdict(const base::Verdict& verdict, std::int64_t step) override {
    note_rate_warning(verdict);
    report_.on_verdict(verdict, step);
  }
  void on_rollout(const train::RolloutFacts& facts) override;
  void on_samples(const train::SampleFacts& facts) override { report_.on_samples(facts); }
  void on_step(const train::StepFacts& facts, std::int64_t total_steps) override;
  void on_log(const train::LogRecord& record) override;
  void on_memory(const train::MemoryFacts& facts) override { report_.on_memory(facts); }
  void on_save(const std::string& folder, std::int64_t step) override;
  void on_finish(const std::string& folder, bool interrupted, std::int64_t step) override;

 private:
  // A listener and a guard have functions of the same name.
  class GuardAdapter final : public train::RunGuard {
   public:
    explicit GuardAdapter(Watch& watch) : watch_(watch) {}
    void before_first_step(const train::RunView& run) override { watch_.begin(run); }
    void on_backward(std::int64_t step, const train::StepLoss& loss,
                     const adapters::Adapter& adapter) override {
      watch_.on_gradients(step, loss, adapter);
    }
    void on_not_finite(std::int64_t step, double loss, double grad_norm) override {
      watch_.on_not_finite(step, loss, grad_norm);
    }
    train::GuardAction on_step(const train::StepFacts& facts, const adapters::Adapter& adapter) override {
      return watch_.after_step(facts, adapter);
    }
    train::StateFiles state_files() const override { return watch_.state_files(); }
    std::int64_t pinned_step() const override { return watch_.suspected_ ? watch_.healthy_checkpoint_ : -1; }

   private:
    Watch& watch_;
  };

  // MEM-02 concerns one process, and is reported in each.
  static constexpr const char* kMemoryKey = "MEM-02";

  void begin(const train::RunView& run);
  void resume();
  void restore_state(const base::Json& state);  // BadWatchState
  train::StateFiles state_files() const;
  bool is_here(std::int64_t checkpoint) const;  // in output_dir
  void on_gradients(std::int64_t step, const train::StepLoss& loss, const adapters::Adapter& adapter);
  [[noreturn]] void on_not_finite(std::int64_t step, double loss, double grad_norm);
  train::GuardAction after_step(const train::StepFacts& facts, const adapters::Adapter& adapter);
  void tell(Findings found, std::int64_t step);
  void tell(Finding found, std::int64_t step);
  [[noreturn]] void stop(const base::Verdict& verdict, std::int64_t step);
  void write_fault(const char* kind, std::int64_t step) const;
  void report_last_run();
  void note_rate_warning(const base::Verdict& verdict);
  bool reward_near_max() const;
  void check_base(std::int64_t step);

  GuardAdapter guard_adapter_{*this};
  train::RunListener& report_;
  config::OnFault on_fault_;
  std::optional<train::RunView> run_;                   // from begin() on
  using Reported = std::map<std::string, base::Level>;  // Finding::key -> its level
  Reported reported_;
  std::vector<base::Verdict> failures_;
  bool pause_wanted_ = false;
  bool suspected_ = false;                // something is wrong with the model itself
  std::int64_t healthy_checkpoint_ = -1;  // the newest one before the first suspicion
  bool loss_explained_ = false;
  std::string rate_warning_;           // what the first NUM-08 said
  std::vector<PartFingerprint> base_;  // at the start of the run; empty with skip_doctor
  train::StepFacts newest_;
  std::int64_t rows_ = 0;  // of an optimizer step
  bool live_ = true;       // samples of the step that is being made have an advantage
  double last_reward_ = 0;

  std::optional<RunningFile> running_;
  RunningState state_;
  std::chrono::steady_clock::time_point asked_free_;
  std::optional<TensorWatch> tensors_;
  std::optional<PaceWatch> pace_;
  std::optional<RewardWatch> rewards_;
  std::optional<SaturationWatch> saturation_;
  DepthWatch depth_;
  std::optional<ToolWatch> tools_;
  // The state before the current step received its rollouts. A checkpoint that is saved after an error in
  // this step stores it, since the step is repeated.
  struct BeforeRollouts {
    std::optional<RewardWatch> rewards;
    std::optional<SaturationWatch> saturation;
    DepthWatch depth;
    std::optional<ToolWatch> tools;
    Reported told;
    bool suspected = false;
  };
  std::optional<BeforeRollouts> before_;
  std::optional<PolicyWatch> policy_;
  std::optional<TrendWatch> trend_;
  MemoryWatch memory_;
  PreferenceWatch preference_;
  OverfitWatch overfit_;
  std::optional<SpikeWatch> spikes_;  // of methods whose loss measures progress
};

}  // namespace hone::doctor
