// Dropout with the CPU's numbers: a kernel of our own draws them where they are used. Without it the host draws a mask, packs it
// into bits and sends them without a wait. The bits of a module stay on the device from its forward to its backward, an eighth
// of a byte a number.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <array>
#include <map>
#include <vector>

#include "ops/backend/cuda/cuda_operators.h"
#include "ops/backend/cuda/own_kernels.h"
#include "ops/index_tensor.h"

namespace hone::ops::cuda {
namespace {

constexpr std::int64_t kBits = 8, kBytes = 256;

// [T, ceil(features / 8)] uint8 on the host: bit i of byte b is 1 where feature 8 b + i is kept.
Tensor packed_bits(const DropoutMask& mask, std::int64_t features) {
  const Tensor values = drawn(mask, features);
  const std::int64_t tokens = values.size(0), bytes = (features + kBits - 1) / kBits;
  const Tensor out = at::empty({tokens, bytes}, at::kByte);
  const float* const from = values.const_data_ptr<float>();
  auto* const to = out.mutable_data_ptr<std::uint8_t>();
  at::parallel_for(0, tokens, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      for (std::int64_t b = 0; b < bytes; ++b) {
        const std::int64_t first = b * kBits, count = std::min(kBits, features - first);
        unsigned byte = 0;
        for (std::int64_t i = 0; i < count; ++i)
          byte |= (from[t * features + first + i] != 0 ? 1U : 0U) << static_cast<unsigned>(i);
        to[t * bytes + b] = static_cast<std::uint8_t>(byte);
      }
    }
  });
  return out;
}

// [256, 8] fp32: row b has `kept` where byte b has a 1, and 0.
Tensor numbers_of_bytes(float kept) {
  const Tensor out = at::empty({kBytes, kBits});
  auto* const to = out.mutable_data_ptr<float>();
  for (std::int64_t byte = 0; byte < kBytes; ++byte)
    for (std::int64_t i = 0; i < kBits; ++i) to[byte * kBits + i] = ((byte >> i) & 1) != 0 ? kept : 0;
  return out;
}

// The masks of one pass that its backward has yet to read.
class PassMasks {
 public:
  // [T, features] fp32 of 0 and kept() on `device`. `last`: nobody of this pass asks again.
  Tensor of(const DropoutMask& mask, std::int64_t features, at::Device device, bool last) {
    if (!same_pass(mask, device)) {
      bits_.clear();
      rows_.assign(mask.rows.begin(), mask.rows.end());
      positions_.assign(mask.positions.begin(), mask.positions.end());
    }
    const auto kept = static_cast<float>(mask.kept());
    if (!numbers_.defined() || numbers_.device() != device || kept_ != kept)
      numbers_ = staged(numbers_of_bytes(kept), device);
    kept_ = kept;
    const Key key = {mask.key[0], mask.key[1], mask.dropped_below(), static_cast<std::uint32_t>(features)};
    Tensor& held = bits_[key];
    if (!held.defined()) held = staged(packed_bits(mask, features), device);
    const Tensor bits = held;
    if (last) bits_.erase(key);
    return at::embedding(numbers_, bits.to(at::kInt)).flatten(1).narrow(1, 0, features);
  }

 private:
  // Keys carry the step, so that a pass over the same tokens in a later step finds none of an earlier one's; what
  // such passes leave, a layer's whose input has no gradient, is dropped with kMost.
  static constexpr std::size_t kMost = 4096;
  bool same_pass(const DropoutMask& mask, at::Device device) const {
    return bits_.size() < kMost && numbers_.defined() && numbers_.device() == device &&
           std::equal(rows_.begin(), rows_.end(), mask.rows.begin(), mask.rows.end()) &&
           std::equal(positions_.begin(), positions_.end(), mask.positions.begin(), mask.positions.end());
  }

  std::vector<std::int64_t> rows_, positions_;
  using Key = std::array<std::uint32_t, 4>;  // Philox's key, the threshold, and the features
  std::map<Key, Tensor> bits_;
  Tensor numbers_;  // numbers_of_bytes(kept_)
  float kept_ = 0;
};

PassMasks& masks() {
  thread_local PassMasks& all =
      *new PassMasks;  // never destroyed: its tensors may outlive the device's runtime
  return all;
}

// Where the tokens of a pass stand in the data, [2, T] int64 on a device: rows, then positions. One staged copy a pass.
class TokenPlaces {
 public:
  const Tensor& of(const DropoutMask& mask, at::Device device) {
    const auto tokens = static_cast<std::int64_t>(mask.rows.size());
    const bool same = on_device_.defined() && on_device_.device() == device && on_device_.size(1) == tokens &&
                      std::equal(mask.rows.begin(), mask.rows.end(), places_.begin()) &&
                      std::equal(mask.positions.begin(), mask.positions.end(), places_.begin() + tokens);
    if (same) return on_device_;
    places_.assign(mask.rows.begin(), mask.rows.end());
    places_.insert(places_.end(), mask.positions.begin(), mask.positions.end());
    on_device_ = staged(at::tensor(places_, at::kLong).view({2, tokens}), device);
    return on_device_;
  }

 private:
  std::vector<std::int64_t> places_;
  Tensor on_device_;
};

// By a kernel of our own: out = x * mask, or out += x * mask. False: there is none for these tensors.
bool own_dropout(const Tensor& out, const Tensor& x, const DropoutMask& mask, bool add) {
  return run_own(x.device(), &kernels::Kernels::dropout, "dropout", [&](KernelViews& of) -> kernels::Dropout {
    thread_local TokenPlaces& places =
        *new TokenPlaces;  // never destroyed: its tensor may outlive the device's runtime
    const auto* const numbers = places.of(mask, x.device()).const_data_ptr<std::int64_t>();
    return {.out = of.rows(out),
            .x = of.rows(x),
            .rows = numbers,
            .positions = numbers + x.size(0),
            .tokens = x.size(0),
            .features = x.size(1),
            .key = {mask.key[0], mask.key[1]},
            .dropped_below = mask.dropped_below(),
            .kept = mask.kept(),
            .add = add};
  });
}

}  // namespace

bool dropout(const Tensor& out, const Tensor& x, const DropoutMask& mask) {
  if (own_dropout(out, x, mask, /*add=*/false)) return true;
  Tensor into = out;
  at::mul_out(into, x, masks().of(mask, x.size(1), x.device(), false));
  return true;
}

bool dropout_backward_add(const Tensor& dx, const Tensor& d, const DropoutMask& mask) {
  if (own_dropout(dx, d, mask, /*add=*/true)) return true;
  Tensor sum = dx;
  at::addcmul_out(sum, dx, d, masks().of(mask, d.size(1), d.device(), true));
  return true;
}

}  // namespace hone::ops::cuda
