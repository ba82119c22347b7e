// Passes over one row of a tile of logits. Raw pointers only.
#pragma once

#include <cstdint>

namespace hone::ops::kernels {

struct ExpSums {
  double sum = 0;  // of exp(z), fp32 in lanes, added in double
  double dot = 0;  // of z exp(z)
};

struct LogprobKernels {
  // The largest of x [n], n > 0; NaNs are skipped, since they propagate through the sums.
  float (*peak)(const float* x, std::int64_t n);
  // z = (x - base) * scale, at most about 0; exp(z) below fp32's normal numbers is 0. `wide` and `narrow`
  // (bf16, rounded to nearest even), if not null, become factor * exp(z), [n].
  ExpSums (*exp)(const float* x, std::int64_t n, float base, float scale, float factor, float* wide,
                 std::uint16_t* narrow);
  // x *= factor, [n].
  void (*scale)(float* x, std::int64_t n, float factor);
};

const LogprobKernels* logprob_kernels_avx2();
const LogprobKernels* logprob_kernels_avx512();

#if defined(__x86_64__)
void scale_avx2(float* x, std::int64_t n, float factor);
#endif

}  // namespace hone::ops::kernels
