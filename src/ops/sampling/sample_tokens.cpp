#include "ops/sampling/sample_tokens.h"

#include "ops/backend/cuda.h"

namespace hone::ops {

bool sample_tokens(const SampledTokens& x) {
  return cuda::sample_tokens(x);
}

bool draws_tokens(at::Device device) {
  return cuda::draws_tokens(device);
}

}  // namespace hone::ops
