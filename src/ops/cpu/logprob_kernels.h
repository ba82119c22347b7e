// Passes over one row of a tile of logits. Raw pointers only; logprob_rows.cpp selects the instruction set.
#pragma once

#include <cstdint>

namespace hone::ops::kernels {

#if defined(__x86_64__)

// The largest of x [n], n > 0; NaNs are skipped, since they propagate through the sums.
float peak_avx2(const float* x, std::int64_t n);
float peak_avx512(const float* x, std::int64_t n);

struct ExpSums {
  double sum = 0;  // of exp(z), fp32 in lanes, added in double
  double dot = 0;  // of z exp(z)
};

// z = (x - base) * scale, at most about 0; exp(z) below fp32's normal numbers is 0. `wide` and `narrow`
// (bf16, rounded to nearest even), if not null, become factor * exp(z), [n].
ExpSums exp_avx2(const float* x, std::int64_t n, float base, float scale, float factor, float* wide,
                 std::uint16_t* narrow);
ExpSums exp_avx512(const float* x, std::int64_t n, float base, float scale, float factor, float* wide,
                   std::uint16_t* narrow);

// x *= factor, [n].
void scale_avx2(float* x, std::int64_t n, float factor);

#endif

}  // namespace hone::ops::kernels
