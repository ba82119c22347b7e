// Quantized matrices in the order of the GEMM's panels (cpu/quantized_kernels.h): the same codes and scales, of the same
// size, so that each panel's codes are contiguous and every vector lane takes a row. bitsandbytes' order is what files
// and the definition have; ggml's blocks (ops/ggml_panels.h) have only this one.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>

#include "ops/quantized.h"

namespace hone::ops {

// Whether the shape can lie in panels: whole panels of rows, whole blocks a row, rows of a multiple of 64 numbers.
bool fits_panels(const Quantized& matrix);
// On the CPU; InternalError unless it fits. A matrix that is in the order already is returned as it is.
Quantized in_panels(const Quantized& matrix);
Quantized in_rows(const Quantized& matrix);  // not of ggml's types

// Valid while `matrix` lives, which is in panels.
kernels::PanelView panel_view(const Quantized& matrix);
// unpack_panel of instructions().
using UnpackPanel = void (*)(const kernels::PanelView&, const kernels::Unpack&);
UnpackPanel unpack_panel();
// dequantize() of a matrix in panels, to float32 or bfloat16.
at::Tensor dequantize_panels(const Quantized& matrix, at::ScalarType dtype);
// Its rows `rows`, [n, in]. Neighbors in `rows` that lie in one panel are unpacked together.
at::Tensor dequantize_panel_rows(const Quantized& matrix, std::span<const std::int64_t> rows,
                                 at::ScalarType dtype);

}  // namespace hone::ops
