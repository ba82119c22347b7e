#include "ops/dropout.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "base/rng.h"
#include "ops/backend/reference/reference.h"

namespace hone::ops::reference {

void draw_mask(const Tensor& out, const DropoutMask& mask) {
  const std::int64_t features = out.size(1);
  const float kept = mask.kept();
  const std::uint32_t dropped_below = mask.dropped_below();
  auto* const values = out.mutable_data_ptr<float>();
  for (std::size_t t = 0; t < mask.rows.size(); ++t) {
    const auto row = static_cast<std::uint64_t>(mask.rows[t]);
    const auto position = static_cast<std::uint32_t>(mask.positions[t]);
    float* const to = values + static_cast<std::int64_t>(t) * features;
    for (std::int64_t f = 0; f < features; f += 4) {
      const auto words =
          base::philox({static_cast<std::uint32_t>(f / 4), position, static_cast<std::uint32_t>(row),
                        static_cast<std::uint32_t>(row >> 32)},
                       mask.key);
      const std::int64_t count = std::min<std::int64_t>(4, features - f);
      for (std::int64_t i = 0; i < count; ++i)
        to[f + i] = words[static_cast<std::size_t>(i)] < dropped_below ? 0.0F : kept;
    }
  }
}

void dropout(const Tensor& out, const Tensor& x, const DropoutMask& mask) {
  out.copy_(x.to(at::kFloat) * drawn(mask, x.size(1)).to(x.device()));
}

void dropout_backward_add(const Tensor& dx, const Tensor& d, const DropoutMask& mask) {
  dx.copy_(dx.to(at::kFloat) + d.to(at::kFloat) * drawn(mask, d.size(1)).to(d.device()));
}

}  // namespace hone::ops::reference
