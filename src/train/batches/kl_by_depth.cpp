#include "train/batches/kl_by_depth.h"

#include <cmath>
#include <cstddef>

namespace hone::train {

KlByDepth kl_by_depth(const RolloutBatch& batch) {
  KlByDepth out;
  for (const RolloutSample& sample : batch.samples) {
    const std::size_t count = sample.ref_logprobs.size();
    if (count < KlByDepth::kParts || sample.old_logprobs.size() != count) continue;
    for (std::size_t t = 0; t < count; ++t) {
      const double gap = static_cast<double>(sample.ref_logprobs[t]) - sample.old_logprobs[t];
      out.sums[t * KlByDepth::kParts / count] += std::expm1(gap) - gap;
    }
    out.tokens += static_cast<std::int64_t>(count);
  }
  return out;
}

}  // namespace hone::train
