// A key shape decides where a device keeps a layer's keys and values while it samples.
#pragma once

#include <cstdint>

#include "model/config/model_config.h"
#include "ops/sampling/paged_attention.h"

namespace hone::model {

// Returns the shape of an attention layer that has keys; `dtype` is that of the linears.
ops::KeyShape key_shape(const ModelConfig& config, std::int64_t layer, at::ScalarType dtype);

}  // namespace hone::model
