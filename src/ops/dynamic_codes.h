// bitsandbytes' 8-bit dynamic map: 256 values between -1 (unsigned: 0) and 1. The smaller a number, the fewer
// bits its fraction has (Dettmers 2016, "8-Bit Approximations for Parallelism in Deep Learning"). A code is the
// place of its value in ascending order.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace hone::ops {

class DynamicCodes {
 public:
  static const DynamicCodes& with_sign();     // create_dynamic_map(signed=True)
  static const DynamicCodes& without_sign();  // create_dynamic_map(signed=False)

  const std::array<float, 256>& values() const { return values_; }
  // [65536]: the code of x in [-1, 1] is at the whole part of (x + 1) / 2 * 65535 + 0.5, each operation rounded to fp32.
  const std::vector<std::uint8_t>& places() const { return places_; }
  // Blocks whose largest magnitude is below this have code 0 throughout: bitsandbytes divides by no less.
  static constexpr float kLeastScale = 1e-38F;
  // The code of x, a share of its block's largest magnitude, as bitsandbytes' CPU form finds it: through a table
  // of 65,536 places.
  std::uint8_t of(float x) const;
  // One block: its largest magnitude, which is returned, and the codes of its numbers divided by that. A block of
  // zeros has code 0 throughout.
  float quantize(std::span<const float> block, std::uint8_t* codes) const;

 private:
  explicit DynamicCodes(bool has_sign);
  std::array<float, 256> values_{};
  std::vector<std::uint8_t> places_;
};

}  // namespace hone::ops
