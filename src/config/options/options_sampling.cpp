// Rows: rewards, sampling, and the completions that are shown (GRPOConfig, RLOOConfig, OnlineDPOConfig and
// the scripts' arguments).
#include "config/option_table.h"

namespace hone::config {
namespace {
constexpr std::string_view kVllm = "read only by vLLM; hone samples with the trainer's own weights";
constexpr std::string_view kTransformersBatching = "hone's own sampler batches continuously";

// Of the engines that TRL can sample with.
void add_engines(std::vector<Option>& rows) {
  add(rows, {"sampling", kMethodConfig, kSamplers},
      {{"cache_implementation", "transformers' cache", ignored("hone has its own cache of keys and values")},
       {"ds3_gather_for_generation", "DeepSpeed ZeRO-3", Kind::kBool, "true",
        ignored("each rank has the whole model")},
       {"use_transformers_continuous_batching", "transformers' batching", Kind::kBool, "false", of(kPolicies),
        ignored(kTransformersBatching)},
       {"transformers_continuous_batching_config", "transformers' batching", Kind::kMap, "null",
        of(kPolicies), ignored(kTransformersBatching)},
       {"use_transformers_paged", "transformers' batching", Kind::kBool, "false", of(kPolicies),
        ignored(kTransformersBatching)},
       {"use_vllm", "sample with vLLM", Kind::kBool, "false",
        ignored("hone samples with the trainer's own weights: nothing is copied to another engine")},
       {"vllm_mode", "vLLM", Kind::kString, "\"colocate\"", ignored(kVllm)},
       {"vllm_model_impl", "vLLM", Kind::kString, "\"vllm\"", ignored(kVllm)},
       {"vllm_enable_sleep_mode", "vLLM", Kind::kBool, "false", ignored(kVllm)},
       {"vllm_structured_outputs_regex",
        "a regular expression that a whole completion matches: only tokens that keep a match possible are drawn",
        &PolicyPlan::vllm_structured_outputs_regex},
       {"vllm_server_base_url", "vLLM", ignored(kVllm)},
       {"vllm_server_host", "vLLM", Kind::kString, "\"0.0.0.0\"", ignored(kVllm)},
       {"vllm_server_port", "vLLM", Kind::kInt, "8000", ignored(kVllm)},
       {"vllm_server_timeout", "vLLM", Kind::kFloat, "240.0", ignored(kVllm)},
       {"vllm_group_port", "vLLM", Kind::kInt, "51216", ignored(kVllm)},
       {"vllm_gpu_memory_utilization", "vLLM", Kind::kFloat, "0.3", ignored(kVllm),
        in("online-dpo", {.default_text = "0.55", .null_too = true})},
       {"vllm_max_model_length", "vLLM", Kind::kInt, "null", of(kPoliciesAndDistillation), ignored(kVllm)},
       {"vllm_tensor_parallel_size", "vLLM", Kind::kInt, "1", ignored(kVllm)}});
}
}  // namespace

std::vector<Option> reward_options() {
  std::vector<Option> rows;
  add(rows, {"rewards", kMethodScript, kPolicies},
      {{"reward_model_name_or_path", "folder of a sequence-classification model; comes before reward_funcs",
        Kind::kString, "null", formerly("reward_model_path")}});
  add(rows, {"rewards", kMethodScript, kRewarded},
      {{"reward_funcs",
        "accuracy_reward, think_format_reward, ..., path/to/file.py:function, package.module.function, "
        "an http endpoint, a model folder",
        Kind::kList, "null", in("online-dpo", {.after = "reward_weights", .origin = kHone})}});
  add(rows, {"rewards", kMethodConfig, "online-dpo"},
      {{"reward_model_path", "folder of a sequence-classification model; comes before reward_funcs",
        Kind::kString, "null", formerly("reward_model_name_or_path")}});
  add(rows, {"rewards", kMethodConfig, kRewarded},
      {{"reward_weights", "a weight for each reward; null: 1", &PolicyPlan::reward_weights}});
  add(rows, {"rewards", kHone, "online-dpo"},
      {{"judge",
        "what decides which of two completions is better, instead of rewards: an address with an "
        "OpenAI-compatible API (http://host:port/v1), path/to/file.py:function or "
        "package.module.function",
        &OnlineDpoPlan::judge},
       {"judge_model", "the model to request from the judge's address", &OnlineDpoPlan::judge_model},
       {"judge_api_key_env",
        "the environment variable with the key for the judge's address, which must be https or this "
        "machine's; null: OPENAI_API_KEY for api.openai.com, none for others",
        Kind::kString, "null"},
       {"judge_prompt", "the judge's prompt, with {prompt}, {first} and {second}; null: hone's own",
        &OnlineDpoPlan::judge_prompt}});
  add(rows, {"rewards", kHone, kAll},
      {{"python",
        "the interpreter of your Python: rewards, row_function, loggers, the hub; null: that of the active environment "
        "(VIRTUAL_ENV, CONDA_PREFIX, python on PATH)",
        &PolicyPlan::python,
        in("sft, dpo, kto, reward, cpo, orpo, distill", {.group = "data", .after = "row_timeout"})}});
  add(rows, {"rewards", kHone, kRewarded},
      {{"reward_by_group",
        "call your own functions and endpoints with one prompt's completions while others are sampled; false: with the "
        "whole generation batch, as TRL",
        &PolicyPlan::reward_by_group},
       {"reward_workers", "processes that score in parallel", &PolicyPlan::reward_workers,
        Range{.least = 1, .most = 1024}, of(kScorers),
        in(kOthersThatScore, {.group = "samples", .after = "eval_reward_rows"})},
       {"reward_timeout", "seconds that one call of a reward may take", &PolicyPlan::reward_timeout,
        Range{.least = 0, .most = 1e9, .least_open = true}, of(kScorers),
        in(kOthersThatScore, {.group = "samples", .after = "reward_workers"})}});
  return rows;
}

std::vector<Option> sampling_options() {
  std::vector<Option> rows;
  add(rows, {"sampling", kMethodConfig, kSamplers},
      {{"num_generations", "completions of each prompt, at least 2", &PolicyPlan::num_generations,
        of(kPolicies), kNullToo, formerly("rloo_k group_size"), in("rloo", {.default_text = "2"})},
       {"num_generations_eval", "completions of each prompt in an evaluation; null: num_generations",
        &PolicyPlan::num_generations_eval, of(kPolicies), "null", at_least(1)},
       {"generation_batch_size",
        "completions sampled at once; null: per_device_train_batch_size * steps_per_generation",
        &PolicyPlan::generation_batch_size, of(kPolicies), "null", at_least(1)},
       {"steps_per_generation", "micro-batches of a generation batch; null: gradient_accumulation_steps",
        &PolicyPlan::steps_per_generation, of(kPolicies), "null", at_least(1)},
       {"num_iterations", "times that a generation batch is trained on", &PolicyPlan::num_iterations,
        of(kPolicies), Range{.least = 1, .most = 1e6}, formerly("num_ppo_epochs")},
       {"max_completion_length", "maximum number of tokens of a completion",
        &PolicyPlan::max_completion_length, of(kPoliciesAndDistillation), kNullToo,
        Range{.least = 1, .most = 1e9}, formerly("max_new_tokens response_length")},
       {"max_new_tokens", "maximum number of tokens of a completion", &PolicyPlan::max_completion_length,
        of("online-dpo"), "64", Range{.least = 1, .most = 1e9}, formerly("max_completion_length")},
       {"temperature", "divides the logits, in sampling and in training", &PolicyPlan::temperature, above(0),
        in("online-dpo", {.default_text = "0.9", .meaning = "divides the logits in sampling"})},
       {"top_p", "sample from the most likely tokens with this total probability", &PolicyPlan::top_p,
        Range{.least = 0, .most = 1, .least_open = true}},
       {"top_k", "sample from the k most likely tokens; 0: all", &PolicyPlan::top_k, at_least(0)},
       {"min_p", "sample from tokens at least min_p times as likely as the most likely one",
        &PolicyPlan::min_p, "null", Range{.least = 0, .most = 1}},
       {"repetition_penalty", "above 1: tokens of prompt and completion become less likely",
        &PolicyPlan::repetition_penalty, above(0)},
       {"generation_kwargs",
        "more sampling options, which override the others: min_new_tokens, stop_strings, eos_token_id "
        "(in addition to the model's), top_k, ...",
        Kind::kMap, "null"},
       {"chat_template_kwargs", "variables for the chat template", Kind::kMap, "null",
        for_rows(kConversations),
        in("online-dpo", {.after = "vllm_tensor_parallel_size", .origin = kHone})}});
  add_engines(rows);
  add(rows, {"sampling", kHone, kHoneSamplers},
      {{"share_prompt", "compute the prompt of a group once, in sampling and in training",
        &BatchPlan::share_prompt, of("grpo, rloo, dpo, reward, cpo, orpo, online-dpo"),
        in("dpo", {.meaning = "compute the prompt of a pair once",
                   .group = "loss",
                   .after = "ref_model_sync_steps"}),
        in("cpo, orpo", {.meaning = "compute the prompt of a pair once", .group = "loss", .after = "beta"}),
        in("reward", {.meaning = "compute the shared beginning of a pair once",
                      .group = "loss",
                      .after = "center_rewards_coefficient"}),
        in("online-dpo", {.meaning = "compute the prompt of a pair once, in sampling and training"})},
       {"kv_memory",
        "memory for keys and values while sampling, such as 2GB; null or 0: what the memory plan leaves",
        bytes(&PolicyPlan::kv_memory)},
       {"drafts",
        "auto: guess tokens from what was said before, and read several in one pass where that pays; no completion "
        "changes by it",
        &PolicyPlan::drafts, choice("off auto")},
       {"filter_groups",
        "replace groups whose rewards are all equal by groups of other prompts, as verl's filter_groups",
        &PolicyPlan::filter_groups, of(kPolicies)},
       {"max_num_gen_batches",
        "with filter_groups, how often a generation batch is sampled at most, the first time included",
        &PolicyPlan::max_num_gen_batches, of(kPolicies), Range{.least = 1, .most = 1000}},
       {"replay", "a file of rollouts, in the form of dump_rollouts, instead of sampling",
        &PolicyPlan::replay},
       {"dump_rollouts", "write what was sampled to output_dir/rollouts.jsonl", &PolicyPlan::dump_rollouts}});
  return rows;
}

std::vector<Option> completion_options() {
  std::vector<Option> rows;
  add(rows, {"completions", kMethodConfig, kSamplers},
      {{"log_completions", "show completions with their rewards in the terminal, and send them to loggers",
        &PolicyPlan::log_completions, in("online-dpo", {.origin = kHone})},
       {"num_completions_to_print", "how many of them; null: all", &PolicyPlan::num_completions_to_print,
        "null", at_least(0), in("online-dpo", {.origin = kHone})},
       {"log_unique_prompts", "one completion per prompt", &PolicyPlan::log_unique_prompts,
        formerly("wandb_log_unique_prompts"), in("online-dpo", {.origin = kHone})},
       {"log_multimodal", "pictures among them", Kind::kBool, "true", of(kPolicies),
        ignored("hone trains only on text")},
       {"log_completions_hub_repo", "repository for completions", of("grpo"),
        refused("hone writes local files: output_dir/completions")}});
  add(rows, {"tools", kMethodConfig, kPoliciesAndDistillation},
      {{"max_tool_calling_iterations",
        "rounds of calls in a completion; 0: calls are left unanswered; null: no bound", Kind::kInt, "null",
        at_least(0), in("rloo", {.origin = kHone})}});
  add(rows, {"tools", kHone, kPoliciesAndDistillation},
      {{"tools",
        "functions that the model may call: path/to/file.py:search,calc, package.module:search, hone.tools.calculator",
        &ToolsPlan::tools, for_rows(kConversations)},
       {"environment",
        "what gives each completion tools of its own: path/to/file.py:Factory; or several by name, of which the rows' column "
        "environment chooses: {shop: shop.py:Shop, shell: shell.py:Shell}",
        &ToolsPlan::environment, kNamedValues, for_rows(kConversations)},
       {"rollout",
        "a function that makes the completions itself, as TRL's rollout_func: path/to/file.py:function",
        &ToolsPlan::rollout, of(kPolicies)},
       {"tool_workers", "calls of functions that run at once", &ToolsPlan::tool_workers,
        Range{.least = 1, .most = 1024}},
       {"tool_timeout", "seconds that a call may take", &ToolsPlan::tool_timeout,
        Range{.least = 0, .most = 1e9, .least_open = true}},
       {"max_tool_result_tokens", "a longer result is cut in the middle; 0: none is",
        &ToolsPlan::max_tool_result_tokens, at_least(0)},
       {"tool_failures_to_stop", "failed calls in a row that end a completion; 0: it goes on, as in TRL",
        &ToolsPlan::tool_failures_to_stop, at_least(0)},
       {"tool_text_control_tokens",
        "control tokens in what a tool answers: plain reads them as text, as_is as TRL does, as control tokens",
        &ToolsPlan::tool_text_control_tokens, choice("plain as_is"), "\"plain\""}});
  return rows;
}

}  // namespace hone::config
