// The next tokens by a kernel of our own.
#include <ATen/ATen.h>

#include "ops/backend/cuda.h"
#include "ops/backend/cuda/own_kernels.h"

namespace hone::ops::cuda {

bool draws_tokens(at::Device device) {
  return !device.is_cpu() && has_own_kernels(device);
}

bool sample_tokens(const SampledTokens& x) {
  return run_own(
      x.logits.device(), &kernels::Kernels::sample_tokens, "sample_tokens",
      [&](KernelViews& of) -> kernels::SampleTokens {
        of.need(x.logits.scalar_type() == at::kFloat && x.logprobs.defined() == x.entropies.defined());
        const auto* const rules = of.numbers<const std::uint8_t>(x.rules);
        auto* const states = of.numbers<std::int32_t>(x.states);
        auto* const seen = x.seen.defined() ? of.numbers<std::int32_t>(x.seen) : nullptr;
        return {.logits = of.rows(x.logits),
                .rules = reinterpret_cast<const DrawRule*>(rules),
                .stop_ids = of.numbers<const std::int32_t>(x.stop_ids),
                .seen = reinterpret_cast<std::uint32_t*>(seen),
                .masses = of.numbers<double>(x.masses),
                .drawn = of.numbers<std::int64_t>(x.drawn),
                .ids = of.numbers<std::int32_t>(x.ids),
                .states = reinterpret_cast<DrawState*>(states),
                .sampled_logprobs = of.numbers<float>(x.sampled_logprobs),
                .logprobs = x.logprobs.defined() ? of.numbers<float>(x.logprobs) : nullptr,
                .entropies = x.entropies.defined() ? of.numbers<float>(x.entropies) : nullptr,
                .rows = x.logits.size(0),
                .vocabulary = x.logits.size(1),
                .all_stops = x.stop_ids.numel()};
      });
}

}  // namespace hone::ops::cuda
