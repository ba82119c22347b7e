// Attention of two parts by a kernel of our own.
#include <ATen/ATen.h>

#include "ops/backend/cuda/cuda_operators.h"
#include "ops/backend/cuda/own_kernels.h"

namespace hone::ops::cuda {
namespace {

// A number for each token and head.
kernels::HeadNumbers numbers_of(KernelViews& of, const Tensor& x, std::int64_t token_dim) {
  of.need(x.dim() == 2 && x.scalar_type() == at::kFloat);
  return {static_cast<float*>(x.data_ptr()), x.stride(token_dim), x.stride(1 - token_dim)};
}

}  // namespace

bool join_attention(const backend::AttentionParts& x) {
  return run_own(x.out.device(), &kernels::Kernels::join_attention, "join_attention",
                 [&](KernelViews& of) -> kernels::JoinAttention {
                   of.need(x.own.scalar_type() == x.part.scalar_type());
                   return {.out = of.heads(x.out),
                           .own = of.heads(x.own),
                           .part = of.heads(x.part),
                           .own_lse = numbers_of(of, x.own_lse, 1),
                           .part_lse = numbers_of(of, x.part_lse, 1),
                           .lse = x.lse.defined() ? numbers_of(of, x.lse, 0) : kernels::HeadNumbers(),
                           .rows = x.rows.defined() ? of.numbers<const std::int32_t>(x.rows) : nullptr,
                           .tokens = x.part.size(0),
                           .all_tokens = x.own.size(0),
                           .heads = x.part.size(1),
                           .dim = x.part.size(2)};
                 });
}

}  // namespace hone::ops::cuda
