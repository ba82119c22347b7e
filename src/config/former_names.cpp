// Names that TRL, transformers or PEFT used before, and names of neighbors: what to write instead.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "config/option_table.h"

namespace hone::config {
namespace {
constexpr std::string_view kPairs = "dpo";
constexpr std::string_view kOnline = "online-dpo";
constexpr std::string_view kFixedData = "sft dpo reward kto";
constexpr std::string_view kTraining = "sft dpo reward kto grpo rloo online-dpo";

// Names without an option of the same meaning, and those that need another word.
std::vector<FormerName> without_a_row() {
  return {
      {"warmup_ratio",
       "write warmup_steps instead: a value below 1 is a fraction of all steps (warmup_steps: 0.1)"},
      {"group_by_length",
       "train_sampling_strategy: group_by_length replaced it; hone does not have it yet: remove it"},
      {"overwrite_output_dir",
       "remove it; name another output_dir, or resume with resume_from_checkpoint: true"},
      {"logging_dir", "remove it; the logs are in output_dir"},
      {"save_safetensors", "remove it; hone always writes safetensors"},
      {"max_seq_length", "write max_length instead"},
      {"max_prompt_length", "remove it; max_length bounds the whole row", kFixedData},
      {"max_prompt_length", "remove it: TRL 1.16 has none, and a prompt is never cut", kPolicies},
      {"bnb_4bit_compute_dtype", "remove it; dtype and bf16 set the precision, as in TRL"},
      {"quantization_config", "write load_in_4bit, bnb_4bit_quant_type and use_bnb_nested_quant instead"},
      {"no_cuda", "write use_cpu: true instead"},
      {"use_mps_device", "remove it"},
      {"include_tokens_per_second", "remove it; tokens per second are always shown"},
      {"fp16_opt_level", "remove it"},
      {"fp16_backend", "remove it"},
      {"half_precision_backend", "remove it"},
      {"jit_mode_eval", "remove it"},
      {"use_ipex", "remove it"},
      {"tpu_num_cores", "remove it"},
      {"past_index", "remove it"},
      {"push_to_hub_model_id", "hub_model_id replaced it; hone does not upload: remove it"},
      {"push_to_hub_organization", "hub_model_id replaced it; hone does not upload: remove it"},
      {"push_to_hub_token", "hub_token replaced it; hone does not upload: remove it"},
      {"include_inputs_for_metrics", "include_for_metrics replaced it: remove it"},
      {"dispatch_batches", "accelerator_config replaced it: remove it"},
      {"split_batches", "accelerator_config replaced it: remove it"},
      {"fsdp_transformer_layer_cls_to_wrap", "fsdp_config replaced it; hone does not have it yet: remove it"},
      {"fsdp_min_num_params", "fsdp_config replaced it; hone does not have it yet: remove it"},
      {"dataset_batch_size", "remove it"},
      {"num_of_sequences", "remove it; packing fills rows of max_length tokens"},
      {"chars_per_token", "remove it; hone counts tokens"},
      {"adapters", "write base_adapters for frozen ones below the trained one", kTraining},
      {"adapter_names", "write base_adapters for frozen ones below the trained one", kTraining},
      {"lora_model_dir",
       "write adapter_name_or_path to continue an adapter, base_adapters for frozen ones below it",
       kTraining},
  };
}

// The same of some methods.
std::vector<FormerName> of_methods() {
  return {
      {"max_completion_length", "remove it; max_length bounds a prompt with its completion", kPairs},
      {"max_completion_length", "remove it; max_length bounds a prompt with its completion", "kto"},
      {"num_labels", "remove it: a reward model has one label", "reward"},
      {"ref_adapter_name", "remove it: the reference of a continued adapter is that adapter at the start",
       "kto"},
      {"model_adapter_name", "remove it: adapter_name_or_path names the adapter to continue", "kto"},
      {"generate_during_eval", "remove it; hone generate writes completions", "kto"},
      {"label_pad_token_id", "remove it; hone never pads", "kto"},
      {"padding_value", "remove it; hone never pads", "kto"},
      {"truncation_mode", "remove it; a long sequence keeps its first max_length tokens", "kto"},
      {"rpo_alpha", "write loss_type: [sigmoid, sft] and loss_weights: [1.0, ALPHA]", kPairs},
      {"reference_free", "remove it: TRL 1.16 has no loss without a reference in dpo", kPairs},
      {"force_use_ref_model", "remove it: the reference is the model without its adapter", kPairs},
      {"model_adapter_name", "remove it: adapter_name_or_path names the adapter to continue", kPairs},
      {"ref_adapter_name", "remove it: the reference of a continued adapter is that adapter at the start",
       kPairs},
      {"label_pad_token_id", "remove it; hone never pads", kPairs},
      {"padding_value", "remove it; hone never pads", kPairs},
      {"generate_during_eval", "remove it; hone generate writes completions", kPairs},
      {"use_logits_to_keep", "remove it: logits are never kept", kPairs},
      {"base_model_attribute_name", "remove it", kPairs},
      {"train_on_responses_only", "write assistant_only_loss or completion_only_loss instead", "sft"},
      {"max_length", "remove it: a prompt is never cut; max_completion_length bounds the completion",
       kPolicies},
      {"min_new_tokens", "write generation_kwargs: {min_new_tokens: 4}", kHoneSamplers},
      {"stop_strings", "write generation_kwargs: {stop_strings: [\"\\n\"]}", kHoneSamplers},
      {"eos_token_id", "write generation_kwargs: {eos_token_id: 2}", kHoneSamplers},
      {"stop_token_id", "write generation_kwargs: {eos_token_id: 2}", kHoneSamplers},
      {"max_prompt_length", "remove it; max_length bounds a prompt with its completion", kOnline},
      {"num_generations", "remove it: Online DPO takes two completions of a prompt", kOnline},
      {"ref_model", "remove it: the reference is the model without its adapter", kOnline},
      {"dataset_num_proc", "remove it; preparing prompts takes seconds in one thread", kOnline},
      {"gpu_memory_utilization", "remove it; hone samples with its own weights", kOnline},
      {"vllm_guided_decoding_regex",
       "vllm_structured_outputs_regex replaced it, which hone does not have yet", kHoneSamplers},
      {"vllm_device", "remove it; hone samples with its own weights", kHoneSamplers},
      {"vllm_dtype", "remove it; hone samples with its own weights", kHoneSamplers},
      {"vllm_max_model_len", "remove it; hone samples with its own weights", kHoneSamplers},
      {"use_liger_loss", "remove it; hone has its own kernels", kPolicies},
      {"tools", "an argument of TRL's trainer, not an option; hone has no tools yet: remove it",
       kHoneSamplers},
      {"environment_factory",
       "an argument of TRL's trainer, not an option; hone has no environments yet: remove it", kPolicies},
      {"rollout_func",
       "an argument of TRL's trainer, not an option; hone samples itself, or reads rollouts with "
       "replay: remove it",
       kPolicies},
  };
}

}  // namespace

const std::vector<FormerName>& former_names() {
  static const std::vector<FormerName> names = [] {
    std::vector<FormerName> all = without_a_row(), more = of_methods();
    std::move(more.begin(), more.end(), std::back_inserter(all));
    for (const Option& row : method_options()) {
      for (const std::string& former : split_words(row.former)) {
        all.push_back({former, fmt::format("write {} instead", row.name), row.methods});
      }
    }
    return all;
  }();
  return names;
}

const FormerName* find_former_name(std::string_view name, std::string_view command) {
  const auto& names = former_names();
  const auto at = std::find_if(names.begin(), names.end(), [&](const FormerName& former) {
    return former.name == name && contains_word(former.commands, command);
  });
  return at == names.end() ? nullptr : &*at;
}

}  // namespace hone::config
