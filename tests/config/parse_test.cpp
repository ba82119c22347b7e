#include "config/parse.h"

#include <algorithm>
#include <array>
#include <map>

#include "config/helpers.h"
#include "config/write_plan.h"

namespace hone::config {
namespace parse_test {

using ParseTest = ConfigTest;

TEST_F(ParseTest, DefaultsAreTrls) {
  const Plan plan = run();
  Plan expected = expected_plan(Method::kSft);
  expected.resolved = plan.resolved;
  EXPECT_EQ(plan, expected);
  EXPECT_EQ(plan.per_device_train_batch_size, 8);
  EXPECT_EQ(plan.num_train_epochs, 3.0);
  EXPECT_EQ(plan.learning_rate, 2e-5);
  EXPECT_EQ(plan.logging_steps, 10);
  EXPECT_EQ(plan.save_steps, 500);
  EXPECT_EQ(plan.max_length, 1024);
  EXPECT_EQ(plan.lora_r, 16);
  EXPECT_EQ(plan.lora_alpha, 32);
  EXPECT_EQ(plan.lora_dropout, 0.05);
  EXPECT_EQ(plan.precision, Precision::kAutocast);
  EXPECT_TRUE(plan.notes.empty());
}

// As PEFT's: a number, which is written as it was given.
TEST_F(ParseTest, AlphaNeedNotBeWhole) {
  const auto alpha_of = [](const Plan& plan) {
    const auto found = std::find_if(plan.resolved.begin(), plan.resolved.end(),
                                    [](const auto& one) { return one.first == "lora_alpha"; });
    return found == plan.resolved.end() ? "" : found->second;
  };
  const Plan half = run_yaml("lora_alpha: 12.5\n");
  EXPECT_EQ(half.lora_alpha, 12.5);
  EXPECT_EQ(alpha_of(half), "12.5");
  EXPECT_EQ(alpha_of(run_yaml("lora_alpha: 16\n")), "16");
  EXPECT_EQ(alpha_of(run_yaml("")), "32");
}

TEST_F(ParseTest, CommandLineWinsOverTheFileWhereverItStands) {
  EXPECT_EQ(run_yaml("lora_r: 4\nseed: 7\n", {"--lora_r", "2"}).lora_r, 2);
  EXPECT_EQ(run_yaml("lora_r: 4\nseed: 7\n", {"--lora_r", "2"}).seed, 7);
  const std::string file = yaml_file("lora_r: 4\n");
  EXPECT_EQ(parse_run(Method::kSft, {"--lora_r", "2", "--config=" + file}).lora_r, 2);
  EXPECT_FALSE(run_yaml("packing: true\n", {"--no_packing"}).packing);
  EXPECT_EQ(run_yaml("max_length: 64\n", {"--max_length", "null"}).max_length, 0);
}

TEST_F(ParseTest, MistakesInTheFileNameItsLine) {
  EXPECT_EQ(yaml_error("lora_r: x\n"),
            "[run.yaml:4] expected a whole number for option lora_r\n"
            "  found:  'x'\n"
            "  do:     correct it, or remove it for the default 16");
  EXPECT_EQ(yaml_error("seed: 1\nseed: 2\n").find("[run.yaml:5] expected each option once"), 0U);
  EXPECT_EQ(run_yaml("seed: 1\nseed: 1\n").seed, 1);  // a line that was copied changes nothing
}

// Each supported option that changes the plan, with the smallest change to it.
TEST_F(ParseTest, EverySupportedOptionReachesThePlan) {
  const std::map<std::string, std::vector<std::string>> changes = {
      {"model_revision", {"v2"}},
      {"tokenizer_name_or_path",
       {write("tokenizer/tokenizer.json", "{}").substr(0, path("tokenizer").size())}},
      {"chat_template", {"{{ messages }}"}},
      {"overwrite_output_dir", {}},
      {"eval_delay", {"3"}},
      {"model_name_or_path", {path("other")}},
      {"dtype", {"bfloat16"}},
      {"load_in_4bit", {}},
      {"load_in_8bit", {}},
      {"chat_template_path", {path("template.jinja")}},
      {"lora_r", {"8"}},
      {"lora_alpha", {"8"}},
      {"lora_dropout", {"0"}},
      {"lora_target_modules", {"q_proj", "v_proj"}},
      {"lora_modules_to_save", {"lm_head"}},
      {"rank_pattern", {"{\"q_proj\": 4}"}},
      {"alpha_pattern", {"{\"q_proj\": 4}"}},
      {"layers_to_transform", {"0"}},
      {"bias", {"all"}},
      {"use_rslora", {}},
      {"use_dora", {}},
      {"init_lora_weights", {"gaussian"}},
      {"lora_exclude_modules", {"k_proj"}},
      {"lora_target_parameters", {"mlp.experts.down_proj"}},
      {"router_aux_loss_coef", {"0.5"}},
      {"trainable_token_indices", {"[1,", "2,", "5]"}},
      {"adapter_name_or_path", {path("adapter")}},
      {"base_adapters", {path("adapter")}},
      {"base_model_name_for_adapter", {"owner/name"}},
      {"dataset_name", {path("rows")}},
      {"dataset_text_field", {"body"}},
      {"dataset_kwargs", {"{\"skip_prepare_dataset\": true}"}},
      {"eos_token", {"</s>"}},
      {"max_length", {"512"}},
      {"shuffle_dataset", {}},
      {"packing", {}},
      {"eval_packing", {"true"}},
      {"completion_only_loss", {"false"}},
      {"assistant_only_loss", {}},
      {"output_dir", {"out"}},
      {"per_device_train_batch_size", {"4"}},
      {"gradient_accumulation_steps", {"4"}},
      {"num_train_epochs", {"1"}},
      {"max_steps", {"10"}},
      {"seed", {"1"}},
      {"data_seed", {"1"}},
      {"train_sampling_strategy", {"group_by_length"}},
      {"truncation_mode", {"keep_end"}},
      {"packing_strategy", {"wrapped"}},
      {"loss_type", {"dft"}},
      {"label_smoothing_factor", {"0.1"}},
      {"neftune_noise_alpha", {"5"}},
      {"metric_for_best_model", {"loss"}},
      {"dataloader_drop_last", {}},
      {"bf16", {"false"}},
      {"resume_from_checkpoint", {"true"}},
      {"learning_rate", {"1e-4"}},
      {"lr_scheduler_type", {"cosine"}},
      {"warmup_steps", {"0.1"}},
      {"optim", {"sgd"}},
      {"weight_decay", {"0.1"}},
      {"adam_beta1", {"0.8"}},
      {"adam_beta2", {"0.99"}},
      {"adam_epsilon", {"1e-6"}},
      {"max_grad_norm", {"0"}},
      {"logging_strategy", {"epoch"}},
      {"logging_steps", {"1"}},
      {"logging_first_step", {}},
      {"report_to", {"tensorboard"}},
      {"run_name", {"first"}},
      {"project", {"mine"}},
      {"trackio_space_id", {"o/s"}},
      {"trackio_bucket_id", {"o/b"}},
      {"wandb_project", {"mine"}},
      {"wandb_entity", {"me"}},
      {"wandb_run_group", {"g"}},
      {"mlflow_tracking_uri", {"http://host"}},
      {"mlflow_experiment_name", {"mine"}},
      {"push_to_hub", {}},
      {"hub_model_id", {"o/m"}},
      {"hub_token", {"hf_abc"}},
      {"hub_private_repo", {"true"}},
      {"hub_strategy", {"end"}},
      {"hub_always_push", {}},
      {"hub_revision", {"v1"}},
      {"per_device_eval_batch_size", {"4"}},
      {"save_strategy", {"no"}},
      {"save_steps", {"50"}},
      {"save_total_limit", {"2"}},
      {"threads", {"2"}},
      {"device", {"cuda:1"}},
      {"gradient_checkpointing", {"false"}},
      {"recompute", {"layer"}},
      {"layer_form", {"explicit"}},
      {"memory_limit", {"2GB"}},
      {"ddp_timeout", {"60"}},
      {"stop_grace", {"5"}},
      {"zero_stage", {"2"}},
      {"offload_folder", {path("disk")}},
      {"report_page", {"false"}},
      {"sample_prompts", {"3"}},
      {"sample_steps", {"5"}},
      {"sample_max_new_tokens", {"9"}},
      {"eval_reward_rows", {"7"}},
      {"reward_workers", {"2"}},
      {"reward_timeout", {"5"}},
      {"probe_rewards", {"false"}},
      {"skip_doctor", {"true"}},
      {"on_fault", {"stop"}},
      {"eval_steps", {"5"}},
      {"dataset_columns", {"{\"body\": \"text\"}"}},
      {"row_format", {"openai"}},
      {"prompt_template", {"{question}"}},
      {"text_template", {"{question}"}},
      {"make_conversation", {}},
      {"dataset_system_prompt", {"Be brief."}},
      {"cache_tokens", {"false"}},
      {"dataset_streaming", {"true", "--max_steps", "5"}},
      {"streaming", {"true", "--max_steps", "5"}},
      {"ignore_data_skip", {"true"}},
      {"python", {"python3.12"}},
      {"auto_insert_empty_system_msg", {}},
      {"unfrozen_parameters", {"model.norm"}},
      {"spectrum_config_path", {"spectrum.yaml"}},
      {"freeze_embeddings", {}},
      {"max_shard_size", {"1GB"}},
  };
  // These need a second option, or a value that the plan cannot hold yet; tested below.
  const std::vector<std::string> elsewhere = {"use_peft",
                                              "use_cpu",
                                              "lora_task_type",
                                              "dataset_train_split",
                                              "dataset_test_split",
                                              "dataset_config",
                                              "datasets",
                                              "test_split_size",
                                              "eval_dataset",
                                              "model_init_kwargs",
                                              "layers_pattern",
                                              "dataset_revision",
                                              "row_function",
                                              "row_timeout",
                                              "load_best_model_at_end",
                                              "greater_is_better",
                                              "optim_args",
                                              "eval_strategy",
                                              "eval_on_start",
                                              "eval_reward_funcs",
                                              "lr_scheduler_kwargs",
                                              "bnb_4bit_quant_type",
                                              "use_bnb_nested_quant",
                                              "quantize_moe_experts",
                                              "eval_datasets",
                                              "ignore_unknown"};
  write("other/config.json", "{}");
  Plan plain = run();
  plain.resolved.clear();
  for (const Option& row : method_schema(Method::kSft).options) {
    const std::string name(row.name);
    if (row.option_class != OptionClass::kSupported) continue;
    if (std::find(elsewhere.begin(), elsewhere.end(), name) != elsewhere.end()) continue;
    ASSERT_TRUE(changes.contains(name)) << "no case for " << name;
    std::vector<std::string> more = {"--" + name};
    more.insert(more.end(), changes.at(name).begin(), changes.at(name).end());
    Plan changed = run(more);
    changed.resolved.clear();
    EXPECT_FALSE(changed == plain) << name << " does nothing";
  }
}

TEST_F(ParseTest, BaseAdaptersAreDistinctAndNotDora) {
  write("second/adapter_config.json", "{}");
  const Plan plan = run({"--base_adapters", path("adapter"), path("second"), "--output_dir", "out"});
  EXPECT_EQ(plan.base_adapters, (std::vector<std::string>{path("adapter"), path("second")}));
  ASSERT_EQ(plan.notes.size(), 1U);
  EXPECT_NE(plan.notes[0].find("hone merge --adapters " + path("adapter") + " " + path("second") +
                               " out --combination cat"),
            std::string::npos);
  EXPECT_NE(run_error({"--base_adapters", path("adapter"), path("adapter")}).find("each adapter once"),
            std::string::npos);
  EXPECT_NE(run_error({"--base_adapters", path("adapter"), "--adapter_name_or_path", path("adapter")})
                .find("each adapter once"),
            std::string::npos);
  EXPECT_NE(run_error({"--base_adapters", path("none")}).find("as base_adapters"), std::string::npos);
  EXPECT_NE(run_error({"--base_adapters", path("adapter"), "--use_dora"}).find("use_dora or base_adapters"),
            std::string::npos);
  for (const char* word : {"--adapters", "--frozen_adapters", "--base_adapter"})
    EXPECT_NE(run_error({word, "x"}).find("base_adapters"), std::string::npos) << word;
}

TEST_F(ParseTest, TheDoctorsOptions) {
  EXPECT_FALSE(run().skip_doctor);
  EXPECT_TRUE(run({"--skip-doctor"}).skip_doctor);
  EXPECT_TRUE(run({"--skip_doctor", "true"}).skip_doctor);
  EXPECT_EQ(run().on_fault, OnFault::kPause);
  EXPECT_EQ(run_yaml("on_fault: warn\n").on_fault, OnFault::kWarn);
  EXPECT_NE(run_error({"--on_fault", "halt"}).find("warn"), std::string::npos);
}

TEST_F(ParseTest, PrecisionFollowsTheTable) {
  EXPECT_EQ(run({"--dtype", "float32"}).precision, Precision::kAutocast);
  EXPECT_EQ(run({"--bf16", "false"}).precision, Precision::kFloat32);
  EXPECT_EQ(run({"--dtype", "bfloat16"}).precision, Precision::kBFloat16);
  EXPECT_EQ(run({"--dtype", "auto"}).precision, Precision::kBFloat16);
  EXPECT_EQ(run({"--dtype", "float16"}).precision, Precision::kBFloat16);
  const auto notes = run({"--dtype", "float16"}).notes;
  EXPECT_TRUE(std::any_of(notes.begin(), notes.end(),
                          [](const std::string& note) { return note.starts_with("dtype float16: "); }));
  EXPECT_NE(run_error({"--dtype", "float16", "--bf16", "false"}).find("NUM-03"), std::string::npos);
  EXPECT_NE(run_error({"--fp16"}).find("NUM-03"), std::string::npos);
}

TEST_F(ParseTest, TheQuantizedBaseFollowsTrlsFourOptions) {
  EXPECT_EQ(run().quantized_base, QuantizedBase::kNone);
  EXPECT_EQ(run({"--load_in_4bit"}).quantized_base, QuantizedBase::kNf4);
  EXPECT_FALSE(run({"--load_in_4bit"}).use_bnb_nested_quant);
  EXPECT_TRUE(run({"--load_in_4bit", "--use_bnb_nested_quant"}).use_bnb_nested_quant);
  EXPECT_EQ(run({"--load_in_4bit", "--bnb_4bit_quant_type", "fp4"}).quantized_base, QuantizedBase::kFp4);
  EXPECT_EQ(run({"--load_in_8bit"}).quantized_base, QuantizedBase::kInt8);
  // As TRL: without load_in_4bit they say nothing.
  EXPECT_EQ(run({"--bnb_4bit_quant_type", "fp4"}).quantized_base, QuantizedBase::kNone);
  EXPECT_FALSE(run({"--load_in_8bit", "--use_bnb_nested_quant"}).use_bnb_nested_quant);
  EXPECT_NE(run_error({"--load_in_4bit", "--load_in_8bit"}).find("remove one of them"), std::string::npos);
  EXPECT_TRUE(run({"--load_in_4bit", "--bnb_4bit_use_double_quant"}).use_bnb_nested_quant);
  EXPECT_FALSE(run({"--load_in_4bit"}).quantize_moe_experts);
  EXPECT_TRUE(run({"--load_in_8bit", "--quantize_moe_experts"}).quantize_moe_experts);
  EXPECT_NE(
      run_error({"--quantize_moe_experts"}).find("expected load_in_4bit: true or load_in_8bit: true with it"),
      std::string::npos);
}

TEST_F(ParseTest, RecomputeFollowsGradientCheckpointingUnlessItIsSet) {
  EXPECT_EQ(run().recompute, RecomputeMode::kAuto);
  EXPECT_EQ(run_yaml("gradient_checkpointing_kwargs: {use_reentrant: true}\n").recompute,
            RecomputeMode::kAuto);
  EXPECT_EQ(run({"--gradient_checkpointing", "false"}).recompute, RecomputeMode::kNone);
  EXPECT_EQ(run_yaml("gradient_checkpointing: null\n").recompute, RecomputeMode::kNone);
  EXPECT_EQ(run({"--gradient_checkpointing", "false", "--recompute", "layer"}).recompute,
            RecomputeMode::kLayer);
  EXPECT_EQ(run({"--recompute", "cheap"}).recompute, RecomputeMode::kCheap);
  EXPECT_EQ(run({"--layer_form", "plain", "--recompute", "none"}).layer_form, LayerForm::kAutograd);
  EXPECT_NE(run_error({"--layer_form", "plain", "--recompute", "layer"})
                .find("only the fused layer (explicit) "
                      "recomputes"),
            std::string::npos);
}

TEST_F(ParseTest, MemoryLimitIsASize) {
  EXPECT_EQ(run().memory_limit, 0);
  EXPECT_EQ(run({"--memory_limit", "0"}).memory_limit, 0);
  EXPECT_EQ(run({"--memory_limit", "2.05GB"}).memory_limit, 2'050'000'000);
  EXPECT_EQ(run_yaml("memory_limit: 1.5 gib\n").memory_limit, 1'610'612'736);
  EXPECT_EQ(run_yaml("memory_limit: 4096\n").memory_limit, 4096);
  for (const char* wrong : {"2.05G", "GB", "-1", "1e30", "2GB 3", "inf", "0x10"}) {
    EXPECT_NE(run_error({std::string("--memory_limit=") + wrong}).find("expected a size such as 2.05GB"),
              std::string::npos)
        << wrong;
  }
}

TEST_F(ParseTest, SmallTranslations) {
  EXPECT_EQ(run({"--lr_scheduler_type", "cosine", "--lr_scheduler_kwargs", "{\"num_cycles\": 1.5}"})
                .lr_scheduler_kwargs.num_cycles,
            1.5);
  EXPECT_EQ(run({"--lr_scheduler_type", "constant_with_warmup"}).lr_scheduler_type,
            Scheduler::kConstantWithWarmup);
  EXPECT_EQ(run({"--init_lora_weights", "false"}).init_lora_weights, LoraInit::kFalse);
  EXPECT_EQ(run({"--init_lora_weights", "pissa"}).pissa_niter, 0);
  EXPECT_EQ(run({"--init_lora_weights", "pissa_niter_16"}).init_lora_weights, LoraInit::kPissa);
  EXPECT_EQ(run({"--init_lora_weights", "pissa_niter_16"}).pissa_niter, 16);
  for (const char* wrong : {"pissa_niter_", "pissa_niter_0", "pissa_niter_x", "pissa_16"}) {
    EXPECT_NE(run_error({"--init_lora_weights", wrong}).find("a value of init_lora_weights"),
              std::string::npos)
        << wrong;
  }
  EXPECT_TRUE(run({"--use_dora"}).use_dora);
  EXPECT_NE(run_error({"--use_dora", "--init_lora_weights", "pissa"})
                .find("use_dora or init_lora_weights: pissa, not both"),
            std::string::npos);
  const std::vector<std::int64_t> tokens = {1, 2, 5};
  for (const std::vector<std::string>& form :
       std::vector<std::vector<std::string>>{{"1", "2", "5"},
                                             {"[1, 2, 5]"},
                                             {"[1,", "2,", "5]"},
                                             {"1,2,5"},
                                             {"{\"embed_tokens\": [1, 2, 5]}"}}) {
    std::vector<std::string> words = {"--trainable_token_indices"};
    words.insert(words.end(), form.begin(), form.end());
    EXPECT_EQ(run(words).trainable_token_indices, tokens) << form[0];
  }
  EXPECT_EQ(run_yaml("trainable_token_indices: [1, 2, 5]\n").trainable_token_module, "");
  EXPECT_EQ(run_yaml("trainable_token_indices: {embed_tokens: [1, 2, 5]}\n").trainable_token_indices, tokens);
  EXPECT_EQ(run_yaml("trainable_token_indices: {embed_tokens: [1, 2, 5]}\n").trainable_token_module,
            "embed_tokens");
  EXPECT_NE(yaml_error("trainable_token_indices: {lm_head: [1]}\n").find("'lm_head'"), std::string::npos);
  const Plan patterns = run_yaml(
      "rank_pattern: {q_proj: 2, 'layers\\.1\\..*': 3}\nalpha_pattern: {v_proj: 1.5}\nlora_target_modules: [q_proj, v_proj]\n"
      "layers_to_transform: [1, 0]\nlayers_pattern: layers\nlora_modules_to_save: [lm_head, norm]\nbias: lora_only\n");
  EXPECT_EQ(patterns.rank_pattern,
            (std::vector<std::pair<std::string, std::int64_t>>{{"q_proj", 2}, {"layers\\.1\\..*", 3}}));
  EXPECT_EQ(patterns.alpha_pattern, (std::vector<std::pair<std::string, double>>{{"v_proj", 1.5}}));
  EXPECT_EQ(patterns.layers_to_transform, (std::vector<std::int64_t>{1, 0}));
  EXPECT_EQ(patterns.layers_pattern, (std::vector<std::string>{"layers"}));
  EXPECT_EQ(patterns.lora_modules_to_save, (std::vector<std::string>{"lm_head", "norm"}));
  EXPECT_EQ(patterns.bias, TrainedBias::kLoraOnly);
  EXPECT_EQ(run({"--rank_pattern", "{\"q_proj\": 2}"}).rank_pattern.size(), 1U);
  EXPECT_EQ(run_yaml("layers_to_transform: 1\n").layers_to_transform, (std::vector<std::int64_t>{1}));
  EXPECT_EQ(run_yaml("modules_to_save: [lm_head]\n").lora_modules_to_save,
            (std::vector<std::string>{"lm_head"}));
  EXPECT_NE(yaml_error("rank_pattern: {q_proj: 0}\n").find("a rank of at least 1"), std::string::npos);
  EXPECT_NE(yaml_error("rank_pattern: {q_proj: 1.5}\n").find("q_proj: 1.5"), std::string::npos);
  EXPECT_NE(yaml_error("alpha_pattern: {q_proj: x}\n").find("a number above 0"), std::string::npos);
  EXPECT_NE(yaml_error("layers_to_transform: [first]\n").find("'first'"), std::string::npos);
  EXPECT_NE(yaml_error("layers_to_transform: [1]\nlora_target_modules: all-linear\n")
                .find("'all-linear', which is one"),
            std::string::npos);
  EXPECT_NE(yaml_error("layers_pattern: [h]\n").find("layers_to_transform with layers_pattern"),
            std::string::npos);
  EXPECT_NE(yaml_error("bias: some\n").find("lora_only"), std::string::npos);
  for (const char* wrong : {"[1, 1]", "[-1]", "[1.5]", "x", "[]", "{}", "{\"a\": 1}"}) {
    EXPECT_NE(run_error({"--trainable_token_indices", wrong}).find("distinct token ids"), std::string::npos)
        << wrong;
  }
  EXPECT_EQ(run({"--resume_from_checkpoint", "True"}).resume_from_checkpoint, "true");
  EXPECT_EQ(run({"--resume_from_checkpoint", "false"}).resume_from_checkpoint, "");
  EXPECT_EQ(run({"--lora_target_modules", "all-linear"}).lora_target_modules,
            (std::vector<std::string>{"all-linear"}));
  EXPECT_EQ(run_yaml("lora_target_modules: all-linear\n").lora_target_modules,
            (std::vector<std::string>{"all-linear"}));
  EXPECT_EQ(run_yaml("completion_only_loss: null\n").completion_only_loss, std::nullopt);
  EXPECT_TRUE(run({"--report_to", "all"}).tensorboard);
}

TEST_F(ParseTest, EvaluationTakesTheTestSplitAndTheLoggingInterval) {
  const Plan plan = run({"--dataset_name", path("rows"), "--eval_strategy", "steps", "--logging_steps", "3"});
  EXPECT_EQ(plan.dataset_name, path("rows/train.jsonl"));
  EXPECT_EQ(plan.dataset_test, path("rows/test.jsonl"));
  EXPECT_EQ(plan.eval_steps, 3);
  EXPECT_EQ(run({"--eval_on_start", "--eval_dataset", path("train.jsonl")}).dataset_test,
            path("train.jsonl"));
  write("rows/dev.jsonl", "{}\n");
  EXPECT_EQ(run({"--dataset_name", path("rows"), "--eval_strategy", "epoch", "--dataset_test_split", "dev"})
                .dataset_test,
            path("rows/dev.jsonl"));
  EXPECT_EQ(run({"--dataset_name", path("rows"), "--dataset_train_split", "dev"}).dataset_name,
            path("rows/dev.jsonl"));
  EXPECT_EQ(run({"--dataset_name", path("rows")}).dataset_test, "");
}

TEST_F(ParseTest, WhatDoesNotGoTogether) {
  EXPECT_EQ(error_of([&] { parse_run(Method::kSft, {"--use_peft", "--dataset_name", path("train.jsonl")}); }),
            "[hone sft] expected option model_name_or_path\n"
            "  found:  it is not set\n"
            "  do:     write model_name_or_path: path/to/model in the YAML file, or --model_name_or_path "
            "path/to/model");
  EXPECT_NE(error_of([&] {
              parse_run(Method::kSft, {"--model_name_or_path", path("model")});
            }).find("option dataset_name"),
            std::string::npos);
  EXPECT_EQ(run_error({"--packing", "--max_length", "null"}),
            "[--packing] expected max_length with packing\n"
            "  found:  max_length: null\n"
            "  likely: a packed row is max_length tokens long\n"
            "  do:     set max_length, or packing: false");
  EXPECT_NE(run_error({"--eval_packing", "true", "--max_length", "null"})
                .find("[--eval_packing] expected max_length"),
            std::string::npos);
  EXPECT_EQ(run_error({"--eval_strategy", "steps"}),
            "[--eval_strategy] expected rows to evaluate\n"
            "  found:  no eval_dataset, and dataset_name is one file\n"
            "  do:     set eval_dataset to a file, or dataset_name to a folder with train and test files");
  EXPECT_EQ(
      run_error({"--logging_steps", "0"}),
      "[--logging_steps] expected logging_steps a whole number of steps, or a fraction of all steps below 1\n"
      "  found:  0.0\n"
      "  likely: logging_strategy is steps\n"
      "  do:     write logging_strategy: \"no\" to switch it off");
  EXPECT_NE(run_error({"--save_steps", "2.5"}).find("[--save_steps] expected save_steps a whole number"),
            std::string::npos);
  EXPECT_EQ(run({"--save_steps", "0.5"}).save_steps, 0.5);
  EXPECT_EQ(run({"--save_steps", "0", "--save_strategy", "no"}).save_steps, 0);
  EXPECT_NE(run_error({"--warmup_steps", "1.5"}).find("expected warmup_steps a whole number"),
            std::string::npos);
  EXPECT_NE(run_error({"--max_steps", "0"}).find("a run of no steps trains nothing"), std::string::npos);
  EXPECT_NE(run_error({"--seed", "-1"}).find("[--seed] expected seed at least 0"), std::string::npos);
  EXPECT_NE(run_error({"--lora_target_modules", ""}).find("expected names in lora_target_modules"),
            std::string::npos);
  EXPECT_NE(yaml_error("lora_target_modules: []\n").find("an adapter without modules trains nothing"),
            std::string::npos);
}

TEST_F(ParseTest, ScheduleKeysOfAnotherSchedule) {
  EXPECT_EQ(run_error({"--lr_scheduler_type", "cosine", "--lr_scheduler_kwargs", "{\"num_cycle\": 1}"}),
            "[--lr_scheduler_kwargs] expected keys of lr_scheduler_type cosine in lr_scheduler_kwargs\n"
            "  found:  unknown key 'num_cycle'. Did you mean 'num_cycles'?\n"
            "  do:     cosine has num_cycles");
  EXPECT_EQ(run_error({"--lr_scheduler_kwargs", "{\"num_cycles\": 1}"}),
            "[--lr_scheduler_kwargs] expected no lr_scheduler_kwargs with lr_scheduler_type linear\n"
            "  found:  unknown key 'num_cycles'.\n"
            "  likely: num_cycles belongs to other schedules\n"
            "  do:     remove lr_scheduler_kwargs, or choose another lr_scheduler_type");
  EXPECT_NE(run_error({"--lr_scheduler_type", "cosine", "--lr_scheduler_kwargs", "{\"min_lr_rate\": 0.1}"})
                .find("min_lr_rate belongs to other schedules"),
            std::string::npos);
}

TEST_F(ParseTest, ScheduleValues) {
  const auto error = [&](const char* type, const char* kwargs) {
    return run_error({"--lr_scheduler_type", type, "--lr_scheduler_kwargs", kwargs});
  };
  const std::vector<std::array<const char*, 3>> wrong = {
      {"cosine", R"({"num_cycles": "a"})", "expected a number for lr_scheduler_kwargs.num_cycles"},
      {"cosine", R"({"num_cycles": true})", "a number"},
      {"cosine_with_min_lr", "{}", "min_lr or min_lr_rate in lr_scheduler_kwargs with cosine_with_min_lr"},
      {"cosine_with_min_lr", R"({"min_lr": 1e-6, "min_lr_rate": 0.1})", "found:  both"},
      {"cosine_with_min_lr", R"({"min_lr_rate": -1})", "a number at least 0"},
      {"polynomial", R"({"lr_end": 1})", "expected learning_rate above lr_end, 1"},
      {"warmup_stable_decay", "{}", "num_decay_steps"},
      {"warmup_stable_decay", R"({"num_decay_steps": 2.5})", "a whole number"},
      {"warmup_stable_decay", R"({"num_decay_steps": 1, "decay_type": "exp"})", "linear or cosine or 1-sqrt"},
      {"inverse_sqrt", R"({"timescale": 0})", "a number above 0"},
      {"reduce_lr_on_plateau", R"({"factor": 1})", "a number above 0 to below 1"},
      {"reduce_lr_on_plateau", R"({"min_lr": [1, 2]})", "a number at least 0"},
      {"greedy", R"({"smooth": 1})", "true or false"},
      {"greedy", "{}", "[--lr_scheduler_type] expected an evaluation for greedy"}};
  for (const auto& [type, kwargs, words] : wrong) {
    const std::string found = error(type, kwargs);
    EXPECT_NE(found.find(words), std::string::npos) << type << ' ' << kwargs << ": " << found;
  }
}

TEST_F(ParseTest, ScheduleKwargsAreRead) {
  const auto kwargs = [&](const char* type, const char* text) {
    return run({"--lr_scheduler_type", type, "--lr_scheduler_kwargs", text}).lr_scheduler_kwargs;
  };
  EXPECT_EQ(kwargs("cosine_with_min_lr", R"({"min_lr_rate": "0.1"})").min_lr_rate, 0.1);
  EXPECT_EQ(kwargs("cosine_with_min_lr", R"({"min_lr": "1e-6", "min_lr_rate": null})").min_lr, 1e-6);
  EXPECT_EQ(kwargs("warmup_stable_decay", R"({"num_decay_steps": 7, "decay_type": "1-sqrt"})").decay_type,
            learn::RampForm::kOneMinusSqrt);
  EXPECT_EQ(run({"--lr_scheduler_type", "constant", "--lr_scheduler_kwargs", "{\"a\": 1}"}).notes,
            std::vector<std::string>{"lr_scheduler_kwargs: not used by lr_scheduler_type constant"});
}

TEST_F(ParseTest, Optimizers) {
  using Kind = learn::OptimizerKind;
  const auto plan = [&](const char* optim, const char* args) {
    return run({"--optim", optim, "--optim_args", args});
  };
  EXPECT_EQ(run().optim, Kind::kAdamW);
  EXPECT_EQ(run({"--optim", "adamw_8bit"}).optim, Kind::kAdamW8bit);
  const Plan sgd = plan("sgd", "momentum=0.9, nesterov=True,weight_decay=0.1");
  EXPECT_EQ(sgd.optim, Kind::kSgd);
  EXPECT_EQ(sgd.optim_args.momentum, 0.9);
  EXPECT_TRUE(sgd.optim_args.nesterov);
  EXPECT_EQ(sgd.weight_decay, 0);
  EXPECT_EQ(sgd.notes,
            std::vector<std::string>{"optim_args: weight_decay has no effect, in transformers either: "
                                     "the option weight_decay is used"});
  EXPECT_EQ(plan("rmsprop", "alpha=0.9,centered=no").optim_args, (learn::OptimizerArguments{.alpha = 0.9}));
  EXPECT_EQ(run({"--optim", "adagrad"}).optim_args.eps, 1e-10);
  EXPECT_EQ(plan("adagrad", "eps=1e-5").optim_args.eps, 1e-5);
  EXPECT_EQ(
      plan("adamw_torch_fused", "rank=64").notes,
      std::vector<std::string>{"optim_args: rank is not read with optim adamw_torch_fused, in TRL either"});
  const Plan paged = run({"--optim", "paged_adamw_32bit"});
  EXPECT_EQ(paged.optim, Kind::kAdamW);
  ASSERT_EQ(paged.notes.size(), 1U);
  EXPECT_NE(paged.notes[0].find("nothing is paged"), std::string::npos);
  EXPECT_EQ(run({"--optim", "rmsprop", "--adam_beta1", "0.8"}).notes,
            std::vector<std::string>{"adam_beta1: not used by optim rmsprop"});
  EXPECT_TRUE(run({"--optim", "lion_32bit", "--adam_beta2", "0.99"}).notes.empty());
}

TEST_F(ParseTest, OptimizerArgumentsThatAreWrong) {
  const auto error = [&](const char* optim, const char* args) {
    return run_error({"--optim", optim, "--optim_args", args});
  };
  EXPECT_EQ(error("sgd", "momentun=0.9"),
            "[--optim_args] expected keys of optim sgd in optim_args\n"
            "  found:  unknown key 'momentun'. Did you mean 'momentum'?\n"
            "  do:     sgd has momentum, dampening, nesterov, weight_decay");
  for (const auto& [args, words] :
       std::map<const char*, const char*>{{"momentum", "as key=value, separated by commas"},
                                          {"momentum=0.9=1", "as key=value"},
                                          {"momentum=fast", "a number at least 0 for momentum in optim_args"},
                                          {"momentum=-1", "a number at least 0"},
                                          {"nesterov=perhaps", "true or false for nesterov"},
                                          {"nesterov=true", "momentum and no dampening with nesterov"}}) {
    EXPECT_NE(error("sgd", args).find(words), std::string::npos) << args << ": " << error("sgd", args);
  }
  const std::string other = run_error({"--optim", "lomo"});
  EXPECT_NE(other.find("expected a value of optim that hone has"), std::string::npos) << other;
  EXPECT_NE(other.find("adafactor, rmsprop, sgd"), std::string::npos) << other;
}

TEST_F(ParseTest, StepsAndEpochsFitAWholeNumber) {
  for (const char* name : {"save_steps", "eval_steps", "logging_steps", "warmup_steps"}) {
    EXPECT_NE(run_error({std::string("--") + name, "1e30", "--eval_strategy", "steps"})
                  .find(std::string("expected ") + name + " from 0 to 1000000000"),
              std::string::npos)
        << name;
  }
  EXPECT_NE(run_error({"--num_train_epochs", "1e30"}).find("expected num_train_epochs above 0 to 1000000000"),
            std::string::npos);
  EXPECT_EQ(run({"--num_train_epochs", "1e9"}).num_train_epochs, 1e9);
}

TEST_F(ParseTest, SettingsThatDoNothingAreNoted) {
  EXPECT_EQ(run({"--adapter_name_or_path", path("adapter"), "--lora_r", "4"}).notes,
            std::vector<std::string>{"lora_r: not used, the adapter has its own"});
  EXPECT_EQ(run({"--eval_dataset", path("train.jsonl")}).notes,
            std::vector<std::string>{"eval_dataset: not used, eval_strategy is no"});
  EXPECT_EQ(run({"--lr_scheduler_type", "constant", "--warmup_steps", "5"}).notes,
            std::vector<std::string>{
                "warmup_steps: not used by lr_scheduler_type constant; constant_with_warmup has a warm-up"});
}

}  // namespace parse_test
}  // namespace hone::config
