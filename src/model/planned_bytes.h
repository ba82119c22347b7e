// The memory of a base of which only config.json is there.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <string>

#include "model/model_config.h"
#include "ops/quantised.h"

namespace hone::model {

// CausalLm::parameter_bytes() with plain matrices, of a file whose numbers are of the type `linear`.
std::int64_t planned_bytes(const ModelConfig& config, at::ScalarType linear, at::ScalarType residual,
                           const std::optional<ops::QuantScheme>& quantise = {});

// "15.23 GB in bfloat16, 5.55 GB with load_in_4bit and use_bnb_nested_quant"
std::string planned_words(const ModelConfig& config);

}  // namespace hone::model
