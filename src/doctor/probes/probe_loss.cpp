// Probe P3 (docs/design.md): loss identities.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "data/records/packing.h"
#include "doctor/attempt.h"
#include "doctor/checks/check_parts.h"
#include "doctor/examination.h"
#include "doctor/excluded.h"
#include "doctor/probes/first_loss.h"
#include "doctor/probes/loss_identities.h"
#include "doctor/probes/probe_state.h"
#include "doctor/probes/rewards/likelier_side.h"
#include "train/methods/methods.h"
#include "train/opening/memory_inputs.h"

namespace hone::doctor {

namespace {

using base::Level;

constexpr double kReference = 1e-3;       // of ln 2: bf16 kernels may differ in their last places
constexpr std::int64_t kLossTokens = 48;  // of two rows
constexpr train::RehearsalRequest kLook = {.max_tokens = 64, .backward = false, .training = false};

// Of mean |d log p|, 1 - cosine, and the relative difference of the norms (NUM-04, NUM-05).
struct Bounds {
  double logprob, cosine, norm;
};

Bounds bounds_of(const model::CausalLm& model) {
  return model.dtypes().linear == at::kFloat ? Bounds{1e-4, 1e-4, 1e-3} : Bounds{1e-2, 1e-3, 2e-2};
}

void judge_first_loss(const train::RunView& run, const train::Rehearsal& first, const ScoredPass& pass,
                      Verdicts& out) {
  const double uniform = std::log(static_cast<double>(run.model->config().vocab_size));
  const double share = first.nll / uniform;
  const bool own_words = run.samples();  // it scores what it has sampled itself
  const std::string what =
      (own_words ? "the model gives its own completions a loss of " : "the first loss is ") +
      number(first.nll) + ", ln V is " + number(uniform);
  if (first.scored > 0 && !std::isfinite(first.nll)) {
    out.push_back({.code = "NUM-02",
                   .level = Level::kFail,
                   .what = what,
                   .evidence = "not finite over " + grouped(first.scored) + " tokens",
                   .cause = "suspected: values overflow in this precision",
                   .fix = "dtype: float32 with bf16: false, to see whether precision is the cause",
                   .cost = "the whole run"});
    return;
  }
  if (run.model->score_head().defined()) {
    out.push_back({.code = "NUM-02",
                   .what = "the first loss is " + number(first.nll) +
                           ", ln 2 = 0.693 is that of a head without a preference"});
    return;
  }
  if (share <= kPretrained) {
    out.push_back({.code = "NUM-02", .what = what, .evidence = number(share) + " of it"});
    return;
  }
  append(out, attempt("numerics: first loss", [&]() -> Verdicts {
           return {judge_high_loss(measure_first_loss(run, pass, first.nll, first.scored))};
         }));
}

struct Gradient {
  std::vector<at::Tensor> values;
  double nll = 0;
};

double dot(const std::vector<at::Tensor>& one, const std::vector<at::Tensor>& other) {
  double sum = 0;
  for (std::size_t i = 0; i < one.size(); ++i)
    sum += (one[i].to(at::kDouble) * other[i].to(at::kDouble)).sum().item<double>();
  return sum;
}

void judge_packing(const train::RunView& run, const ScoredPass& pass, Verdicts& out) {
  const std::vector<data::Record> examples = short_examples(run, 2, kLossTokens);
  if (examples.size() < 2) return;
  adapters::Adapter& adapter = *run.adapter;
  const Bounds bounds = bounds_of(*run.model);
  const data::Batch together = batch_of(examples), first = batch_of({examples[0]}),
                    second = batch_of({examples[1]});
  const auto n = static_cast<double>(train::scored_tokens(together));
  constexpr std::int64_t kGradientCopies = 6;  // two gradients, and fp64 for a while
  const std::vector<bool> looked_at = spread_tensors(adapter, spread_elements(run, kGradientCopies));
  const auto gradient_of = [&](const std::vector<const data::Batch*>& micro_batches) {
    adapter.zero_gradient();
    Gradient found;
    for (const data::Batch* batch : micro_batches) found.nll += pass(*batch, n).nll_sum;
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < looked_at.size(); ++i) {
      const std::int64_t size = adapter.tensors()[i].value.numel();
      if (looked_at[i]) found.values.push_back(adapter.flat_gradient().narrow(0, offset, size).clone());
      offset += size;
    }
    return found;
  };
  const Gradient packed = gradient_of({&together}), alone = gradient_of({&first, &second});
  const auto of_second = static_cast<double>(train::scored_tokens(second));
  const double shift = std::abs(packed.nll - alone.nll) / of_second;
  if (shift <= bounds.logprob) {
    out.push_back({.code = "NUM-04",
                   .what = "a row has the same loss alone and packed after another row",
                   .evidence = "mean |d log p| " + number(shift) + ", bound " + number(bounds.logprob)});
  } else {
    const Excluded excluded = Excluded()
                                  .add("padding", "hone has none")
                                  .add("the rows", "their tokens are the same in both passes");
    out.push_back({.code = "NUM-04",
                   .level = Level::kFail,
                   .what = "a row's loss depends on the rows that it is packed with",
                   .evidence = "mean |d log p| " + number(shift) + " over " + number(of_second) +
                               " tokens, bound " + number(bounds.logprob),
                   .cause = "attention or positions leak from one row of a batch into the next",
                   .not_this = excluded.text(),
                   .fix = report_fix(excluded, "layer_form: plain uses libtorch's attention"),
                   .cost = "the model would learn from tokens that it must not see"});
  }
  const double size = std::sqrt(dot(packed.values, packed.values)),
               others = std::sqrt(dot(alone.values, alone.values));
  if (!(size > 0) || !(others > 0)) return;  // probe_gradient has judged that
  const double cosine = dot(packed.values, alone.values) / (size * others);
  const double ratio = others / size;
  const std::string evidence = "cosine " + number(1 - cosine) + " below 1, norm ratio 1 " +
                               (ratio < 1 ? "- " : "+ ") + number(std::abs(ratio - 1));
  if (1 - cosine <= bounds.cosine && std::abs(ratio - 1) <= bounds.norm) {
    out.push_back({.code = "NUM-05",
                   .what = "two micro-batches give the gradient of one: divided once, by the step's tokens",
                   .evidence = evidence});
    return;
  }
  const Excluded excluded = Excluded().add("the rows", "both passes have the same tokens and targets");
  out.push_back({.code = "NUM-05",
                 .level = Level::kFail,
                 .what = "the gradient depends on how a step is split into micro-batches",
                 .evidence = evidence + "; bounds " + number(bounds.cosine) + " and " + number(bounds.norm),
                 .cause = "the loss is normalized over the micro-batch instead of the step",
                 .not_this = excluded.text(),
                 .fix = report_fix(excluded, "gradient_accumulation_steps: 1"),
                 .cost = "steps of the wrong size"});
}

void judge_adapter_in_loss(const train::RunView& run, double before, StateGuard& guard, Verdicts& out) {
  perturb(*run.adapter, kPerturbation, 1);
  const double after = run.method->rehearse(kLook).nll;
  guard.restore_parameters();
  if (before != after) {
    out.push_back({.code = "GRAD-07",
                   .what = "the loss sees the adapter",
                   .evidence = "another lora_B moves it by " + number(after - before)});
    return;
  }
  const Excluded excluded = Excluded()
                                .add("an empty adapter", "a lora_A that is all 0 was moved too")
                                .add("the data", "it has targets");
  out.push_back({.code = "GRAD-07",
                 .level = Level::kFail,
                 .what = "the loss does not see the adapter",
                 .evidence = "lora_B moved by " + number(kPerturbation) + ", the loss stayed " +
                             number(before) + " bit for bit",
                 .cause = "the pass that computes the loss does not use the adapted modules",
                 .not_this = excluded.text(),
                 .fix = report_fix(excluded, "layer_form: plain"),
                 .cost = "the whole run"});
}

bool is_new(const adapters::Adapter& adapter) {
  const auto& all = adapter.tensors();
  return std::all_of(all.begin(), all.end(), [](const adapters::TrainableTensor& one) {
    return !is_b(one) || one.value.count_nonzero().item<std::int64_t>() == 0;
  });
}

// A new policy is its reference: no margin, whatever the pair, and the sigmoid's loss is ln 2.
void judge_reference(const train::RunView& run, Verdicts& out) {
  const auto begins_at_ln2 = train::method_opening(run.plan.method).begins_at_ln2;
  if (begins_at_ln2 == nullptr || !begins_at_ln2(run.plan) || !is_new(*run.adapter)) return;
  const double loss = run.method->rehearse(kLook).loss, expected = std::log(2.0);
  base::Verdict found{
      .code = "PREF-04",
      .what = "the policy equals its reference at the start: the loss is " + number(loss) + ", ln 2",
      .evidence = "difference " + number(std::abs(loss - expected))};
  if (!(std::abs(loss - expected) <= kReference)) {
    found.level = Level::kFail;
    found.what = "policy and reference differ before the first step: the loss is " + number(loss) +
                 ", and would be ln 2";
    found.cause = "the reference is another model, or is computed in a different way";
    ask_to_report(found, Excluded()
                             .add("an adapter that has been trained", "lora_B is 0")
                             .add("the pairs", "the margin of a new policy is 0 for any pair"));
    found.cost = "rewards and margins that do not come from training";
  }
  out.push_back(std::move(found));
}

}  // namespace

Verdicts examine_loss(const train::RunView& run, const ScoredPass& pass) {
  Verdicts out;
  StateGuard guard(run);
  const train::Rehearsal first = run.method->rehearse(kLook);
  if (first.scored == 0) return out;  // check_data has said so
  judge_first_loss(run, first, pass, out);
  judge_packing(run, pass, out);
  judge_reference(run, out);
  if (run.has_pairs() && !run.model->score_head().defined()) {
    append(out, attempt("numerics: likelier side", [&]() -> Verdicts {
             const at::NoGradGuard no_grad;
             return {judge_sides(measure_sides(run, pass))};
           }));
  }
  // Methods that sample are asked by probe_sampler, with the same completions in both.
  if (!run.samples()) judge_adapter_in_loss(run, first.nll, guard, out);
  return out;
}

Verdicts probe_loss(const train::RunView& run) {
  const train::PassForm form = train::pass_form(run.start.memory);
  const train::RngKey key = {.training = false, .seed = static_cast<std::uint64_t>(run.plan.seed)};
  return examine_loss(run, [&](const data::Batch& batch, double denominator) {
    return denominator > 0 ? train::score_and_backward(*run.model, batch, key, denominator, form)
                           : train::score_batch(*run.model, batch, key, form);
  });
}

}  // namespace hone::doctor
