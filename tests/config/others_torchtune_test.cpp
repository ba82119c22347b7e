// Recipes of torchtune, written after the field's habits; and what the first reading of the other trainers left.
#include "config/helpers.h"
#include "config/others_helpers.h"

namespace hone::config {
namespace others_torchtune_test {

const std::string kLora = R"(output_dir: /tmp/run
model:
  _component_: torchtune.models.llama3_2.lora_llama3_2_1b
  lora_attn_modules: ['q_proj', 'v_proj', 'output_proj']
  apply_lora_to_mlp: True
  lora_rank: 64
  lora_alpha: 128
tokenizer:
  _component_: torchtune.models.llama3.llama3_tokenizer
  path: ${checkpointer.checkpoint_dir}/tokenizer.model
  max_seq_len: 2048
checkpointer:
  _component_: torchtune.training.FullModelHFCheckpointer
  checkpoint_dir: nowhere/model
  output_dir: ${output_dir}
dataset:
  _component_: torchtune.datasets.chat_dataset
  source: nowhere/rows
  conversation_column: conversations
  conversation_style: sharegpt
  packed: True
seed: null
shuffle: True
batch_size: 4
epochs: 1
optimizer:
  _component_: torch.optim.AdamW
  fused: True
  lr: 3e-4
lr_scheduler:
  _component_: torchtune.training.lr_schedulers.get_cosine_schedule_with_warmup
  num_warmup_steps: 100
loss:
  _component_: torchtune.modules.loss.LinearCrossEntropyLoss
gradient_accumulation_steps: 8
dtype: bf16
device: cuda
)";

TEST(OthersTorchtune, Lora) {
  expect_run(other_run(kLora),
             {.method = "sft",
              .options = {{"model_name_or_path", "nowhere/model"},
                          {"dataset_name", "nowhere/rows"},
                          {"row_format", "sharegpt"},
                          {"assistant_only_loss", "true"},
                          {"packing", "true"},
                          {"max_length", "2048"},
                          {"lora_r", "64"},
                          {"lora_alpha", "128"},
                          {"lora_dropout", "0 default"},
                          {"lora_target_modules", "[q_proj, v_proj, o_proj, gate_proj, down_proj, up_proj]"},
                          {"per_device_train_batch_size", "4"},
                          {"gradient_accumulation_steps", "8"},
                          {"learning_rate", "0.0003"},
                          {"optim", "adamw_torch_fused"},
                          {"weight_decay", "0.01 default"},
                          {"lr_scheduler_type", "cosine"},
                          {"warmup_steps", "100"},
                          {"max_grad_norm", "0 default"},
                          {"dtype", "bfloat16"},
                          {"output_dir", "/tmp/run"}},
              .findings = {"the recipe is named on tune's command line", "NUM-01", "seed: none"}});
}

TEST(OthersTorchtune, AlpacaTrainsOnThePrompt) {
  const OtherRun run = other_run(
      "model:\n  _component_: torchtune.models.qwen2_5.qwen2_5_7b_base\ncheckpointer:\n  checkpoint_dir: "
      "${oc.env:HONE_NOBODY_SETS_THIS,nowhere}/model\ndataset:\n  _component_: torchtune.datasets.alpaca_dataset\n"
      "batch_size: 2\nepochs: 3\nmax_steps_per_epoch: 10\noptimizer:\n  _component_: torch.optim.AdamW\n"
      "loss:\n  _component_: torchtune.rlhf.loss.SimPOLoss\n");
  expect_run(run,
             {.method = "sft",
              .options = {{"model_name_or_path", "nowhere/model"},
                          {"dataset_name", "tatsu-lab/alpaca"},
                          {"use_peft", "false"},
                          {"learning_rate", "0.001 default"},
                          {"lr_scheduler_type", "constant default"},
                          {"max_steps", "absent"}},
              .findings = {"trains on the prompt too by default", "each epoch ends after that many steps",
                           "refused run.yaml:12 loss: hone reads no SimPOLoss"},
              .unknown = 2,
              .refused = 1});
}

TEST(OthersTorchtune, DpoAndWhatIsLeftOut) {
  std::string text = kLora;
  text.replace(text.find("torchtune.modules.loss.LinearCrossEntropyLoss"), 45,
               "torchtune.rlhf.loss.DPOLoss\n  beta: 0.3");
  text.replace(text.find("checkpoint_dir: nowhere/model"), 29,
               "checkpoint_dir: ${oc.env:HONE_NOBODY_SETS_THIS}");
  const OtherRun run = other_run(text);
  EXPECT_EQ(method_name(run.method), "dpo");
  EXPECT_EQ(option_of(run, "beta"), "0.3");
  EXPECT_EQ(option_of(run, "model_name_or_path"), "absent");
  expect_finding(run, "checkpointer: its value names");
}

const std::string kAxolotl =
    "base_model: nowhere/model\nmicro_batch_size: 2\nadapter: lora\nlora_r: 8\nlora_alpha: 16\nlora_target_linear: true\n"
    "learning_rate: 1e-4\ndatasets:\n  - path: nowhere/rows\n    type: alpaca\n";

TEST(OthersLeft, AxolotlsTestSetsOfAFile) {
  EXPECT_EQ(
      option_of(other_run(kAxolotl +
                          "test_datasets:\n  - path: json\n    data_files: held.jsonl\n    split: train\n"
                          "  - path: nowhere/other\n"),
                "eval_datasets"),
      "[{path: held.jsonl}, {path: nowhere/other, split: test}]");
}

TEST(OthersLeft, AxolotlsWarmUpEndsAtAHundredSteps) {
  EXPECT_EQ(option_of(other_run(kAxolotl + "max_steps: 90\n"), "warmup_steps"), "2 default");
  EXPECT_EQ(option_of(other_run(kAxolotl + "max_steps: 90000\n"), "warmup_steps"), "100 default");
  const OtherRun run = other_run(kAxolotl);
  EXPECT_EQ(option_of(run, "warmup_steps"), "0.03 default");
  expect_finding(run, "a run above 3,333 steps warms up for 100");
}

TEST(OthersLeft, AxolotlsHeadBesideAllLinears) {
  expect_finding(other_run(kAxolotl + "lora_target_modules: [q_proj, lm_head]\n"),
                 "refused run.yaml:11 lora_target_modules: lm_head beside lora_target_linear");
}

TEST(OthersLeft, SwiftsSimpoAndOrder) {
  const OtherRun run = other_run(
      "swift rlhf --rlhf_type simpo --model nowhere/model --dataset 'nowhere/rows#5' --max_length 512 --dataset_shuffle "
      "false --train_dataloader_shuffle false\n",
      "run.sh");
  EXPECT_EQ(option_of(run, "simpo_gamma"), "1 default");
  EXPECT_EQ(option_of(run, "cpo_alpha"), "1 default");
  EXPECT_EQ(option_of(run, "train_sampling_strategy"), "sequential");
  expect_finding(run, "dataset_shuffle: the file's order is kept");
  EXPECT_EQ(findings_of(run).find("#5 draws"), std::string::npos);
}

TEST(OthersLeft, ManyStrangeKeysAreOneLine) {
  std::string text =
      "{\"tuner_type\": \"lora\", \"model\": \"nowhere/model\", \"max_length\": 512, \"dataset\": [\"a\"]";
  for (int i = 0; i < 40; ++i) text += ", \"strange_" + std::to_string(i) + "\": " + std::to_string(i);
  const OtherRun run = other_run(text + "}", "args.json");
  expect_finding(
      run,
      "39 names: no names of ms-swift's that hone knows: strange_1, ");  // strange_0 is 0: nothing is asked
  EXPECT_EQ(run.unknown.size(), 1U) << findings_of(run);
}

TEST(OthersLeft, JsonKeepsEachUnknown) {
  OtherRun run;
  run.file = "run.yaml";
  run.unknown = {{"run.yaml:1", "datasets", "a", "", ""},
                 {"run.yaml:2", "datasets", "b", "", ""},
                 {"run.yaml:2", "datasets", "c", "", ""}};
  const base::Json unknown = other_json(run)["unknown"];
  EXPECT_EQ(unknown.size(), 3U);
  EXPECT_EQ(unknown["datasets"]["why"], "a");
  EXPECT_EQ(unknown["datasets (run.yaml:2)"]["why"], "b");
  EXPECT_EQ(unknown["datasets (run.yaml:2) 2"]["why"], "c");
}

TEST(OthersLeft, HonesOwnFileWithAnOpenQuote) {
  for (const char* quote : {"\"", "'"}) {
    const std::string text = std::string("lora_r: 8\nrun_name: ") + quote + "never closed\nseed: 3\n";
    Settings settings(method_schema(Method::kSft));
    const std::string error = error_of([&] { settings.read_yaml_text(text, "run.yaml"); });
    EXPECT_NE(error.find("run.yaml:2"), std::string::npos) << error;
    EXPECT_NE(error.find("a quote that is closed"), std::string::npos) << error;
  }
  for (const char* text : {"run_name: it's\n", "run_name: 'it''s'", "run_name: \"a\"\n# it's\n",
                           "chat_template: |\n  it's \"so\"", "run_name: a # don't"}) {
    Settings settings(method_schema(Method::kSft));
    settings.read_yaml_text(text, "run.yaml");
    EXPECT_TRUE(settings.mistakes().empty()) << text;
  }
}

TEST(OthersTorchtune, FormsOfWeights) {
  const auto with = [](const std::string& form) {
    return other_run(
        "model:\n  _component_: torchtune.models.llama3.llama3_8b\ncheckpointer:\n  _component_: torchtune.training." +
        form + "\n  checkpoint_dir: nowhere\n");
  };
  expect_finding(with("FullModelMetaCheckpointer"), "weights in Meta's own form");
  expect_finding(with("FullModelTorchTuneCheckpointer"), "weights in torchtune's own form");
  expect_finding(with("DistributedCheckpointer"), "weights in torch's distributed form");
  expect_finding(with("OtherCheckpointer"), "OtherCheckpointer is no form of weights that hone knows");
  EXPECT_EQ(findings_of(with("FullModelHFCheckpointer")).find("checkpointer"), std::string::npos);
}

}  // namespace others_torchtune_test
}  // namespace hone::config
