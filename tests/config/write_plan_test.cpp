#include "config/write_plan.h"

#include "config/helpers.h"

namespace hone::config {
namespace write_plan_test {

using WritePlanTest = ConfigTest;

void expect_round_trip(const Plan& plan) {
  const std::string text = write_plan(plan);
  EXPECT_EQ(parse_run_text(Method::kSft, text, "plan.yaml"), plan) << text;
}

TEST_F(WritePlanTest, DefaultsComeBack) {
  expect_round_trip(run());
}

TEST_F(WritePlanTest, EverythingSetComesBack) {
  expect_round_trip(run({"--dataset_name",
                         path("rows"),
                         "--eval_strategy",
                         "steps",
                         "--lr_scheduler_type",
                         "cosine",
                         "--lr_scheduler_kwargs",
                         "{\"num_cycles\": 0.25}",
                         "--lora_target_modules",
                         "q_proj",
                         ".*v_proj",
                         "--eos_token",
                         "<|im_end|>",
                         "--max_length",
                         "null",
                         "--learning_rate",
                         "0.00012345678901234567",
                         "--save_strategy",
                         "no",
                         "--resume_from_checkpoint",
                         "true",
                         "--data_seed",
                         "5",
                         "--report_to",
                         "tensorboard",
                         "--init_lora_weights",
                         "false",
                         "--completion_only_loss",
                         "false",
                         "--dtype",
                         "auto",
                         "--warmup_steps",
                         "0.1",
                         "--gradient_checkpointing",
                         "false",
                         "--layer_form",
                         "explicit",
                         "--memory_limit",
                         "2.05 GB",
                         "--skip_doctor",
                         "true",
                         "--on_fault",
                         "stop",
                         "--output_dir",
                         "a b#c: d"}));
}

TEST_F(WritePlanTest, NotesComeBack) {
  const Plan plan = run({"--torch_compile", "--use_cpu", "--optim", "adamw_torch", "--run_name", "first"});
  EXPECT_EQ(plan.notes.size(), 3U);
  expect_round_trip(plan);
}

TEST_F(WritePlanTest, AContinuedAdapterKeepsItsDropoutUnlessOneIsSet) {
  const Plan kept = run({"--adapter_name_or_path", path("adapter")});
  EXPECT_FALSE(kept.continued_dropout);
  EXPECT_EQ(write_plan(kept).find("lora_dropout"), std::string::npos)
      << "0.05 would replace the adapter's own";
  expect_round_trip(kept);
  const Plan set = run({"--adapter_name_or_path", path("adapter"), "--lora_dropout", "0.05"});
  EXPECT_EQ(set.continued_dropout, 0.05);
  expect_round_trip(set);
  EXPECT_FALSE(run({"--lora_dropout", "0.05"}).continued_dropout);
}

TEST_F(WritePlanTest, ReadsAsAFileOfOptions) {
  const std::string text = short_paths(write_plan(run({"--output_dir", "out"})));
  EXPECT_TRUE(
      text.starts_with("# hone sft, resolved. The same run again: hone sft --config plan.yaml\n\n# model\n"
                       "model_name_or_path: "))
      << text;
  EXPECT_NE(text.find("\n# adapter\nuse_peft: true\nlora_r: 16\nlora_alpha: 32\nlora_dropout: 0.05\n"),
            std::string::npos);
  EXPECT_NE(text.find("\noutput_dir: out\n"), std::string::npos);
  EXPECT_NE(text.find("\nbf16: true\n"), std::string::npos);
  EXPECT_NE(text.find("\neval_strategy: \"no\"\n"), std::string::npos);
  EXPECT_EQ(text.find("torch_compile"), std::string::npos) << "ignored options are shown only when set";
}

}  // namespace write_plan_test
}  // namespace hone::config
