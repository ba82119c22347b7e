// Files of LLaMA-Factory with dataset_info.json, written after the field's habits.
#include <filesystem>
#include <fstream>

#include "config/others_helpers.h"

namespace hone::config {
namespace others_factory_test {

const std::string kModel = "model_name_or_path: nowhere/model\nstage: sft\ndo_train: true\n";
const std::string kLora = kModel + "finetuning_type: lora\ntemplate: default\n";

// A folder with dataset_info.json, removed at the end.
class OthersFactory : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = std::filesystem::temp_directory_path() / ("hone_factory_" + std::to_string(::getpid()));
    std::filesystem::create_directories(root_);
    std::ofstream(info()) << R"({
  "mine": {"hf_hub_url": "nowhere/rows"},
  "talks": {"hf_hub_url": "nowhere/talks", "formatting": "sharegpt", "columns": {"messages": "messages"},
            "tags": {"role_tag": "role", "content_tag": "content"}},
  "bare": {"hf_hub_url": "nowhere/bare", "columns": {"prompt": "q", "response": "a"}},
  "long": {"hf_hub_url": "nowhere/long", "columns": {"prompt": "q", "response": "a", "system": "s", "history": "h"}},
  "pairs": {"hf_hub_url": "nowhere/pairs", "ranking": true,
            "columns": {"prompt": "question", "chosen": "good", "rejected": "bad"}},
  "pictures": {"hf_hub_url": "nowhere/pictures", "columns": {"prompt": "p", "response": "r", "images": "i"}}
})";
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  std::string info() const { return (root_ / "dataset_info.json").string(); }
  OtherRun run(const std::string& text) const {
    return other_run(text, "run.yaml", {.dataset_info = info()});
  }

  std::filesystem::path root_;
};

TEST_F(OthersFactory, LoraWithItsDefaults) {
  expect_run(run(kLora + "dataset: mine\nlora_target: all\n"),
             {.method = "sft",
              .options = {{"use_peft", "true"},
                          {"lora_r", "8 default"},
                          {"lora_alpha", "16 default"},
                          {"lora_dropout", "0 default"},
                          {"lora_target_modules", "[all-linear]"},
                          {"max_length", "2048 default"},
                          {"per_device_train_batch_size", "8 default"},
                          {"learning_rate", "5e-05 default"},
                          {"num_train_epochs", "3 default"},
                          {"lr_scheduler_type", "linear default"},
                          {"dataset_name", "nowhere/rows"},
                          {"row_format", "alpaca"},
                          {"completion_only_loss", "true"}},
              .findings = {"default is LLaMA-Factory's own text"}});
}

TEST_F(OthersFactory, AlphaIsTwiceTheRank) {
  expect_run(run(kLora + "dataset: mine\nlora_rank: 64\nlora_target: q_proj,v_proj\ncutoff_len: 4096\n"),
             {.method = "sft",
              .options = {{"lora_r", "64"},
                          {"lora_alpha", "128 default"},
                          {"lora_target_modules", "[q_proj, v_proj]"},
                          {"max_length", "4096"}}});
}

TEST_F(OthersFactory, TalksOfRolesAndSamples) {
  expect_run(run(kLora +
                 "dataset: talks\nmax_samples: 1000\nval_size: 0.1\neval_strategy: steps\neval_steps: 500\n"),
             {.method = "sft",
              .options = {{"datasets", "[{path: nowhere/talks, first: 1000}]"},
                          {"assistant_only_loss", "true"},
                          {"test_split_size", "0.1"},
                          {"eval_steps", "500"}},
              .findings = {"turns do not alternate"}});
}

TEST_F(OthersFactory, ColumnsTurnOthersOff) {
  expect_run(run(kLora + "dataset: bare\npacking: true\n"),
             {.method = "sft",
              .options = {{"dataset_columns", "{q: instruction, a: output}"}, {"packing", "true"}},
              .findings = {"set bare has columns without query", "without neat_packing the rows"}});
}

// LLaMA-Factory trains the answers in history too.
TEST_F(OthersFactory, HistoryIsTurnsOfTheConversation) {
  expect_run(run(kLora + "dataset: long\noptim: adamw_hf\n"),
             {.method = "sft",
              .options = {{"row_format", "alpaca"},
                          {"dataset_columns", "{q: instruction, a: output, s: system, h: history}"},
                          {"make_conversation", "true"},
                          {"assistant_only_loss", "true"},
                          {"completion_only_loss", "false"},
                          {"optim", "adamw_torch"}},
              .findings = {"transformers has no adamw_hf any more"}});
  expect_run(
      run(kLora + "dataset: long\ntrain_on_prompt: true\n"),
      {.method = "sft", .options = {{"assistant_only_loss", "false"}, {"completion_only_loss", "false"}}});
  expect_finding(run("model_name_or_path: nowhere/model\nstage: kto\ndo_train: true\nfinetuning_type: lora\n"
                     "template: default\ndataset: long\n"),
                 "column h of set long is its history");
}

TEST_F(OthersFactory, DpoFromAnAdapter) {
  expect_run(
      run("model_name_or_path: nowhere/model\nadapter_name_or_path: sft_out\nstage: dpo\nfinetuning_type: lora\n"
          "dataset: pairs\ntemplate: llama3\npref_beta: 0.3\npref_loss: sigmoid\n"),
      {.method = "dpo",
       .options = {{"beta", "0.3"},
                   {"dataset_columns", "{question: prompt, good: chosen, bad: rejected}"},
                   {"lora_r", "absent"}},
       .findings = {"lora_rank is not read", "the model with adapters off"}});
}

TEST_F(OthersFactory, LossesWithoutReference) {
  const std::string text =
      "model_name_or_path: nowhere/model\nstage: dpo\nfinetuning_type: lora\ndataset: pairs\ntemplate: llama3\npref_loss: ";
  expect_run(run(text + "simpo\n"),
             {.method = "cpo",
              .options = {{"loss_type", "simpo"}, {"simpo_gamma", "0.5 default"}, {"beta", "0.1 default"}}});
  expect_run(run(text + "orpo\n"), {.method = "orpo", .options = {{"beta", "0.1 default"}}});
}

TEST_F(OthersFactory, WhatItDoesNotDo) {
  expect_run(
      run(kModel +
          "finetuning_type: full\ndataset: mine\ntemplate: sharegpt\nlora_rank: 8\ngradient_checkpointing: false\n"
          "pure_bf16: true\neval_strategy: steps\nshift_attn: true\n"),
      {.method = "sft",
       .options = {{"use_peft", "false"}, {"dtype", "bfloat16"}},
       .findings = {"finetuning_type is full: it does nothing", "false does nothing in LLaMA-Factory",
                    "NUM-01", "neither val_size nor eval_dataset", "shifted sparse attention",
                    "LLaMA-Factory has no template sharegpt"},
       .refused = 2});
}

TEST_F(OthersFactory, SetsThatAreNotDescribed) {
  expect_run(run(kLora + "dataset: mnie\n"),
             {.method = "sft",
              .findings = {"does not describe a data set mnie. Did you mean 'mine'"},
              .unknown = 1});
  expect_run(
      other_run(kLora + "dataset: my_sft_data\n"),
      {.method = "sft",
       .findings =
           {"unknown run.yaml:6 dataset: data set my_sft_data is described in data/dataset_info.json, which is "
            "not here"},
       .unknown = 1});
  expect_run(
      run(kLora + "dataset: pictures\n"),
      {.method = "sft", .findings = {"set pictures has images: hone trains only on text"}, .refused = 1});
}

TEST_F(OthersFactory, PptAndFreezeAndPpo) {
  expect_run(run("model_name_or_path: nowhere/model\nstage: pt\nfinetuning_type: lora\ndataset: mine\n"),
             {.method = "sft",
              .options = {{"packing", "true default"}, {"dataset_text_field", "instruction"}},
              .findings = {"pt trains every token"}});
  expect_run(run(kModel + "finetuning_type: freeze\ndataset: mine\nfreeze_trainable_layers: 4\n"),
             {.method = "sft", .findings = {"freeze trains the last 4 layers"}, .unknown = 1});
  expect_run(run("model_name_or_path: nowhere/model\nstage: ppo\nfinetuning_type: lora\ndataset: mine\n"),
             {.method = "sft", .findings = {"hone has no stage ppo"}, .refused = 1});
}

}  // namespace others_factory_test
}  // namespace hone::config
