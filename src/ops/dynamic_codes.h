// bitsandbytes' 8-bit dynamic map: 256 values between -1 (unsigned: 0) and 1. The smaller a number, the fewer
// bits its fraction has (Dettmers 2016, "8-Bit Approximations for Parallelism in Deep Learning"). A code is the
// place of its value in ascending order.
#pragma once

#include <ATen/core/Tensor.h>

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

// ---- tensors, in blocks of kCodeBlock numbers; all of a call on one device, which is not waited for

inline constexpr std::int64_t kCodeBlock = 256;

// A map's tables on a device, made once: [256] fp32, [65536] uint8.
struct CodeTables {
  at::Tensor values, places;
};
const CodeTables& tables_on(const DynamicCodes& map, at::Device device);

// codes uint8 [n], scales fp32 or fp64 [blocks] -> [shape of like], like's dtype. Computed in fp32. Every device gives
// the same bits, here and in to_codes.
at::Tensor from_codes(const DynamicCodes& map, const at::Tensor& codes, const at::Tensor& scales,
                      const at::Tensor& like);
// The other way; value fp32, codes and scales are written. Nothing for an fp64 value: a reference has no use
// for it.
void to_codes(const DynamicCodes& map, const at::Tensor& value, at::Tensor codes, at::Tensor scales);

}  // namespace hone::ops
