// What a sampler's kernels read and write: structures and sizes that the host and a device have in common.
#pragma once

#include <cmath>
#include <cstdint>

namespace hone::ops {

// Holds what decides a row's next token: rollout::SamplerOptions, and what its draw is keyed by
// (rollout::sampling_uniform).
struct DrawRule {
  double top_p = 1;           // 1: off
  double least = -INFINITY;   // temperature * ln(min_p): how far below the best a score may be; -inf: off
  std::int64_t top_k = 0;     // 0: off
  std::int64_t position = 0;  // of the first token that is drawn; below 2^40
  std::int64_t min_new_tokens = 0, max_new_tokens = 0;
  std::uint64_t seed = 0;
  std::uint32_t step = 0, prompt = 0, sample = 0;  // sample below 2^16
  float scale = 0;                                 // 1 / temperature; 0: greedy
  float penalty = 1;                               // 1: off
  std::int32_t first_stop = 0, stops = 0;          // its part of SampleTokens::stop_ids
};

enum class DrawState : int { kGoesOn, kLength, kStopToken, kNotFinite };

// Tokens of a vocabulary whose weights have one sum.
constexpr std::int64_t kMassTokens = 64;

// Rows of queries that read the same tokens, which are at most kPartPages pages.
constexpr std::int64_t kPageTokens = 64, kPartPages = 8;
struct PagePart {
  std::int32_t first_row = 0, rows = 0;     // in the list of rows; none: nothing to do
  std::int32_t first_page = 0, tokens = 0;  // in the list of pages
};
struct PartRow {
  std::int32_t query = 0, result = 0;  // which of q; where what it sees of the part goes
};

// Rows of a part times queries that share a head of keys: at most so many in a narrow one, and in any.
constexpr std::int64_t kNarrowPart = 8;
constexpr std::int64_t widest_part(std::int64_t dim) {
  return dim <= 128 ? 64 : 32;
}

}  // namespace hone::ops
