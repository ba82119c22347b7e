// Probe P5 (docs/design.md): one batch, over and over: whatever is wrong that no other probe has a name for.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "data/packing.h"
#include "doctor/examination.h"
#include "doctor/probes/probe_state.h"
#include "train/memory_inputs.h"
#include "train/optimizer.h"
#include "train/scored_pass.h"

namespace hone::doctor {

namespace {

using base::Level;

constexpr double kEnough = 0.5, kNothing = 0.05;        // of the first loss
constexpr double kOverfitRates[] = {2e-3, 1e-2, 3e-2};  // tried in turn, each from the start

// The same few rows each time: a loss, its gradient in the adapter. Other methods than SFT learn a few of
// their prompts or chosen answers by heart: their own losses are of something else, or of the sampling
// compute again.
class OneBatch {
 public:
  explicit OneBatch(train::OpenedRun& run) : run_(run), form_(train::pass_form(run.start.memory)) {
    if (run.has_examples()) return;
    const std::vector<data::Example> examples = short_examples(run, 3, kOverfitTokens);
    if (examples.empty()) return;
    data::PackedRow row;
    for (std::size_t i = 0; i < examples.size(); ++i) row.members.push_back(static_cast<std::int64_t>(i));
    batch_ = data::make_batch(examples, {row}, {0});
  }

  // Mean -log p of the scored tokens.
  double loss() {
    run_.adapter->zero_gradient();
    if (run_.has_examples()) {
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
  train::OpenedRun& run_;
  train::PassForm form_;
  data::Batch batch_;
  std::int64_t scored_ = 0;
};

struct OverfitRun {
  double first = 0, least = 0, rate = 0;
  std::int64_t steps = 0;
};

OverfitRun overfit_batch(train::OpenedRun& run, OneBatch& batch, double rate) {
  learn::AdamWState moments = learn::AdamWState::zeros_like(run.adapter->flat());
  learn::AdamWOptions options = train::adamw_options(run.plan);
  options.weight_decay = 0;
  OverfitRun out{.rate = rate};
  for (std::int64_t step = 0; step <= kOverfitSteps; ++step) {
    const double loss = batch.loss();
    if (step == 0) out.first = out.least = loss;
    if (!std::isfinite(loss)) break;
    out.least = std::min(out.least, loss);
    out.steps = step;
    if (out.least <= kEnough * out.first) break;
    learn::clip_gradient(run.adapter->flat_gradient(), 1);
    learn::adamw_step(run.adapter->flat(), run.adapter->flat_gradient(), moments, options, rate);
  }
  return out;
}

}  // namespace

Verdicts probe_overfit(train::OpenedRun& run) {
  StateGuard guard(run);
  OneBatch batch(run);
  OverfitRun best;
  for (const double rate : kOverfitRates) {
    const OverfitRun found = overfit_batch(run, batch, rate);
    guard.restore_parameters();
    if (batch.scored() == 0) {
      return {{.level = Level::kNote, .what = "no batch to overfit: no row of the data has targets"}};
    }
    if (best.rate == 0 || found.least < best.least) best = found;
    if (best.least <= kEnough * best.first) break;
  }
  const double drop = 1 - best.least / best.first;
  const std::string what = "the loss of " + grouped(batch.scored()) +
                           " tokens overfitted: " + number(best.first) + " -> " + number(best.least);
  const std::string evidence = number(100 * drop) + " % in " + std::to_string(best.steps) +
                               " steps at learning rate " + number(best.rate) + " on a copy";
  if (drop >= kEnough) return {{.what = what, .evidence = evidence}};
  const bool nothing = !(drop >= kNothing);
  return {{.code = "GRAD-08",
           .level = nothing ? Level::kFail : Level::kWarn,
           .what = what,
           .evidence = evidence + "; 50 % are usual",
           .cause = nothing ? "suspected: updates do not reach the weights that the loss uses"
                            : "suspected: too few or too small adapters for this base",
           .not_this = "the data or the learning rate of the run: the probe uses a few rows and three rates "
                       "of its own",
           .fix = nothing ? "please report this with `hone env`"
                          : "lora_target_modules: all-linear, or a higher lora_r",
           .cost = "a loss that hardly changes"}};
}

}  // namespace hone::doctor
