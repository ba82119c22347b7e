#include "rollout/scores.h"

#include <bit>
#include <limits>

namespace hone::rollout {

bool all_finite(std::span<const float> logits) {
  constexpr std::uint32_t kExponent = 0x7F800000U;  // all ones: infinite or not a number
  std::uint32_t bad = 0;
  for (const float x : logits) bad |= (std::bit_cast<std::uint32_t>(x) & kExponent) == kExponent ? 1U : 0U;
  return bad == 0;
}

void penalize(std::span<float> scores, std::span<const std::int32_t> seen, double penalty) {
  const auto factor = static_cast<float>(penalty);  // transformers multiplies in fp32
  for (const std::int32_t id : seen) {
    if (id < 0 || static_cast<std::size_t>(id) >= scores.size()) continue;
    float& score = scores[static_cast<std::size_t>(id)];
    score = score < 0 ? score * factor : score / factor;
  }
}

void forbid(std::span<float> scores, std::span<const std::int64_t> ids) {
  for (const std::int64_t id : ids) {
    if (id < 0 || static_cast<std::size_t>(id) >= scores.size()) continue;
    scores[static_cast<std::size_t>(id)] = -std::numeric_limits<float>::infinity();
  }
}

}  // namespace hone::rollout
