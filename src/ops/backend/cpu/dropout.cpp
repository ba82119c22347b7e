// Dropout with the mask drawn row by row: dropout_row.h.
#include <ATen/ATen.h>

#include <algorithm>
#include <array>

#include "ops/backend/cpu/cpu_operators.h"
#include "ops/backend/cpu/row_call.h"

namespace hone::ops::cpu {
namespace {

MaskRow mask_row(const DropoutMask& mask, std::int64_t token) {
  const auto t = static_cast<std::size_t>(token);
  return {.position = static_cast<std::uint32_t>(mask.positions[t]),
          .row = static_cast<std::uint64_t>(mask.rows[t]),
          .key = mask.key,
          .dropped_below = mask.dropped_below(),
          .kept = mask.kept()};
}

// out = x * mask, or out += x * mask, with the mask drawn a stretch at a time into a thread's own cache.
void mask_rows(const Tensor& out, const Tensor& x, bool add, const DropoutMask& dropout) {
  constexpr std::int64_t kStretch = 512;
  const RowsIn from = rows_in(x);
  const RowsOut to = rows_out(out);
  const std::int64_t features = x.size(1), from_size = x.element_size(), to_size = out.element_size();
  const LevelKernels& kernels = level_kernels();
  over_rows(x.size(0), features, [&](std::int64_t begin, std::int64_t end) {
    alignas(64) std::array<float, kStretch> mask;
    for (std::int64_t t = begin; t < end; ++t) {
      MaskRow row = mask_row(dropout, t);
      for (std::int64_t f = 0; f < features; f += kStretch) {
        const std::int64_t width = std::min(kStretch, features - f);
        row.first_block = static_cast<std::uint32_t>(f / 4);
        kernels.fill_mask(row, mask.data(), static_cast<std::size_t>(width));
        const MaskArgs args = {.x = static_cast<const char*>(from.data) + (t * from.stride + f) * from_size,
                               .mask = mask.data(),
                               .out = static_cast<char*>(to.data) + (t * to.stride + f) * to_size,
                               .x_bf16 = from.bf16,
                               .out_bf16 = to.bf16,
                               .add = add};
        kernels.rows->mask(args, width);
      }
    }
  });
}

}  // namespace

bool draw_mask(const Tensor& out, const DropoutMask& mask) {
  const std::int64_t features = out.size(1);
  auto* const values = out.mutable_data_ptr<float>();
  const auto fill = level_kernels().fill_mask;
  over_rows(out.size(0), features, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t)
      fill(mask_row(mask, t), values + t * features, static_cast<std::size_t>(features));
  });
  return true;
}

bool dropout(const Tensor& out, const Tensor& x, const DropoutMask& mask) {
  if (!rows_fit({&out, &x})) return false;
  mask_rows(out, x, /*add=*/false, mask);
  return true;
}

bool dropout_backward_add(const Tensor& dx, const Tensor& d, const DropoutMask& mask) {
  if (!rows_fit({&dx, &d})) return false;
  mask_rows(dx, d, /*add=*/true, mask);
  return true;
}

}  // namespace hone::ops::cpu
