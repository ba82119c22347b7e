// Probe P5 (docs/design.md): one batch, over and over: whatever is wrong that no other probe has a name for.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "data/records/packing.h"
#include "doctor/examination.h"
#include "doctor/excluded.h"
#include "doctor/probes/probe_state.h"
#include "train/loop/optimizer.h"
#include "train/loop/step_strategy.h"
#include "train/opening/memory_inputs.h"
#include "train/passes/scored_pass.h"

namespace hone::doctor {

namespace {

using base::Level;

constexpr double kEnough = 0.5, kNothing = 0.05;        // of the first loss
constexpr std::size_t kOverfitRows = 3;                 // of methods other than SFT
constexpr double kOverfitRates[] = {2e-3, 1e-2, 3e-2};  // tried in turn, each from the start

// The same few rows each time: a loss, its gradient in the adapter. Other methods than SFT learn a few of
// their prompts or chosen answers by heart: their own losses are of something else, or of the sampling
// compute again.
class OneBatch {
 public:
  // `rows` > 0: that many, without the method.
  explicit OneBatch(const train::RunView& run, std::size_t rows = 0)
      : run_(run), form_(train::pass_form(run.start.memory)), by_method_(rows == 0 && run.has_examples()) {
    if (by_method_) return;
    const std::vector<data::Record> examples =
        short_examples(run, rows == 0 ? kOverfitRows : rows, kOverfitTokens);
    if (examples.empty()) return;
    std::vector<std::int64_t> row(examples.size());
    std::iota(row.begin(), row.end(), 0);
    batch_ = data::make_batch(examples, data::PackedRows({row}), {0});
  }

  // Mean -log p of the scored tokens. Adds its gradient.
  double loss() {
    if (by_method_) {
      const train::Rehearsal found = run_.method->rehearse(
          {.max_tokens = std::min(kOverfitTokens, rehearsal_tokens(*run_.model)), .training = false});
      scored_ = found.scored;
      return found.nll;
    }
    scored_ = train::scored_tokens(batch_);
    if (scored_ == 0) return 0;
    const auto n = static_cast<double>(scored_);
    return train::score_and_backward(*run_.model, batch_, {}, n, form_).nll_sum / n;
  }
  std::int64_t scored() const { return scored_; }

 private:
  const train::RunView run_;
  train::PassForm form_;
  bool by_method_;
  data::Batch batch_;
  std::int64_t scored_ = 0;
};

struct OverfitRun {
  double first = 0, least = 0, rate = 0;
  std::int64_t steps = 0;
};

OverfitRun overfit_batch(const train::RunView& run, OneBatch& batch, double rate) {
  config::OptimizerPlan plan = run.plan;  // AdamW whatever `optim` is, without decay
  plan.optim = learn::OptimizerKind::kAdamW;
  plan.weight_decay = 0;
  learn::Optimizer optimizer = train::make_optimizer(plan, *run.adapter);
  train::WholeStep steps(*run.adapter, /*max_grad_norm=*/1, optimizer);
  OverfitRun out{.rate = rate};
  for (std::int64_t step = 0; step <= kOverfitSteps; ++step) {
    double loss = 0;
    const auto backward = [&]() -> train::StepLoss {
      loss = batch.loss();
      return {.loss = loss};
    };
    const bool finite = steps.step({.backward = backward}, rate).is_finite();
    if (step == 0) out.first = out.least = loss;
    if (!std::isfinite(loss)) break;
    out.least = std::min(out.least, loss);
    out.steps = step;
    if (!finite || out.least <= kEnough * out.first) break;
  }
  return out;
}

// The best of the rates; of a batch without targets there is none.
OverfitRun best_overfit(const train::RunView& run, OneBatch& batch, StateGuard& guard) {
  OverfitRun best;
  for (const double rate : kOverfitRates) {
    const OverfitRun found = overfit_batch(run, batch, rate);
    guard.restore_parameters();
    if (batch.scored() == 0) return {};
    if (best.rate == 0 || found.least < best.least) best = found;
    if (best.least <= kEnough * best.first) break;
  }
  return best;
}

std::string describe_drop(const OverfitRun& one) {
  return number(one.first) + " -> " + number(one.least);
}

}  // namespace

Verdicts probe_overfit(const train::RunView& run) {
  StateGuard guard(run);
  OneBatch batch(run);
  const OverfitRun best = best_overfit(run, batch, guard);
  if (batch.scored() == 0)
    return {{.level = Level::kNote, .what = "no batch to overfit: no row of the data has targets"}};
  const double drop = 1 - best.least / best.first;
  const std::string what =
      "the loss of " + grouped(batch.scored()) + " tokens overfitted: " + describe_drop(best);
  const std::string evidence = number(100 * drop) + " % in " + std::to_string(best.steps) +
                               " steps at learning rate " + number(best.rate) + " on a copy";
  if (drop >= kEnough) return {{.what = what, .evidence = evidence}};
  const bool nothing = !(drop >= kNothing);
  // Rows that begin alike and go on differently keep a loss; a row alone has no such rest.
  OneBatch alone(run, 1);
  const OverfitRun of_one = best_overfit(run, alone, guard);
  const bool learned = alone.scored() > 0 && of_one.least <= kEnough * of_one.first;
  if (learned && !nothing)
    return {{.what = what,
             .evidence = evidence + "; a row alone " + describe_drop(of_one) +
                         ": the rest is of rows that begin alike and go on differently"}};
  Excluded excluded;
  excluded.add("learning_rate", "the probe uses three rates of its own");
  if (!learned && alone.scored() > 0)
    excluded.add("rows that contradict each other", "a row alone " + describe_drop(of_one));
  return {
      {.code = "GRAD-08",
       // A loss that falls a little is of these few rows; one that does not move at all is of the weights.
       .level = best.least < best.first ? Level::kWarn : Level::kFail,
       .what = what,
       .evidence = evidence + "; 50 % are usual",
       .cause = nothing ? "suspected: updates do not reach the weights that the loss uses"
                        : "suspected: too few or too small adapters for this base",
       .not_this = excluded.text(),
       .fix = nothing ? report_fix(excluded) : "lora_target_modules: all-linear, or a higher lora_r",
       .cost = "a loss that hardly changes"}};
}

}  // namespace hone::doctor
