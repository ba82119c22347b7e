#include "ops/sampling/sample_tokens.h"

#include "ops/backend/operators.h"

namespace hone::ops {

bool sample_tokens(const SampledTokens& x) {
  const auto kernel = backend::operators_of(x.logits.device()).sample_tokens;
  return kernel != nullptr && kernel(x);
}

}  // namespace hone::ops
