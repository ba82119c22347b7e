#include "ops/dynamic_codes.h"

#include <algorithm>
#include <cmath>

namespace hone::ops {
namespace {

constexpr std::int64_t kPlaces = 65536;
constexpr int kExponents = 7;

// fp32 numbers from `begin` to 1 as torch.linspace spaces them: the second half is counted from the end, and
// each is rounded once.
std::vector<float> spaced(float begin, std::int64_t count) {
  const float step = (1.0F - begin) / static_cast<float>(count - 1);
  std::vector<float> out(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    out[static_cast<std::size_t>(i)] = i < count / 2
                                           ? std::fma(step, static_cast<float>(i), begin)
                                           : std::fma(-step, static_cast<float>(count - 1 - i), 1.0F);
  }
  return out;
}

// Without a sign, its bit goes to the fraction.
std::array<float, 256> values_of_map(bool has_sign) {
  std::vector<float> values = {0.0F, 1.0F};
  for (int exponent = 0; exponent < kExponents; ++exponent) {
    const std::int64_t intervals = std::int64_t{1} << (has_sign ? exponent : exponent + 1);
    const std::vector<float> bounds = spaced(0.1F, intervals + 1);
    const auto scale = static_cast<float>(std::pow(10.0, exponent - (kExponents - 1)));
    for (std::size_t i = 0; i + 1 < bounds.size(); ++i) {
      const float mean = (bounds[i] + bounds[i + 1]) / 2.0F;
      values.push_back(scale * mean);
      if (has_sign) values.push_back(-scale * mean);
    }
  }
  std::array<float, 256> out{};
  std::sort(values.begin(), values.end());
  std::copy(values.begin(), values.end(), out.begin());
  return out;
}

}  // namespace

DynamicCodes::DynamicCodes(bool has_sign) : values_(values_of_map(has_sign)), places_(kPlaces) {
  std::size_t code = 0;
  for (std::int64_t i = 0; i < kPlaces; ++i) {
    const float value = -1.0F + (2.0F * static_cast<float>(i)) / static_cast<float>(kPlaces - 1);
    while (code + 1 < values_.size() && 0.5F * (values_[code] + values_[code + 1]) < value) ++code;
    places_[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(code);
  }
}

const DynamicCodes& DynamicCodes::with_sign() {
  static const DynamicCodes codes(true);
  return codes;
}

const DynamicCodes& DynamicCodes::without_sign() {
  static const DynamicCodes codes(false);
  return codes;
}

std::uint8_t DynamicCodes::of(float x) const {
  const float value = x >= -1.0F ? std::min(x, 1.0F) : -1.0F;  // not a number: -1
  const float place = (value + 1.0F) * 0.5F * static_cast<float>(kPlaces - 1) + 0.5F;
  return places_[static_cast<std::size_t>(place)];
}

float DynamicCodes::quantize(std::span<const float> block, std::uint8_t* codes) const {
  float largest = 0;
  for (const float x : block) largest = std::max(largest, std::fabs(x));
  if (largest < kLeastScale) {  // no reciprocal of 0
    std::fill_n(codes, block.size(), std::uint8_t{0});
    return largest;
  }
  const float reciprocal = 1.0F / largest;
  for (std::size_t i = 0; i < block.size(); ++i) codes[i] = of(block[i] * reciprocal);
  return largest;
}

}  // namespace hone::ops
