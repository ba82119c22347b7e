#include "model/config/planned_bytes.h"

#include <functional>
#include <numeric>
#include <set>
#include <string>

#include "base/files/file.h"
#include "model/config/families.h"
#include "ops/quantized.h"

namespace hone::model {

std::int64_t planned_bytes(const ModelConfig& config, at::ScalarType linear, at::ScalarType residual,
                           const SchemeOf& scheme_of) {
  const auto linear_size = static_cast<std::int64_t>(c10::elementSize(linear));
  const auto residual_size = static_cast<std::int64_t>(c10::elementSize(residual));
  const std::string embedding = std::string(names_of(config).embedding.hf) + ".weight";
  const std::string head = std::string(names_of(config).head.hf) + ".weight";
  std::int64_t bytes = 0;
  for (const TensorSpec& spec : expected_tensors(config)) {
    const std::int64_t numbers =
        std::accumulate(spec.shape.begin(), spec.shape.end(), std::int64_t{1}, std::multiplies<>());
    if (const std::optional<ops::QuantScheme> scheme = scheme_of(spec.name)) {
      bytes += ops::quantized_bytes(spec.shape[0], spec.shape[1], *scheme);
    } else if (spec.name == embedding) {
      // A tied one is the head's own, whose numbers the file has.
      bytes += numbers * (config.head_is_embedding() ? linear_size : residual_size);
    } else {
      const bool multiplied = spec.name == head || spec.shape.size() == 2 || spec.name.ends_with(".bias");
      bytes += numbers * (multiplied ? linear_size : residual_size);
    }
  }
  return bytes;
}

std::int64_t planned_bytes(const ModelConfig& config, at::ScalarType linear, at::ScalarType residual,
                           const Quantize& quantize) {
  const std::set<std::string> matrices = quantized_matrices(config, quantize.experts);
  return planned_bytes(config, linear, residual, [&](const std::string& name) {
    return matrices.contains(name) ? quantize.scheme : std::nullopt;
  });
}

std::string describe_planned_bytes(const ModelConfig& config) {
  const auto bytes = [&](const Quantize& quantize) {
    return base::gigabytes(planned_bytes(config, at::kBFloat16, at::kBFloat16, quantize));
  };
  return bytes(std::nullopt) + " in bfloat16, " + bytes(leanest_base(config)) +
         " with load_in_4bit and use_bnb_nested_quant" +
         (config.experts.count > 0 ? " and quantize_moe_experts" : "");
}

}  // namespace hone::model
