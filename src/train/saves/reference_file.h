// reference.safetensors: the parameters of a reference that moves (train/passes/moving_reference.h), fp32, by the names of the
// adapter's tensors. In each checkpoint, and beside the result.
#pragma once

#include <ATen/core/Tensor.h>

#include "adapters/lora.h"
#include "base/files/file.h"

namespace hone::train {

// `values` [P], in the order of Adapter::flat().
void write_reference(const base::fs::path& path, const adapters::Adapter& adapter, const at::Tensor& values);

// Reads the reference's parameters from a checkpoint, on the CPU. UserError when it has none, or another
// shape.
at::Tensor load_reference(const base::fs::path& checkpoint, const adapters::Adapter& adapter);

}  // namespace hone::train
