// hone's own kernels (kernels/kernels.h), where there are some. Their library is looked for beside the core, once, when a
// tensor of a GPU is first computed with; libtorch's operators run without it.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>

#include "ops/backend/cuda/kernels/kernels.h"

namespace hone::ops::cuda {

// Of this device's tensors; null: there are none.
const kernels::Kernels* own_kernels(at::Device device);

// For tensors of any device from now on, on which their functions must be able to run: the emulator's, in tests. Null: as if
// this had not been called.
void set_own_kernels(const kernels::Kernels* table);

// ---- arguments of kernels. Nothing: not a dtype or not strides that they take.

std::optional<kernels::Rows> rows_of(const at::Tensor& x);      // [rows, columns]
std::optional<kernels::Vector> vector_of(const at::Tensor& x);  // dense; an undefined tensor is none
std::optional<kernels::Heads> heads_of(const at::Tensor& x);    // [tokens, heads, dim]

// The stream on which libtorch's operators of this thread run.
void* stream_of(at::Device device);

// Of a kernel's start: throws InternalError where it was refused. True.
bool started(int error, const char* kernel);

}  // namespace hone::ops::cuda
