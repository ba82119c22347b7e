// Between tensors and row_kernels.h: which tensors the fast form supports, and the split of rows over
// threads.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>

#include "ops/backend/cpu/level.h"
#include "ops/machine/team.h"

namespace hone::ops {

// fp32 or bf16 in CPU memory with contiguous rows.
bool rows_fit(std::initializer_list<const at::Tensor*> tensors);

inline const RowKernels& row_kernels() {
  return *level_kernels().rows;
}

inline RowsIn rows_in(const at::Tensor& t) {
  return {t.const_data_ptr(), t.dim() > 1 ? t.stride(0) : 0, t.scalar_type() == at::kBFloat16};
}
inline RowsOut rows_out(const at::Tensor& t) {
  return {t.mutable_data_ptr(), t.dim() > 1 ? t.stride(0) : 0, t.scalar_type() == at::kBFloat16};
}

// run(begin, end) over rows of `width` elements, in parts of about 5 us of work.
template <class Run>
void over_rows(std::int64_t rows, std::int64_t width, Run run) {
  constexpr std::int64_t kPart = 1 << 13;
  const std::int64_t part = std::max<std::int64_t>(1, kPart / std::max<std::int64_t>(width, 1));
  const std::int64_t parts = (rows + part - 1) / part;
  in_team(parts, at::get_num_threads(),
          [&](std::int64_t i, std::int64_t) { run(i * part, std::min(rows, (i + 1) * part)); });
}

}  // namespace hone::ops
