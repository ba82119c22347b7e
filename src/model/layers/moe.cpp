#include "model/layers/moe.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "base/error.h"
#include "ops/routed_rows.h"
#include "ops/swiglu.h"

namespace hone::model {
namespace {

template <typename Mlp, typename Linear>
std::vector<Linear*> all_linears(Mlp& mlp) {
  std::vector<Linear*> all = {&mlp.router};
  for (auto& expert : mlp.experts) all.push_back(&expert.gate);
  for (auto& expert : mlp.experts) all.push_back(&expert.up);
  for (auto& expert : mlp.experts) all.push_back(&expert.down);
  return all;
}

// x A^T B^T of one expert, times the LoRA's scale.
at::Tensor through_factors(const StackedFactors& factors, std::size_t expert, double scale,
                           const at::Tensor& x) {
  const auto e = static_cast<std::int64_t>(expert);
  return at::linear(at::linear(x, factors.a.select(0, e)) * scale, factors.b.select(0, e));
}

}  // namespace

std::vector<ops::Linear*> SparseMlp::linears() {
  return all_linears<SparseMlp, ops::Linear>(*this);
}

std::vector<const ops::Linear*> SparseMlp::linears() const {
  return all_linears<const SparseMlp, const ops::Linear>(*this);
}

StackedFactors stacked_factors(const ops::Linear& stack, std::int64_t experts, at::ScalarType dtype,
                               const ops::PassContext& pass) {
  if (!stack.lora || !pass.adapters_on) return {};
  const at::Tensor &a = stack.lora->a, &b = stack.lora->b;
  return {.a = a.to(dtype).view({experts, -1, a.size(1)}),
          .b = b.to(dtype).view({b.size(0), -1, experts}).permute({2, 0, 1}).contiguous()};
}

void SparseMlp::lay_out() {
  std::vector<ops::Linear*> gate_ups, downs;
  for (Expert& expert : experts) {
    gate_ups.insert(gate_ups.end(), {&expert.gate, &expert.up});
    downs.push_back(&expert.down);
  }
  gate_up_codes = ops::lay_out_experts(gate_ups, 2);
  down_codes = ops::lay_out_experts(downs, 1);
}

const ExpertFactors& FactorCast::of(const ops::Linear& stack, std::int64_t experts, std::int64_t parts,
                                    at::ScalarType dtype) const {
  const at::NoGradGuard no_grad;
  const at::Tensor &a = stack.lora->a, &b = stack.lora->b;
  const bool same = a_.is_same(a) && b_.is_same(b) && a_version_ == a._version() &&
                    b_version_ == b._version() && !factors_.a.empty() && factors_.a.front().dtype() == dtype;
  if (same) return factors_;
  const StackedFactors all = stacked_factors(stack, experts, dtype, {});
  factors_ = {};
  for (std::int64_t e = 0; e < experts; ++e) {
    const at::Tensor of_b = all.b.select(0, e);
    factors_.a.emplace_back(all.a.select(0, e));
    factors_.b.emplace_back(of_b);
    for (const at::Tensor& part : of_b.chunk(parts)) factors_.parts.emplace_back(part);
  }
  a_ = a;
  b_ = b;
  a_version_ = a._version();
  b_version_ = b._version();
  return factors_;
}

void RouterLoad::clear() {
  assigned.reset();
  scores.reset();
  rows = 0;
}

void RouterLoad::add(const at::Tensor& chosen, const at::Tensor& softmax) {
  base::require(!weights.defined() || weights.size(0) == softmax.size(0), "model::RouterLoad",
                "a weight for each token of the pass");
  const auto weighted_counts = [&] {  // weights are whole numbers, so the order of the sum does not show
    return at::zeros({softmax.size(1)}, softmax.options())
        .index_add_(0, chosen.flatten(), weights.repeat_interleave(chosen.size(1)));
  };
  const at::Tensor counts =
      weights.defined() ? weighted_counts() : ops::count_experts(chosen, softmax.size(1)).to(at::kFloat);
  const at::Tensor sums = (weights.defined() ? softmax * weights.unsqueeze(1) : softmax).sum(0);
  assigned = defined() ? assigned + counts : counts;
  scores = scores.defined() ? scores + sums : sums;
  rows += weights.defined() ? weight_sum : static_cast<double>(softmax.size(0));
}

at::Tensor RouterLoad::loss() const {
  return ((assigned / rows) * (scores / rows)).sum() * assigned.size(0);
}

at::Tensor RouterLoad::gradient() const {
  const at::Tensor each = assigned * (static_cast<double>(assigned.size(0)) / (rows * rows));
  return weights.defined() ? weights.unsqueeze(1) * each : each;
}

Routing route(const at::Tensor& logits, const ExpertsRule& rule) {
  const at::Tensor wide = logits.to(at::kFloat);
  Routing out{.softmax = at::softmax(wide, 1), .chosen = {}, .weights = {}};
  if (rule.softmax_first) {
    std::tie(out.weights, out.chosen) = at::topk(out.softmax, rule.per_token, 1);
    if (rule.renormalizes) out.weights = out.weights / out.weights.sum(1, true);
  } else {
    at::Tensor best;
    std::tie(best, out.chosen) = at::topk(wide, rule.per_token, 1);
    out.weights = at::softmax(best, 1);
  }
  if (!rule.float_weights) out.weights = out.weights.to(logits.scalar_type());
  return out;
}

at::Tensor sparse_mlp(const SparseMlp& mlp, const ModelConfig& config, const at::Tensor& x,
                      const ops::PassContext& pass, RouterLoad* load) {
  const at::ScalarType dtype = mlp.router.weight.dtype();
  const at::Tensor read = x.to(dtype);
  const Routing routing = route(ops::linear_forward(mlp.router, read, pass), config.experts);
  if (load != nullptr) load->add(routing.chosen, routing.softmax);
  const ops::ExpertRows sorted(routing.chosen, config.experts.count);
  const StackedFactors in = stacked_factors(mlp.gate_up_stack, config.experts.count, dtype, pass),
                       out = stacked_factors(mlp.down_stack, config.experts.count, dtype, pass);
  std::vector<at::Tensor> all;
  for (std::size_t e = 0; e < mlp.experts.size(); ++e) {
    if (sorted.rows_of(e) == 0) continue;
    const Expert& expert = mlp.experts[e];
    const at::Tensor rows = read.index_select(0, sorted.of(sorted.token(), e));
    at::Tensor gate = ops::linear_forward(expert.gate, rows, pass);
    at::Tensor up = ops::linear_forward(expert.up, rows, pass);
    if (in.a.defined()) {
      const std::vector<at::Tensor> halves =
          through_factors(in, e, mlp.gate_up_stack.lora->scale, rows).chunk(2, 1);
      gate = gate + halves[0];
      up = up + halves[1];
    }
    const at::Tensor product = ops::swiglu(gate, up, config.activation == Activation::kGeluTanh);
    at::Tensor row = ops::linear_forward(expert.down, product, pass);
    if (out.a.defined()) row = row + through_factors(out, e, mlp.down_stack.lora->scale, product);
    all.push_back(row);
  }
  return ops::routed_sum(at::cat(all), sorted.place(), routing.weights).to(dtype);
}

}  // namespace hone::model
