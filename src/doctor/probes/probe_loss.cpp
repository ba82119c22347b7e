// Probe P3 (docs/design.md): loss identities.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>

#include "data/packing.h"
#include "doctor/examination.h"
#include "doctor/probes/loss_identities.h"
#include "doctor/probes/probe_state.h"
#include "train/memory_inputs.h"
#include "train/methods/methods.h"

namespace hone::doctor {

namespace {

using base::Level;

constexpr double kPretrained = 0.6;       // of ln V (NUM-02)
constexpr double kGuessing = 1.2;         // above: worse than a model that knows nothing
constexpr double kUniform = 0.1;          // how near ln V loss and entropy of random weights are
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

data::Batch batch_of(const std::vector<data::Example>& examples) {
  data::PackedRow row;
  for (std::size_t i = 0; i < examples.size(); ++i) row.members.push_back(static_cast<std::int64_t>(i));
  return data::make_batch(examples, {row}, {0});
}

// The loss, for what compares with it.
double judge_first_loss(train::OpenedRun& run, const ScoredPass& pass, Verdicts& out) {
  const train::Rehearsal first = run.method->rehearse(kLook);
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
    return first.nll;
  }
  if (run.model->score_head().defined()) {
    out.push_back({.code = "NUM-02",
                   .what = "the first loss is " + number(first.nll) +
                           ", ln 2 = 0.693 is that of a head without a preference"});
    return first.nll;
  }
  if (share <= kPretrained) {
    out.push_back({.code = "NUM-02", .what = what, .evidence = number(share) + " of it"});
    return first.nll;
  }
  // Random weights are sure of nothing; a pass that is broken for trained ones is sure of the wrong thing.
  const std::vector<data::Example> examples = short_examples(run, 2, kLossTokens);
  const train::ScoredFacts facts = examples.empty() ? train::ScoredFacts() : pass(batch_of(examples), 0);
  const double spread =
      facts.scored > 0 ? facts.entropy_sum / static_cast<double>(facts.scored) / uniform : 0;
  if (std::abs(share - 1) <= kUniform && spread >= 1 - kUniform) {
    out.push_back({.code = "NUM-02",
                   .level = Level::kNote,
                   .what = what + ": the base is untrained",
                   .evidence = "entropy " + number(spread) +
                               " of ln V as well: its predictions are almost uniform, as with random weights",
                   .cost = "an adapter cannot train an untrained base"});
    return first.nll;
  }
  const bool worse = share > kGuessing;
  out.push_back(
      {.code = "NUM-02",
       .level = Level::kWarn,
       .what = what,
       .evidence = number(share) + " of ln V over " + grouped(first.scored) +
                   " tokens; a pretrained base is below " + number(kPretrained),
       .cause = worse
                    ? "suspected: a forward pass that is wrong for these weights, or text in a template or "
                      "language that the base was not trained on"
                    : "suspected: an untrained base (random weights give ln V), or weights of another model",
       .not_this = "a new adapter: with B = 0 it adds nothing",
       .fix = "try `hone generate` with this base; download it again",
       .cost = "an adapter cannot train an untrained base"});
  return first.nll;
}

struct Gradient {
  at::Tensor values;
  double nll = 0;
};

void judge_packing(train::OpenedRun& run, const ScoredPass& pass, Verdicts& out) {
  const std::vector<data::Example> examples = short_examples(run, 2, kLossTokens);
  if (examples.size() < 2) return;
  adapters::Adapter& adapter = *run.adapter;
  const Bounds bounds = bounds_of(*run.model);
  const data::Batch together = batch_of(examples), first = batch_of({examples[0]}),
                    second = batch_of({examples[1]});
  const auto n = static_cast<double>(train::scored_tokens(together));
  const auto gradient_of = [&](const std::vector<const data::Batch*>& micro_batches) {
    adapter.zero_gradient();
    Gradient found;
    for (const data::Batch* batch : micro_batches) found.nll += pass(*batch, n).nll_sum;
    found.values = adapter.flat_gradient().clone();
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
    out.push_back(
        {.code = "NUM-04",
         .level = Level::kFail,
         .what = "a row's loss depends on the rows that it is packed with",
         .evidence = "mean |d log p| " + number(shift) + " over " + number(of_second) + " tokens, bound " +
                     number(bounds.logprob),
         .cause = "attention or positions leak from one row of a batch into the next",
         .not_this = "padding: hone has none",
         .fix = "layer_form: plain uses libtorch's attention instead; please report this with `hone env`",
         .cost = "the model would learn from tokens that it must not see"});
  }
  const auto norm = [](const at::Tensor& x) { return x.norm().item<double>(); };
  const at::Tensor one = packed.values.to(at::kDouble), other = alone.values.to(at::kDouble);
  const double size = norm(one), others = norm(other);
  if (!(size > 0) || !(others > 0)) return;  // probe_gradient has judged that
  const double cosine = (one * other).sum().item<double>() / (size * others);
  const double ratio = others / size;
  const std::string evidence = "cosine " + number(1 - cosine) + " below 1, norm ratio 1 " +
                               (ratio < 1 ? "- " : "+ ") + number(std::abs(ratio - 1));
  if (1 - cosine <= bounds.cosine && std::abs(ratio - 1) <= bounds.norm) {
    out.push_back({.code = "NUM-05",
                   .what = "two micro-batches give the gradient of one: divided once, by the step's tokens",
                   .evidence = evidence});
    return;
  }
  out.push_back({.code = "NUM-05",
                 .level = Level::kFail,
                 .what = "the gradient depends on how a step is split into micro-batches",
                 .evidence = evidence + "; bounds " + number(bounds.cosine) + " and " + number(bounds.norm),
                 .cause = "the loss is normalized over the micro-batch instead of the step",
                 .fix = "gradient_accumulation_steps: 1; please report this with `hone env`",
                 .cost = "steps of the wrong size"});
}

void judge_adapter_in_loss(train::OpenedRun& run, double before, StateGuard& guard, Verdicts& out) {
  perturb(*run.adapter, kPerturbation, 1);
  const double after = run.method->rehearse(kLook).nll;
  guard.restore_parameters();
  if (before != after) {
    out.push_back({.code = "GRAD-07",
                   .what = "the loss sees the adapter",
                   .evidence = "another lora_B moves it by " + number(after - before)});
    return;
  }
  out.push_back({.code = "GRAD-07",
                 .level = Level::kFail,
                 .what = "the loss does not see the adapter",
                 .evidence = "lora_B moved by " + number(kPerturbation) + ", the loss stayed " +
                             number(before) + " bit for bit",
                 .cause = "the pass that computes the loss does not use the adapted modules",
                 .fix = "layer_form: plain; please report this with `hone env`",
                 .cost = "the whole run"});
}

bool is_new(const adapters::Adapter& adapter) {
  const auto& all = adapter.tensors();
  return std::all_of(all.begin(), all.end(), [](const adapters::TrainableTensor& one) {
    return !is_b(one) || one.value.count_nonzero().item<std::int64_t>() == 0;
  });
}

// A new policy is its reference: no margin, whatever the pair, and the sigmoid's loss is ln 2.
void judge_reference(train::OpenedRun& run, Verdicts& out) {
  const auto begins_at_ln2 = train::method_row(run.plan.method).begins_at_ln2;
  if (begins_at_ln2 == nullptr || !begins_at_ln2(run.plan) || !is_new(*run.adapter)) return;
  const double loss = run.method->rehearse(kLook).loss, expected = std::log(2.0);
  base::Verdict found{.code = "PREF-04",
                      .what = "the policy equals its reference at the start: the loss is " + number(loss) +
                              ", "
                              "ln "
                              "2",
                      .evidence = "difference " + number(std::abs(loss - expected))};
  if (!(std::abs(loss - expected) <= kReference)) {
    found.level = Level::kFail;
    found.what = "policy and reference differ before the first step: the loss is " + number(loss) +
                 ", and would be ln 2";
    found.cause = "the reference is another model, or is computed in a different way";
    found.fix = "please report this with `hone env`";
    found.cost = "rewards and margins that do not come from training";
  }
  out.push_back(std::move(found));
}

}  // namespace

Verdicts examine_loss(train::OpenedRun& run, const ScoredPass& pass) {
  Verdicts out;
  StateGuard guard(run);
  if (run.method->rehearse(kLook).scored == 0) return out;  // check_data has said so
  const double first = judge_first_loss(run, pass, out);
  judge_packing(run, pass, out);
  judge_reference(run, out);
  // Methods that sample are asked by probe_sampler, with the same completions in both.
  if (!run.samples()) judge_adapter_in_loss(run, first, guard, out);
  return out;
}

Verdicts probe_loss(train::OpenedRun& run) {
  const train::PassForm form = train::pass_form(run.start.memory);
  const train::RngKey key = {.training = false, .seed = static_cast<std::uint64_t>(run.plan.seed)};
  return examine_loss(run, [&](const data::Batch& batch, double denominator) {
    return denominator > 0 ? train::score_and_backward(*run.model, batch, key, denominator, form)
                           : train::score_batch(*run.model, batch, key, form);
  });
}

}  // namespace hone::doctor
