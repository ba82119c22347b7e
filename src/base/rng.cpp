#include "base/rng.h"

#include <cmath>
#include <numbers>

#include "base/error.h"

namespace hone::base {

namespace {

constexpr std::uint32_t low(std::uint64_t value) {
  return static_cast<std::uint32_t>(value);
}
constexpr std::uint32_t high(std::uint64_t value) {
  return static_cast<std::uint32_t>(value >> 32);
}

}  // namespace

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  constexpr std::uint64_t kMultiply0 = 0xD2511F53;
  constexpr std::uint64_t kMultiply1 = 0xCD9E8D57;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9;  // golden ratio
  constexpr std::uint32_t kWeyl1 = 0xBB67AE85;  // sqrt(3) - 1
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = kMultiply0 * counter[0];
    const std::uint64_t product1 = kMultiply1 * counter[2];
    counter = {high(product1) ^ counter[1] ^ key[0], low(product1), high(product0) ^ counter[3] ^ key[1],
               low(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

Stream::Stream(std::uint64_t seed, Purpose purpose, std::uint64_t step, std::uint64_t substream)
    : key_{low(seed), high(seed)},
      counter_{0, static_cast<std::uint32_t>(purpose) << 8 | low(substream >> 32) << 16, low(step),
               low(substream)} {
  require(high(step) == 0, "rng", "a step below 2^32");
  require(substream >> 48 == 0, "rng", "a substream below 2^48");
}

std::array<std::uint32_t, 4> Stream::block(std::uint64_t block_index) const {
  if (block_index >> 40 != 0) require(false, "rng", "an index below 2^42");
  std::array<std::uint32_t, 4> counter = counter_;
  counter[0] = low(block_index);
  counter[1] |= high(block_index);
  return philox(counter, key_);
}

std::uint32_t Stream::bits(std::uint64_t index) const {
  return block(index / 4)[index % 4];
}

float Stream::uniform(std::uint64_t index) const {
  return static_cast<float>(bits(index) >> 8) * 0x1p-24F;
}

float Stream::normal(std::uint64_t index) const {
  const std::array<std::uint32_t, 4> words = block(index / 2);
  const std::size_t at = index % 2 * 2;
  const double radius = std::sqrt(-2.0 * std::log((static_cast<double>(words[at]) + 1.0) * 0x1p-32));
  const double angle = 2.0 * std::numbers::pi * static_cast<double>(words[at + 1]) * 0x1p-32;
  return static_cast<float>(radius * std::cos(angle));
}

}  // namespace hone::base
