// The table of tensors on NVIDIA GPUs: hone's own kernels and libtorch's operators for CUDA (ops/backend/cuda).
#pragma once

#include <cstdint>

#include "ops/backend/operators.h"
#include "ops/sampling/head_rotation.h"
#include "ops/sampling/paged_attention.h"
#include "ops/sampling/sample_tokens.h"

namespace hone::ops::backend {

const Operators& cuda_operators();

// How often this process has started one of hone's own kernels (ops/backend/cuda/kernels).
std::int64_t own_kernels_started();

// While it lives, libtorch's operators compute in place of hone's own kernels; one at a time, while nothing else runs.
class WithoutOwnKernels {
 public:
  WithoutOwnKernels();
  ~WithoutOwnKernels();
  WithoutOwnKernels(const WithoutOwnKernels&) = delete;
  WithoutOwnKernels& operator=(const WithoutOwnKernels&) = delete;
};

}  // namespace hone::ops::backend

namespace hone::ops::cuda {

// These only hone's own kernels have (ops/sampling). They are no rows of a table, since the host does the same
// in another form.
bool has_own_kernels(at::Device device);
// False: there is no kernel for these tensors.
bool sample_tokens(const SampledTokens& x);
bool draws_tokens(at::Device device);
bool attend_pages(const at::Tensor& out, const at::Tensor& lse, const at::Tensor& q, const PageMemory& memory,
                  const SentParts& parts, double scale);
// By hone's own kernel, in one launch; false: nothing was written.
bool step_heads(const at::Tensor& qkv, const HeadRotation& rotation, const PageMemory& memory,
                const PageSlots& slots);
// Says whether attend_pages() takes them: numbers of this type, so many heads of queries over a head of keys.
bool takes_pages(at::ScalarType dtype, std::int64_t group, std::int64_t dim);

}  // namespace hone::ops::cuda
