// Files of axolotl, written after the field's habits: method, options with axolotl's defaults, and what is said.
#include "config/others_helpers.h"

namespace hone::config {
namespace others_axolotl_test {

const std::string kModel = "base_model: nowhere/model\nmicro_batch_size: 2\n";
const std::string kLora =
    "adapter: lora\nlora_r: 16\nlora_alpha: 32\nlora_target_linear: true\nlearning_rate: 2e-4\n";

TEST(OthersAxolotl, QloraOnAlpacaWithPacking) {
  const OtherRun run = other_run(
      "base_model: nowhere/model\nload_in_4bit: true\nstrict: false\n\ndatasets:\n  - path: nowhere/rows\n    type: alpaca\n"
      "dataset_prepared_path:\nval_set_size: 0.05\noutput_dir: ./out\n\nadapter: qlora\nlora_model_dir:\n\nsequence_len: 2048\n"
      "sample_packing: true\npad_to_sequence_len: true\n\nlora_r: 32\nlora_alpha: 16\nlora_dropout: 0.05\n"
      "lora_target_linear: true\nlora_fan_in_fan_out:\n\nwandb_project:\n\ngradient_accumulation_steps: 4\n"
      "micro_batch_size: 2\nnum_epochs: 4\noptimizer: paged_adamw_32bit\nlr_scheduler: cosine\nlearning_rate: 0.0002\n\n"
      "train_on_inputs: false\ngroup_by_length: false\nbf16: auto\nfp16:\ntf32: false\n\ngradient_checkpointing: true\n"
      "warmup_steps: 10\nevals_per_epoch: 4\nsaves_per_epoch: 1\nweight_decay: 0.0\nspecial_tokens:\n  pad_token: \"<pad>\"\n");
  expect_run(run, {.method = "sft",
                   .options = {{"model_name_or_path", "nowhere/model"},
                               {"use_peft", "true"},
                               {"load_in_4bit", "true"},
                               {"max_length", "2048"},
                               {"packing", "true"},
                               {"per_device_train_batch_size", "2"},
                               {"gradient_accumulation_steps", "4"},
                               {"num_train_epochs", "4"},
                               {"learning_rate", "0.0002"},
                               {"optim", "paged_adamw_32bit"},
                               {"warmup_steps", "10"},
                               {"lora_target_modules", "[all-linear]"},
                               {"row_format", "alpaca_line"},
                               {"completion_only_loss", "true"},
                               {"test_split_size", "0.05"},
                               {"eval_strategy", "steps"},
                               {"eval_steps", "0.0625"},
                               {"save_steps", "0.25"},
                               {"save_total_limit", "4 default"},
                               {"seed", "42 default"}},
                   .findings = {"auto asks the GPU", "drops each row above 2048 tokens", "in other bins"}});
}

TEST(OthersAxolotl, ItsDefaultsArePrinted) {
  const OtherRun run = other_run(
      kModel + kLora + "datasets:\n  - path: nowhere/rows\n    type: completion\n    field: body\n");
  expect_run(run, {.method = "sft",
                   .options = {{"max_length", "512 default"},
                               {"num_train_epochs", "1 default"},
                               {"gradient_accumulation_steps", "1 default"},
                               {"lr_scheduler_type", "cosine default"},
                               {"optim", "adamw_torch_fused default"},
                               {"warmup_steps", "0.03 default"},
                               {"lora_dropout", "0 default"},
                               {"packing", "false default"},
                               {"dataset_name", "nowhere/rows"},
                               {"dataset_text_field", "body"},
                               {"eval_strategy", "\"no\" default"}},
                   .findings = {"splits a text above 512 tokens", "trains every token"}});
}

TEST(OthersAxolotl, ChatTemplateWithPropertyMappings) {
  const OtherRun run = other_run(
      kModel + kLora +
      "chat_template: llama3\ndatasets:\n  - path: nowhere/rows\n    type: chat_template\n    field_messages: talk\n"
      "    message_property_mappings:\n      role: from\n      content: value\n");
  expect_run(run, {.method = "sft",
                   .options = {{"row_format", "sharegpt"},
                               {"dataset_columns", "{talk: conversations}"},
                               {"assistant_only_loss", "true"}},
                   .findings = {"llama3 is axolotl's own text", "a turn that is not found"}});
}

TEST(OthersAxolotl, ShareGptOfAnOldVersion) {
  expect_run(other_run(kModel + kLora +
                       "datasets:\n  - path: nowhere/rows\n    type: sharegpt\n    conversation: chatml\n"),
             {.method = "sft",
              .options = {{"row_format", "sharegpt"}},
              .findings = {"axolotl 0.21 refuses type sharegpt", "FastChat's text of conversation: chatml"},
              .refused = 1});
}

TEST(OthersAxolotl, OwnPrompt) {
  expect_run(other_run(kModel + kLora +
                       "datasets:\n  - path: nowhere/rows\n    type:\n      field_instruction: question\n"
                       "      field_output: answer\n      format: \"Q: {instruction}\\nA:\"\n"),
             {.method = "sft",
              .options = {{"prompt_template", "\"Q: {question}\\nA:\""},
                          {"dataset_columns", "{answer: completion}"}}});
}

TEST(OthersAxolotl, DpoWithoutAdapterIsFull) {
  expect_run(
      other_run(
          kModel +
          "rl: dpo\nrl_beta: 0.2\nlearning_rate: 5e-7\ndatasets:\n  - path: nowhere/pairs\n    split: train\n"
          "    type: chatml.intel\n"),
      {.method = "dpo",
       .options = {{"use_peft", "false default"},
                   {"beta", "0.2"},
                   {"dataset_columns", "{question: prompt}"},
                   {"datasets", "[{path: nowhere/pairs, split: train}]"}},
       .findings = {"the whole model is trained", "ChatML's tags"}});
}

TEST(OthersAxolotl, TrainsNothingThatItAskedFor) {
  expect_run(
      other_run(
          kModel +
          "adapter: qlora\nload_in_8bit: true\nlora_r: 8\nlora_alpha: 16\nlora_target_modules: [q_proj, v_proj]\n"
          "learning_rate: 1e-4\nval_set_size: 0\neval_steps: 50\ndatasets:\n  - path: nowhere/rows\n    type: alpaca\n"
          "chat_template: chatml\nlr_scheduler: rex\nplugins:\n  - my.Plugin\n"),
      {.method = "sft",
       .findings = {"eval_steps: evaluation is asked for, but there is no set", "qlora without load_in_4bit",
                    "qlora with load_in_8bit", "rex is axolotl's own schedule", "my.Plugin is code",
                    "it has no effect on rows of type alpaca"},
       .refused = 4});
}

TEST(OthersAxolotl, NamesTwiceUnknownAndPlaces) {
  const OtherRun run =
      other_run(kModel + kLora +
                "learning_rate: 1e-5\nsequence_length: 2048\ndatasets:\n  - path: <the limo dataset>\n"
                "    type: alpaca\nweight_decay:\n");
  expect_run(
      run,
      {.method = "sft",
       .options = {{"learning_rate", "1e-05"}, {"weight_decay", "0 default"}},
       .findings = {"note run.yaml:8 learning_rate: it is there twice, at run.yaml:7 too",
                    "unknown run.yaml:9 sequence_length: no name of axolotl's that hone knows. Did you mean "
                    "'sequence_len'",
                    "<the limo dataset> is a place to fill in"},
       .unknown = 2});
}

TEST(OthersAxolotl, NamesThatItDoesNotReadAreTold) {
  const OtherRun run = other_run(
      kModel +
      "adapter: qlora\nload_in_4bit: true\nlora_r: 16\nlora_alpha: 12.5\nlora_target_linear: true\nlearning_rate: "
      "2e-4\noptimizer: adamw_hf\nadam_eps: 0.00001\nbnb_4bit_use_double_quant: false\nwandb_group: x\n"
      "model_quantization_config: Mxfp4Config\ndatasets:\n  - path: nowhere/rows\n    type: alpaca\n");
  expect_run(run, {.method = "sft",
                   .options = {{"lora_alpha", "12.5"},
                               {"optim", "adamw_torch"},
                               {"adam_epsilon", "absent"},
                               {"use_bnb_nested_quant", "true default"}},
                   .findings = {"transformers has no adamw_hf any more",
                                "bnb_4bit_use_double_quant: axolotl does not read it"}});
  const auto ignored = std::find_if(run.ignored.begin(), run.ignored.end(),
                                    [](const OtherNote& one) { return one.name == "adam_eps"; });
  ASSERT_NE(ignored, run.ignored.end());
  EXPECT_EQ(ignored->text, "axolotl does not read it: its name is adam_epsilon");
  expect_finding(other_run(kModel + kLora + "model_config:\n  rope_theta: 10000\n"),
                 "other values than those of the model's config.json");
}

TEST(OthersAxolotl, WhatIsNotWrittenIsNoGuess) {
  expect_run(
      other_run(kModel + "adapter: lora\ndatasets:\n  - path: ${HONE_NO_SUCH_NAME}\n    type: alpaca\n"),
      {.method = "sft",
       .options = {{"lora_r", "absent"}, {"learning_rate", "absent"}, {"dataset_name", "absent"}},
       .findings = {"lora_r is not written", "lora_alpha is not written", "and axolotl asks for it",
                    "HONE_NO_SUCH_NAME, which is not set here"},
       .unknown = 5});
}

TEST(OthersAxolotl, GrpoTakesTheKeysOfTrl) {
  expect_run(
      other_run(
          kModel + kLora +
          "rl: grpo\ntrl:\n  beta: 0.01\n  num_generations: 2\n  reward_funcs: [trl.rewards.accuracy_reward]\n"
          "  max_completion_length: 128\ndatasets:\n  - path: nowhere/prompts\n    type: mine.transform\n"),
      {.method = "grpo",
       .options = {{"beta", "0.01"}, {"num_generations", "2"}, {"max_completion_length", "128"}},
       .unknown = 1,
       .refused = 0});
}

TEST(OthersAxolotl, ReadyTypesOfKtoAndOrpo) {
  const auto with = [](const std::string& rl, const std::string& type) {
    return other_run("base_model: nowhere/model\nmicro_batch_size: 2\nlearning_rate: 1e-6\nrl: " + rl +
                     "\ndatasets:\n  - path: nowhere/rows\n    type: " + type + "\n");
  };
  EXPECT_EQ(option_of(with("kto", "llama3.intel"), "dataset_columns"), "{question: prompt}");
  EXPECT_EQ(option_of(with("kto", "chatml.ultra"), "make_conversation"), "true");
  EXPECT_EQ(with("kto", "chatml.ultra").unknown.size(), 0U);
  EXPECT_EQ(with("kto", "mine.transform").unknown.size(), 1U);
  EXPECT_EQ(with("orpo", "chat_template.argilla").unknown.size(), 0U);
}

TEST(OthersAxolotl, SimpoAsksForItsGamma) {
  const std::string run =
      "base_model: nowhere/model\nmicro_batch_size: 1\nrl: simpo\nlearning_rate: 1e-6\nlora_target_parameters: [a]\n"
      "datasets:\n  - path: nowhere/pairs\n    type: chatml.ultra\n";
  expect_finding(other_run(run), "unknown run.yaml:3 rl: simpo_gamma is not written");
  EXPECT_EQ(other_run(run + "simpo_gamma: 0.5\n").unknown.size(), 0U);
}

}  // namespace others_axolotl_test
}  // namespace hone::config
