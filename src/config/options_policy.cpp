// Rows of grpo and rloo: TRL's GRPOConfig and RLOOConfig, the reward options of TRL's scripts, and ours. What
// the two share with sft comes from the other files, with their own defaults.
#include <algorithm>

#include "config/option_table.h"

namespace hone::config {
namespace {

constexpr std::string_view kBoth = "grpo, rloo";
constexpr std::string_view kGrpo = "grpo";
constexpr std::string_view kVllm = "read by vLLM alone; hone samples with the trainer's own weights";
constexpr std::string_view kTransformersBatching = "hone's own sampler batches continuously";
constexpr std::string_view kSyncRef = "only read with sync_ref_model, which TRL refuses with PEFT";

using Rows = std::vector<Option>;

Rows named(Rows rows, std::string_view heading, std::string_view methods) {
  for (Option& row : rows) row = row.under(heading).only(methods);
  return rows;
}

// What rloo sets differently has its default as an argument.
Rows policy_model_rows() {
  return {
      {"disable_dropout", Kind::kBool, "false", "lora_dropout 0"},
      Option{"cast_lm_head_to_fp32", Kind::kBool, "false", "the head's matrix in float32"}.refused(
          "not yet; with dtype float32 and bf16: false everything is float32"),
  };
}

Rows group_rows(std::string_view num_generations) {
  return {
      Option{"num_generations", Kind::kInt, num_generations, "completions of each prompt, at least 2"}
          .null_too(),
      Option{"num_generations_eval", Kind::kInt, "null",
             "completions of each prompt in an evaluation; null: num_generations"}
          .within(at_least(1)),
      Option{"generation_batch_size", Kind::kInt, "null",
             "completions sampled at once; null: per_device_train_batch_size * steps_per_generation"}
          .within(at_least(1)),
      Option{"steps_per_generation", Kind::kInt, "null",
             "micro-batches of a generation batch; null: gradient_accumulation_steps"}
          .within(at_least(1)),
      Option{"num_iterations", Kind::kInt, "1", "times that a generation batch is trained on"}.within(
          {.least = 1, .most = 1e6}),
      {"shuffle_dataset", Kind::kBool, "true", "draw the prompts in random order"},
  };
}

Rows sampling_rows() {
  return {
      Option{"max_completion_length", Kind::kInt, "512", "most tokens of a completion"}.null_too().within(
          {.least = 1, .most = 1e9}),
      Option{"temperature", Kind::kFloat, "1.0", "divides the logits, in sampling and in training"}.within(
          above(0)),
      Option{"top_p", Kind::kFloat, "1.0", "sample from the likeliest tokens that hold this share"}.within(
          {.least = 0, .most = 1, .least_open = true}),
      Option{"top_k", Kind::kInt, "0", "sample from the k likeliest tokens; 0: all"}.within(at_least(0)),
      Option{"min_p", Kind::kFloat, "null", "sample from tokens at least min_p times as likely as the best"}
          .within({.least = 0, .most = 1}),
      Option{"repetition_penalty", Kind::kFloat, "1.0",
             "above 1: tokens of prompt and completion become less likely"}
          .within(above(0)),
      {"generation_kwargs", Kind::kMap, "null",
       "more of sampling, and wins: min_new_tokens, stop_strings, eos_token_id (beside the model's), top_k, "
       "..."},
      {"chat_template_kwargs", Kind::kMap, "null", "variables for the chat template"},
      Option{"cache_implementation", Kind::kString, "null", "transformers' cache"}.answered(
          "hone has its own cache of keys and values"),
      Option{"pad_to_multiple_of", Kind::kAny, "\"auto\"", "pad to a multiple"}.null_too().answered(
          "hone never pads"),
      Option{"ds3_gather_for_generation", Kind::kBool, "true", "DeepSpeed ZeRO-3"}.answered(
          "hone runs in one process"),
      Option{"use_transformers_continuous_batching", Kind::kBool, "false", "transformers' batching"}.answered(
          kTransformersBatching),
      Option{"transformers_continuous_batching_config", Kind::kMap, "null", "transformers' batching"}
          .answered(kTransformersBatching),
      Option{"use_transformers_paged", Kind::kBool, "false", "transformers' batching"}.answered(
          kTransformersBatching),
      Option{"use_vllm", Kind::kBool, "false", "sample with vLLM"}.answered(
          "hone samples with the trainer's own weights: nothing is copied to another engine"),
      Option{"vllm_mode", Kind::kString, "\"colocate\"", "vLLM"}.answered(kVllm),
      Option{"vllm_model_impl", Kind::kString, "\"vllm\"", "vLLM"}.answered(kVllm),
      Option{"vllm_enable_sleep_mode", Kind::kBool, "false", "vLLM"}.answered(kVllm),
      Option{"vllm_structured_outputs_regex", Kind::kString, "null", "completions of this form alone"}
          .refused("not yet: completions are not bound to a form"),
      Option{"vllm_server_base_url", Kind::kString, "null", "vLLM"}.answered(kVllm),
      Option{"vllm_server_host", Kind::kString, "\"0.0.0.0\"", "vLLM"}.answered(kVllm),
      Option{"vllm_server_port", Kind::kInt, "8000", "vLLM"}.answered(kVllm),
      Option{"vllm_server_timeout", Kind::kFloat, "240.0", "vLLM"}.answered(kVllm),
      Option{"vllm_group_port", Kind::kInt, "51216", "vLLM"}.answered(kVllm),
      Option{"vllm_gpu_memory_utilization", Kind::kFloat, "0.3", "vLLM"}.answered(kVllm),
      Option{"vllm_max_model_length", Kind::kInt, "null", "vLLM"}.answered(kVllm),
      Option{"vllm_tensor_parallel_size", Kind::kInt, "1", "vLLM"}.answered(kVllm),
  };
}

Rows loss_rows(std::string_view beta) {
  return {
      Option{"beta", Kind::kFloat, beta, "weight of the distance from the reference; 0: none is computed"}
          .within(at_least(0)),
      Option{"epsilon", Kind::kFloat, "0.2", "lower clip of the ratio: 1 - epsilon"}.within(at_least(0)),
      Option{"epsilon_high", Kind::kFloat, "null", "upper clip: 1 + epsilon_high; null: epsilon"}.within(
          at_least(0)),
      {"mask_truncated_completions", Kind::kBool, "false", "completions without an end do not train"},
      Option{"sync_ref_model", Kind::kBool, "false", "move the reference towards the policy"}.refused(
          "TRL refuses it with PEFT: the reference is the model without its adapter"),
      Option{"ref_model_mixup_alpha", Kind::kFloat, "0.6", "share of the policy"}.answered(kSyncRef),
      Option{"ref_model_sync_steps", Kind::kInt, "512", "steps between"}.answered(kSyncRef),
  };
}

Rows grpo_loss_rows() {
  return {
      Option{"loss_type", Kind::kChoice, "\"dapo\"", "the loss, as TRL names it"}.choice(
          "dapo grpo bnpo dr_grpo cispo luspo sapo vespo"),
      Option{"importance_sampling_level", Kind::kChoice, "\"token\"",
             "one ratio a token, or a sequence (GSPO)"}
          .choice("token sequence"),
      Option{"scale_rewards", Kind::kChoice, "\"group\"",
             "divide advantages by the spread of the group, of the batch, or not; true: group, false: none"}
          .choice("group batch none true false"),
      Option{"multi_objective_aggregation", Kind::kChoice, "\"sum_then_normalize\"",
             "of several rewards: sum and then normalise, or each on its own first (GDPO)"}
          .choice("sum_then_normalize normalize_then_sum"),
      Option{"delta", Kind::kFloat, "null", "cap of the ratio where the clip does not reach (two-sided clip)"}
          .within(above(0)),
      Option{"sapo_temperature_neg", Kind::kFloat, "1.05", "sapo: where the advantage is not positive"}
          .within(above(0)),
      Option{"sapo_temperature_pos", Kind::kFloat, "1.0", "sapo: where the advantage is positive"}.within(
          above(0)),
      {"vespo_k_pos", Kind::kFloat, "2.0", "vespo: power, advantage at least 0"},
      {"vespo_lambda_pos", Kind::kFloat, "3.0", "vespo: decay, advantage at least 0"},
      {"vespo_k_neg", Kind::kFloat, "3.0", "vespo: power, advantage below 0"},
      {"vespo_lambda_neg", Kind::kFloat, "2.0", "vespo: decay, advantage below 0"},
      {"use_bias_correction_kl", Kind::kBool, "true", "multiply the distance by the ratio"},
      Option{"top_entropy_quantile", Kind::kFloat, "1.0", "train on this share of tokens, the most uncertain"}
          .within({.least = 0, .most = 1}),
      {"entropy_coef", Kind::kFloat, "0.0", "weight of the entropy, which is added to what is learned"},
      {"use_adaptive_entropy", Kind::kBool, "false", "move entropy_coef towards entropy_target"},
      {"entropy_coef_min", Kind::kFloat, "0.0", "adaptive: lower bound"},
      {"entropy_coef_max", Kind::kFloat, "1.0", "adaptive: upper bound"},
      Option{"entropy_coef_delta", Kind::kFloat, "0.005", "adaptive: a step's change"}.within(at_least(0)),
      {"entropy_target", Kind::kFloat, "0.2", "adaptive: nats a token"},
      Option{"off_policy_mask_threshold", Kind::kFloat, "null",
             "leave out sequences with a negative advantage that have moved further than this"}
          .within(at_least(0)),
      {"vllm_importance_sampling_correction", Kind::kBool, "true",
       "weigh by trainer / sampler; only when it is set: TRL corrects vLLM, here the sampler is the trainer"},
      Option{"vllm_importance_sampling_mode", Kind::kChoice, "\"sequence_mask\"", "how to weigh"}.choice(
          "sequence_mask sequence_truncate token_mask token_truncate"),
      Option{"vllm_importance_sampling_clip_max", Kind::kFloat, "3.0", "largest weight; null: none"}
          .null_too()
          .within(above(0)),
      Option{"vllm_importance_sampling_clip_min", Kind::kFloat, "null", "smallest weight; null: none"}.within(
          at_least(0)),
      Option{"vllm_importance_sampling_cap", Kind::kFloat, "null",
             "former name of vllm_importance_sampling_clip_max, which it replaces"}
          .within(above(0)),
  };
}

Rows rloo_loss_rows() {
  return {
      {"normalize_advantages", Kind::kBool, "false", "divide advantages by the batch's spread"},
      {"reward_clip_range", Kind::kList, "null", "bounds of the summed reward: two numbers"},
  };
}

Rows completion_rows() {
  return {
      {"log_completions", Kind::kBool, "false", "show completions with their rewards in the terminal"},
      Option{"num_completions_to_print", Kind::kInt, "null", "how many of them; null: all"}.within(
          at_least(0)),
      {"log_unique_prompts", Kind::kBool, "false", "one completion a prompt"},
      Option{"log_multimodal", Kind::kBool, "true", "pictures among them"}.answered(
          "hone trains on text alone"),
  };
}

Rows grpo_completion_rows() {
  return {
      Option{"log_completions_hub_repo", Kind::kString, "null", "repository for completions"}.refused(
          "hone writes local files: output_dir/completions"),
      Option{"max_tool_calling_iterations", Kind::kInt, "null", "turns of an agent"}.answered(
          "hone has no tools yet: each completion is one turn"),
  };
}

Rows script_rows() {
  return {
      {"reward_model_name_or_path", Kind::kString, "null",
       "folder of a sequence-classification model; comes before reward_funcs"},
      {"reward_funcs", Kind::kList, "null",
       "accuracy_reward, think_format_reward, ..., path/to/file.py:function, package.module.function, an "
       "http "
       "endpoint, a model folder"},
  };
}

Rows own_reward_rows() {
  return {
      {"python", Kind::kString, "\"python3\"", "the interpreter that runs reward functions"},
      Option{"reward_workers", Kind::kInt, "1", "processes that score at once"}.within(
          {.least = 1, .most = 1024}),
      Option{"reward_timeout", Kind::kFloat, "60.0", "seconds that one call of a reward may take"}.within(
          {.least = 0, .most = 1e9, .least_open = true}),
  };
}

Rows own_rollout_rows() {
  return {
      {"share_prompt", Kind::kBool, "true",
       "compute the prompt of a group once, in sampling and in training"},
      {"kv_memory", Kind::kString, "null",
       "memory for keys and values while sampling, such as 2GB; null or 0: what the plan leaves"},
      {"replay", Kind::kString, "null",
       "a file of rollouts, in the form of dump_rollouts, instead of sampling"},
      {"dump_rollouts", Kind::kBool, "false", "write what was sampled to output_dir/rollouts.jsonl"},
  };
}

Rows shared(Rows rows, Origin config) {
  std::erase_if(rows, [](const Option& row) { return row.methods != "all"; });
  for (Option& row : rows) {
    if (row.origin == Origin::kSftConfig) row.origin = config;
    if (row.name == "learning_rate") row.default_text = "1e-6";
    if (row.name == "remove_unused_columns") {
      row.default_text = "false";
      row = row.null_too().refused("rewards are given every other column of the data");
    }
    if (row.name == "train_sampling_strategy" || row.name == "data_seed") {
      row = row.choice("").answered("shuffle_dataset and seed decide the prompts' order, as in TRL");
      if (row.kind == Kind::kChoice) row.kind = Kind::kString;
    }
    if (row.name == "dataloader_drop_last") {
      row = row.answered("always: prompts that do not fill a generation batch are left out");
    }
    if (row.name == "per_device_train_batch_size") row.meaning = "completions of a micro-batch";
    if (row.name == "per_device_eval_batch_size") row.meaning = "completions of an evaluation batch";
    if (row.group == "evaluation" && row.answer == Class::kAnswered) {
      row.reason = "an evaluation samples completions and scores them";
    }
    if (row.name == "average_tokens_across_devices") row.reason = "hone runs in one process";
    if (row.name == "dataset_name") {
      row.meaning = "a .jsonl file with a prompt column, or a folder that holds train.jsonl (and test.jsonl)";
    }
  }
  return rows;
}

Rows from(Rows rows, Origin origin) {
  for (Option& row : rows) row.origin = origin;
  return rows;
}

Schema policy_schema(bool grpo) {
  const Origin config = grpo ? Origin::kGrpoConfig : Origin::kRlooConfig;
  const Origin script = grpo ? Origin::kGrpoScriptArguments : Origin::kRlooScriptArguments;
  Rows model = policy_model_rows();
  if (!grpo) model.pop_back();
  Schema schema{.command = grpo ? "grpo" : "rloo", .options = {}};
  const auto join = [&schema](const Rows& rows) {
    schema.options.insert(schema.options.end(), rows.begin(), rows.end());
  };
  const auto own = [&](const Rows& rows, std::string_view heading, std::string_view methods) {
    join(from(named(rows, heading, methods), config));
  };
  join(shared(model_options(), config));
  own(model, "model", kBoth);
  join(shared(adapter_options(), config));
  join(shared(data_options(), config));
  join(from(named(script_rows(), "rewards", kBoth), script));
  own({{"reward_weights", Kind::kList, "null", "a weight for each reward; null: 1"}}, "rewards", kBoth);
  join(named(own_reward_rows(), "rewards", kBoth));
  own(group_rows(grpo ? "8" : "2"), "sampling", kBoth);
  own(sampling_rows(), "sampling", kBoth);
  join(named(own_rollout_rows(), "sampling", kBoth));
  own(loss_rows(grpo ? "0.0" : "0.05"), "loss", kBoth);
  own(grpo ? grpo_loss_rows() : rloo_loss_rows(), "loss", grpo ? kGrpo : "rloo");
  join(shared(training_options(), config));
  join(shared(optimizer_options(), config));
  own(completion_rows(), "completions", kBoth);
  if (grpo) own(grpo_completion_rows(), "completions", kGrpo);
  join(shared(reporting_options(), config));
  join(shared(saving_options(), config));
  join(shared(machine_options(), config));
  join(shared(doctor_options(), config));
  return schema;
}

}  // namespace

const Schema& grpo_schema() {
  static const Schema schema = policy_schema(true);
  return schema;
}

const Schema& rloo_schema() {
  static const Schema schema = policy_schema(false);
  return schema;
}

const Schema& reward_test_schema() {
  static const Schema schema = [] {
    Schema made{.command = "reward-test", .options = {}};
    Rows rows = script_rows();
    const Rows more = own_reward_rows();
    rows.insert(rows.end(), more.begin(), more.end());
    rows.push_back({"dataset_name", Kind::kString, "null",
                    "a .jsonl file with a prompt column, or a folder that holds train.jsonl"});
    rows.push_back(Option{"max_completion_length", Kind::kInt, "512", "where completions are cut"}.within(
        {.least = 1, .most = 1e9}));
    rows.push_back(Option{"limit", Kind::kInt, "32", "rows of the data to try"}.within(at_least(1)));
    made.options = named(rows, "options", "reward-test");
    return made;
  }();
  return schema;
}

}  // namespace hone::config
