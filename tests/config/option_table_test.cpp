#include "config/option_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <typeindex>

#include "base/files/file.h"
#include "base/json.h"
#include "config/helpers.h"
#include "config/write_plan.h"

namespace hone::config {
namespace option_table_test {

using base::Json;

struct Recorded {
  const Schema& schema;
  std::size_t options;  // TRL's, with those of transformers
};

const std::vector<Recorded>& methods() {
  static const std::vector<Recorded> all = {
      {method_schema(Method::kSft), 163},       {method_schema(Method::kGrpo), 221},
      {method_schema(Method::kRloo), 195},      {method_schema(Method::kDpo), 167},
      {method_schema(Method::kOnlineDpo), 172}, {method_schema(Method::kReward), 153},
      {method_schema(Method::kKto), 159},       {method_schema(Method::kCpo), 156},
      {method_schema(Method::kOrpo), 152},      {method_schema(Method::kDistill), 178}};
  return all;
}

Json recorded(const Schema& schema) {
  const std::string file = fmt::format("{}/config/trl_{}_options.json", HONE_FIXTURES, schema.command);
  return base::parse_json(base::read_text(file), file);
}

TEST(OptionTable, HasEveryOptionOfTrlWithItsDefaultAndOrigin) {
  for (const auto& [schema, count] : methods()) {
    const Json trl = recorded(schema);
    EXPECT_EQ(trl["versions"]["trl"], "1.16.0");
    EXPECT_EQ(trl["versions"]["transformers"], "5.23.0");
    EXPECT_EQ(trl["options"].size(), count) << schema.command;
    for (const auto& [name, fact] : trl["options"].items()) {
      const Option* row = schema.find(name);
      ASSERT_NE(row, nullptr) << schema.command << ": " << name << " has no row";
      EXPECT_EQ(row->default_value(), fact["default"]) << schema.command << ": " << name;
      EXPECT_EQ(row->origin, fact["class"].get<std::string>()) << schema.command << ": " << name;
    }
  }
}

// Adding an option is an event: our own are named here.
TEST(OptionTable, HasNothingElseButOurOwn) {
  const std::vector<std::string> shared = {"wandb_project",
                                           "wandb_entity",
                                           "wandb_run_group",
                                           "mlflow_tracking_uri",
                                           "mlflow_experiment_name",
                                           "quantize_moe_experts",
                                           "init_lora_weights",
                                           "lora_exclude_modules",
                                           "trainable_token_indices",
                                           "rank_pattern",
                                           "alpha_pattern",
                                           "layers_to_transform",
                                           "layers_pattern",
                                           "bias",
                                           "adapter_name_or_path",
                                           "base_adapters",
                                           "base_model_name_for_adapter",
                                           "unfrozen_parameters",
                                           "spectrum_config_path",
                                           "freeze_embeddings",
                                           "max_shard_size",
                                           "eval_dataset",
                                           "eval_datasets",
                                           "tokenizer_name_or_path",
                                           "chat_template",
                                           "overwrite_output_dir",
                                           "report_page",
                                           "sample_prompts",
                                           "sample_steps",
                                           "sample_max_new_tokens",
                                           "eval_reward_funcs",
                                           "eval_reward_rows",
                                           "ignore_unknown",
                                           "dataset_revision",
                                           "dataset_columns",
                                           "row_format",
                                           "prompt_template",
                                           "make_conversation",
                                           "dataset_system_prompt",
                                           "row_function",
                                           "row_timeout",
                                           "python"};
  const std::vector<std::string> recipes = {"system_prompt",
                                            "dataset_prompt_column",
                                            "rows_without_prompt",
                                            "cosine_min_value_wrong",
                                            "cosine_max_value_wrong",
                                            "cosine_min_value_correct",
                                            "cosine_max_value_correct",
                                            "cosine_max_len",
                                            "repetition_n_grams",
                                            "repetition_max_penalty",
                                            "code_language",
                                            "parallel_code_exec_per_proc",
                                            "max_completion_len",
                                            "soft_punish_cache"};
  const std::vector<std::string> machine = {
      "threads",  "recompute",  "layer_form", "memory_limit",   "env",   "accelerate_config", "skip_doctor",
      "on_fault", "stop_grace", "zero_stage", "offload_folder", "device"};
  const std::vector<std::string> policy = {"probe_rewards",  "reward_by_group", "reward_workers",
                                           "reward_timeout", "share_prompt",    "kv_memory",
                                           "drafts",         "filter_groups",   "max_num_gen_batches",
                                           "replay",         "dump_rollouts"};
  const std::vector<std::string> online = {"reward_funcs",
                                           "judge",
                                           "judge_model",
                                           "judge_api_key_env",
                                           "judge_prompt",
                                           "reward_workers",
                                           "probe_rewards",
                                           "reward_by_group",
                                           "reward_timeout",
                                           "chat_template_kwargs",
                                           "share_prompt",
                                           "kv_memory",
                                           "drafts",
                                           "replay",
                                           "dump_rollouts",
                                           "skip_ties",
                                           "log_completions",
                                           "num_completions_to_print",
                                           "log_unique_prompts"};
  const std::vector<std::string> tools = {"tools",
                                          "environment",
                                          "rollout",
                                          "tool_workers",
                                          "tool_timeout",
                                          "max_tool_result_tokens",
                                          "tool_failures_to_stop",
                                          "tool_text_control_tokens"};
  for (const auto& [schema, count] : methods()) {
    std::vector<std::string> expected = shared;
    if (schema.command == "distill") {
      std::copy_if(tools.begin(), tools.end(), std::back_inserter(expected),
                   [](const std::string& name) { return name != "rollout"; });
    }
    if (schema.command == "online-dpo") expected.insert(expected.end(), online.begin(), online.end());
    const bool on_pairs = schema.command == "dpo" || schema.command == "reward" || schema.command == "cpo" ||
                          schema.command == "orpo";
    if (on_pairs) expected.emplace_back("share_prompt");
    if (schema.command == "sft") expected.emplace_back("text_template");
    if (contains_word("dpo, kto, online-dpo", schema.command))
      expected.insert(expected.end(), {"ref_model", "ref_model_dtype"});
    if (schema.command == "distill") {
      expected.insert(
          expected.end(),
          {"teacher_quantization", "teacher_model_server_url", "loss_type", "loss_top_k", "kl_penalty_coef",
           "kl_discount_factor", "lmbda", "seq_kd", "loss_temperature", "kv_memory", "drafts", "replay",
           "dump_rollouts", "system_prompt", "dataset_prompt_column", "rows_without_prompt"});
    }
    if (contains_word("sft, dpo, kto, reward, cpo, orpo", schema.command))
      expected.emplace_back("cache_tokens");
    if (schema.command == "cpo") expected.emplace_back("gamma_beta_ratio");
    if (schema.command == "rloo") expected.emplace_back("max_tool_calling_iterations");
    if (schema.command == "grpo" || schema.command == "rloo") {
      expected.insert(expected.end(), policy.begin(), policy.end());
      expected.insert(expected.end(), tools.begin(), tools.end());
    }
    expected.insert(expected.end(), machine.begin(), machine.end());
    const bool sampler = contains_word(kHoneSamplers, schema.command);
    if (contains_word(kRewarded, schema.command))
      expected.insert(expected.end(), recipes.begin(), recipes.end());
    if (contains_word("dpo, kto, cpo, orpo, grpo, rloo", schema.command))
      expected.emplace_back("max_prompt_length");
    if (!sampler) expected.emplace_back("auto_insert_empty_system_msg");
    if (contains_word(kOthersThatScore, schema.command))
      expected.insert(expected.end(), {"reward_workers", "reward_timeout", "probe_rewards"});
    const Json trl = recorded(schema);
    std::vector<std::string> own;
    for (const Option& row : schema.options) {
      if (!trl["options"].contains(row.name)) own.emplace_back(row.name);
    }
    std::sort(own.begin(), own.end());
    std::sort(expected.begin(), expected.end());
    std::vector<std::string> differ;
    std::set_symmetric_difference(own.begin(), own.end(), expected.begin(), expected.end(),
                                  std::back_inserter(differ));
    EXPECT_EQ(differ, std::vector<std::string>()) << schema.command;
  }
}

void expect_type(const Option& row, const std::string& type) {
  if (type.starts_with("bool")) {
    EXPECT_EQ(row.kind, Kind::kBool) << row.name;
  }
  if (type == "int" || type == "int | None") {
    const bool as_peft = row.name == "lora_alpha";  // PEFT takes any number there
    EXPECT_EQ(row.kind, as_peft ? Kind::kFloat : Kind::kInt) << row.name;
  }
  if (type.starts_with("float")) {
    EXPECT_EQ(row.kind, Kind::kFloat) << row.name;
  }
  if (type.starts_with("list[") && row.name != "datasets") {
    EXPECT_EQ(row.kind, Kind::kList) << row.name;
  }
  if (type.ends_with("| None") && row.kind != Kind::kChoice) {
    EXPECT_TRUE(row.nullable()) << row.name;
  }
}

TEST(OptionTable, TypesFollowTrl) {
  for (const auto& [schema, count] : methods()) {
    const Json facts = recorded(schema)["options"];  // outlives the loop
    for (const auto& [name, fact] : facts.items()) {
      expect_type(*schema.find(name), fact["type"]);
    }
  }
}

TEST(OptionTable, EveryRowIsWhole) {
  for (const Schema* schema : all_schemas()) {
    std::set<std::string_view> seen;
    for (const Option& row : schema->options) {
      EXPECT_TRUE(seen.insert(row.name).second) << row.name << " twice";
      EXPECT_FALSE(row.meaning.empty()) << row.name;
      EXPECT_FALSE(row.group.empty()) << row.name;
      EXPECT_FALSE(row.default_value().is_discarded()) << row.name;
      EXPECT_EQ(find_former_name(row.name, schema->command), nullptr)
          << row.name << " is both an option and a former name";
      if (row.option_class != OptionClass::kSupported || !row.not_yet.empty()) {
        EXPECT_FALSE(row.reason.empty()) << row.name << " does not say why";
      }
      if (row.kind == Kind::kChoice) {
        const std::vector<std::string> values = split_words(row.values);
        EXPECT_NE(std::find(values.begin(), values.end(), row.default_value().get<std::string>()),
                  values.end())
            << row.name << ": the default is not among the values";
      }
      if (row.default_value().is_number()) {
        EXPECT_TRUE(row.range.holds(row.default_value().get<double>()))
            << row.name << ": the default is out of range";
      }
    }
  }
}

// A supported option that nobody reads would be ignored silently: its row fills a field of a struct that make_plan
// fills, or a function reads it with others.
TEST(OptionTable, EverySupportedOptionIsRead) {
  const std::set<std::string_view> by_rules = {"dtype",
                                               "ref_model_dtype",
                                               "use_cpu",
                                               "streaming",
                                               "bf16",
                                               "load_in_8bit",
                                               "load_in_4bit",
                                               "bnb_4bit_quant_type",
                                               "use_bnb_nested_quant",
                                               "init_lora_weights",
                                               "trainable_token_indices",
                                               "lora_task_type",
                                               "rank_pattern",
                                               "alpha_pattern",
                                               "layers_to_transform",
                                               "layers_pattern",
                                               "gamma_beta_ratio",
                                               "dataset_train_split",
                                               "dataset_test_split",
                                               "dataset_config",
                                               "dataset_kwargs",
                                               "datasets",
                                               "test_split_size",
                                               "gradient_checkpointing",
                                               "lr_scheduler_kwargs",
                                               "optim_args",
                                               "report_to",
                                               "reward_model_name_or_path",
                                               "reward_model_path",
                                               "reward_funcs",
                                               "judge_api_key_env",
                                               "generation_kwargs",
                                               "chat_template_kwargs",
                                               "vllm_importance_sampling_cap",
                                               "eval_datasets",
                                               "model_init_kwargs",
                                               "ignore_unknown",
                                               "spectrum_config_path",
                                               "cosine_min_value_wrong",
                                               "cosine_max_value_wrong",
                                               "cosine_min_value_correct",
                                               "cosine_max_value_correct",
                                               "cosine_max_len",
                                               "repetition_n_grams",
                                               "repetition_max_penalty",
                                               "code_language",
                                               "parallel_code_exec_per_proc",
                                               "max_completion_len",
                                               "soft_punish_cache",
                                               "dataset_revision",
                                               "dataset_columns",
                                               "row_format",
                                               "prompt_template",
                                               "text_template",
                                               "make_conversation",
                                               "dataset_system_prompt",
                                               "row_function",
                                               "row_timeout",
                                               "max_tool_calling_iterations",
                                               "teacher_model_revision",
                                               "teacher_model_init_kwargs",
                                               "teacher_quantization"};
  const std::set<std::type_index> filled = {typeid(ModelPlan),
                                            typeid(AdapterPlan),
                                            typeid(FullPlan),
                                            typeid(DataPlan),
                                            typeid(BatchPlan),
                                            typeid(OptimizerPlan),
                                            typeid(LoggingPlan),
                                            typeid(EvaluationPlan),
                                            typeid(SamplesPlan),
                                            typeid(SavingPlan),
                                            typeid(MachinePlan),
                                            typeid(WatchPlan),
                                            typeid(ReferencePlan),
                                            typeid(RecipePlan),
                                            typeid(LoggerPlan),
                                            typeid(HubPlan),
                                            typeid(PolicyPlan),
                                            typeid(ToolsPlan),
                                            typeid(SftPlan),
                                            typeid(learn::SftLossParameters),
                                            typeid(PreferencePlan),
                                            typeid(OnlineDpoPlan),
                                            typeid(DistillPlan),
                                            typeid(RewardModelPlan),
                                            typeid(KtoPlan),
                                            typeid(CpoPlan),
                                            typeid(learn::CpoLossParameters),
                                            typeid(learn::OrpoLossParameters),
                                            typeid(learn::PolicyLossParameters),
                                            typeid(learn::PreferenceLossParameters),
                                            typeid(learn::KtoLossParameters)};
  for (const auto& [schema, count] : methods()) {
    for (const Option& row : schema.options) {
      if (row.option_class != OptionClass::kSupported) continue;
      EXPECT_NE(row.binding.set != nullptr, by_rules.contains(row.name))
          << schema.command << ": " << row.name;
      EXPECT_TRUE(!row.binding.set || filled.contains(row.binding.part)) << row.name;
    }
  }
}

TEST(OptionTable, RangesSayTheirBounds) {
  EXPECT_EQ(at_least(1).describe(), "at least 1");
  EXPECT_EQ(above(0).describe(), "above 0");
  EXPECT_EQ(fraction().describe(), "from 0 to below 1");
  EXPECT_EQ(Range{}.describe(), "");
  EXPECT_TRUE(fraction().holds(0));
  EXPECT_FALSE(fraction().holds(1));
  EXPECT_FALSE(above(0).holds(0));
}

TEST(OptionTable, KnowsWhoseOptionAnotherMethodsIs) {
  EXPECT_EQ(other_methods("num_generations", "sft"), "grpo, rloo");
  EXPECT_EQ(other_methods("delta", "rloo"), "grpo");
  EXPECT_EQ(other_methods("packing", "grpo"), "sft");
  EXPECT_EQ(other_methods("packing", "sft"), "");
  EXPECT_EQ(other_methods("packing", "generate"), "");
  for (const auto& [schema, count] : methods()) {
    for (const auto& [other, unused] : methods()) {
      for (const Option& row : other.options) {
        if (schema.find(row.name) != nullptr) continue;
        EXPECT_NE(other_methods(row.name, schema.command).find(other.command), std::string::npos)
            << row.name << " of " << other.command << " in " << schema.command;
      }
    }
  }
}

}  // namespace option_table_test
}  // namespace hone::config
