#include "train/loop.h"

#include <ATen/ATen.h>

#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <exception>
#include <limits>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mapped_files.h"
#include "base/retry.h"
#include "base/step_progress.h"
#include "base/stop_request.h"
#include "base/stopwatch.h"
#include "base/where.h"
#include "learn/adamw.h"
#include "learn/schedule.h"
#include "ops/machine/device_memory.h"
#include "parallel/turns.h"
#include "rewards/reward.h"
#include "train/checkpoint.h"
#include "train/guard.h"
#include "train/input_watch.h"
#include "train/layer_steps.h"
#include "train/optimizer.h"
#include "train/run_folder.h"
#include "train/run_sampler.h"
#include "train/same_run.h"
#include "train/shards.h"
#include "train/triggers.h"

namespace hone::train {

namespace {

using base::Clock;
using base::seconds_since;

// The loop's moving parts, so that each action below is a few lines.
class Loop {
 public:
  explicit Loop(LoopParts parts)
      : p_(parts),
        ranks_(p_.ranks == nullptr ? alone_ : *p_.ranks),
        total_steps_(p_.method.total_steps()),
        first_step_(p_.state.step) {
    intervals_ = resolve_intervals(p_.plan, total_steps_);
    schedule_ = schedule_spec(p_.plan, total_steps_);
    begin_plateau();
    if (p_.layer_steps != nullptr) layer_steps_.emplace(*p_.layer_steps, p_.adapter, p_.optimizer);
    using Order = parallel::BinSums::Order;
    if (p_.shards != nullptr) {
      work_.emplace(ranks_, p_.shards->divides_gradients() ? at::Tensor() : p_.adapter.flat_gradient(),
                    p_.shards);
    } else {
      work_.emplace(ranks_, layer_steps_ ? at::Tensor() : p_.adapter.flat_gradient(),
                    p_.adapter.is_full() ? Order::kPlain : Order::kTree);
    }
    p_.method.share(&*work_);
  }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;
  ~Loop() { p_.method.share(nullptr); }

  LoopResult run() {
    try {
      return run_steps();
    } catch (const Interrupted&) {
      measure(/*at_end=*/true);
      return {.interrupted = true, .step = p_.state.step};
    }
  }

 private:
  struct Interrupted {};  // in the middle of a step; the steps before are saved

  LoopResult run_steps() {
    p_.method.resume_after(p_.state.step);
    if (p_.state.step == 0) sample(/*evaluated=*/false);
    if (p_.plan.eval_on_start && p_.state.step == 0 && p_.method.has_evaluation()) evaluate(/*follow=*/false);
    if (p_.state.evaluation_due) evaluate_again();
    bool pause = false;
    while (p_.state.step < total_steps_) {
      const StepFacts facts = step();
      const std::int64_t done = p_.state.step;
      const bool epoch_ends = done % p_.method.steps_per_epoch() == 0;
      const Actions due =
          actions_after(p_.plan, intervals_, done, total_steps_, epoch_ends, p_.method.epoch_after(done));
      if (epoch_ends || due.save) look_at_inputs();
      p_.listener.on_step(facts, total_steps_);
      pause = p_.guard != nullptr && p_.guard->on_step(facts, p_.adapter) == GuardAction::kPause;
      if (done == first_step_ + 1) measure(/*at_end=*/false);
      if (due.log) log(facts);
      const bool evaluates = due.evaluate && p_.method.has_evaluation();
      const bool best = evaluates && evaluate();
      sample(evaluates);
      const bool saves_best = best && p_.plan.save_strategy == config::IntervalStrategy::kBest;
      const Asked asked = agree(facts, pause);
      pause = asked.pause;
      const bool interrupted = (asked.pause || asked.stop) && done < total_steps_;
      if (due.save || saves_best || interrupted) save(/*last=*/interrupted);
      if (interrupted) {
        measure(/*at_end=*/true);
        return {.interrupted = true, .paused = pause, .step = done};
      }
    }
    finish();
    measure(/*at_end=*/true);
    return {.interrupted = false, .paused = pause, .step = p_.state.step};
  }

  struct Asked {
    bool stop = false, pause = false;
  };

  // What all ranks do after a step; ranks whose numbers differ end the run.
  Asked agree(const StepFacts& facts, bool pause) {
    const bool stop = p_.stop_requested.load();
    if (!ranks_.several()) return {.stop = stop, .pause = pause};
    constexpr std::int64_t kHashedSteps = 16;
    const bool hashed = facts.step % kHashedSteps == 0 || facts.step == total_steps_;
    const bool whole = p_.shards == nullptr || !p_.shards->divides_parameters();
    const std::uint32_t hash = hashed && whole ? parameter_hash(p_.adapter) : 0;
    const parallel::Agreed found = ranks_.agree(
        std::array<std::int64_t, 5>{stop ? 1 : 0, pause ? 1 : 0, std::bit_cast<std::int64_t>(facts.loss),
                                    std::bit_cast<std::int64_t>(facts.grad_norm), hash},
        "stop, loss and parameters");
    if (!found.same(2) || !found.same(3) || !found.same(4))
      require_same_step(ranks_, facts.loss, facts.grad_norm, hash);
    return {.stop = found.any[0] != 0, .pause = found.any[1] != 0};
  }

  // ---- timing of a step begins here
  StepFacts step() {
    const auto start = Clock::now();
    const std::int64_t index = p_.state.step;
    ranks_.at_step(index + 1);
    base::where.step.store(index + 1, std::memory_order_relaxed);
    base::end_parts();
    const double learning_rate = rate_of(index);
    const Backward done = layer_steps_           ? step_by_layer(index, learning_rate)
                          : p_.shards != nullptr ? step_divided(index, learning_rate)
                                                 : step_at_once(index, learning_rate);
    p_.method.on_step(index);
    // ---- and ends here
    return account(done.loss, done.grad_norm, learning_rate, seconds_since(start));
  }

  struct Backward {
    StepLoss loss;
    double grad_norm = 0;  // before clipping
  };

  Backward step_at_once(std::int64_t index, double learning_rate) {
    p_.adapter.zero_gradient();
    const StepLoss loss = saving_first([&] { return p_.method.backward(index); });
    if (p_.guard != nullptr) p_.guard->on_backward(index + 1, loss, p_.adapter);
    const double grad_norm = learn::clip_gradient(p_.adapter.flat_gradient(), p_.plan.max_grad_norm);
    require_finite(loss.loss, grad_norm, index);
    p_.optimizer.step(p_.adapter.flat(), p_.adapter.flat_gradient(), learning_rate);
    return {loss, grad_norm};
  }

  // The same, of which each rank does its share.
  Backward step_divided(std::int64_t index, double learning_rate) {
    p_.shards->begin();
    const StepLoss loss = saving_first([&] { return p_.method.backward(index); });
    const double grad_norm = p_.shards->end_gradient(p_.plan.max_grad_norm);
    if (p_.guard != nullptr) p_.guard->on_backward(index + 1, loss, p_.adapter);
    require_finite(loss.loss, grad_norm, index);
    p_.shards->apply(learning_rate);
    return {loss, grad_norm};
  }

  // The same, with the gradients of one layer at a time.
  Backward step_by_layer(std::int64_t index, double learning_rate) {
    Backward out;
    std::optional<float> factor;
    if (p_.plan.max_grad_norm > 0) {
      layer_steps_->measure();
      out = backward_by_layer(index);
      if (p_.guard != nullptr) p_.guard->on_backward(index + 1, out.loss, p_.adapter);
      require_finite(out.loss.loss, out.grad_norm, index);
      factor = learn::clip_factor(out.grad_norm, p_.plan.max_grad_norm);
    }
    layer_steps_->apply(learning_rate, factor);
    Backward last = backward_by_layer(index);
    if (p_.plan.max_grad_norm > 0) return out;
    if (p_.guard != nullptr) p_.guard->on_backward(index + 1, last.loss, p_.adapter);
    return last;
  }

  // Parameters of which some have taken the step are never saved.
  struct CutShort {
    std::exception_ptr error;
  };

  Backward backward_by_layer(std::int64_t index) {
    try {
      return saving_first([&] {
        try {
          const StepLoss loss = p_.method.backward(index);
          return Backward{loss, layer_steps_->finish()};
        } catch (const LayerSteps::NotFinite&) {
          throw;
        } catch (...) {
          if (layer_steps_->has_applied()) throw CutShort{std::current_exception()};
          throw;
        }
      });
    } catch (const LayerSteps::NotFinite&) {
      constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
      require_finite(kNone, kNone, index);
      throw;
    } catch (const CutShort& cut) {
      std::rethrow_exception(cut.error);
    }
  }

  // Since the last log: what metrics.jsonl calls performance.
  struct Spent {
    double seconds = 0;
    std::int64_t steps = 0, tokens = 0;
    std::vector<NamedValue> parts;  // rollout, reward, train; evaluation, save

    void add(std::string_view part, double more) {
      for (auto& [name, spent] : parts) {
        if (name == part) {
          spent += more;
          return;
        }
      }
      parts.emplace_back(part, more);
    }
  };

  std::vector<NamedValue> performance() {
    const double seconds = std::max(spent_.seconds, 1e-9);
    std::vector<NamedValue> out = {
        {"seconds", spent_.seconds},
        {"steps", static_cast<double>(spent_.steps)},
        {"tokens_per_second", static_cast<double>(spent_.tokens) / seconds},
        {"memory_peak", static_cast<double>(ops::device_memory(p_.adapter.flat().device()).peak)}};
    for (const auto& [name, value] : spent_.parts) out.emplace_back(name + "_seconds", value);
    spent_ = {};
    return out;
  }

  void spend(const StepFacts& facts) {
    spent_.seconds += facts.seconds;
    spent_.steps += 1;
    spent_.tokens += facts.tokens_this_step;
    for (const auto& [name, value] : facts.timings) spent_.add(name, value);
    if (facts.timings.empty()) spent_.add("train", facts.seconds);
  }

  StepFacts account(const StepLoss& loss, double grad_norm, double learning_rate, double seconds) {
    RunState& state = p_.state;
    StepFacts facts;
    MetricMeans this_step;
    for (const auto& [name, value] : loss.metrics) {
      this_step.add(name, value);
      state.metrics.add(name, value);
    }
    facts.metrics = this_step.values();
    facts.timings = loss.timings;
    state.step += 1;
    state.num_tokens += loss.tokens;
    state.total_loss += loss.loss;
    state.loss_sum += loss.loss;
    state.steps_since_log += 1;
    facts.step = state.step;
    facts.epoch = p_.method.epoch_after(state.step);
    facts.loss = loss.loss;
    facts.grad_norm = grad_norm;
    facts.learning_rate = learning_rate;
    facts.num_tokens = state.num_tokens;
    facts.tokens_this_step = loss.tokens;
    facts.seconds = seconds;
    spend(facts);
    return facts;
  }

  void require_finite(double loss, double grad_norm, std::int64_t index) {
    if (std::isfinite(loss) && std::isfinite(grad_norm)) return;
    const bool half_done = layer_steps_ && layer_steps_->has_applied();
    layer_steps_.reset();
    const bool divided = p_.shards != nullptr && p_.shards->divides_gradients();
    if (!divided) p_.adapter.hold_gradient();  // the guard replays samples, whose gradients it looks at
    if (p_.guard != nullptr && !divided) p_.guard->on_not_finite(index + 1, loss, grad_norm);
    std::string first_bad;
    for (const auto& tensor : p_.adapter.tensors()) {
      if (!tensor.value.grad().defined() || at::isfinite(tensor.value.grad()).all().item<bool>()) continue;
      first_bad = "; first non-finite gradient: " + tensor.name;
      break;
    }
    throw base::UserError(
        {.where = "step " + std::to_string(index + 1),
         .expected = "a finite loss and gradient",
         .found = "loss " + std::to_string(loss) + ", grad norm " + std::to_string(grad_norm) + first_bad,
         .cause =
             "NUM-02: the learning rate is too high for this data and precision, or the base has bad values",
         .fix = "lower learning_rate, or set dtype: float32 and bf16: false to see whether precision is the "
                "cause; the step was not " +
                std::string(half_done ? "saved" : "applied") + " and earlier checkpoints are complete"});
  }

  void record(const LogRecord& entry) {
    p_.state.log_history.push_back(log_history_entry(entry));
    p_.listener.on_log(entry);
  }

  void log(const StepFacts& facts) {
    RunState& state = p_.state;
    LogRecord entry{.step = state.step, .epoch = facts.epoch, .values = {}};
    entry.values = {{"loss", state.loss_sum / static_cast<double>(state.steps_since_log)},
                    {"grad_norm", facts.grad_norm},
                    {"learning_rate", facts.learning_rate},
                    {"num_tokens", static_cast<double>(state.num_tokens)}};
    for (auto& value : state.metrics.values()) entry.values.push_back(std::move(value));
    state.loss_sum = 0;
    state.steps_since_log = 0;
    state.metrics.clear();
    entry.performance = performance();
    record(entry);
  }

  // The last step that was done is saved before an error ends the run.
  template <typename Call>
  auto saving_first(const Call& call) -> decltype(call()) {
    try {
      std::optional<base::CutScope> cuts;  // of several ranks: in parallel/turns.h
      if (!ranks_.several() && p_.layer_steps == nullptr) cuts.emplace();
      return call();
    } catch (const GuardStop&) {
      throw;
    } catch (const base::StopCut&) {
      if (p_.state.step > 0 && !is_saved()) write_alone();
      throw Interrupted();
    } catch (const rewards::RewardUnavailable&) {
      // Ctrl-C while a reward was waited for: the step that it cut short was not done.
      if (!p_.stop_requested.load() || p_.state.step == 0) throw_saved();
      if (!is_saved()) write_alone();
      throw Interrupted();
    } catch (const base::UserError&) {
      try {
        base::require_readable();  // a truncated file's zeros may be what is wrong
      } catch (const base::UserError&) {
        throw_saved();
      }
      throw_saved();
    } catch (const std::exception&) {
      save_completed();
      throw;
    }
  }

  // Files of the run that somebody changed meanwhile.
  void look_at_inputs() {
    if (p_.inputs == nullptr) return;
    std::vector<std::string> notes = saving_first([&] { return p_.inputs->look(); });
    if (notes.empty() || !ranks_.leads()) return;
    p_.listener.on_rollout({.step = p_.state.step, .warnings = std::move(notes)});
  }

  // The UserError that is being handled, with what became of the last step.
  [[noreturn]] void throw_saved() {
    const auto with_words = [this](const base::UserError& error) {
      base::ErrorText text = error.text();
      const std::string words = save_completed();
      if (!words.empty()) text.fix += (text.fix.empty() ? "" : "; ") + words;
      return text;
    };
    try {
      throw;
    } catch (const parallel::RankFault& fault) {
      throw parallel::RankFault(fault.kind(), fault.ranks(), with_words(fault));
    } catch (const base::UserError& error) {
      throw base::UserError(with_words(error));
    }
  }

  bool is_saved() const {
    return base::fs::exists(checkpoint_path(p_.plan.output_dir, p_.state.step) / kHoneStateFile);
  }

  // What became of it, for the message; empty: no step was done. Never throws: the error that ends the run is
  // the one to be told.
  std::string save_completed() {
    const std::int64_t step = p_.state.step;
    const base::fs::path folder = checkpoint_path(p_.plan.output_dir, step);
    if (step == 0 || !ranks_.leads()) return "";
    const std::string go_on = "continue with --resume_from_checkpoint true";
    try {
      if (is_saved()) return folder.string() + " contains the last step: " + go_on;
      if (p_.shards != nullptr)
        return "step " + std::to_string(step) +
               " was not saved, because every rank has a part of it; earlier checkpoints are complete";
      write_alone();  // no collective: other ranks may be gone
      return "step " + std::to_string(step) + " was saved first, in " + folder.string() + ": " + go_on;
    } catch (const base::UserError& error) {
      return "step " + std::to_string(step) + " could not be saved: " + error.text().where + ": " +
             error.text().found;
    } catch (const std::exception& error) {
      return "step " + std::to_string(step) + " could not be saved: " + error.what();
    }
  }

  // An error cut this step's evaluation short, after which its checkpoint was to be saved.
  void evaluate_again() {
    if (p_.method.has_evaluation()) evaluate();
    sample(/*evaluated=*/true);
    p_.state.evaluation_due = false;
    save(/*last=*/false);
  }

  // The state of a schedule that follows a metric; a resumed run has it, unless learning_rate changed.
  void begin_plateau() {
    std::optional<learn::PlateauState>& plateau = p_.state.plateau;
    if (!learn::follows_metric(schedule_.type)) {
      plateau.reset();
    } else if (!plateau || plateau->initial != p_.plan.learning_rate) {
      plateau = learn::begin_plateau(schedule_.kwargs.plateau, p_.plan.learning_rate);
    }
  }

  double rate_of(std::int64_t index) const {
    if (p_.state.plateau) return p_.state.plateau->rate;
    return p_.plan.learning_rate * learn::schedule_factor(schedule_, index);
  }

  // What an evaluation's metric decides: the rate of a schedule that follows it, and which step is the best so
  // far, which it returns.
  bool follow_metric(const std::vector<NamedValue>& metrics) {
    if (p_.plan.metric_for_best_model.empty()) {
      base::require(!p_.state.plateau, "train::Loop", "the metric that the schedule follows");
      return false;
    }
    const double metric = best_metric_of(p_.plan, metrics);
    if (p_.state.plateau) {
      const auto step =
          schedule_.type == learn::Scheduler::kGreedy ? learn::step_greedy : learn::step_plateau;
      step(*p_.state.plateau, schedule_.kwargs.plateau, metric);
    }
    return see_metric(p_.state.best, p_.plan, metric, p_.state.step);
  }

  // `follow`: its metric is followed. Not that of the one before step 1, as in transformers. Returns whether this
  // step is the best so far.
  bool evaluate(bool follow = true) {
    look_at_inputs();
    const auto start = Clock::now();
    const bool was_due = std::exchange(p_.state.evaluation_due, true);  // in what an error saves
    const std::vector<EvalFacts> sets = saving_first([&] {
      std::vector<EvalFacts> out = p_.method.evaluate_sets();
      if (p_.sampler == nullptr) return out;
      score(out);
      return read_facts<std::vector<EvalFacts>>(
          ranks_.broadcast(write_facts(std::move(out)), "scores of the evaluation"));
    });
    p_.state.evaluation_due = was_due;
    std::vector<NamedValue> all;
    for (const EvalFacts& facts : sets) {
      const LogRecord entry = eval_record(facts);
      all.insert(all.end(), entry.values.begin(), entry.values.end());
      record(entry);
    }
    spent_.add("evaluation", seconds_since(start));
    return follow && saving_first([&] { return follow_metric(all); });
  }

  // Completions of sample_prompts, where they are due.
  void sample(bool evaluated) {
    const bool whole = p_.shards == nullptr || !p_.shards->divides_parameters();
    if (p_.sampler == nullptr || !p_.sampler->is_due(p_.state.step, evaluated)) return;
    if (whole && !ranks_.leads()) return;
    const auto start = Clock::now();
    const auto now = [&] { p_.listener.on_samples(p_.sampler->sample(p_.state.step)); };
    saving_first([&] {
      if (whole) return now();
      p_.shards->reading([&] {
        p_.shards->read_all_parameters();
        now();
      });
    });
    spent_.add("evaluation", seconds_since(start));
  }

  void score(std::vector<EvalFacts>& sets) {
    const auto now = [&] {
      p_.sampler->score(p_.state.step, p_.method.epoch_after(p_.state.step), sets, p_.listener);
    };
    if (p_.shards != nullptr && p_.shards->divides_parameters()) {
      p_.shards->reading([&] {
        p_.shards->read_all_parameters();
        now();
      });
    } else if (ranks_.leads()) {
      now();
    }
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

  void measure(bool at_end) {
    if (p_.planned_memory == 0 || p_.state.step == first_step_) return;
    p_.listener.on_memory({.step = p_.state.step,
                           .peak = ops::device_memory(p_.adapter.flat().device()).peak,
                           .planned = p_.planned_memory,
                           .at_end = at_end});
  }

  CheckpointParts checkpoint_parts() {
    facts_ = {.max_steps = total_steps_,
              .logging_steps = intervals_.logging,
              .eval_steps = intervals_.eval,
              .save_steps = intervals_.save,
              .train_batch_size = p_.plan.per_device_train_batch_size,
              .num_train_epochs = p_.plan.num_train_epochs,
              .epoch = p_.method.epoch_after(p_.state.step),
              .best_model_checkpoint = best_folder().string()};
    StateFiles files = p_.method.state_files();
    if (p_.guard != nullptr) {
      for (auto& file : p_.guard->state_files()) files.push_back(std::move(file));
    }
    return {.adapter = p_.adapter,
            .optimizer = p_.optimizer,
            .state = p_.state,
            .facts = facts_,
            .plan = p_.plan,
            .tokenizer = p_.tokenizer,
            .method_files = std::move(files),
            .best = {},
            .shards = p_.shards};
  }

  // Empty: none yet.
  base::fs::path best_folder() const {
    const std::int64_t step = p_.state.best.saved;
    return step == 0 ? base::fs::path() : checkpoint_path(p_.plan.output_dir, step);
  }

  // Storage that does not answer ends no run that goes on: the next checkpoint may be saved.
  void save(bool last) {
    const BestCheckpoint before = p_.state.best;
    note_saved(p_.state.best, p_.plan.output_dir, p_.state.step);
    const auto write = [&] {
      try {
        write_checkpoint();
      } catch (const base::StorageGone& gone) {
        if (last) throw;
        p_.state.best = before;
        p_.listener.on_rollout({.step = p_.state.step, .warnings = {not_saved(gone.text())}});
      }
    };
    by_rank_0(write, "checkpoint");
  }

  std::string not_saved(const base::ErrorText& why) const {
    return "step " + std::to_string(p_.state.step) + " was not saved: " + why.where + ": " + why.found +
           "; the run goes on, and earlier checkpoints are complete";
  }

  // `write` by rank 0, which reads what other ranks keep.
  void by_rank_0(const std::function<void()>& write, std::string_view what) {
    const auto share = [&] {
      if (p_.shards != nullptr) {
        p_.shards->reading(write);
      } else if (ranks_.leads()) {
        write();
      }
    };
    parallel::all_or_none(ranks_, share, what);
  }

  // Without the other ranks.
  void write_alone() {
    if (!ranks_.leads() || p_.shards != nullptr) return;
    note_saved(p_.state.best, p_.plan.output_dir, p_.state.step);
    write_checkpoint();
  }

  void write_checkpoint() {
    const auto start = Clock::now();
    base::begin_part("saving a checkpoint", "", 0);
    base::retry_storage([&] { save_checkpoint(p_.plan.output_dir, checkpoint_parts()); });
    const std::string folder = checkpoint_path(p_.plan.output_dir, p_.state.step).string();
    base::where.checkpoint.store(p_.state.step, std::memory_order_relaxed);
    if (p_.guard != nullptr) p_.guard->on_save(folder, p_.state.step);
    try {
      base::retry_storage([&] { rotate(); });
    } catch (const base::StorageGone& gone) {  // of what is removed, not of what was saved
      p_.listener.on_rollout({.step = p_.state.step,
                              .warnings = {"earlier checkpoints were not removed: " + gone.text().where +
                                           ": " + gone.text().found}});
    }
    base::end_parts();
    spent_.add("save", seconds_since(start));
    p_.listener.on_save(folder, p_.state.step);
  }

  void rotate() {
    rotate_checkpoints(p_.plan.output_dir, {.keep = p_.plan.save_total_limit,
                                            .written = p_.state.step,
                                            .pinned = p_.guard != nullptr ? p_.guard->pinned_step() : -1,
                                            .best = p_.state.best.saved > 0 ? p_.state.best.saved : -1});
  }

  // The record of the end of the finished run that this one only repeats: nothing was left to do.
  bool has_earlier_end() {
    const base::fs::path path = base::fs::path(p_.plan.output_dir) / kTrainerStateFile;
    if (p_.state.step > first_step_ || !base::fs::exists(path)) return false;
    try {
      const base::Json earlier = base::parse_json(base::read_text(path), path.string());
      if (!earlier.is_object() || earlier.value("global_step", base::Json()) != p_.state.step) return false;
      const base::Json log = earlier.value("log_history", base::Json::array());
      if (!log.is_array() || log.empty() || !log.back().contains("train_runtime")) return false;
      p_.state.log_history.push_back(log.back());
      return true;
    } catch (const base::UserError&) {  // no JSON: it is replaced
      return false;
    }
  }

  void finish() {
    by_rank_0([this] { write_result(); }, "result");
  }

  void write_result() {
    // A run that was stopped between its last save and what save_total_limit removes after it.
    if (p_.state.step == first_step_ && is_saved()) rotate();
    if (!has_earlier_end()) record_end();
    CheckpointParts parts = checkpoint_parts();
    if (p_.plan.load_best_model_at_end) parts.best = best_folder();
    base::retry_storage([&] { publish_final(p_.plan.output_dir, parts); });
    // transformers, too, keeps only the best of a limit of one; its trainer_state.json is at the top.
    if (!parts.best.empty() && p_.plan.save_total_limit == 1) {
      rotate_checkpoints(p_.plan.output_dir, {.keep = 1, .written = p_.state.best.saved});
    }
  }

  // What the steps after the last log measured, as TRL's trainers have it in a run's last record. The loss is
  // in train_loss.
  void add_unlogged(LogRecord& entry) const {
    const RunState& state = p_.state;
    if (state.steps_since_log == 0) return;
    for (const auto& [name, value] : state.metrics.values()) entry.values.emplace_back(name, value);
    entry.values.emplace_back("num_tokens", static_cast<double>(state.num_tokens));
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
    add_unlogged(entry);
    record(entry);
  }

  LoopParts p_;
  parallel::OneRank alone_;
  parallel::Ranks& ranks_;
  std::optional<SharedWork> work_;
  std::optional<LayerSteps> layer_steps_;
  std::int64_t total_steps_;
  std::int64_t first_step_;
  Intervals intervals_;
  learn::ScheduleSpec schedule_;
  TrainerStateFacts facts_;
  Spent spent_;
  Clock::time_point started_ = Clock::now();
};

}  // namespace

LoopResult run_loop(LoopParts parts) {
  return Loop(parts).run();
}

}  // namespace hone::train
