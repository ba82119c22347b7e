#include "train/batches/kl_by_depth.h"

#include <cmath>
#include <cstddef>

namespace hone::train {

void add_completion(KlByDepth& to, std::span<const float> policy, std::span<const float> reference) {
  const std::size_t count = reference.size();
  if (count < KlByDepth::kParts || policy.size() != count) return;
  for (std::size_t t = 0; t < count; ++t) {
    const double gap = static_cast<double>(reference[t]) - policy[t];
    to.sums[t * KlByDepth::kParts / count] += std::expm1(gap) - gap;
  }
  to.tokens += static_cast<std::int64_t>(count);
}

KlByDepth kl_by_depth(const RolloutBatch& batch) {
  KlByDepth out;
  for (const RolloutSample& sample : batch.samples)
    add_completion(out, sample.old_logprobs, sample.ref_logprobs);
  return out;
}

}  // namespace hone::train
