#include "train/references/open_reference.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "adapters/saved_vocabulary.h"
#include "base/error.h"
#include "base/strings/plural.h"
#include "config/method_traits.h"
#include "train/opening/memory_inputs.h"
#include "train/opening/open_model.h"
#include "train/opening/open_run.h"
#include "train/passes/divergence_pass.h"
#include "train/saves/reference_file.h"

namespace hone::train {

namespace {

std::string option_of(const config::Plan& plan) {
  return std::string(config::method_traits(plan.method).reference_option);
}

// The model's options as they are for ref_model.
config::ModelPlan model_plan(const config::Plan& plan) {
  config::ModelPlan out = plan;
  out.model_name_or_path = plan.ref_model;
  if (plan.ref_precision) out.precision = *plan.ref_precision;
  if (plan.ref_quantized) out.quantized_base = *plan.ref_quantized;
  return out;
}

std::unique_ptr<model::WeightSource> open_source_of(const OpenedRun& run) {
  std::unique_ptr<model::WeightSource> out = adapters::open_base(run.plan.ref_model, {});
  const std::int64_t own = run.source->config().vocab_size, found = out->config().vocab_size;
  if (own == found) return out;
  throw base::UserError(
      {.where = "option " + option_of(run.plan),
       .expected = "a model with the vocabulary of " + run.plan.model_name_or_path + ", of " +
                   base::counted(own, "token"),
       .found = run.plan.ref_model + " has " + base::counted(found, "token"),
       .cause = "it is a model of another family, or its embedding was made larger",
       .fix = "name a model with the same tokenizer and the same number of rows of the embedding"});
}

std::shared_ptr<const model::CausalLm> open_second(OpenedRun& run, bool packs) {
  const std::unique_ptr<model::WeightSource> source = open_source_of(run);
  const config::ModelPlan as = model_plan(run.plan);
  config::Plan all = run.plan;
  static_cast<config::ModelPlan&>(all) = as;
  all.shared_base = {};
  require_room_for_base(*source, all, /*keep_blocks=*/true);
  const auto out = std::make_shared<model::CausalLm>(*source, dtype_policy(as),
                                                     packs ? model::Storage::kPacked : model::Storage::kPlain,
                                                     quantize(as), device(run.plan), /*keep_blocks=*/true);
  out->join_linears();
  if (const auto note = quantized_note(as, *out))
    run.start.notes.push_back(option_of(run.plan) + ": " + *note);
  if (run.plan.ranks > 1) run.start.notes.push_back("each rank has its own copy of " + option_of(run.plan));
  run.second_model = out;
  return out;
}

// The numbers of ref_model for the parameters that are trained, [P].
at::Tensor values_of(const model::WeightSource& source, const adapters::Adapter& adapter) {
  at::Tensor out = at::empty({adapter.flat().numel()}, at::kFloat);
  std::int64_t offset = 0;
  for (const adapters::TrainableTensor& one : adapter.tensors()) {
    const std::vector<std::int64_t> expected = one.value.sizes().vec();
    const bool has = source.has(one.name);
    if (!has || source.shape(one.name) != expected) {
      throw base::UserError({.where = "option ref_model with sync_ref_model",
                             .expected = "a model whose tensors have the shapes of the trained ones",
                             .found = "tensor " + one.name + (has ? " has another shape" : " is not there"),
                             .cause = "the reference moves towards the policy, number by number",
                             .fix = "name a model of the same architecture and size"});
    }
    source.read_into(one.name, out.narrow(0, offset, one.value.numel()).view(expected));
    offset += one.value.numel();
  }
  return out;
}

std::shared_ptr<MovingReference> make_moving(OpenedRun& run) {
  const at::NoGradGuard no_grad;
  const config::Plan& plan = run.plan;
  const adapters::Adapter& adapter = *run.adapter;
  at::Tensor values;
  if (run.directory.resuming()) {
    values = load_reference(run.directory.resume_from(), adapter);
  } else if (plan.ref_model.empty()) {
    values = adapter.flat().detach().clone();
  } else {
    values = values_of(*open_source_of(run), adapter);
  }
  const at::ScalarType dtype = dtype_policy(model_plan(plan)).residual;
  run.moving_reference = std::make_shared<MovingReference>(adapter.flat().detach(),
                                                           values.to(adapter.flat().device()), dtype, plan);
  // pages of pairs have a line for it
  if (config::samples(plan.method)) run.start.notes.push_back("reference: " + describe_reference(plan));
  return run.moving_reference;
}

}  // namespace

bool reference_is_model(const config::Plan& plan) {
  if (plan.sync_ref_model) return false;
  if (plan.ref_model.empty()) return true;
  const bool same_numbers = plan.ref_precision.value_or(plan.precision) == plan.precision &&
                            plan.ref_quantized.value_or(plan.quantized_base) == plan.quantized_base;
  std::error_code none;
  return same_numbers && plan.base_adapters.empty() &&
         base::fs::equivalent(plan.ref_model, plan.model_name_or_path, none);
}

bool has_second_model(const config::Plan& plan) {
  return !plan.sync_ref_model && !reference_is_model(plan);
}

Reference open_reference(OpenedRun& run, bool packs) {
  Reference out{.parameters = run.adapter->flat(), .values = {}};
  if (has_second_model(run.plan)) {
    out.other = open_second(run, packs);
  } else {
    out.moving = make_moving(run);
  }
  return out;
}

void count_reference(MemoryInputs& inputs, const OpenedRun& run) {
  if (run.moving_reference != nullptr)
    inputs.reference_bytes = static_cast<std::int64_t>(run.moving_reference->values().nbytes());
  const std::shared_ptr<const model::CausalLm> second = run.second_model.lock();
  inputs.has_teacher = run.plan.method == config::Method::kDistill;
  // The other losses hold a number a token.
  if (inputs.has_teacher && run.plan.distill.loss_type == "divergence")
    inputs.teacher_rows = teacher_rows_bytes(second == nullptr ? *run.model : *second,
                                             std::max(inputs.train.scored, inputs.eval.scored));
  if (second == nullptr) return;
  inputs.reference_bytes = second->parameter_bytes();
  inputs.reference_released = run.plan.precompute_ref_log_probs;
  const LongestBatch& train = inputs.train;
  const LongestBatch& eval = inputs.eval;
  MemoryInputs pass = memory_inputs(*second, run.plan, 0, {},
                                    {.tokens = std::max(train.tokens, eval.tokens),
                                     .scored = std::max(train.scored, eval.scored),
                                     .segment = std::max(train.segment, eval.segment)});
  pass.full = false;
  inputs.reference_pass = forward_bytes(pass);
}

}  // namespace hone::train
