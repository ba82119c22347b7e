// Names that TRL (0.7 to 1.15), transformers and PEFT had, and what becomes of them.
#include <algorithm>
#include <iterator>

#include "config/method_of.h"
#include "config/options/former_name_rows.h"

namespace hone::config {
namespace {

constexpr std::string_view kTrl = "TRL", kTransformers = "transformers", kPeft = "PEFT";
constexpr std::string_view kPairs = "dpo";
constexpr std::string_view kOnline = "online-dpo";
constexpr std::string_view kFixedData = "sft dpo reward kto cpo orpo";

FormerName key_of(std::string_view name, std::string_view whose, std::string_view option,
                  std::string_view commands) {
  return {.name = name, .whose = whose, .fate = Fate::kKey, .option = option, .commands = commands};
}

// Names with one note.
void note(std::vector<FormerName>& all, std::initializer_list<std::string_view> names, std::string_view whose,
          std::string_view why, std::string_view commands = kTraining) {
  for (const std::string_view name : names) all.push_back(noted(name, whose, why, commands));
}

void add_renamed(std::vector<FormerName>& all) {
  FormerName ratio = renamed("warmup_ratio", kTransformers, "warmup_steps");
  ratio.zero_says_nothing = true;
  all.push_back(ratio);
  for (const std::string_view name : {"max_seq_length", "max_seq_len", "model_max_length"})
    all.push_back(renamed(name, kTrl, "max_length", kFixedData));
  for (const std::string_view name : {"batch_size", "train_batch_size"}) {
    FormerName batch = renamed(name, "other libraries", "per_device_train_batch_size");
    batch.yields = true;
    batch.why = "what it means depends on the script: rows of a micro-batch, or of an optimizer step";
    all.push_back(batch);
  }
  all.push_back(renamed("max_grpo_completion_length", kTrl, "max_completion_length", kPolicies));
  all.push_back(renamed("vllm_guided_decoding_regex", kTrl, "vllm_structured_outputs_regex", kHoneSamplers));
  all.push_back(renamed("group_by_length", kTransformers, "train_sampling_strategy", kTraining,
                        "true=group_by_length false="));
  all.push_back(renamed("gradient_clipping", "DeepSpeed", "max_grad_norm"));
  all.push_back(renamed("no_cuda", kTransformers, "use_cpu"));
  all.push_back(renamed("environment_factory", kTrl, "environment", kPolicies));
  all.push_back(renamed("rollout_func", kTrl, "rollout", kPolicies));
  all.push_back(renamed("push_to_hub_model_id", kTransformers, "hub_model_id"));
  all.push_back(renamed("push_to_hub_token", kTransformers, "hub_token"));
  all.push_back(renamed("include_inputs_for_metrics", kTransformers, "include_for_metrics", kTraining,
                        "true=inputs false="));
  for (const std::string_view name : {"min_new_tokens", "stop_strings", "eos_token_id"})
    all.push_back(key_of(name, kTransformers, "generation_kwargs", kHoneSamplers));
  all.push_back(
      key_of("enable_thinking", kTransformers, "chat_template_kwargs", "grpo rloo online-dpo generate chat"));
}

// How, not what.
void add_machine(std::vector<FormerName>& all) {
  note(all, {"use_mps_device", "xpu_backend", "use_ipex", "tpu_num_cores", "tpu_metrics_debug"},
       kTransformers, "hone trains on the CPU, or where device says");
  note(all,
       {"fp16_opt_level", "fp16_backend", "half_precision_backend", "jit_mode_eval", "mp_parameters",
        "past_index", "ray_scope", "torchdynamo", "sharded_ddp", "torch_compile_options"},
       kTransformers, "it has no meaning here");
  note(all, {"dispatch_batches", "split_batches"}, kTransformers, "each rank reads its rows itself");
  for (const std::string_view name : {"fsdp_transformer_layer_cls_to_wrap", "fsdp_min_num_params"})
    all.push_back(key_of(name, kTransformers, "fsdp_config", kTraining));
  note(all, {"use_flash_attention_2", "use_flash_attn", "use_unsloth", "use_liger_loss"}, kTransformers,
       "hone has its own kernels");
  note(all, {"logging_dir"}, kTransformers, "the logs are in output_dir");
  note(all, {"save_safetensors"}, kTransformers, "hone always writes safetensors");
  note(all, {"include_tokens_per_second"}, kTransformers, "tokens per second are always shown");
  note(all, {"push_to_hub_organization"}, kTransformers, "hub_model_id has the owner's name");
  note(all, {"bnb_4bit_compute_dtype"}, kTransformers, "dtype and bf16 set the precision, as in TRL");
  note(all, {"model_code_revision", "use_fast_tokenizer", "cache_dir", "use_auth_token", "token"},
       kTransformers, "hone reads a model's files, and runs no code of it");
  note(all, {"dataset_batch_size", "preprocessing_num_workers", "overwrite_cache", "num_workers"}, kTrl,
       "hone prepares rows in its own threads; see threads");
  note(all, {"packing"}, kTrl, "only sft packs rows", "dpo kto reward cpo orpo grpo rloo online-dpo");
  note(all, {"padding_free"}, kTrl, "always: hone never pads", "kto reward cpo orpo grpo rloo online-dpo");
  note(all, {"use_reentrant"}, kTransformers, "hone recomputes layers itself; see recompute");
  note(all, {"num_of_sequences", "chars_per_token"}, kTrl, "packing fills rows of max_length tokens");
  note(all, {"label_pad_token_id", "padding_value"}, kTrl, "hone never pads",
       "sft dpo kto reward grpo rloo online-dpo");
  note(all,
       {"gpu_memory_utilization", "vllm_config", "vllm_device", "vllm_enforce_eager", "vllm_dtype",
        "vllm_max_model_len", "vllm_quantization", "vllm_enable_prefix_caching", "vllm_swap_space"},
       kTrl, "hone samples with the trainer's own weights", kHoneSamplers);
}

void add_refused(std::vector<FormerName>& all) {
  all.push_back(refused_name("quantization_config", kTransformers, "it is written as options",
                             "write load_in_4bit, bnb_4bit_quant_type and use_bnb_nested_quant"));
  for (const std::string_view name : {"adapters", "adapter_names"}) {
    all.push_back(refused_name(name, kPeft, "hone trains one adapter",
                               "write base_adapters for frozen ones below the trained one"));
  }
  all.push_back(refused_name(
      "lora_model_dir", kPeft, "it may be continued or stay frozen",
      "write adapter_name_or_path to continue an adapter, base_adapters for frozen ones below it"));
  all.push_back(refused_name("train_on_responses_only", kTrl, "which tokens are scored has two options",
                             "write assistant_only_loss or completion_only_loss", "sft"));
  all.push_back(
      refused_name("num_labels", kTransformers, "a reward model has one label", "remove it", "reward"));
  all.push_back(refused_name("tools", kTrl, "TRL's trainer of this method has no tools either", "remove it",
                             "online-dpo"));
}

// Of pairs and marked answers.
void add_preferences(std::vector<FormerName>& all) {
  constexpr std::string_view kBoth = "dpo kto reward";
  all.push_back(refused_name("rpo_alpha", kTrl, "it is a loss of its own",
                             "write loss_type: [sigmoid, sft] and loss_weights: [1.0, ALPHA]", kPairs));
  all.push_back(refused_name("reference_free", kTrl, "TRL 1.16 has no loss without a reference in dpo",
                             "remove it", kPairs));
  for (const std::string_view name : {"max_completion_length", "max_target_length"}) {
    all.push_back(
        refused_name(name, kTrl, "max_length bounds a prompt with its completion", "remove it", "dpo kto"));
  }
  note(all, {"force_use_ref_model"}, kTrl, "ref_model names another reference than the model itself",
       "dpo kto online-dpo");
  all.push_back(refused_name(
      "ref_model", kTrl, "TRL's trainer of this method takes no other reference than the model itself",
      "remove it: with beta above 0 the reference is the model as the run begins", kPolicies));
  all.push_back(refused_name("ref_model", kTrl, "the loss of this method has no reference", "remove it",
                             "sft reward cpo orpo"));
  note(all, {"model_adapter_name"}, kTrl, "adapter_name_or_path names the adapter to continue", "dpo kto");
  note(all, {"ref_adapter_name"}, kTrl, "the reference of a continued adapter is that adapter at the start",
       "dpo kto");
  note(all, {"generate_during_eval"}, kTrl, "hone generate writes completions", kBoth);
  note(all, {"is_encoder_decoder", "dpo_num_proc"}, kTrl, "preparing rows takes seconds in one thread",
       kBoth);
  note(all, {"dataset_num_proc"}, kTrl, "preparing prompts takes seconds in one thread", kHoneSamplers);
  note(all, {"use_logits_to_keep", "base_model_attribute_name"}, kTrl, "logits are never kept", kPairs);
  note(all, {"truncation_mode"}, kTrl, "a long sequence keeps its first max_length tokens", "kto");
  note(all, {"max_prompt_length"}, kTrl, "max_length bounds a prompt with its completion", kOnline);
  note(all, {"max_prompt_length"}, kTrl, "max_length bounds the whole row", "sft reward");
  all.push_back(refused_name("num_generations", kTrl, "Online DPO takes two completions of a prompt",
                             "remove it", kOnline));
  note(all, {"max_length", "max_seq_length"}, kTrl,
       "max_prompt_length bounds a prompt, max_completion_length a completion", kPolicies);
  for (const std::string_view name : {"max_length", "max_seq_length"}) {
    all.push_back(refused_name(
        name, kTrl, "hone distill does not cut the rows of the data",
        "remove it, and rows that are too long; max_completion_length bounds what is sampled", "distill"));
  }
}

// Another name of a row, from `formerly`.
std::vector<FormerName> of_rows() {
  std::vector<FormerName> all;
  for (const Option& row : method_options()) {
    for (std::size_t at = 0; at < row.former.size();) {
      const std::size_t end = std::min(row.former.find(' ', at), row.former.size());
      if (end > at) all.push_back(renamed(row.former.substr(at, end - at), kTrl, row.name, row.methods));
      at = end + 1;
    }
  }
  return all;
}

bool applies(const FormerName& former, std::string_view command) {
  if (former.commands == kTraining) return find_method(command).has_value();
  return contains_word(former.commands, command);
}

}  // namespace

const std::vector<FormerName>& former_names() {
  static const std::vector<FormerName> names = [] {
    std::vector<FormerName> all;
    add_renamed(all);
    add_machine(all);
    add_refused(all);
    add_preferences(all);
    for (const auto& more : {dialect_names(), of_rows()}) all.insert(all.end(), more.begin(), more.end());
    return all;
  }();
  return names;
}

const FormerName* find_former_name(std::string_view name, std::string_view command) {
  const auto& names = former_names();
  const auto at = std::find_if(names.begin(), names.end(), [&](const FormerName& former) {
    return former.name == name && applies(former, command);
  });
  return at == names.end() ? nullptr : &*at;
}

}  // namespace hone::config
