#include "base/rng.h"

#include <cmath>
#include <set>

#include "base/helpers.h"

namespace hone::base {
namespace rng_test {

using Words = std::array<std::uint32_t, 4>;

// kat_vectors of Random123 (the paper's own code), philox 4x32, 10 rounds.
TEST(Rng, PhiloxGivesThePublishedAnswers) {
  constexpr std::uint32_t kOnes = 0xFFFFFFFF;
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Rng, StreamHasTheLayoutOfTheHeader) {
  const std::uint64_t substream = 0xABCD'1234'5678;
  const Stream stream(0x1122334455667788, Purpose::kDropout, 0xDEADBEEF, substream);
  const std::uint64_t block = 0x9A'00000001;
  const Words expected = philox({0x00000001, 0xABCD029A, 0xDEADBEEF, 0x12345678}, {0x55667788, 0x11223344});
  EXPECT_EQ(stream.block(block), expected);
  for (std::uint64_t i = 0; i < 4; ++i) EXPECT_EQ(stream.bits(block * 4 + i), expected[i]);
}

TEST(Rng, EveryPartOfTheKeyChangesTheNumbers) {
  std::set<Words> seen;
  int streams = 0;
  for (const std::uint64_t seed : {0ULL, 1ULL, 1ULL << 32}) {
    for (const Purpose purpose : {Purpose::kLoraInit, Purpose::kDropout}) {
      for (const std::uint64_t step : {0ULL, 1ULL, 0xFFFFFFFFULL}) {
        for (const std::uint64_t substream : {0ULL, 1ULL, 1ULL << 32, (1ULL << 48) - 1}) {
          for (const std::uint64_t block : {0ULL, 1ULL, 1ULL << 32, (1ULL << 40) - 1}) {
            seen.insert(Stream(seed, purpose, step, substream).block(block));
            ++streams;
          }
        }
      }
    }
  }
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(streams));
}

TEST(Rng, OutsideTheRangesIsOurBug) {
  using Fault = InternalError;
  expect_says(message_of<Fault>([] { Stream(1, Purpose::kDropout, 1ULL << 32); }), {"a step below 2^32"});
  expect_says(message_of<Fault>([] { Stream(1, Purpose::kDropout, 0, 1ULL << 48); }),
              {"a substream below 2^48"});
  const Stream stream(1, Purpose::kDropout, 0);
  expect_says(message_of<Fault>([&] { stream.bits(1ULL << 42); }), {"an index below 2^42"});
  EXPECT_NO_THROW(stream.bits((1ULL << 42) - 1));
}

TEST(Rng, UniformIsBelowOneWithTheRightMoments) {
  const Stream stream(7, Purpose::kSampling, 3);
  constexpr int kCount = 100'000;
  double sum = 0;
  double squares = 0;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    const float u = stream.uniform(i);
    ASSERT_GE(u, 0.0F);
    ASSERT_LT(u, 1.0F);
    sum += u;
    squares += static_cast<double>(u) * u;
  }
  EXPECT_NEAR(sum / kCount, 0.5, 0.005);          // 5 sigma is 0.0046
  EXPECT_NEAR(squares / kCount, 1.0 / 3, 0.005);  // 5 sigma is 0.0047
}

TEST(Rng, NormalHasTheRightMomentsAndFollowsItsFormula) {
  const Stream stream(7, Purpose::kLoraInit, 0);
  constexpr int kCount = 100'000;
  double sum = 0;
  double squares = 0;
  double fourth = 0;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    const double x = stream.normal(i);
    ASSERT_TRUE(std::isfinite(x));
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
  }
  EXPECT_NEAR(sum / kCount, 0, 0.016);
  EXPECT_NEAR(squares / kCount, 1, 0.023);
  EXPECT_NEAR(fourth / kCount, 3, 0.16);
  const double u = (stream.bits(2 * 5) + 1.0) / 4294967296.0;
  const double angle = 2 * 3.14159265358979323846 * stream.bits(2 * 5 + 1) / 4294967296.0;
  EXPECT_FLOAT_EQ(stream.normal(5), static_cast<float>(std::sqrt(-2 * std::log(u)) * std::cos(angle)));
}

}  // namespace rng_test
}  // namespace hone::base
