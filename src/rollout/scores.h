// These change a row of logits before temperature and the filters, as transformers' logits processors (5.23,
// generation/logits_process.py) do, in their order. All work on one sequence's V scores, in place.
#pragma once

#include <cstdint>
#include <span>

namespace hone::rollout {

// Returns whether every value is finite: neither infinite nor not-a-number.
bool all_finite(std::span<const float> logits);

// RepetitionPenaltyLogitsProcessor: each token of `seen` (distinct ids of prompt and completion; ids outside
// the vocabulary are ignored) is made less likely: a positive score is divided by `penalty`, a negative
// one multiplied. A penalty below 1 makes them more likely.
void penalize(std::span<float> scores, std::span<const std::int32_t> seen, double penalty);

// MinNewTokensLengthLogitsProcessor: these tokens cannot be drawn.
void forbid(std::span<float> scores, std::span<const std::int64_t> ids);

}  // namespace hone::rollout
