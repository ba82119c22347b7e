#include "doctor/watch/watch.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/error.h"
#include "base/json.h"
#include "base/process/process_memory.h"
#include "base/where.h"
#include "config/method_traits.h"
#include "doctor/excluded.h"
#include "doctor/fault_report.h"
#include "doctor/number_format.h"
#include "doctor/watch/loss_table.h"
#include "doctor/watch/not_finite.h"
#include "doctor/watch/watch_limits.h"
#include "train/facts/product_facts.h"
#include "train/opening/run_view.h"
#include "train/saves/run_folder.h"

namespace hone::doctor {

namespace {

using base::Level;
using base::Verdict;
using config::OnFault;

constexpr double kSecondsOfProducts = 0.1;
constexpr auto kAskAgain = std::chrono::milliseconds(500);
constexpr double kNearTheTop = 0.9;  // of the way from the lowest to the highest reward seen

// Faults after which a later checkpoint may be worse than an earlier one.
bool harms_the_model(const std::string& code) {
  return code.starts_with("NUM-") || code == "RL-07" || code == "RL-08" || code == "RL-10" ||
         code == "PREF-02";
}

bool is_policy(const config::Plan& plan) {
  return config::method_traits(plan.method).groups;
}

double metric_or(const std::vector<train::NamedValue>& values, std::string_view name, double otherwise) {
  for (const auto& [key, value] : values) {
    if (key == name) return value;
  }
  return otherwise;
}

// Where a crash's report goes when the next run begins.
base::fs::path earlier(const base::fs::path& report) {
  return report.parent_path() / ("earlier-" + report.filename().string());
}

// The new names.
std::vector<base::fs::path> set_aside_crashes(const base::fs::path& folder) {
  std::vector<base::fs::path> found, out;
  std::error_code error;
  for (const auto& entry : base::fs::directory_iterator(folder, error)) {
    if (entry.path().filename().string().starts_with(train::kCrashPrefix)) found.push_back(entry.path());
  }
  for (const base::fs::path& one : found) {
    base::fs::rename(one, earlier(one), error);
    if (!error) out.push_back(earlier(one));
  }
  return out;
}

bool all_dead(const std::vector<train::NamedValue>& values) {
  bool known = false, dead = true;
  for (const auto& [key, value] : values) {
    if (key != "dead_groups") continue;
    known = true;
    dead = dead && value >= 1;
  }
  return known && dead;
}

// Of the whole run.
std::int64_t generation_batches(const train::StartFacts& start) {
  const auto* policy = std::get_if<train::PolicyStartFacts>(&start.method);
  return start.total_steps / std::max<std::int64_t>(1, policy == nullptr ? 1 : policy->steps_per_batch);
}

}  // namespace

// ---- what the report receives

void Watch::on_start(const train::StartFacts& facts) {
  report_.on_start(facts);
  // A checkpoint of another folder is none that this run could go on from by its number.
  const auto here = train::checkpoint_steps(facts.output_dir);
  const bool resumed_here = std::find(here.begin(), here.end(), facts.first_step) != here.end();
  healthy_checkpoint_ = facts.first_step > 0 && resumed_here ? facts.first_step : -1;
  base::where.checkpoint.store(healthy_checkpoint_, std::memory_order_relaxed);
  state_ = running_here();
  state_.total_steps = facts.total_steps;
  state_.step = facts.first_step;
  state_.checkpoint = healthy_checkpoint_;
}

void Watch::on_rollout(const train::RolloutFacts& facts) {
  report_.on_rollout(facts);
  if (!rewards_) return;
  if (!before_ && facts.step > state_.step)
    before_ = {rewards_, saturation_, depth_, tools_, reported_, suspected_};
  tell(rewards_->see(facts), facts.step);
  tell(saturation_->see(facts), facts.step);
  tell(depth_.see(facts.kl), facts.step);
  if (tools_) tell(tools_->see(facts), facts.step);
}

void Watch::on_step(const train::StepFacts& facts, std::int64_t total_steps) {
  report_.on_step(facts, total_steps);
  newest_ = facts;
}

void Watch::on_log(const train::LogRecord& record) {
  report_.on_log(record);
  if (run_ && !run_->samples()) tell(overfit_.see(record.step, record.values), record.step);
  const bool of_a_step = std::any_of(record.values.begin(), record.values.end(),
                                     [](const auto& one) { return one.first == "loss"; });
  if (!of_a_step || loss_explained_ || !run_ || !is_policy(run_->plan)) return;
  const auto facts = loss_facts(newest_, run_->plan.policy.beta, rows_);
  if (!facts) return;
  LossFacts known = *facts;
  known.masks_truncated = run_->plan.policy.mask_truncated_completions;
  if (rewards_) known.place = place_of(known.reward, rewards_->lowest(), rewards_->highest());
  Verdict words = loss_verdict(known);
  if (words.what.empty()) return;
  loss_explained_ = true;
  // One step proves nothing yet; the windows of watch_rewards.h do.
  words.level = Level::kNote;
  if (!reported_.contains(words.code)) report_.on_verdict(words, record.step);
}

void Watch::on_save(const std::string& folder, std::int64_t step) {
  report_.on_save(folder, step);
  state_.checkpoint = step;
  if (!suspected_) healthy_checkpoint_ = step;
  if (running_) running_->update(state_);
}

void Watch::on_finish(const std::string& folder, bool interrupted, std::int64_t step) {
  running_.reset();
  if (!base_.empty()) check_base(step);
  if (pause_wanted_) write_fault(interrupted ? "pause" : "end", step);
  report_.on_finish(folder, interrupted, step);
}

// NUM-06: what is frozen has the bits that it began with.
void Watch::check_base(std::int64_t step) {
  const std::string changed = first_change(base_, base_fingerprint(*run_->model));
  if (changed.empty()) return;
  Verdict found{.code = "NUM-06",
                .level = Level::kFail,
                .part = "run",
                .what = "the frozen base has changed since the start",
                .evidence = "first in " + changed,
                .cause = "something wrote to it: a bug in hone or a defect of this machine's memory",
                .cost = "the adapter was trained on a changing base"};
  ask_to_report(found, Excluded().add("your options and data", "none of them may write to a frozen weight"));
  report_.on_verdict(found, step);
}

// ---- the seat in the loop

void Watch::begin(const train::RunView& run) {
  run_.emplace(run);
  const config::Plan& plan = run.plan;
  rows_ = plan.per_device_train_batch_size * plan.accumulation();
  const bool resumed = run.resume_state->state.step > 0;  // resume() knows more
  tensors_.emplace(run.resume_state->state.step);
  // -p log p rises while a target's p grows to 1/e
  const bool rises = run.has_examples() && plan.sft.loss_type == "dft";
  trend_.emplace(run.start.warmup_steps, !config::samples(plan.method) && !rises, resumed);
  preference_ = PreferenceWatch(resumed, plan.sync_ref_model);
  overfit_.recall(run.resume_state->state.log_history);
  if (!config::samples(plan.method)) spikes_.emplace(run.start.steps_per_epoch);
  if (config::samples(plan.method) && config::method_traits(plan.method).rewarded) {
    rewards_.emplace(plan.policy.num_generations, plan.policy.reward_weights,
                     plan.policy.mask_truncated_completions, resumed);
    saturation_.emplace(generation_batches(run.start), plan.policy.reward_weights);
  }
  if (run.samples() && run.sampled().tools != nullptr) {
    tools_.emplace(ToolWatch::Setup{.group_size = plan.policy.num_generations,
                                    .most_rounds = plan.acting.max_tool_calling_iterations,
                                    .failures_to_stop = plan.acting.tool_failures_to_stop,
                                    .most_tokens = plan.policy.max_completion_length});
  }
  if (!config::samples(plan.method)) {
    pace_.emplace(run.start.products,
                  [this] { return train::product_gflops(*run_->model, kSecondsOfProducts); });
  }
  if (is_policy(plan)) {
    policy_.emplace(
        PolicyWatch::Setup{.beta = plan.policy.beta,
                           .rows = rows_,
                           .masks_truncated = plan.policy.mask_truncated_completions,
                           .bf16 = run.model->dtypes().linear == at::kBFloat16,
                           .exact_kernels = has_exact_kernels(run),
                           .uniform = std::log(static_cast<double>(run.model->config().vocab_size))});
  }
  if (!plan.skip_doctor) base_ = base_fingerprint(*run.model);
  resume();
  report_last_run();
  running_.emplace(run.directory.output_dir(), state_);
}

void Watch::on_gradients(std::int64_t step, const train::StepLoss& loss, const adapters::Adapter& adapter) {
  if (!std::isfinite(loss.loss)) return;  // on_not_finite() comes
  // With a KL term rows of dead groups are computed, and give exactly nothing while B is 0.
  live_ = loss.live_rows < 0 ? !all_dead(loss.metrics) : loss.live_rows > 0;
  const bool had_samples =
      is_policy(run_->plan) ? metric_or(loss.metrics, "skipped_rows", 0) < static_cast<double>(rows_) && live_
                            : loss.loss != 0;
  tell(tensors_->on_backward(step, adapter, had_samples), step);
  tell(depth_.see(loss.kl), step);
}

void Watch::on_not_finite(std::int64_t step, double loss, double grad_norm) {
  RunPast past{.rate_warning = rate_warning_};
  if (trend_) past.usual_norm = trend_->usual_norm(), past.newest = trend_->newest_norm();
  Verdict found = diagnose_not_finite(*run_, step, loss, grad_norm, past);
  suspected_ = true;
  report_.on_verdict(found, step);
  failures_.push_back(found);
  stop(found, step);
}

train::GuardAction Watch::after_step(const train::StepFacts& facts, const adapters::Adapter& adapter) {
  const double reward = metric_or(facts.metrics, "reward", last_reward_);
  if (std::isfinite(reward)) last_reward_ = reward;
  Findings found = tensors_->on_step(facts.step, adapter, facts.learning_rate);
  const auto join = [&found](Findings more) {
    found.insert(found.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  };
  if (policy_) join(policy_->see(facts, reward_near_max(), live_));
  join(trend_->see(facts));
  if (spikes_) join(spikes_->see(facts.step, facts.loss));
  join(preference_.see(facts));
  if (pace_) join(pace_->see(facts));
  state_.step = facts.step;
  state_.resident = base::process_memory().resident;
  // Several files of the kernel's: too slow for steps of a millisecond.
  const auto now = std::chrono::steady_clock::now();
  if (state_.free == 0 || now - asked_free_ > kAskAgain) {
    state_.free = base::free_memory();
    asked_free_ = now;
  }
  join(memory_.see(facts.step, run_->start.total_steps, state_.resident, state_.free));
  if (running_) running_->update(state_);
  tell(std::move(found), facts.step);
  before_.reset();
  if (facts.step % limits::kCheckEvery == 0) {
    const Verdict bad = check_adapter_finite(adapter);
    if (bad.level == Level::kFail) {
      report_.on_verdict(bad, facts.step);
      failures_.push_back(bad);
      stop(bad, facts.step);
    }
  }
  return pause_wanted_ ? train::GuardAction::kPause : train::GuardAction::kContinue;
}

// ---- telling

void Watch::tell(Findings found, std::int64_t step) {
  for (Finding& one : found) tell(std::move(one), step);
}

void Watch::tell(Finding found, std::int64_t step) {
  name_options_of(run_->plan, found.verdict);
  drop_what_is_set(run_->plan, found.verdict);
  const Level level = found.verdict.level;
  const auto [told, is_new] = reported_.emplace(found.key, level);
  if (!is_new && level <= told->second) return;
  told->second = level;
  if (level >= Level::kWarn && harms_the_model(found.verdict.code)) suspected_ = true;
  note_rate_warning(found.verdict);
  report_.on_verdict(found.verdict, step);
  if (level != Level::kFail) return;
  failures_.push_back(found.verdict);
  if (on_fault_ == OnFault::kPause) pause_wanted_ = true;
  if (on_fault_ == OnFault::kStop) stop(found.verdict, step);
}

void Watch::stop(const Verdict& verdict, std::int64_t step) {
  write_fault("stop", step);
  running_.reset();  // this end is explained
  const std::string left = healthy_checkpoint_ >= 0 ? "; the last healthy checkpoint is of step " +
                                                          std::to_string(healthy_checkpoint_)
                                                    : "; there is no checkpoint yet";
  throw train::GuardStop({.where = "step " + std::to_string(step),
                          .expected = "a run without " + verdict.code,
                          .found = verdict.what + (verdict.evidence.empty() ? "" : ": " + verdict.evidence),
                          .cause = verdict.cause,
                          .fix = verdict.fix + left});
}

void Watch::write_fault(const char* kind, std::int64_t step) const {
  if (!run_) return;
  write_fault_report(run_->directory.output_dir(),
                     {.kind = kind,
                      .step = step,
                      .total_steps = state_.total_steps,
                      .checkpoint = state_.checkpoint,
                      .healthy_checkpoint = suspected_ ? healthy_checkpoint_ : state_.checkpoint,
                      .verdicts = failures_});
}

// A process that was killed could say nothing; this one says it. A report of a pause has been read by now,
// and that of a crash is no longer why the run in this folder ended.
void Watch::report_last_run() {
  const base::fs::path& folder = run_->directory.output_dir();
  std::error_code ignored;
  base::fs::remove(folder / train::kFaultFile, ignored);
  const auto last = read_running(folder);
  const std::vector<base::fs::path> crashes = set_aside_crashes(folder);
  if (!last) return;
  const Fate fate = fate_of(*last);
  // Output folders are locked: who wrote it is gone, even where its number is another process's by now.
  const Fate ended = fate == Fate::kAlive ? Fate::kKilled : fate;
  const base::fs::path report = earlier(crash_report_path(folder, last->pid));
  const bool crashed = std::find(crashes.begin(), crashes.end(), report) != crashes.end();
  report_.on_verdict(
      {.code = ended == Fate::kMemory ? "MEM-02" : "",
       .level = Level::kWarn,
       .part = "run",
       .what = crashed ? "the last run here crashed at step " + std::to_string(last->step)
                       : describe_fate(*last, ended),
       .evidence = crashed ? report.string() : "it left hone-running.json",
       .cause = ended == Fate::kMemory ? "the machine's memory was used up" : "",
       .fix = crashed ? "run `hone explain` with this file"
              : ended == Fate::kMemory
                  ? "lower per_device_train_batch_size or max_length, or set memory_limit below what was free"
                  : "nothing, if you killed it"},
      run_->resume_state->state.step);
}

void Watch::note_rate_warning(const Verdict& verdict) {
  const bool warns = verdict.code == "NUM-08" && verdict.level >= Level::kWarn;
  if (warns && rate_warning_.empty()) rate_warning_ = verdict.what;
}

bool Watch::reward_near_max() const {
  if (!rewards_) return false;
  if (rewards_->highest() <= rewards_->lowest()) {
    return rewards_->past_unknown() && place_of(last_reward_, 0, 0) == RewardPlace::kHighest;
  }
  return last_reward_ >= rewards_->lowest() + kNearTheTop * (rewards_->highest() - rewards_->lowest());
}

}  // namespace hone::doctor
