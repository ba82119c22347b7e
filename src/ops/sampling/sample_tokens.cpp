#include "ops/sampling/sample_tokens.h"

#include "ops/backend/cuda.h"

namespace hone::ops {

bool sample_tokens(const SampledTokens& x) {
  return cuda::sample_tokens(x);
}

}  // namespace hone::ops
