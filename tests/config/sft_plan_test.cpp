// SFT's own options, and the mappings of keyword arguments that every method has.
#include <algorithm>

#include "config/helpers.h"
#include "config/write_plan.h"

namespace hone::config {
namespace sft_plan_test {

bool has_note(const Plan& plan, const std::string& text) {
  return std::any_of(plan.notes.begin(), plan.notes.end(),
                     [&](const std::string& note) { return note.find(text) != std::string::npos; });
}

class SftPlan : public ConfigTest {};

TEST_F(SftPlan, LossAndPackingReachThePlan) {
  const Plan plan = run({"--loss_type", "dft", "--packing", "--packing_strategy", "wrapped"});
  EXPECT_EQ(plan.sft.loss_type, "dft");
  EXPECT_EQ(plan.packing_strategy, PackingStrategy::kWrapped);
  EXPECT_EQ(run({"--packing_strategy", "bfd_split"}).packing_strategy, PackingStrategy::kBfdSplit);
  EXPECT_EQ(run().packing_strategy, PackingStrategy::kBfd);
  EXPECT_EQ(run({"--neftune_noise_alpha", "5"}).sft.neftune_noise_alpha, 5);
  EXPECT_EQ(run({"--neftune_noise_alpha", "null"}).sft.neftune_noise_alpha, 0);
  EXPECT_EQ(run({"--label_smoothing_factor", "0.1"}).sft.label_smoothing_factor, 0.1);
  EXPECT_NE(run_error({"--label_smoothing_factor", "1"}).find("below 1"), std::string::npos);
}

TEST_F(SftPlan, AliasesAreWrittenAsWhatTheyMean) {
  const Plan plan = run({"--packing_strategy", "bfd-requeue", "--loss_type", "chunked_nll"});
  EXPECT_EQ(plan.packing_strategy, PackingStrategy::kBfdSplit);
  EXPECT_EQ(plan.sft.loss_type, "nll");
  const std::string yaml = write_plan(plan);
  EXPECT_NE(yaml.find("packing_strategy: bfd_split"), std::string::npos) << yaml;
  EXPECT_NE(yaml.find("loss_type: nll"), std::string::npos) << yaml;
}

TEST_F(SftPlan, WhatDoesNothingIsTold) {
  EXPECT_TRUE(has_note(run({"--loss_type", "dft", "--label_smoothing_factor", "0.1"}),
                       "label_smoothing_factor: not used"));
  const Plan packed = run({"--truncation_mode", "keep_end", "--packing"});
  EXPECT_TRUE(has_note(packed, "truncation_mode: not used with packing"));
  EXPECT_EQ(packed.truncation_mode, "keep_end");
  for (const char* option : {"bf16_full_eval", "fp16_full_eval", "ignore_data_skip"}) {
    EXPECT_TRUE(has_note(run({std::string("--") + option, "true"}), option)) << option;
  }
  EXPECT_TRUE(has_note(run({"--optim_target_modules", "q_proj"}), "GaLore"));
}

TEST_F(SftPlan, StreamingNeedsToKnowNothingOfAllRows) {
  const std::vector<std::string> streams = {"--dataset_streaming", "--max_steps", "5"};
  const auto error = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = streams;
    words.insert(words.end(), more.begin(), more.end());
    return run_error(words);
  };
  EXPECT_TRUE(run(streams).dataset_streaming);
  EXPECT_FALSE(run().dataset_streaming);
  EXPECT_TRUE(run({"--streaming", "--max_steps", "5"}).dataset_streaming);
  EXPECT_TRUE(run({"--dataset_streaming", "--max_steps", "5", "--ignore_data_skip"}).ignore_data_skip);
  EXPECT_NE(run_error({"--dataset_streaming"}).find("max_steps with dataset_streaming"), std::string::npos);
  EXPECT_NE(error({"--shuffle_dataset"}).find("buffer of 1,000"), std::string::npos);
  EXPECT_NE(error({"--train_sampling_strategy", "group_by_length"}).find("lengths of streamed rows"),
            std::string::npos);
  EXPECT_TRUE(dpo({"--dataset_streaming", "--max_steps", "5"}).dataset_streaming);
  EXPECT_NE(dpo_error({"--dataset_streaming"}).find("max_steps with dataset_streaming"), std::string::npos);
  EXPECT_NE(dpo_error({"--dataset_streaming", "--max_steps", "5", "--precompute_ref_log_probs"})
                .find("precompute_ref_log_probs: false"),
            std::string::npos);
}

TEST_F(SftPlan, OtherMethodsSayWhyNot) {
  EXPECT_TRUE(has_note(dpo({"--label_smoothing_factor", "0.1"}), "label_smoothing_factor"));
  EXPECT_NE(dpo_error({"--neftune_noise_alpha", "5"}).find("supervised fine-tuning"), std::string::npos);
  EXPECT_NE(dpo_error({"--train_sampling_strategy", "group_by_length"}).find("input_ids"), std::string::npos);
}

TEST_F(SftPlan, PreparedRowsAreNeitherCutNorPackedNorShuffled) {
  const Plan plan = run({"--dataset_kwargs", R"({"skip_prepare_dataset": true})", "--packing",
                         "--shuffle_dataset", "--max_length", "64"});
  EXPECT_TRUE(plan.skip_prepare_dataset);
  EXPECT_FALSE(plan.packing || plan.shuffle_dataset);
  EXPECT_EQ(plan.max_length, 0);
  for (const char* option : {"packing: not used", "shuffle_dataset: not used", "max_length: not used"})
    EXPECT_TRUE(has_note(plan, option)) << option;
  EXPECT_EQ(plan.row_options, (std::vector<RowOption>{{.name = "dataset_kwargs", .forms = "tokens"}}));
  EXPECT_TRUE(run({"--dataset_kwargs", R"({"skip_prepare_dataset": false})"}).row_options.empty());
  EXPECT_TRUE(has_note(run({"--dataset_kwargs", R"({"add_special_tokens": false})"}), "dataset_kwargs"));
  EXPECT_TRUE(has_note(run({"--dataset_kwargs", R"({"skip_prepare_dataset": false})"}), "dataset_kwargs"));
}

TEST_F(SftPlan, KeywordArgumentsOfTheModelAreOptions) {
  const Plan plan = run_yaml(
      "model_init_kwargs:\n  dtype: torch.bfloat16\n  revision: v1\n  use_cache: false\n  device_map: auto\n"
      "  quantization_config: {load_in_4bit: true, bnb_4bit_quant_type: fp4, bnb_4bit_compute_dtype: bfloat16}\n");
  EXPECT_EQ(plan.precision, Precision::kBFloat16);
  EXPECT_EQ(plan.model_revision, "v1");
  EXPECT_EQ(plan.quantized_base, QuantizedBase::kFp4);
  EXPECT_TRUE(has_note(plan, "model_init_kwargs.use_cache"));
  EXPECT_TRUE(has_note(plan, "model_init_kwargs.device_map"));
  const std::string again = write("plan.yaml", write_plan(plan));
  const Plan second = parse_run(Method::kSft, {"--config", again});
  EXPECT_EQ(second.precision, plan.precision);
  EXPECT_EQ(second.quantized_base, plan.quantized_base);
}

TEST_F(SftPlan, KeywordArgumentsThatContradictOrAreUnknown) {
  EXPECT_NE(yaml_error("dtype: float32\nmodel_init_kwargs: {dtype: bfloat16}\n").find("one value of dtype"),
            std::string::npos);
  EXPECT_EQ(run_yaml("dtype: bfloat16\nmodel_init_kwargs: {torch_dtype: bfloat16}\n").precision,
            Precision::kBFloat16);
  EXPECT_NE(yaml_error("model_init_kwargs: {rope_scaling: 2}\n").find("'rope_scaling'"), std::string::npos);
  EXPECT_NE(yaml_error("model_init_kwargs: {dtpe: bfloat16}\n").find("Did you mean 'dtype'"),
            std::string::npos);
  EXPECT_NE(yaml_error("model_init_kwargs: {dtype: float16}\nbf16: false\n").find("NUM-03"),
            std::string::npos);
}

TEST_F(SftPlan, AcceleratesSettings) {
  EXPECT_TRUE(has_note(run_yaml("accelerator_config: {split_batches: true, even_batches: true}\n"),
                       "accelerator_config"));
  EXPECT_NE(
      yaml_error("accelerator_config: {use_seedable_sampler: false}\n").find("use_seedable_sampler: true"),
      std::string::npos);
  EXPECT_NE(yaml_error("accelerator_config: {gradient_accumulation_kwargs: {num_steps: 4}}\n")
                .find("gradient_accumulation_steps"),
            std::string::npos);
  EXPECT_TRUE(has_note(run_yaml("parallelism_config: {tp_size: 1}\n"), "parallelism_config"));
  EXPECT_NE(yaml_error("parallelism_config: {tp_size: 2}\n").find("tp_size: 1"), std::string::npos);
  const std::string file = write("accelerator.json", R"({"use_seedable_sampler": false})");
  EXPECT_NE(yaml_error("accelerator_config: " + file + "\n").find("use_seedable_sampler"), std::string::npos);
}

}  // namespace sft_plan_test
}  // namespace hone::config
