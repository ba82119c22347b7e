// Probe P10 (docs/design.md): save, load, merge.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cstdlib>

#include "adapters/frozen_adapters.h"
#include "adapters/merge.h"
#include "base/error.h"
#include "base/files/scratch_folder.h"
#include "doctor/examination.h"
#include "doctor/excluded.h"
#include "doctor/probes/probe_state.h"
#include "doctor/probes/round_trip.h"
#include "doctor/tools/merged_model.h"
#include "model/files/weight_source.h"
#include "train/opening/open_model.h"

namespace hone::doctor {

namespace {

using base::Level;
namespace fs = base::fs;

constexpr std::int64_t kRoundTripTokens = 64;

// Tokens of the data, or any when there are too few.
data::Batch probe_tokens(const train::RunView& run) {
  data::Batch out;
  for (const data::Record& example : short_examples(run, 4, kRoundTripTokens))
    out.ids.insert(out.ids.end(), example.ids.begin(), example.ids.end());
  for (std::int64_t id = 3; out.ids.size() < 8; ++id) out.ids.push_back(id % run.model->config().vocab_size);
  for (std::size_t i = 0; i < out.ids.size(); ++i) out.positions.push_back(static_cast<std::int64_t>(i));
  out.segments.push_back({.begin = 0, .end = static_cast<std::int64_t>(out.ids.size())});
  return out;
}

// On the CPU, where a model that was read again is: the run's device may have no room for two.
at::Tensor logprobs(const model::CausalLm& model, const data::Batch& batch,
                    const ops::PassContext& pass = {}) {
  const at::NoGradGuard no_grad;
  return at::log_softmax(model.autograd_logits(model.hidden(batch, pass), pass), -1).cpu();
}

struct Comparison {
  double kl = 0, agreement = 0;
};

Comparison likeness(const at::Tensor& right, const at::Tensor& other) {
  return {.kl = (right.exp() * (right - other)).sum(-1).mean().item<double>(),
          .agreement = right.argmax(-1).eq(other.argmax(-1)).to(at::kDouble).mean().item<double>()};
}

base::Verdict no_effect(std::string what, std::string evidence) {
  const Excluded excluded = Excluded()
                                .add("training", "the adapter in memory is correct")
                                .add("a changed file", "it was just written");
  return {.code = "CKPT-01",
          .level = Level::kFail,
          .what = std::move(what),
          .evidence = std::move(evidence),
          .cause = "keys of the file are missing, or have other names than the model's",
          .not_this = excluded.text(),
          .fix = report_fix(excluded),
          .cost = "the saved adapter would not be the trained one"};
}

std::string describe(const Comparison& one, std::int64_t tokens) {
  return "KL " + number(one.kl) + ", most likely token equal at " + number(100 * one.agreement) + " % of " +
         grouped(tokens) + " tokens";
}

// Of a model that hardly prefers any token, rounding may change the first choice: the KL decides.
bool is_near(const Comparison& one) {
  return (one.kl <= kMaxMergedKl && one.agreement >= kLeastAgreement) || one.kl <= kMaxMergedKl / 100;
}

// What is read back into the model; the caller's guard puts the run's own adapter back.
void judge_load(const train::RunView& run, const fs::path& folder, Verdicts& out) {
  const train::RehearsalRequest look = {.max_tokens = kRoundTripTokens, .backward = false, .training = false};
  train::RehearsalRequest alone = look;
  alone.adapters_on = false;
  const double saved = run.method->rehearse(look).nll;
  std::optional<adapters::Adapter> loaded;
  try {
    loaded.emplace(adapters::Adapter::load(*run.model, folder));
  } catch (const base::UserError& error) {
    out.push_back(
        no_effect("the saved adapter cannot be loaded", error.text().where + ": " + error.text().found));
    return;
  }
  const double after = run.method->rehearse(look).nll;
  const double base_alone = run.method->rehearse(alone).nll;
  const std::string losses = "loss " + number(saved) + " in memory, " + number(after) + " after loading, " +
                             number(base_alone) + " of the base alone";
  if (loaded->flat().numel() != run.adapter->flat().numel() || !loaded->flat().equal(run.adapter->flat())) {
    out.push_back(no_effect("the loaded adapter differs from the saved one",
                            grouped(loaded->flat().numel()) + " of " + grouped(run.adapter->flat().numel()) +
                                " elements; " + losses));
  } else if (saved != after) {
    out.push_back(no_effect("the loaded adapter gives a different loss from the saved one", losses));
  } else if (after == base_alone) {
    out.push_back(no_effect("the loaded adapter has no effect", losses));
  } else {
    out.push_back({.code = "CKPT-01",
                   .what = "the adapter loaded from its files is bit-equal, with the same loss",
                   .evidence = losses});
  }
}

void judge_merge(const train::RunView& run, const at::Tensor& with_adapter, const at::Tensor& base_alone,
                 const fs::path& out_folder, Verdicts& out) {
  const auto source = model::open_weights(out_folder);
  const model::CausalLm merged(*source, train::dtype_policy(run.plan.precision));
  const at::Tensor found = logprobs(merged, probe_tokens(run));
  const Comparison to_adapter = likeness(with_adapter, found), to_base = likeness(with_adapter, base_alone);
  const std::string evidence = "KL " + number(to_adapter.kl) + " from the model with its adapter (" +
                               number(to_base.kl) + " from the base alone), most likely token equal at " +
                               number(100 * to_adapter.agreement) + " % of " + grouped(with_adapter.size(0)) +
                               " tokens";
  if (is_near(to_adapter)) {
    out.push_back({.code = "CKPT-02",
                   .what = "the merged model equals the model with its "
                           "adapter",
                   .evidence = evidence});
    out.push_back(
        {.code = "CKPT-03",
         .what = std::string("the merged files were read again, with a ") +
                 (source->config().tie_word_embeddings ? "tied" : "separate") + " head; " +
                 (run.model->token_rows().defined()  ? "they contain the trained rows of the embedding"
                  : run.model->trains_only_linears() ? "embeddings and head are not trained in this run"
                                                     : "they contain what is trained outside the layers' "
                                                       "linears")});
    return;
  }
  out.push_back(
      {.code = "CKPT-02",
       .level = to_adapter.kl > to_base.kl / 2 ? Level::kFail : Level::kWarn,
       .what = "the merged model differs from the model with its adapter",
       .evidence = evidence,
       .cause = "suspected: a base other than the one the adapter was trained on, or rounding of the merged "
                "weights",
       .not_this = "the adapter's files: they were read back correctly",
       .fix = "keep the unmerged adapter on its base instead of merging",
       .cost = "the exported model would be worse than the trained one"});
}

// An adapter that was trained on quantized numbers, on the base as it is stored: what a merge that does not
// know of it gives.
void judge_stored_base(const train::RunView& run, const at::Tensor& with_adapter, const fs::path& folder,
                       Verdicts& out) {
  model::CausalLm full(*run.source, train::dtype_policy(run.plan.precision));
  if (full.quantized()) return;  // it is stored so
  adapters::attach_frozen(full, run.plan.base_adapters);
  const adapters::Adapter adapter = adapters::Adapter::load(full, folder);
  const Comparison found = likeness(with_adapter, logprobs(full, probe_tokens(run)));
  const std::string scheme = ops::describe(*run.model->quantized());
  base::Verdict said = {
      .code = "CKPT-02",
      .what = "on the unquantized base the adapter gives nearly the same model",
      .evidence = describe(found, with_adapter.size(0)) + "; the base of this run: " + scheme};
  if (!is_near(found)) {
    const bool eight = run.model->quantized()->type == ops::QuantType::kInt8;
    said.level = Level::kWarn;
    said.what = "merged into the unquantized base, the adapter gives a different model";
    said.cause = "it is trained on what the " + scheme + " numbers stand for";
    said.fix = std::string("hone merge dequantizes the base itself (the run's plan.yaml has ") +
               (eight ? "load_in_8bit" : "load_in_4bit") +
               "); other programs need the dequantized base as a "
               "folder";
    said.cost = "an exported model that is worse than the trained one";
  }
  out.push_back(std::move(said));
}

bool has_room(const fs::path& folder, std::int64_t bytes) {
  std::error_code none;
  const fs::space_info space = fs::space(folder, none);
  return !none && space.available > static_cast<std::uint64_t>(bytes) + (std::uint64_t{64} << 20);
}

}  // namespace

namespace {

// Full fine-tuning: the folder is the model.
Verdicts examine_model_folder(const train::RunView& run, const AdapterFiles& files) {
  const base::ScratchFolder scratch("doctor");
  const fs::path folder = scratch.path() / "model";
  const std::int64_t parameters = run.adapter->flat().numel();
  if (!has_room(scratch.path(), run.model->parameter_count() * 4)) {
    return {{.code = "CKPT-01",
             .level = Level::kNote,
             .what = "saving was not tested: " + scratch.path().parent_path().string() +
                     " has no room for a copy of the model"}};
  }
  files.save(*run.adapter, folder);
  const std::unique_ptr<model::WeightSource> saved = model::open_hf_folder(folder);
  for (const adapters::TrainableTensor& tensor : run.adapter->tensors()) {
    if (saved->read(tensor.name, at::kFloat).equal(tensor.value.detach().cpu())) continue;
    const Excluded excluded = Excluded()
                                  .add("training", "the model in memory is what was trained")
                                  .add("a changed file", "it was just written");
    return {{.code = "CKPT-01",
             .level = Level::kFail,
             .what = "the saved model differs from the one in memory",
             .evidence = "first in " + tensor.name,
             .cause = "a bug in hone, or a disk that does not keep what it is given",
             .not_this = excluded.text(),
             .fix = report_fix(excluded),
             .cost = "a result other than what was trained"}};
  }
  return {{.code = "CKPT-01",
           .what = "the model was saved and read back bit for bit",
           .evidence = grouped(parameters) + " parameters"}};
}

}  // namespace

Verdicts examine_round_trip(const train::RunView& run, const AdapterFiles& files) {
  if (run.adapter->is_full()) return examine_model_folder(run, files);
  if (run.adapter->initial_values().defined()) {
    return {
        {.code = "CKPT-01",
         .level = Level::kNote,
         .what =
             "saving and loading were not tested: a PiSSA adapter is saved as one of twice the rank for the "
             "unchanged base (tests/adapters/pissa_test.cpp)"}};
  }
  Verdicts out;
  const base::ScratchFolder scratch("doctor");
  const fs::path folder = scratch.path() / "adapter";
  const data::Batch tokens = probe_tokens(run);
  const at::Tensor base_alone = logprobs(*run.model, tokens, {.adapters_on = false});
  at::Tensor with_adapter;
  {
    const StateGuard guard(run);
    perturb(*run.adapter, kPerturbation, 1);
    if (at::Tensor rows = run.adapter->token_rows(); rows.defined()) {
      const at::NoGradGuard no_grad;
      rows.add_(at::sin(at::arange(rows.numel(), rows.options().requires_grad(false))).view_as(rows),
                kPerturbation);
    }
    with_adapter = logprobs(*run.model, tokens);
    files.save(*run.adapter, folder);
    judge_load(run, folder, out);
  }
  if (out.back().level == Level::kFail) return out;
  if (run.model->score_head().defined()) return out;  // a reward model is used as an adapter: none is merged
  if (!has_room(scratch.path(), run.model->parameter_count() * 4)) {
    out.push_back({.code = "CKPT-02",
                   .level = Level::kNote,
                   .what = "merging was not tested: " + scratch.path().parent_path().string() +
                           " has no room for a copy of the base"});
    return out;
  }
  const model::Quantize quantized = run.model->quantized();
  files.merge(run.plan.model_name_or_path, folder, scratch.path() / "merged", quantized);
  judge_merge(run, with_adapter, base_alone, scratch.path() / "merged", out);
  if (quantized) judge_stored_base(run, with_adapter, folder, out);
  return out;
}

Verdicts probe_round_trip(const train::RunView& run) {
  return examine_round_trip(
      run, {.save = [](const adapters::Adapter& adapter, const fs::path& folder) { adapter.save(folder); },
            .merge =
                [&run](const fs::path& base, const fs::path& adapter, const fs::path& out,
                       const model::Quantize& trained_on) {
                  std::vector<fs::path> all(run.plan.base_adapters.begin(), run.plan.base_adapters.end());
                  all.push_back(adapter);
                  adapters::merge_to_folder(base, all, out, trained_on,
                                            train::dtype_policy(run.plan.precision).residual);
                }});
}

}  // namespace hone::doctor
