// Quantized matrices in the order of the GEMM's panels (cpu/quantized_kernels.h): the same codes and scales, of the same
// size, so that each panel's codes are contiguous and every vector lane takes a row. bitsandbytes' order is what files
// and the definition have; ggml's blocks (ops/kept_ggml.h) have only this one.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>

#include "ops/backend/cpu/quantized_kernels.h"
#include "ops/backend/layouts.h"
#include "ops/quantized.h"

namespace hone::ops {

// Whether the shape can lie in panels: whole panels of rows, whole blocks a row, rows of a multiple of 64 numbers.
bool fits_panels(const Quantized& matrix);

// Returns a view of CPU tensors in rows; it is valid while `matrix` lives.
kernels::QuantizedView view_of(const Quantized& matrix);
// Returns a view of a matrix in panels; it is valid while the matrix lives.
kernels::PanelView panel_view(const Quantized& matrix);
kernels::PanelView ggml_panel_view(const Quantized& matrix);  // of one that keep_ggml() made

namespace cpu {

// arrange() wants a matrix on the CPU that fits; in_rows() none of ggml's types. Neighbors in `ids` of rows() that lie in
// one panel are unpacked together.
extern const backend::CodeLayout kPanelCodes;

}  // namespace cpu
}  // namespace hone::ops
