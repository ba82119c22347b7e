// Which products the CPU's kernels take: all of one dtype with kernels at this level, in this machine's memory.
#include <ATen/ATen.h>

#include <algorithm>

#include "ops/backend/cpu/cpu_operators.h"
#include "ops/backend/cpu/gemm_blocks.h"
#include "ops/backend/weight_memory.h"

namespace hone::ops::cpu {
namespace {

// Whether it lies here, in an order that gemm_blocks.h reads.
bool is_ours(const Weight& weight) {
  if (!weight.device().is_cpu()) return false;
  if (weight.is_packed()) return WeightMemory::layout(weight) == &kPanels;
  if (!weight.is_quantized()) return true;
  const backend::CodeLayout* const layout = weight.quantized().layout;
  return layout == nullptr || layout == &kPanelCodes;
}

bool takes(const Gemm& call) {
  const Tensor& out = call.out;
  const at::ScalarType dtype = call.terms.front().a.scalar_type();
  if (!out.device().is_cpu() || gemm_kernels(dtype) == nullptr) return false;
  if (out.scalar_type() != at::kBFloat16 && out.scalar_type() != at::kFloat) return false;
  return std::all_of(call.terms.begin(), call.terms.end(), [&](const GemmTerm& term) {
    return term.a.scalar_type() == dtype && term.a.device().is_cpu() && is_ours(*term.weight);
  });
}

bool takes_outer(const Tensor& out, const Tensor& left, const Tensor& right) {
  return gemm_kernels(left.scalar_type()) != nullptr && out.device().is_cpu() && left.device().is_cpu() &&
         right.device().is_cpu();
}

}  // namespace

bool gemms(std::span<const Gemm* const> products) {
  if (!std::all_of(products.begin(), products.end(), [](const Gemm* one) { return takes(*one); }))
    return false;
  gemms_in_blocks(products);
  return true;
}

bool add_outers(std::span<const Outer* const> products) {
  const bool all = std::all_of(products.begin(), products.end(),
                               [](const Outer* one) { return takes_outer(one->out, one->left, one->right); });
  if (all) add_outers_in_blocks(products);
  return all;
}

bool add_weight_gradient(const Tensor& gradient, const Tensor& d_out, const Tensor& x) {
  if (d_out.scalar_type() != x.scalar_type() || !takes_outer(gradient, d_out, x)) return false;
  if (gradient.numel() == 0 || x.size(0) == 0) return true;
  // x as a matrix of T outputs: the sum over them is the product's depth.
  multiply(gradient, transposed(d_out), Weight(x), GemmDirection::kBackward, gradient);
  return true;
}

}  // namespace hone::ops::cpu
