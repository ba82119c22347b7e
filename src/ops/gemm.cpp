#include "ops/gemm.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "base/error.h"
#include "ops/announce.h"
#include "ops/cpu/gemm_blocks.h"

namespace hone::ops {
namespace {

std::int64_t depth(const GemmTerm& term) {
  return term.side == GemmDirection::kForward ? term.weight->in() : term.weight->out();
}

std::int64_t width(const GemmTerm& term) {
  return term.side == GemmDirection::kForward ? term.weight->out() : term.weight->in();
}

at::Tensor right_of(const GemmTerm& term) {
  const at::Tensor w = term.weight->dense();
  return term.side == GemmDirection::kForward ? w.t() : w;
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

// Whether all have one dtype with kernels at this level and lie in this machine's memory.
bool runs_in_blocks(const at::Tensor& out, std::span<const GemmTerm> terms) {
  const at::ScalarType dtype = terms.front().a.scalar_type();
  if (!out.device().is_cpu() || gemm_kernels(dtype) == nullptr) return false;
  if (out.scalar_type() != at::kBFloat16 && out.scalar_type() != at::kFloat) return false;
  return std::all_of(terms.begin(), terms.end(), [&](const GemmTerm& term) {
    return term.a.scalar_type() == dtype && term.a.device().is_cpu() && term.weight->device().is_cpu();
  });
}

bool has_outer_kernel(const at::Tensor& out, const at::Tensor& left, const at::Tensor& right) {
  return gemm_kernels(left.scalar_type()) != nullptr && out.device().is_cpu() && left.device().is_cpu() &&
         right.device().is_cpu();
}

// libtorch's products, summed in fp32. A product of bf16 is rounded to bf16 once more than in the kernel's
// form.
void gemm_plain(at::Tensor out, std::span<const GemmTerm> terms, const Epilogue& epilogue) {
  // The residual may be `out` itself: then the sum needs a place of its own.
  const bool in_place = out.scalar_type() == at::kFloat && !epilogue.residual.defined();
  at::Tensor sum = in_place ? out : at::empty(out.sizes(), out.options().dtype(at::kFloat));
  bool first = true;
  for (const GemmTerm& term : terms) {
    const at::Tensor right = right_of(term);
    if (right.scalar_type() != at::kFloat) {
      const at::Tensor product = at::mm(term.a, right);
      first ? sum.copy_(product) : sum.add_(product);
    } else if (first) {
      at::mm_out(sum, term.a, right);
    } else {
      sum.addmm_(term.a, right);
    }
    first = false;
  }
  if (epilogue.scale != 1) sum.mul_(epilogue.scale);
  if (epilogue.bias.defined()) sum.add_(epilogue.bias.to(at::kFloat));
  if (epilogue.residual.defined()) sum.add_(epilogue.residual.to(at::kFloat));
  if (!in_place) out.copy_(sum);
}

}  // namespace

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
  std::vector<const Gemm*> fast;
  for (const Gemm& one : products) {
    check(one.out, one.terms, one.epilogue);
    if (one.out.numel() == 0) continue;
    const GemmTerm& first = one.terms.front();
    announce("gemm", one.out.size(0), one.out.size(1), depth(first), first.weight->dtype());
    if (runs_in_blocks(one.out, one.terms)) {
      fast.push_back(&one);
    } else {
      gemm_plain(one.out, one.terms, one.epilogue);
    }
  }
  if (!fast.empty()) gemms_in_blocks(fast);
}

void add_outer(at::Tensor out, const at::Tensor& left, const at::Tensor& right) {
  const Outer one{std::move(out), left, right};
  add_outers({&one, 1});
}

void add_outers(std::span<const Outer> products) {
  constexpr const char* kWhere = "ops::add_outer";
  std::vector<const Outer*> fast;
  for (const Outer& one : products) {
    const auto& [out, left, right] = one;
    base::require(out.dim() == 2 && out.scalar_type() == at::kFloat, kWhere, "out [R, N] fp32");
    base::require(left.dim() == 2 && right.dim() == 2 && left.size(0) == right.size(0), kWhere,
                  "left [T, R] and right [T, N]");
    base::require(left.size(1) == out.size(0) && right.size(1) == out.size(1), kWhere, "out [R, N]");
    base::require(left.scalar_type() == right.scalar_type(), kWhere, "left and right of one dtype");
    if (out.numel() == 0 || left.size(0) == 0) continue;
    announce("gemm of gradients", out.size(0), out.size(1), left.size(0), left.scalar_type());
    if (has_outer_kernel(out, left, right)) {
      fast.push_back(&one);
    } else if (left.scalar_type() == at::kFloat) {
      at::Tensor(out).addmm_(left.t(), right);
    } else {
      at::Tensor(out).add_(at::mm(left.t().to(at::kFloat), right.to(at::kFloat)));
    }
  }
  if (!fast.empty()) add_outers_in_blocks(fast);
}

void add_weight_gradient(at::Tensor gradient, const at::Tensor& d_out, const at::Tensor& x) {
  if (d_out.scalar_type() != x.scalar_type() || !has_outer_kernel(gradient, d_out, x)) {
    add_outer(gradient, d_out, x);
    return;
  }
  if (gradient.numel() == 0 || x.size(0) == 0) return;
  // x as a matrix of T outputs: the sum over them is the product's depth.
  multiply(gradient, transposed(d_out), Weight(x), GemmDirection::kBackward, gradient);
}

}  // namespace hone::ops
