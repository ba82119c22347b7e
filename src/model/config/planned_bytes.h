// The memory of a base model, from config.json only.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "model/config/model_config.h"
#include "model/config/quantize.h"
#include "ops/quantized.h"

namespace hone::model {

// CausalLm::parameter_bytes() with plain matrices, for a file of dtype `linear`.
std::int64_t planned_bytes(const ModelConfig& config, at::ScalarType linear, at::ScalarType residual,
                           const Quantize& quantize = {});

// The same where each tensor, by its name, has a scheme of its own or none: a GGUF kept in its blocks.
using SchemeOf = std::function<std::optional<ops::QuantScheme>(const std::string& name)>;
std::int64_t planned_bytes(const ModelConfig& config, at::ScalarType linear, at::ScalarType residual,
                           const SchemeOf& scheme_of);

// "15.23 GB in bfloat16, 5.55 GB with load_in_4bit and use_bnb_nested_quant"
std::string describe_planned_bytes(const ModelConfig& config);

}  // namespace hone::model
