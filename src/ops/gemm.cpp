#include "ops/gemm.h"

#include <ATen/ATen.h>

#include "base/error.h"
#include "ops/backend/announce.h"
#include "ops/backend/operators.h"
#include "ops/backend/reference/reference.h"

namespace hone::ops {
namespace {

std::int64_t depth(const GemmTerm& term) {
  return term.side == GemmDirection::kForward ? term.weight->in() : term.weight->out();
}

std::int64_t width(const GemmTerm& term) {
  return term.side == GemmDirection::kForward ? term.weight->out() : term.weight->in();
}

void check(const at::Tensor& out, std::span<const GemmTerm> terms, const Epilogue& epilogue) {
  constexpr const char* kWhere = "ops::gemm";
  base::require(!terms.empty(), kWhere, "at least one term");
  base::require(out.dim() == 2, kWhere, "out [M, N]");
  for (const GemmTerm& term : terms) {
    base::require(term.weight != nullptr && term.weight->defined(), kWhere, "a matrix in every term");
    base::require(term.a.dim() == 2 && term.a.size(0) == out.size(0) && term.a.size(1) == depth(term), kWhere,
                  "a [M, K] of the matrix's K");
    base::require(width(term) == out.size(1), kWhere, "matrices of out's N");
    base::require(term.a.scalar_type() == term.weight->dtype(), kWhere, "a of the matrix's dtype");
  }
  const at::Tensor& bias = epilogue.bias;
  base::require(!bias.defined() || (bias.dim() == 1 && bias.size(0) == out.size(1)), kWhere, "bias [N]");
  const at::Tensor& residual = epilogue.residual;
  base::require(!residual.defined() || residual.sizes() == out.sizes(), kWhere, "residual [M, N]");
}

// All of a call at once; a backend that refuses them together is asked for each alone.
template <typename One>
void run_all(bool (*backend::Operators::*row)(std::span<const One* const>),
             void (*reference)(std::span<const One* const>), const std::vector<const One*>& all) {
  if (all.empty()) return;
  const auto kernel = backend::operators_of(all.front()->out.device()).*row;
  if (kernel != nullptr && kernel(all)) return;
  for (const One* const& one : all) {
    const std::span<const One* const> alone(&one, 1);
    const auto own = backend::operators_of(one->out.device()).*row;
    if (own == nullptr || (all.size() == 1 && own == kernel) || !own(alone)) reference(alone);
  }
}

}  // namespace

at::Tensor GemmTerm::right() const {
  const at::Tensor dense = weight->dense();
  return side == GemmDirection::kForward ? dense.t() : dense;
}

void gemm(at::Tensor out, std::span<const GemmTerm> terms, const Epilogue& epilogue) {
  const Gemm one{std::move(out), {terms.begin(), terms.end()}, epilogue};
  gemms({&one, 1});
}

void multiply(const at::Tensor& out, const at::Tensor& a, const Weight& weight, GemmDirection side,
              const at::Tensor& residual) {
  const GemmTerm term{a, &weight, side};
  gemm(out, {&term, 1}, {.residual = residual});
}

void gemms(std::span<const Gemm> products) {
  std::vector<const Gemm*> all;
  for (const Gemm& one : products) {
    check(one.out, one.terms, one.epilogue);
    if (one.out.numel() == 0) continue;
    const GemmTerm& first = one.terms.front();
    announce("gemm", one.out.size(0), one.out.size(1), depth(first), first.weight->dtype());
    all.push_back(&one);
  }
  run_all(&backend::Operators::gemms, reference::gemms, all);
}

void add_outer(at::Tensor out, const at::Tensor& left, const at::Tensor& right) {
  const Outer one{std::move(out), left, right};
  add_outers({&one, 1});
}

void add_outers(std::span<const Outer> products) {
  constexpr const char* kWhere = "ops::add_outer";
  std::vector<const Outer*> all;
  for (const Outer& one : products) {
    const auto& [out, left, right] = one;
    base::require(out.dim() == 2 && out.scalar_type() == at::kFloat, kWhere, "out [R, N] fp32");
    base::require(left.dim() == 2 && right.dim() == 2 && left.size(0) == right.size(0), kWhere,
                  "left [T, R] and right [T, N]");
    base::require(left.size(1) == out.size(0) && right.size(1) == out.size(1), kWhere, "out [R, N]");
    base::require(left.scalar_type() == right.scalar_type(), kWhere, "left and right of one dtype");
    if (out.numel() == 0 || left.size(0) == 0) continue;
    announce("gemm of gradients", out.size(0), out.size(1), left.size(0), left.scalar_type());
    all.push_back(&one);
  }
  run_all(&backend::Operators::add_outers, reference::add_outers, all);
}

void add_weight_gradient(at::Tensor gradient, const at::Tensor& d_out, const at::Tensor& x) {
  const auto kernel = backend::operators_of(gradient.device()).add_weight_gradient;
  if (kernel == nullptr || !kernel(gradient, d_out, x)) add_outer(gradient, d_out, x);
}

}  // namespace hone::ops
