// numpy's default generator, from its published parts: SeedSequence (O'Neill's seed_seq_fe, pool of 4) seeds
// a PCG64 (O'Neill 2014, XSL-RR 128/64); permutation is Fisher-Yates from the end, with bounded numbers by
// masking and rejection, two 32-bit numbers from each 64-bit output, the low half first.
#include "data/records/shuffle.h"

#include <array>
#include <bit>
#include <numeric>
#include <utility>

#include "base/error.h"

namespace hone::data {
namespace {

__extension__ using Uint128 = unsigned __int128;

// Eight 32-bit words hashed from the seed's own words.
class SeedSequence {
 public:
  explicit SeedSequence(std::uint64_t seed) {
    const std::array<std::uint32_t, 4> entropy = {static_cast<std::uint32_t>(seed),
                                                  static_cast<std::uint32_t>(seed >> 32U), 0, 0};
    for (std::size_t i = 0; i < pool_.size(); ++i) pool_[i] = hash(entropy[i]);
    for (std::size_t from = 0; from < pool_.size(); ++from) {
      for (std::size_t to = 0; to < pool_.size(); ++to) {
        if (from != to) pool_[to] = mix(pool_[to], hash(pool_[from]));
      }
    }
  }

  std::array<std::uint64_t, 4> words() const {
    std::array<std::uint64_t, 4> out{};
    std::uint32_t constant = 0x8b51f9dd;
    for (std::size_t i = 0; i < 8; ++i) {
      std::uint32_t value = pool_[i % pool_.size()] ^ constant;
      constant *= 0x58f38ded;
      value *= constant;
      value ^= value >> 16U;
      out[i / 2] |= static_cast<std::uint64_t>(value) << (32U * (i % 2));
    }
    return out;
  }

 private:
  std::uint32_t hash(std::uint32_t value) {
    value ^= constant_;
    constant_ *= 0x931e8875;
    value *= constant_;
    return value ^ (value >> 16U);
  }

  static std::uint32_t mix(std::uint32_t x, std::uint32_t y) {
    const std::uint32_t value = 0xca01f9ddU * x - 0x4973f715U * y;
    return value ^ (value >> 16U);
  }

  std::array<std::uint32_t, 4> pool_{};
  std::uint32_t constant_ = 0x43b0d7e5;
};

class Pcg64 {
 public:
  explicit Pcg64(std::uint64_t seed) {
    const std::array<std::uint64_t, 4> words = SeedSequence(seed).words();
    const Uint128 start = (Uint128{words[0]} << 64U) | words[1];
    increment_ = (((Uint128{words[2]} << 64U) | words[3]) << 1U) | 1U;
    step();
    state_ += start;
    step();
  }

  // Uniform in [0, most]: numbers with as many bits as `most`, the first that is not above it.
  std::uint32_t bounded(std::uint32_t most) {
    const auto mask = static_cast<std::uint32_t>((std::uint64_t{1} << std::bit_width(most)) - 1);
    std::uint32_t value = next32() & mask;
    while (value > most) value = next32() & mask;
    return value;
  }

 private:
  void step() {
    constexpr Uint128 kMultiplier = (Uint128{2549297995355413924U} << 64U) | 4865540595714422341U;
    state_ = state_ * kMultiplier + increment_;
  }

  std::uint64_t next64() {
    step();
    const auto folded = static_cast<std::uint64_t>(state_ >> 64U) ^ static_cast<std::uint64_t>(state_);
    const auto turn = static_cast<unsigned>(state_ >> 122U);
    return (folded >> turn) | (folded << ((64U - turn) % 64U));
  }

  std::uint32_t next32() {
    if (has_half_) {
      has_half_ = false;
      return half_;
    }
    const std::uint64_t both = next64();
    half_ = static_cast<std::uint32_t>(both >> 32U);
    has_half_ = true;
    return static_cast<std::uint32_t>(both);
  }

  Uint128 state_ = 0;
  Uint128 increment_ = 0;
  std::uint32_t half_ = 0;
  bool has_half_ = false;
};

}  // namespace

std::vector<std::int64_t> dataset_shuffle(std::int64_t n, std::uint64_t seed) {
  base::require(n >= 0 && n < UINT32_MAX, "data::dataset_shuffle", "fewer than 2^32 - 1 rows");
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  Pcg64 random(seed);
  for (std::size_t i = order.size(); i-- > 1;) {
    std::swap(order[i], order[random.bounded(static_cast<std::uint32_t>(i))]);
  }
  return order;
}

}  // namespace hone::data
