// dtype.h, half.h, hash.h, crc32c.h, numeric.h, error.h: small functions with known answers.
#include <cmath>
#include <limits>

#include "base/dtype.h"
#include "base/files/crc32c.h"
#include "base/half.h"
#include "base/hash.h"
#include "base/helpers.h"
#include "base/numeric.h"

namespace hone::base {
namespace numbers_test {

TEST(DType, NamesRoundTrip) {
  for (const char* name : {"F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U8", "BOOL"}) {
    const auto dtype = dtype_from_safetensors(name);
    ASSERT_TRUE(dtype) << name;
    EXPECT_EQ(safetensors_name(*dtype), name);
  }
  EXPECT_FALSE(dtype_from_safetensors("F8_E4M3"));
  EXPECT_EQ(size_of(DType::kBF16), 2U);
  EXPECT_EQ(size_of(DType::kF64), 8U);
  EXPECT_EQ(size_of(DType::kBool), 1U);
}

// The reference is the definition in double: sign, exponent, fraction.
TEST(Half, EveryPatternIsExactAndRoundTrips) {
  for (std::uint32_t i = 0; i <= 0xFFFF; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const float value = half_to_float(bits);
    const int exponent = bits >> 10 & 0x1F;
    const double fraction = bits & 0x3FF;
    const double sign = (bits & 0x8000) != 0 ? -1 : 1;
    if (exponent == 31 && fraction != 0) {
      ASSERT_TRUE(std::isnan(value));
      ASSERT_EQ(float_to_half(value), bits | 0x200);
      continue;
    }
    const double expected = exponent == 31  ? sign * std::numeric_limits<double>::infinity()
                            : exponent == 0 ? sign * std::ldexp(fraction, -24)
                                            : sign * std::ldexp(1024 + fraction, exponent - 25);
    ASSERT_EQ(value, expected) << i;
    ASSERT_EQ(float_to_half(value), bits) << i;
  }
}

TEST(Half, RoundsToNearestEven) {
  EXPECT_EQ(float_to_half(1.0F + 0x1p-11F), 0x3C00);      // a tie: to even, down
  EXPECT_EQ(float_to_half(1.0F + 3 * 0x1p-11F), 0x3C02);  // a tie: to even, up
  EXPECT_EQ(float_to_half(1.0F + 0x1p-11F + 0x1p-20F), 0x3C01);
  EXPECT_EQ(float_to_half(65519.0F), 0x7BFF);
  EXPECT_EQ(float_to_half(65520.0F), 0x7C00);
  EXPECT_EQ(float_to_half(-1e10F), 0xFC00);
  EXPECT_EQ(float_to_half(0x1p-25F), 0);  // a tie between 0 and the least subnormal
  EXPECT_EQ(float_to_half(0x1.8p-25F), 1);
  EXPECT_EQ(float_to_half(0x1.ffcp-15F), 0x03FF + 1U);  // a tie that carries into the normals
  EXPECT_EQ(float_to_half(-0.0F), 0x8000);
}

TEST(BFloat16, ExactOneWayAndNearestEvenTheOther) {
  for (std::uint32_t i = 0; i <= 0xFFFF; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const float value = bf16_to_float(bits);
    ASSERT_EQ(float_to_bf16(value), std::isnan(value) ? (bits | 0x40) : bits);
  }
  EXPECT_EQ(float_to_bf16(1.0F + 0x1p-8F), 0x3F80);
  EXPECT_EQ(float_to_bf16(1.0F + 3 * 0x1p-8F), 0x3F82);
  EXPECT_EQ(float_to_bf16(std::numeric_limits<float>::max()), 0x7F80);
}

TEST(Hash, KnownAnswersAndParts) {
  EXPECT_EQ(hash64(""), 0xCBF29CE484222325U);
  EXPECT_EQ(hash64("a"), 0xAF63DC4C8601EC8CU);
  EXPECT_EQ(hash64("foobar"), 0x85944171F73967E8U);
  EXPECT_EQ(hash64("bar", hash64("foo")), hash64("foobar"));
  EXPECT_EQ(hash64(std::as_bytes(std::span("foobar", 6))), hash64("foobar"));
}

TEST(Crc32c, KnownAnswersAndParts) {
  EXPECT_EQ(crc32c(""), 0U);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);  // RFC 3720, B.4
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43U);
  EXPECT_EQ(crc32c("456789", crc32c("123")), 0xE3069283U);
}

TEST(Numeric, LossIsOurBug) {
  EXPECT_EQ(narrow<std::uint8_t>(255), 255);
  expect_says(message_of<InternalError>([] { narrow<std::uint8_t>(256); }), {"[narrow]", "a bug in hone"});
  expect_says(message_of<InternalError>([] { narrow<std::uint8_t>(-1); }), {"[narrow]"});
  EXPECT_EQ(div_exact(12, 4), 3);
  expect_says(message_of<InternalError>([] { div_exact(13, 4); }), {"[div_exact]"});
  expect_says(message_of<InternalError>([] { div_exact(13, 0); }), {"[div_exact]"});
}

TEST(ErrorText, EmptyPartsAreLeftOut) {
  EXPECT_EQ(format_error({.where = "f:1", .expected = "a", .found = "b", .cause = "c", .fix = "d"}),
            "[f:1] expected a\n  found:  b\n  likely: c\n  do:     d");
  EXPECT_EQ(format_error({.where = "f:1", .expected = "a", .found = {}, .cause = {}, .fix = {}}),
            "[f:1] expected a");
}

}  // namespace numbers_test
}  // namespace hone::base
