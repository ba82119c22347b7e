#include "train/loop/loop.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "base/error.h"
#include "base/process/stop_request.h"
#include "base/step_progress.h"
#include "base/stopwatch.h"
#include "base/where.h"
#include "ops/machine/device_memory.h"
#include "train/loop/guard.h"
#include "train/loop/run_rate.h"
#include "train/loop/run_sampler.h"
#include "train/loop/run_saves.h"
#include "train/loop/shards.h"
#include "train/loop/step_account.h"
#include "train/loop/triggers.h"
#include "train/opening/input_watch.h"
#include "train/opening/same_run.h"
#include "train/passes/moving_reference.h"

namespace hone::train {

namespace {

using base::Clock;
using base::seconds_since;

// The loop's moving parts, so that each action below is a few lines.
class Loop {
 public:
  explicit Loop(const LoopParts& parts)
      : p_(parts),
        total_steps_(p_.method.total_steps()),
        first_step_(p_.state.step),
        intervals_(resolve_intervals(p_.plan, total_steps_)),
        rate_(p_.plan, p_.state, total_steps_),
        account_(p_.state),
        saves_(p_, intervals_, account_),
        work_(p_.ranks, p_.adapter.flat_gradient(),
              p_.adapter.is_full() ? parallel::BinSums::Order::kPlain : parallel::BinSums::Order::kTree,
              p_.steps.shards()) {
    p_.method.share(&work_);
  }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;
  ~Loop() { p_.method.share(nullptr); }

  LoopResult run() {
    try {
      LoopResult out = run_steps();
      measure(/*at_end=*/true);
      return out;
    } catch (const base::StopCut&) {  // in the middle of a step; the steps before are saved
      measure(/*at_end=*/true);
      return {.interrupted = true, .step = p_.state.step};
    }
  }

 private:
  LoopResult run_steps() {
    p_.method.resume_after(p_.state.step);
    if (p_.state.step == 0) sample(/*evaluated=*/false);
    if (p_.plan.eval_on_start && p_.state.step == 0 && p_.method.has_evaluation()) evaluate(/*follow=*/false);
    if (p_.state.evaluation_due) evaluate_again();
    bool pause = false;
    while (p_.state.step < total_steps_) {
      const StepFacts facts = step();
      const std::int64_t done = p_.state.step;
      const Actions due = due_after(done);
      p_.listener.on_step(facts, total_steps_);
      pause = p_.guard != nullptr && p_.guard->on_step(facts, p_.adapter) == GuardAction::kPause;
      if (done == first_step_ + 1) measure(/*at_end=*/false);
      if (due.log) record(account_.log(facts, static_cast<double>(memory_peak())));
      const bool evaluates = due.evaluate && p_.method.has_evaluation();
      const bool best = evaluates && evaluate();
      sample(evaluates);
      const Asked asked = agree(facts, pause);
      pause = asked.pause;
      const bool interrupted = (asked.pause || asked.stop) && done < total_steps_;
      const bool saves_best = best && p_.plan.save_strategy == config::IntervalStrategy::kBest;
      if (due.save || saves_best || interrupted) saves_.save(/*last=*/interrupted);
      if (interrupted) return {.interrupted = true, .paused = pause, .step = done};
    }
    saves_.finish([this] { record_end(); });
    return {.interrupted = false, .paused = pause, .step = p_.state.step};
  }

  // Looks at the inputs where an epoch ends and before a checkpoint.
  Actions due_after(std::int64_t done) {
    const bool epoch_ends = done % p_.method.steps_per_epoch() == 0;
    const Actions due =
        actions_after(p_.plan, intervals_, done, total_steps_, epoch_ends, p_.method.epoch_after(done));
    if (epoch_ends || due.save) look_at_inputs();
    return due;
  }

  // ---- a step

  StepFacts step() {
    const auto start = Clock::now();
    const std::int64_t index = p_.state.step;
    p_.ranks.at_step(index + 1);
    base::where.step.store(index + 1, std::memory_order_relaxed);
    base::end_parts();
    const double learning_rate = rate_.of_step(index);
    const auto guard = [&](const StepLoss& loss) {
      if (p_.guard != nullptr) p_.guard->on_backward(index + 1, loss, p_.adapter);
    };
    const auto backward = [&] { return saves_.saving_first([&] { return p_.method.backward(index); }); };
    const StepResult done = p_.steps.step({.backward = backward, .seen = guard}, learning_rate);
    if (!done.is_finite()) end_not_finite(done, index);
    p_.method.on_step(index);
    if (p_.reference != nullptr) p_.reference->after_step(index + 1);
    StepFacts facts = account_.add(done, learning_rate, seconds_since(start));
    facts.epoch = p_.method.epoch_after(p_.state.step);
    return facts;
  }

  [[noreturn]] void end_not_finite(const StepResult& done, std::int64_t index) {
    const double loss = done.loss.loss;
    // the guard replays samples, whose gradients it looks at
    if (p_.steps.end_with_gradients() && p_.guard != nullptr)
      p_.guard->on_not_finite(index + 1, loss, done.grad_norm);
    std::string first_bad;
    for (const auto& tensor : p_.adapter.tensors()) {
      if (!tensor.value.grad().defined() || at::isfinite(tensor.value.grad()).all().item<bool>()) continue;
      first_bad = "; first non-finite gradient: " + tensor.name;
      break;
    }
    throw base::UserError(
        {.where = "step " + std::to_string(index + 1),
         .expected = "a finite loss and gradient",
         .found =
             "loss " + std::to_string(loss) + ", grad norm " + std::to_string(done.grad_norm) + first_bad,
         .cause =
             "NUM-02: the learning rate is too high for this data and precision, or the base has bad values",
         .fix = "lower learning_rate, or set dtype: float32 and bf16: false to see whether precision is the "
                "cause; the step was not " +
                std::string(done.changed ? "saved" : "applied") + " and earlier checkpoints are complete"});
  }

  struct Asked {
    bool stop = false, pause = false;
  };

  // What all ranks do after a step; ranks whose numbers differ end the run.
  Asked agree(const StepFacts& facts, bool pause) {
    const bool stop = p_.stop_requested.load();
    if (!p_.ranks.several()) return {.stop = stop, .pause = pause};
    constexpr std::int64_t kHashedSteps = 16;
    const bool hashed = facts.step % kHashedSteps == 0 || facts.step == total_steps_;
    const std::uint32_t hash = hashed && !p_.steps.divides_parameters() ? parameter_hash(p_.adapter) : 0;
    const parallel::Agreed found = p_.ranks.agree(
        std::array<std::int64_t, 5>{stop ? 1 : 0, pause ? 1 : 0, std::bit_cast<std::int64_t>(facts.loss),
                                    std::bit_cast<std::int64_t>(facts.grad_norm), hash},
        "stop, loss and parameters");
    if (!found.same(2) || !found.same(3) || !found.same(4))
      require_same_step(p_.ranks, facts.loss, facts.grad_norm, hash);
    return {.stop = found.any[0] != 0, .pause = found.any[1] != 0};
  }

  // Files of the run that somebody changed meanwhile.
  void look_at_inputs() {
    if (p_.inputs == nullptr) return;
    std::vector<std::string> notes = saves_.saving_first([&] { return p_.inputs->look(); });
    if (notes.empty() || !p_.ranks.leads()) return;
    p_.listener.on_rollout({.step = p_.state.step, .warnings = std::move(notes)});
  }

  // ---- evaluation

  // An error cut this step's evaluation short, after which its checkpoint was to be saved.
  void evaluate_again() {
    if (p_.method.has_evaluation()) evaluate();
    sample(/*evaluated=*/true);
    p_.state.evaluation_due = false;
    saves_.save(/*last=*/false);
  }

  // `follow`: its metric is followed. Not that of the one before step 1, as in transformers. Returns whether this
  // step is the best so far.
  bool evaluate(bool follow = true) {
    look_at_inputs();
    const auto start = Clock::now();
    const bool was_due = std::exchange(p_.state.evaluation_due, true);  // in what an error saves
    const std::vector<EvalFacts> sets = saves_.saving_first([&] {
      std::vector<EvalFacts> out = p_.method.evaluate_sets();
      if (p_.sampler == nullptr) return out;
      score(out);
      return read_facts<std::vector<EvalFacts>>(
          p_.ranks.broadcast(write_facts(std::move(out)), "scores of the evaluation"));
    });
    p_.state.evaluation_due = was_due;
    std::vector<NamedValue> all;
    for (const EvalFacts& facts : sets) {
      const LogRecord entry = eval_record(facts);
      all.insert(all.end(), entry.values.begin(), entry.values.end());
      record(entry);
    }
    account_.spend("evaluation", seconds_since(start));
    return follow && saves_.saving_first([&] { return rate_.follow(all); });
  }

  // Completions of sample_prompts, where they are due.
  void sample(bool evaluated) {
    if (p_.sampler == nullptr || !p_.sampler->is_due(p_.state.step, evaluated)) return;
    if (!p_.steps.divides_parameters() && !p_.ranks.leads()) return;
    const auto start = Clock::now();
    const auto now = [&] { p_.listener.on_samples(p_.sampler->sample(p_.state.step)); };
    saves_.saving_first([&] { with_all_parameters(now); });
    account_.spend("evaluation", seconds_since(start));
  }

  void score(std::vector<EvalFacts>& sets) {
    with_all_parameters(
        [&] { p_.sampler->score(p_.state.step, p_.method.epoch_after(p_.state.step), sets, p_.listener); });
  }

  // `call` by rank 0, which has or gets all parameters.
  void with_all_parameters(const std::function<void()>& call) {
    if (!p_.steps.divides_parameters()) {
      if (p_.ranks.leads()) call();
      return;
    }
    p_.steps.reading(p_.ranks, [&] {
      p_.steps.read_all_parameters();
      call();
    });
  }

  LogRecord eval_record(const EvalFacts& facts) const {
    LogRecord entry{.step = p_.state.step, .epoch = p_.method.epoch_after(p_.state.step), .values = {}};
    const std::string prefix = facts.set.empty() ? "eval_" : "eval_" + facts.set + "_";
    const double seconds = facts.seconds > 0 ? facts.seconds : 1e-9;
    for (const auto& [name, value] : facts.metrics) entry.values.emplace_back(prefix + name, value);
    entry.values.insert(entry.values.end(),
                        {{prefix + "runtime", facts.seconds},
                         {prefix + "samples_per_second", static_cast<double>(facts.rows) / seconds},
                         {prefix + "steps_per_second", static_cast<double>(facts.batches) / seconds},
                         {"eval_num_tokens", static_cast<double>(p_.state.num_tokens)}});
    return entry;
  }

  // ---- what is told

  void record(const LogRecord& entry) {
    p_.state.log_history.push_back(log_history_entry(entry));
    p_.listener.on_log(entry);
  }

  void record_end() {
    const double runtime = seconds_since(started_);
    const auto steps = static_cast<double>(std::max<std::int64_t>(1, p_.state.step - first_step_));
    const double rows = steps * static_cast<double>(p_.plan.per_device_train_batch_size) *
                        static_cast<double>(p_.plan.accumulation());
    LogRecord entry{.step = p_.state.step, .epoch = p_.method.epoch_after(p_.state.step), .values = {}};
    entry.values = {
        {"train_runtime", runtime},
        {"train_samples_per_second", rows / runtime},
        {"train_steps_per_second", steps / runtime},
        {"total_flos", 0.0},
        {"train_loss", p_.state.total_loss / static_cast<double>(std::max<std::int64_t>(1, p_.state.step))}};
    account_.add_unlogged(entry);
    record(entry);
  }

  std::int64_t memory_peak() const { return ops::device_memory(p_.adapter.flat().device()).peak; }

  void measure(bool at_end) {
    if (p_.planned_memory == 0 || p_.state.step == first_step_) return;
    p_.listener.on_memory(
        {.step = p_.state.step, .peak = memory_peak(), .planned = p_.planned_memory, .at_end = at_end});
  }

  LoopParts p_;
  std::int64_t total_steps_;
  std::int64_t first_step_;
  Intervals intervals_;
  RunRate rate_;
  StepAccount account_;
  RunSaves saves_;
  SharedWork work_;
  Clock::time_point started_ = Clock::now();
};

}  // namespace

LoopResult run_loop(const LoopParts& parts) {
  return Loop(parts).run();
}

}  // namespace hone::train
