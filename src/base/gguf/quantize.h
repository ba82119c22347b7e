// Floats to ggml's block formats: what GgufFile's dequantize() reads back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/gguf/gguf.h"

namespace hone::base {

// Bytes of `elements` values; InternalError when they are not a whole number of blocks.
std::uint64_t ggml_bytes(GgmlType type, std::uint64_t elements);

// Whole rows of finite values, as ggml's reference quantizers write them, bit for bit. InternalError for
// another type, or when the sizes do not agree. F16 beyond 65504 becomes infinite: the caller checks first.
void quantize(GgmlType type, std::span<const float> values, std::span<std::byte> out);

}  // namespace hone::base
