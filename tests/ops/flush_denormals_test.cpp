#include "ops/backend/cpu/flush_denormals.h"

#include <gtest/gtest.h>

namespace hone::ops {
namespace flush_denormals_test {

float product(float a, float b) {
  const volatile float x = a, y = b;
  return x * y;
}

TEST(FlushDenormals, HoldsForItsLifeOnly) {
  EXPECT_GT(product(1e-30F, 1e-10F), 0);
  EXPECT_GT(product(1e-40F, 1e10F), 0);
  {
    const FlushDenormals flush;
    EXPECT_EQ(product(1e-30F, 1e-10F), 0);  // as a result
    EXPECT_EQ(product(1e-40F, 1e10F), 0);   // as an operand
    EXPECT_EQ(product(1e-30F, 1e10F), 1e-30F * 1e10F);
  }
  EXPECT_GT(product(1e-30F, 1e-10F), 0);
}

}  // namespace flush_denormals_test
}  // namespace hone::ops
