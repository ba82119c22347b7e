// 64 tokens of the delta rule at once, for its backward (ops/delta_rule.h). Of tokens t and s of a chunk, L(t, s) is the decay
// between them, c the log of that from the chunk's begin to t, S0 the state before it and S1 the one after it:
//
//   delta_t = beta_t (v_t - exp(c_t) S0^T k_t - sum over s < t of L(t, s) (k_t k_s) delta_s),   a triangular system
//   S1 = exp(c_last) S0 + sum of L(last, t) k_t delta_t^T
//   o_t = exp(c_t) S0^T q_t + sum over s <= t of L(t, s) (q_t k_s) delta_s
//
// and the gradients are of the same form (Yang et al. 2024), with R the gradient of S1 and later of S0.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/backend/cpu/delta_rule_rows.h"

namespace hone::ops::delta {

constexpr std::int64_t kPairStride = row_stride(kTokens);

// Holds what a thread needs for a chunk of one key head and one of its value heads. Matrices of tokens by
// columns of a head, by each other, and of columns by tokens, with rows row_stride() apart.
class ChunkMemory {
 public:
  explicit ChunkMemory(const DeltaShape& shape);
  static std::int64_t floats(const DeltaShape& shape);

  // Both passes over the tokens read these, which the caller sets: unit vectors of the key head [64, D],
  // gates of the value head [64].
  const float *q = nullptr, *k = nullptr, *beta = nullptr, *log_decay = nullptr;
  // of the key head
  float *dq, *dk, *some_keys;             // [64 + kTapsMost, D]
  float *q_turned, *k_turned;             // [D, 64]
  float *keys_by_keys, *queries_by_keys;  // [64, 64], where the second token is not later
  // of the value head
  float *v, *d_out, *d_delta, *d_missed, *d_out_decayed, *d_missed_decayed;  // [64 + kTapsMost, E]
  float *d_out_turned, *d_missed_turned, *delta_turned;                      // [E, 64]
  float *of_queries, *of_keys, *more_of_keys;                                // [D, 64]
  float *decay, *scores, *pairs_decayed, *system, *by_out, *by_missed, *turned, *crossing;  // [64, 64]
  float *from_begin, *to_end, *factor, *reads, *writes, *some;                              // [64]
  std::vector<double> sums;                                                                 // c
  std::vector<const void*> rows;

 private:
  std::vector<float> floats_;
};

// The first factor of a product: element (i, k) at at[i * row + k * depth].
struct Left {
  const float* at;
  std::int64_t row, depth;
};
inline Left as_is(const float* at, std::int64_t stride) {
  return {at, stride, 1};
}
inline Left turned(const float* at, std::int64_t stride) {
  return {at, 1, stride};
}
// The second factor and the result, with rows `stride` apart.
struct Right {
  const float* at;
  std::int64_t stride;
};
struct Result {
  float* at;
  std::int64_t stride;
};
struct Extents {
  std::int64_t rows, columns, depth;
};
// c = a b, and c += a b (Kernels::product).
void set_product(const Result& c, const Left& a, const Right& b, const Extents& of,
                 Zeros zeros = Zeros::kNone);
void add_product(const Result& c, const Left& a, const Right& b, const Extents& of,
                 Zeros zeros = Zeros::kNone);

// delta = what is in it plus the sum over earlier (later) tokens of system(t, s) delta_s (system(s, t)); [count, E].
void solve_forward(const ChunkMemory& m, std::int64_t count, std::int64_t width, float* delta);
void solve_backward(const ChunkMemory& m, std::int64_t count, std::int64_t width, float* delta);

// Products of keys by keys, for all value heads of the key head; of queries by keys.
void multiply_keys(const Prepared& p, ChunkMemory& m, std::int64_t count);
void multiply_queries(const Prepared& p, ChunkMemory& m, std::int64_t count);
// Decays and the triangular system, from the gates.
void decay_pairs(ChunkMemory& m, std::int64_t count);
// delta [count, E], and S1 from S0, [D, E] both; m.v is v.
void chunk_forward(const Prepared& p, ChunkMemory& m, std::int64_t count, const float* before, float* delta,
                   float* after);

// From d_out, the gradient of o / scale of q, and R of S1: d_delta, the gradients of q, k and v (into m.dq, m.dk and m.v), of
// beta (times beta's own slope, into m.reads) and of the log of each decay (into m.writes), and R of S0.
void chunk_backward(const Prepared& p, ChunkMemory& m, std::int64_t count, const float* before,
                    const float* delta, float* r, bool adds_to_keys);

}  // namespace hone::ops::delta
