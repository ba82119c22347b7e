// Records that an operator begins (base/where.h).
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>

#include "base/where.h"

namespace hone::ops {

inline void announce(const char* op, std::int64_t m, std::int64_t n, std::int64_t k, at::ScalarType dtype) {
  const char* const name = dtype == at::kBFloat16 ? "bf16"
                           : dtype == at::kFloat  ? "fp32"
                                                  : c10::toString(dtype);
  base::enter(op, m, n, k, name);
}

}  // namespace hone::ops
