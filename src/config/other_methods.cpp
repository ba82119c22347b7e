// TRL's options by method: a run that sets another method's option hears where it belongs.
#include <algorithm>

#include "config/option_table.h"

namespace hone::config {
namespace {

struct MethodNames {
  std::string_view methods;
  std::string_view names;  // space separated
};

// The own fields of TRL 1.16's Config classes, by the methods that share them, and ours.
constexpr MethodNames kOthers[] = {
    {"sft",
     "dataset_text_field dataset_kwargs packing packing_strategy eval_packing "
     "completion_only_loss "
     "assistant_only_loss"},
    {"sft, dpo, kto, reward", "max_length dataset_num_proc activation_offloading"},
    {"sft, dpo, reward", "pad_token"},
    {"sft, dpo", "truncation_mode padding_free"},
    {"sft, dpo, grpo, rloo, kto, reward", "pad_to_multiple_of"},
    {"sft, dpo, grpo, rloo, kto", "router_aux_loss_coef"},
    {"sft, reward", "chat_template_path eos_token"},
    {"sft, dpo, grpo, kto", "loss_type"},
    {"sft, grpo, rloo", "shuffle_dataset"},
    {"grpo, rloo",
     "reward_model_name_or_path reward_funcs python reward_workers reward_timeout kv_memory "
     "replay "
     "dump_rollouts"},
    {"grpo, rloo, dpo, reward", "share_prompt"},
    {"dpo, grpo, rloo, kto, reward, distillation", "disable_dropout"},
    {"dpo, kto", "precompute_ref_log_probs precompute_ref_batch_size"},
    {"dpo",
     "loss_weights ld_alpha f_divergence_type f_alpha_divergence_coef label_smoothing use_weighting "
     "discopop_tau"},
    {"dpo, grpo, rloo, kto, distillation", "beta"},
    {"dpo, grpo, rloo, kto", "sync_ref_model ref_model_mixup_alpha ref_model_sync_steps"},
    {"grpo",
     "cast_lm_head_to_fp32 delta sapo_temperature_neg sapo_temperature_pos vespo_k_pos vespo_lambda_pos "
     "vespo_k_neg "
     "vespo_lambda_neg importance_sampling_level multi_objective_aggregation scale_rewards "
     "top_entropy_quantile "
     "entropy_coef use_adaptive_entropy entropy_coef_min entropy_coef_max entropy_coef_delta entropy_target "
     "vllm_importance_sampling_correction vllm_importance_sampling_mode vllm_importance_sampling_clip_max "
     "vllm_importance_sampling_clip_min off_policy_mask_threshold use_bias_correction_kl "
     "log_completions_hub_repo "
     "vllm_importance_sampling_cap"},
    {"grpo, rloo",
     "num_generations num_generations_eval generation_batch_size steps_per_generation num_iterations epsilon "
     "epsilon_high reward_weights mask_truncated_completions log_multimodal "
     "use_transformers_continuous_batching "
     "transformers_continuous_batching_config use_transformers_paged"},
    {"grpo, rloo, distillation",
     "max_completion_length ds3_gather_for_generation temperature top_p top_k min_p generation_kwargs "
     "chat_template_kwargs repetition_penalty cache_implementation use_vllm vllm_mode vllm_model_impl "
     "vllm_enable_sleep_mode vllm_structured_outputs_regex vllm_server_base_url vllm_server_host "
     "vllm_server_port "
     "vllm_server_timeout vllm_group_port vllm_gpu_memory_utilization vllm_max_model_length "
     "vllm_tensor_parallel_size log_completions num_completions_to_print log_unique_prompts"},
    {"grpo, distillation", "max_tool_calling_iterations"},
    {"rloo", "normalize_advantages reward_clip_range"},
    {"kto", "desirable_weight undesirable_weight"},
    {"reward", "center_rewards_coefficient"},
    {"online-dpo",
     "reward_model_path max_new_tokens missing_eos_penalty judge judge_model judge_api_key_env judge_prompt "
     "skip_ties "
     "max_length "
     "loss_type beta disable_dropout share_prompt reward_funcs reward_weights python reward_workers "
     "reward_timeout kv_memory replay dump_rollouts temperature top_p top_k min_p repetition_penalty "
     "generation_kwargs chat_template_kwargs cache_implementation ds3_gather_for_generation use_vllm "
     "vllm_mode "
     "vllm_model_impl vllm_enable_sleep_mode vllm_structured_outputs_regex vllm_server_base_url "
     "vllm_server_host vllm_server_port vllm_server_timeout vllm_group_port vllm_gpu_memory_utilization "
     "vllm_tensor_parallel_size log_completions num_completions_to_print log_unique_prompts"},
    {"distillation", "teacher_model_name_or_path teacher_model_revision teacher_model_init_kwargs"},
};

}  // namespace

std::string other_methods(std::string_view name, std::string_view command) {
  const auto is = [&](std::string_view word) { return command == word; };
  if (!is("sft") && !is("grpo") && !is("rloo") && !is("dpo") && !is("online-dpo") && !is("reward") &&
      !is("kto"))
    return {};
  std::string out;
  for (const MethodNames& group : kOthers) {
    const std::vector<std::string> names = split_words(group.names);
    if (std::find(names.begin(), names.end(), name) == names.end()) continue;
    for (std::string method : split_words(group.methods)) {
      if (method.ends_with(',')) method.pop_back();
      if (method != command) out += (out.empty() ? "" : ", ") + method;
    }
  }
  return out;
}

}  // namespace hone::config
