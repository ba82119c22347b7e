#include "adapters/config_keys.h"

#include <array>

namespace hone::adapters {
namespace {

using enum base::KeyUse;

constexpr std::array kKeys = {
    base::ReadKey{"alora_invocation_tokens", kRefused,
                  "an activated LoRA works only behind its invocation tokens, which hone does not look for"},
    base::ReadKey{"alpha_pattern"},
    base::ReadKey{"arrow_config", kRefused, "Arrow routes each token to adapters of its own"},
    base::ReadKey{"auto_mapping", kNeutral, "it says which class of Python the base was"},
    base::ReadKey{"base_model_name_or_path"},
    base::ReadKey{"bias"},
    base::ReadKey{"corda_config", kNeutral,
                  "it says how the adapter was begun; the saved weights have the outcome"},
    base::ReadKey{"ensure_weight_tying"},
    base::ReadKey{"eva_config", kNeutral,
                  "it says how the adapter was begun; the saved weights have the outcome"},
    base::ReadKey{"exclude_modules"},
    base::ReadKey{"fan_in_fan_out", kRefused,
                  "weights stored transposed (Conv1D) are of no family that hone has"},
    base::ReadKey{"inference_mode", kNeutral, "hone knows whether it trains"},
    base::ReadKey{"init_lora_weights"},
    base::ReadKey{"kasa_config", kRefused, "KaSA changes the base's matrices by their singular values"},
    base::ReadKey{"layer_replication", kRefused, "the adapter's model repeats layers that the base has once"},
    base::ReadKey{"layers_pattern"},
    base::ReadKey{"layers_to_transform"},
    base::ReadKey{"loftq_config", kNeutral,
                  "it says how the adapter was begun; init_lora_weights says if the base was changed"},
    base::ReadKey{"lora_alpha"},
    base::ReadKey{"lora_bias", kRefused, "B has a bias of its own, which hone does not add"},
    base::ReadKey{"lora_dropout"},
    base::ReadKey{"lora_ga_config", kNeutral,
                  "it says how the adapter was begun; init_lora_weights says if the base was changed"},
    base::ReadKey{"megatron_config", kRefused,
                  "the adapter's linears are Megatron's, divided among processes"},
    base::ReadKey{"megatron_core", kNeutral, "a module's name, which only megatron_config makes use of"},
    base::ReadKey{"modules_to_save"},
    base::ReadKey{"monteclora_config", kRefused, "MonteCLoRA draws its weights at random in each pass"},
    base::ReadKey{"peft_type"},
    base::ReadKey{"peft_version", kNeutral, "the files are read by what they have in them"},
    base::ReadKey{"qalora_group_size", kNeutral, "a number that only use_qalora makes use of"},
    base::ReadKey{"r"},
    base::ReadKey{"rank_pattern"},
    base::ReadKey{"revision", kNeutral,
                  "the base's revision on the hub; hone takes the base that is on this machine"},
    base::ReadKey{"runtime_config", kNeutral, "where PEFT computes, not what"},
    base::ReadKey{"target_modules"},
    base::ReadKey{"target_parameters"},
    base::ReadKey{"task_type"},
    base::ReadKey{"trainable_token_indices"},
    base::ReadKey{"use_bdlora", kRefused, "block-diagonal factors have other shapes"},
    base::ReadKey{"use_dora"},
    base::ReadKey{"use_qalora", kRefused, "QA-LoRA averages groups of inputs"},
    base::ReadKey{"use_rslora"},
    base::ReadKey{"velora_config", kRefused,
                  "VeLoRA compresses what the backward keeps, which changes gradients"},
};

}  // namespace

const base::ReadKeys& adapter_config_keys() {
  static constexpr base::ReadKeys kTable("adapter_config.json", kKeys);
  return kTable;
}

}  // namespace hone::adapters
