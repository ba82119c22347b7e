// Products of bf16 (or fp16) matrices with fp32 sums. libtorch has them with a result of fp32 (mm.dtype), and with one
// of the factors' dtype; the others, of float32 alone, are the reference's.
#include <ATen/ATen.h>

#include <algorithm>

#include "ops/backend/cuda/cuda_operators.h"

namespace hone::ops::cuda {
namespace {

bool are_narrow(const Gemm& one) {
  return std::all_of(one.terms.begin(), one.terms.end(), [](const GemmTerm& term) {
    return term.a.scalar_type() == at::kBFloat16 || term.a.scalar_type() == at::kHalf;
  });
}

// sum fp32 = [sum +] scale * a right, in one call.
void multiply_add(Tensor& sum, const GemmTerm& term, double scale, bool adds) {
  if (adds || scale != 1) {
    at::addmm_out(sum, sum, term.a, term.right(), at::kFloat, adds ? 1 : 0, scale);
  } else {
    at::mm_out(sum, term.a, term.right(), at::kFloat);
  }
}

// One product and at most one addend of the result's own dtype: libtorch adds it to the fp32 sum and rounds once.
bool multiply_alone(const Gemm& one) {
  const Epilogue& epilogue = one.epilogue;
  if (one.terms.size() != 1 || (epilogue.bias.defined() && epilogue.residual.defined())) return false;
  const GemmTerm& term = one.terms.front();
  if (one.out.scalar_type() != term.a.scalar_type()) return false;
  const Tensor& addend = epilogue.bias.defined() ? epilogue.bias : epilogue.residual;
  Tensor out = one.out;
  if (addend.defined()) {
    if (addend.scalar_type() != out.scalar_type()) return false;
    at::addmm_out(out, addend, term.a, term.right(), 1, epilogue.scale);
  } else if (epilogue.scale != 1) {
    at::addmm_out(out, out, term.a, term.right(), 0, epilogue.scale);
  } else {
    at::mm_out(out, term.a, term.right());
  }
  return true;
}

void multiply_together(const Gemm& one) {
  const auto& [bias, residual] = std::pair(one.epilogue.bias, one.epilogue.residual);
  const bool is_wide = one.out.scalar_type() == at::kFloat;
  const bool onto_itself = is_wide && residual.defined() && residual.is_same(one.out);
  const bool in_place = is_wide && !bias.defined() && (!residual.defined() || onto_itself);
  Tensor out = one.out;
  Tensor sum = in_place ? out : at::empty(out.sizes(), out.options().dtype(at::kFloat));
  bool adds = onto_itself && in_place;
  for (const GemmTerm& term : one.terms) {
    multiply_add(sum, term, one.epilogue.scale, adds);
    adds = true;
  }
  if (in_place) return;
  if (bias.defined() && residual.defined()) sum.add_(bias);
  const Tensor& last = residual.defined() ? residual : bias;
  last.defined() ? static_cast<void>(at::add_out(out, sum, last)) : static_cast<void>(out.copy_(sum));
}

}  // namespace

bool gemms(std::span<const Gemm* const> products) {
  if (!std::all_of(products.begin(), products.end(), [](const Gemm* one) { return are_narrow(*one); }))
    return false;
  for (const Gemm* const one : products) {
    if (!multiply_alone(*one)) multiply_together(*one);
  }
  return true;
}

bool add_outers(std::span<const Outer* const> products) {
  const auto is_wide = [](const Outer* one) { return one->left.scalar_type() == at::kFloat; };
  if (std::any_of(products.begin(), products.end(), is_wide)) return false;
  for (const Outer* const one : products) {
    Tensor out = one->out;
    at::addmm_out(out, out, one->left.t(), one->right, at::kFloat, 1, 1);
  }
  return true;
}

}  // namespace hone::ops::cuda
