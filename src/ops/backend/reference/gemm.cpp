#include "ops/gemm.h"

#include <ATen/ATen.h>

#include "ops/backend/reference/reference.h"

namespace hone::ops::reference {
namespace {

// libtorch's products, summed in fp32. A product of bf16 is rounded to bf16 once more than in the kernel's
// form.
void add_terms(at::Tensor out, std::span<const GemmTerm> terms, const Epilogue& epilogue) {
  // The residual may be `out` itself: then the sum needs a place of its own.
  const bool in_place = out.scalar_type() == at::kFloat && !epilogue.residual.defined();
  at::Tensor sum = in_place ? out : at::empty(out.sizes(), out.options().dtype(at::kFloat));
  bool first = true;
  for (const GemmTerm& term : terms) {
    const at::Tensor right = term.right();
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

void gemms(std::span<const Gemm* const> products) {
  for (const Gemm* const one : products) add_terms(one->out, one->terms, one->epilogue);
}

void add_outers(std::span<const Outer* const> products) {
  for (const Outer* const one : products) {
    const auto& [out, left, right] = *one;
    if (left.scalar_type() == at::kFloat) {
      Tensor(out).addmm_(left.t(), right);
    } else {
      Tensor(out).add_(at::mm(left.t().to(at::kFloat), right.to(at::kFloat)));
    }
  }
}

}  // namespace hone::ops::reference
