// Rows: rewards, sampling, and the completions that are shown (GRPOConfig, RLOOConfig, OnlineDPOConfig and
// the scripts' arguments).
#include "config/option_table.h"

namespace hone::config {
namespace {
constexpr std::string_view kVllm = "read by vLLM alone; hone samples with the trainer's own weights";
constexpr std::string_view kTransformersBatching = "hone's own sampler batches continuously";
}  // namespace

std::vector<Option> reward_options() {
  std::vector<Option> rows;
  add(rows, {"rewards", kMethodScript, kPolicies},
      {
          Option{"reward_model_name_or_path",
                 "folder of a sequence-classification model; comes before reward_funcs", Kind::kString,
                 "null"}
              .formerly("reward_model_path"),
      });
  add(rows, {"rewards", kMethodScript, kHoneSamplers},
      {
          Option{"reward_funcs",
                 "accuracy_reward, think_format_reward, ..., path/to/file.py:function, "
                 "package.module.function, an http endpoint, a model folder",
                 Kind::kList, "null"}
              .in("online-dpo", {.after = "reward_weights", .origin = kHone}),
      });
  add(rows, {"rewards", kMethodConfig, "online-dpo"},
      {
          Option{"reward_model_path", "folder of a sequence-classification model; comes before reward_funcs",
                 Kind::kString, "null"}
              .formerly("reward_model_name_or_path"),
      });
  add(rows, {"rewards", kMethodConfig, kHoneSamplers},
      {
          Option{"reward_weights", "a weight for each reward; null: 1"}.into(&PolicyPlan::reward_weights),
      });
  add(rows, {"rewards", kHone, "online-dpo"},
      {
          Option{"judge",
                 "what says which of two completions is the better, in the place of rewards: an "
                 "address with an OpenAI-compatible API (http://host:port/v1), "
                 "path/to/file.py:function or package.module.function"}
              .into(&OnlineDpoPlan::judge),
          Option{"judge_model", "the model that the judge's address is asked for"}.into(
              &OnlineDpoPlan::judge_model),
          Option{"judge_api_key_env",
                 "the environment variable with the key for the judge's address, which must be https "
                 "or this machine's; null: OPENAI_API_KEY for api.openai.com, none for others",
                 Kind::kString, "null"},
          Option{"judge_prompt",
                 "what it is asked, with {prompt}, {first} and {second}; null: hone's own words"}
              .into(&OnlineDpoPlan::judge_prompt),
      });
  add(rows, {"rewards", kHone, kHoneSamplers},
      {
          Option{"python", "the interpreter that runs reward functions"}.into(&PolicyPlan::python),
          Option{"reward_workers", "processes that score at once"}
              .into(&PolicyPlan::reward_workers)
              .within({.least = 1, .most = 1024}),
          Option{"reward_timeout", "seconds that one call of a reward may take"}
              .into(&PolicyPlan::reward_timeout)
              .within({.least = 0, .most = 1e9, .least_open = true}),
      });
  return rows;
}

std::vector<Option> sampling_options() {
  std::vector<Option> rows;
  add(rows, {"sampling", kMethodConfig, kSamplers},
      {
          Option{"num_generations", "completions of each prompt, at least 2"}
              .into(&PolicyPlan::num_generations)
              .of(kPolicies)
              .null_too()
              .formerly("rloo_k group_size")
              .in("rloo", {.default_text = "2"}),
          Option{"num_generations_eval", "completions of each prompt in an evaluation; null: num_generations"}
              .into(&PolicyPlan::num_generations_eval)
              .of(kPolicies)
              .or_null()
              .within(at_least(1)),
          Option{"generation_batch_size",
                 "completions sampled at once; null: per_device_train_batch_size * steps_per_generation"}
              .into(&PolicyPlan::generation_batch_size)
              .of(kPolicies)
              .or_null()
              .within(at_least(1)),
          Option{"steps_per_generation",
                 "micro-batches of a generation batch; null: gradient_accumulation_steps"}
              .into(&PolicyPlan::steps_per_generation)
              .of(kPolicies)
              .or_null()
              .within(at_least(1)),
          Option{"num_iterations", "times that a generation batch is trained on"}
              .into(&PolicyPlan::num_iterations)
              .of(kPolicies)
              .within({.least = 1, .most = 1e6})
              .formerly("num_ppo_epochs"),
          Option{"max_completion_length", "most tokens of a completion"}
              .into(&PolicyPlan::max_completion_length)
              .of(kPoliciesAndDistillation)
              .null_too()
              .within({.least = 1, .most = 1e9})
              .formerly("max_new_tokens response_length"),
          Option{"max_new_tokens", "most tokens of a completion"}
              .into(&PolicyPlan::max_completion_length)
              .of("online-dpo")
              .defaults("64")
              .within({.least = 1, .most = 1e9})
              .formerly("max_completion_length"),
          Option{"temperature", "divides the logits, in sampling and in training"}
              .into(&PolicyPlan::temperature)
              .within(above(0))
              .in("online-dpo", {.default_text = "0.9", .meaning = "divides the logits in sampling"}),
          Option{"top_p", "sample from the most likely tokens that hold this share"}
              .into(&PolicyPlan::top_p)
              .within({.least = 0, .most = 1, .least_open = true}),
          Option{"top_k", "sample from the k most likely tokens; 0: all"}
              .into(&PolicyPlan::top_k)
              .within(at_least(0)),
          Option{"min_p", "sample from tokens at least min_p times as likely as the best"}
              .into(&PolicyPlan::min_p)
              .or_null()
              .within({.least = 0, .most = 1}),
          Option{"repetition_penalty", "above 1: tokens of prompt and completion become less likely"}
              .into(&PolicyPlan::repetition_penalty)
              .within(above(0)),
          Option{"generation_kwargs",
                 "more of sampling, and wins: min_new_tokens, stop_strings, eos_token_id (beside the "
                 "model's), top_k, ...",
                 Kind::kMap, "null"},
          Option{"chat_template_kwargs", "variables for the chat template", Kind::kMap, "null"}.in(
              "online-dpo", {.after = "vllm_tensor_parallel_size", .origin = kHone}),
          Option{"cache_implementation", "transformers' cache", Kind::kString, "null"}.ignored(
              "hone has its own cache of keys and values"),
          Option{"ds3_gather_for_generation", "DeepSpeed ZeRO-3", Kind::kBool, "true"}.ignored(kOneProcess),
          Option{"use_transformers_continuous_batching", "transformers' batching", Kind::kBool, "false"}
              .of(kPolicies)
              .ignored(kTransformersBatching),
          Option{"transformers_continuous_batching_config", "transformers' batching", Kind::kMap, "null"}
              .of(kPolicies)
              .ignored(kTransformersBatching),
          Option{"use_transformers_paged", "transformers' batching", Kind::kBool, "false"}
              .of(kPolicies)
              .ignored(kTransformersBatching),
          Option{"use_vllm", "sample with vLLM", Kind::kBool, "false"}.ignored(
              "hone samples with the trainer's own weights: nothing is copied to another engine"),
          Option{"vllm_mode", "vLLM", Kind::kString, "\"colocate\""}.ignored(kVllm),
          Option{"vllm_model_impl", "vLLM", Kind::kString, "\"vllm\""}.ignored(kVllm),
          Option{"vllm_enable_sleep_mode", "vLLM", Kind::kBool, "false"}.ignored(kVllm),
          Option{"vllm_structured_outputs_regex", "completions of this form alone", Kind::kString, "null"}
              .refused("not yet: completions are not bound to a form"),
          Option{"vllm_server_base_url", "vLLM", Kind::kString, "null"}.ignored(kVllm),
          Option{"vllm_server_host", "vLLM", Kind::kString, "\"0.0.0.0\""}.ignored(kVllm),
          Option{"vllm_server_port", "vLLM", Kind::kInt, "8000"}.ignored(kVllm),
          Option{"vllm_server_timeout", "vLLM", Kind::kFloat, "240.0"}.ignored(kVllm),
          Option{"vllm_group_port", "vLLM", Kind::kInt, "51216"}.ignored(kVllm),
          Option{"vllm_gpu_memory_utilization", "vLLM", Kind::kFloat, "0.3"}.ignored(kVllm).in(
              "online-dpo", {.default_text = "0.55", .null_too = true}),
          Option{"vllm_max_model_length", "vLLM", Kind::kInt, "null"}
              .of(kPoliciesAndDistillation)
              .ignored(kVllm),
          Option{"vllm_tensor_parallel_size", "vLLM", Kind::kInt, "1"}.ignored(kVllm),
      });
  add(rows, {"sampling", kHone, kHoneSamplers},
      {
          Option{"share_prompt", "compute the prompt of a group once, in sampling and in training"}
              .into(&BatchPlan::share_prompt)
              .of("grpo, rloo, dpo, reward, online-dpo")
              .in("dpo", {.meaning = "compute the prompt of a pair once",
                          .group = "loss",
                          .after = "ref_model_sync_steps"})
              .in("reward", {.meaning = "compute what the two of a pair begin with once",
                             .group = "loss",
                             .after = "center_rewards_coefficient"})
              .in("online-dpo", {.meaning = "compute the prompt of a pair once, in sampling and training"}),
          Option{"kv_memory",
                 "memory for keys and values while sampling, such as 2GB; null or 0: what the plan "
                 "leaves"}
              .into_bytes(&PolicyPlan::kv_memory),
          Option{"replay", "a file of rollouts, in the form of dump_rollouts, instead of sampling"}.into(
              &PolicyPlan::replay),
          Option{"dump_rollouts", "write what was sampled to output_dir/rollouts.jsonl"}.into(
              &PolicyPlan::dump_rollouts),
      });
  return rows;
}

std::vector<Option> completion_options() {
  std::vector<Option> rows;
  add(rows, {"completions", kMethodConfig, kSamplers},
      {
          Option{"log_completions", "show completions with their rewards in the terminal"}
              .into(&PolicyPlan::log_completions)
              .in("online-dpo", {.origin = kHone}),
          Option{"num_completions_to_print", "how many of them; null: all"}
              .into(&PolicyPlan::num_completions_to_print)
              .or_null()
              .within(at_least(0))
              .in("online-dpo", {.origin = kHone}),
          Option{"log_unique_prompts", "one completion a prompt"}
              .into(&PolicyPlan::log_unique_prompts)
              .formerly("wandb_log_unique_prompts")
              .in("online-dpo", {.origin = kHone}),
          Option{"log_multimodal", "pictures among them", Kind::kBool, "true"}.of(kPolicies).ignored(
              "hone trains on text alone"),
          Option{"log_completions_hub_repo", "repository for completions", Kind::kString, "null"}
              .of("grpo")
              .refused("hone writes local files: output_dir/completions"),
          Option{"max_tool_calling_iterations", "turns of an agent", Kind::kInt, "null"}
              .of("grpo, distillation")
              .ignored("hone has no tools yet: each completion is one turn"),
      });
  return rows;
}

}  // namespace hone::config
