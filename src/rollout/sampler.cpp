#include "rollout/sampler.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace hone::rollout {

std::int64_t sample_token(const at::Tensor& logits, const SamplerOptions& options, float uniform) {
  if (options.temperature == 0) return logits.argmax().item<std::int64_t>();
  // Sorted once, descending and stable, so that top-k and top-p are prefixes; then the inverse of the
  // cumulative sum.
  auto [sorted, order] =
      at::sort(logits / options.temperature, /*stable=*/true, /*dim=*/0, /*descending=*/true);
  if (options.top_k > 0) sorted = sorted.narrow(0, 0, std::min(options.top_k, sorted.size(0)));
  at::Tensor probability = sorted.softmax(0, at::kDouble);
  at::Tensor cumulative = probability.cumsum(0);
  if (options.top_p < 1.0) {
    // TopPLogitsWarper keeps the smallest prefix whose mass reaches top_p, and at least one token.
    const auto kept = (cumulative - probability < options.top_p).sum().item<std::int64_t>();
    cumulative = cumulative.narrow(0, 0, std::max<std::int64_t>(1, kept));
  }
  const double total = cumulative[-1].item<double>();
  const auto index = at::searchsorted(cumulative, static_cast<double>(uniform) * total, /*out_int32=*/false,
                                      /*right=*/true)
                         .item<std::int64_t>();
  return order[std::min(index, cumulative.size(0) - 1)].item<std::int64_t>();
}

}  // namespace hone::rollout
