#include "ops/gemm.h"

#include <ATen/ATen.h>

#include "base/error.h"

namespace hone::ops {
namespace {

at::Tensor product(const GemmTerm& term) {
  const at::Tensor w = term.weight->dense();
  return term.side == Side::kForward ? at::matmul(term.a, w.t()) : at::matmul(term.a, w);
}

}  // namespace

void gemm(at::Tensor out, std::span<const GemmTerm> terms, const Epilogue& epilogue) {
  base::require(!terms.empty(), "ops::gemm", "at least one term");
  at::Tensor sum = product(terms[0]).to(at::kFloat);
  for (const GemmTerm& term : terms.subspan(1)) sum.add_(product(term).to(at::kFloat));
  if (epilogue.scale != 1) sum.mul_(epilogue.scale);
  if (epilogue.bias.defined()) sum.add_(epilogue.bias.to(at::kFloat));
  if (epilogue.residual.defined()) sum.add_(epilogue.residual.to(at::kFloat));
  out.copy_(sum);
}

void add_outer(at::Tensor out, const at::Tensor& left, const at::Tensor& right) {
  out.add_(at::matmul(left.t().to(at::kFloat), right.to(at::kFloat)));
}

}  // namespace hone::ops
