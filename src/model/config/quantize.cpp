#include "model/config/quantize.h"

#include "model/config/families.h"

namespace hone::model {

std::set<std::string> quantized_matrices(const ModelConfig& config, bool experts) {
  std::set<std::string> out;
  for (const LinearSpec& linear : adaptable_linears(config)) out.insert(linear.name + ".weight");
  if (!experts) return out;
  for (const TensorSpec& spec : expected_tensors(config)) {
    if (spec.expert >= 0) out.insert(spec.name);
  }
  return out;
}

std::string describe(const Quantize& quantize) {
  return ops::describe(*quantize) + (quantize.experts ? ", experts too" : "");
}

Quantize leanest_base(const ModelConfig& config) {
  return {{.type = ops::QuantType::kNf4, .nested = true}, /*of_experts=*/config.experts.count > 0};
}

std::string leanest_options(const ModelConfig& config) {
  return std::string("load_in_4bit: true with use_bnb_nested_quant: true") +
         (config.experts.count > 0 ? " and quantize_moe_experts: true" : "");
}

}  // namespace hone::model
