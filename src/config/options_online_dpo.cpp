// Rows of online-dpo: TRL's OnlineDPOConfig, and ours. What it shares with sft comes from the other files,
// what it shares with grpo from grpo's table, with its own defaults.
#include <algorithm>

#include "config/option_table.h"

namespace hone::config {
namespace {

using Rows = std::vector<Option>;

constexpr std::string_view kOnline = "online-dpo";

// Rows of grpo by name.
Rows as_in_grpo(std::string_view names) {
  Rows out;
  for (const std::string& name : split_words(names)) out.push_back(*grpo_schema().find(name));
  return out;
}

Rows reward_rows() {
  return {
      {"reward_funcs", Kind::kList, "null",
       "accuracy_reward, think_format_reward, ..., path/to/file.py:function, package.module.function, an "
       "http endpoint, a model folder"},
      {"judge", Kind::kString, "null",
       "what says which of two completions is the better, in the place of rewards: an address with an "
       "OpenAI-compatible API (http://host:port/v1), path/to/file.py:function or package.module.function"},
      {"judge_model", Kind::kString, "null", "the model that the judge's address is asked for"},
      {"judge_api_key_env", Kind::kString, "null",
       "the environment variable with the key for the judge's address, which must be https or this "
       "machine's; "
       "null: OPENAI_API_KEY for api.openai.com, none for others"},
      {"judge_prompt", Kind::kString, "null",
       "what it is asked, with {prompt}, {first} and {second}; null: hone's own words"},
  };
}

Rows length_rows() {
  return {
      Option{"max_new_tokens", Kind::kInt, "64", "most tokens of a completion"}.within(
          {.least = 1, .most = 1e9}),
      Option{"max_length", Kind::kInt, "512",
             "tokens of a prompt with its completion in training; a longer prompt loses its beginning"}
          .within(at_least(2)),
  };
}

Rows loss_rows() {
  return {
      Option{"loss_type", Kind::kChoice, "\"sigmoid\"", "the loss, as TRL names it"}.choice("sigmoid ipo"),
      {"beta", Kind::kList, "[0.1]",
       "how strongly the reference holds (ipo's tau); a list: one an epoch, the last for those that follow"},
      Option{"missing_eos_penalty", Kind::kFloat, "null",
             "taken off the score of a completion that does not end"}
          .within(above(0)),
  };
}

Rows shared(Rows rows) {
  std::erase_if(rows,
                [](const Option& row) { return row.methods != "all" || row.name == "router_aux_loss_coef"; });
  for (Option& row : rows) {
    if (row.origin == Origin::kSftConfig) row.origin = Origin::kOnlineDpoConfig;
    if (row.name == "learning_rate") row.default_text = "5e-7";
    if (row.name == "remove_unused_columns") {
      row.default_text = "false";
      row = row.null_too().refused("rewards are given every other column of the data");
    }
    if (row.name == "per_device_train_batch_size") row.meaning = "prompts of a micro-batch";
    if (row.name == "per_device_eval_batch_size") row.meaning = "prompts of an evaluation batch";
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

Rows own(Rows rows, std::string_view heading, Origin origin) {
  for (Option& row : rows) {
    if (row.name == "temperature") row.default_text = "0.9", row.meaning = "divides the logits in sampling";
    if (row.name == "vllm_gpu_memory_utilization") row.default_text = "0.55", row = row.null_too();
    if (row.name == "share_prompt")
      row.meaning = "compute the prompt of a pair once, in sampling and training";
    row = row.from(origin).under(heading).only(kOnline);
  }
  return rows;
}

}  // namespace

const Schema& online_dpo_schema() {
  static const Schema schema = [] {
    constexpr Origin kTrl = Origin::kOnlineDpoConfig;
    Schema made{.command = std::string(kOnline), .options = {}};
    const Rows dropout = {{"disable_dropout", Kind::kBool, "true", "lora_dropout 0"}};
    const Rows reward_model = {{"reward_model_path", Kind::kString, "null",
                                "folder of a sequence-classification model; comes before reward_funcs"}};
    const Rows ties = {{"skip_ties", Kind::kBool, "false",
                        "pairs of equal scores do not train; false: their first completion is the better"}};
    for (const Rows& rows :
         {shared(model_options()),
          own(dropout, "model", kTrl),
          shared(adapter_options()),
          shared(data_options()),
          own(reward_model, "rewards", kTrl),
          own(as_in_grpo("reward_weights"), "rewards", kTrl),
          own(reward_rows(), "rewards", Origin::kHone),
          own(as_in_grpo("python reward_workers reward_timeout"), "rewards", Origin::kHone),
          own(length_rows(), "sampling", kTrl),
          own(as_in_grpo("temperature top_p top_k min_p repetition_penalty generation_kwargs "
                         "cache_implementation ds3_gather_for_generation use_vllm vllm_mode vllm_model_impl "
                         "vllm_enable_sleep_mode vllm_structured_outputs_regex vllm_server_base_url "
                         "vllm_server_host vllm_server_port vllm_server_timeout vllm_group_port "
                         "vllm_gpu_memory_utilization vllm_tensor_parallel_size"),
              "sampling", kTrl),
          own(as_in_grpo("chat_template_kwargs share_prompt kv_memory replay dump_rollouts"), "sampling",
              Origin::kHone),
          own(loss_rows(), "loss", kTrl),
          own(ties, "loss", Origin::kHone),
          shared(training_options()),
          shared(optimizer_options()),
          own(as_in_grpo("log_completions num_completions_to_print log_unique_prompts"), "completions",
              Origin::kHone),
          shared(reporting_options()),
          shared(saving_options()),
          shared(machine_options()),
          shared(doctor_options())}) {
      made.options.insert(made.options.end(), rows.begin(), rows.end());
    }
    return made;
  }();
  return schema;
}

}  // namespace hone::config
