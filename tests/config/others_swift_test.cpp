// Commands and args.json of ms-swift, written after the field's habits; the shell's words.
#include "base/files/file.h"
#include "config/others_helpers.h"

namespace hone::config {
namespace others_swift_test {

OtherRun script(const std::string& text) {
  return other_run(text, "run.sh");
}

TEST(OthersSwift, LoraWithItsDefaults) {
  expect_run(
      script(
          "CUDA_VISIBLE_DEVICES=0 \\\nswift sft \\\n    --model nowhere/model \\\n    --train_type lora \\\n"
          "    --dataset 'nowhere/rows#500' \\\n    --max_length 2048 \\\n    --output_dir output\n"),
      {.method = "sft",
       .options = {{"model_name_or_path", "nowhere/model"},
                   {"datasets", "[{first: 500, path: nowhere/rows}]"},
                   {"lora_r", "8 default"},
                   {"lora_alpha", "32 default"},
                   {"lora_dropout", "0.05 default"},
                   {"learning_rate", "0.0001 default"},
                   {"weight_decay", "0.1 default"},
                   {"adam_beta2", "0.95 default"},
                   {"per_device_train_batch_size", "1 default"},
                   {"gradient_accumulation_steps", "16 default"},
                   {"lr_scheduler_type", "cosine default"},
                   {"max_length", "2048"}},
       .findings = {"drops each row above max_length", "maps columns by their names", "ModelScope"},
       .unknown = 0});
}

TEST(OthersSwift, VariablesAndContinuation) {
  expect_run(
      script(
          "#!/bin/bash\nMODEL=nowhere/model   # the base\nLR=${LR_OF_NOBODY:-3e-5}\nswift sft --model \"$MODEL\" "
          "--tuner_type full --learning_rate ${LR} --dataset \"nowhere/rows\" --max_length 512\n"),
      {.method = "sft",
       .options = {{"model_name_or_path", "nowhere/model"},
                   {"learning_rate", "3e-05"},
                   {"use_peft", "false"}},
       .unknown = 0});
}

TEST(OthersSwift, BlankBehindTheBackslash) {
  const OtherRun run =
      script("swift sft \\\n  --model nowhere/model \\\n  --dataset nowhere/rows \\ \n  --max_length 4096\n");
  expect_finding(run, "note run.sh:3 \\: a blank behind the backslash: bash ends the command here");
  EXPECT_EQ(option_of(run, "max_length"), "absent");
}

TEST(OthersSwift, WhatOnlyAShellKnows) {
  expect_run(
      script("swift sft --model $1 --dataset $(ls data) --max_length 512 --num_train_epochs $EPOCHS\n"),
      {.method = "sft",
       .options = {{"model_name_or_path", "absent"}, {"num_train_epochs", "absent"}},
       .findings = {"model: $1 is known only to the shell", "dataset: $(ls data) is known only to the shell",
                    "num_train_epochs: the script does not set $EPOCHS"},
       .unknown = 3});
}

TEST(OthersSwift, Dpo) {
  expect_run(
      script(
          "swift rlhf --rlhf_type dpo --model nowhere/model --dataset nowhere/pairs --max_length 1024 --lora_rank 16"
          " --split_dataset_ratio 0.01 --eval_steps 50\n"),
      {.method = "dpo",
       .options =
           {{"beta", "0.1 default"}, {"lora_r", "16"}, {"test_split_size", "0.01"}, {"eval_steps", "50"}},
       .unknown = 0});
}

TEST(OthersSwift, GrpoNamesItsRewards) {
  expect_run(
      script(
          "swift rlhf --rlhf_type grpo --per_device_train_batch_size 4 --model nowhere/model --dataset nowhere/prompts --reward_funcs accuracy format "
          "--num_generations 4 --use_vllm true\n"),
      {.method = "grpo",
       .options = {{"beta", "0.04 default"},
                   {"num_generations", "4"},
                   {"max_completion_length", "512 default"}},
       .findings = {"the rewards are ms-swift's"},
       .unknown = 1,
       .refused = 0});
}

TEST(OthersSwift, GrpoDrawsAsItsVersionDoes) {
  const std::string run = "swift rlhf --rlhf_type grpo --model nowhere/model --dataset nowhere/prompts ";
  const OtherRun today = script(run + "--top_k -1 --num_generations 4\n");
  EXPECT_EQ(option_of(today, "top_k"), "0");
  EXPECT_EQ(option_of(today, "top_p"), "1 default");
  EXPECT_EQ(option_of(today, "loss_type"), "grpo default");
  EXPECT_EQ(option_of(today, "gradient_accumulation_steps"), "1 default");
  expect_finding(today, "4.6 draws from all tokens");
  const OtherRun third = script(run + "--train_type lora --loss_type bnpo --top_p 0.95\n");
  EXPECT_EQ(option_of(third, "top_k"), "50 default");
  EXPECT_EQ(option_of(third, "top_p"), "0.95");
  EXPECT_EQ(option_of(third, "loss_type"), "bnpo");
  expect_finding(script(run + "--advantage_estimator rloo\n"), "rloo: other advantages than GRPO's");
}

TEST(OthersSwift, RedirectionsAreNoWords) {
  for (const char* end : {" > log.txt 2>&1 &", " 2>&1 | tee log", " &>> log", " > >(tee log) 2>/dev/null",
                          " < none", " >log;"}) {
    const OtherRun run = script(
        "nohup swift sft --model nowhere/model --dataset nowhere/rows --max_length 64 --num_train_epochs 2" +
        std::string(end) + "\n");
    EXPECT_EQ(option_of(run, "num_train_epochs"), "2") << end;
    EXPECT_EQ(run.unknown.size() + run.refused.size(), 0U) << end << findings_of(run);
  }
  expect_finding(script("swift sft --model <your model> --dataset nowhere/rows --max_length 64 2>&1\n"),
                 "<your model> is a place to fill in");
}

TEST(OthersSwift, WhichTurnsAreTrained) {
  const std::string run = "swift sft --model nowhere/model --dataset nowhere/rows --max_length 64 ";
  EXPECT_EQ(script(run + "--loss_scale default+ignore_empty_think\n").refused.size(), 0U);
  expect_finding(script(run + "--loss_scale last_round\n"), "only the last answer of a conversation");
  EXPECT_EQ(option_of(script(run + "--loss_scale all\n"), "assistant_only_loss"), "false");
  expect_finding(script(run + "--loss_scale default+react\n"), "refused run.sh:1 loss_scale: react weights");
  EXPECT_EQ(option_of(script(run + "--truncation_strategy left\n"), "truncation_mode"), "keep_end");
}

TEST(OthersSwift, ArgsJsonWithEveryDefault) {
  expect_run(
      other_run(
          "{\"tuner_type\": \"lora\", \"model\": \"nowhere/model\", \"dataset\": [\"nowhere/rows\"], \"adapters\": [],"
          "\"max_length\": 64, \"adalora_init_r\": 12, \"eval_delay\": 0, \"full_determinism\": false,"
          "\"log_level\": \"passive\", \"train_sampling_strategy\": \"random\", \"vllm_data_parallel_size\": 1}",
          "args.json"),
      {.method = "sft",
       .options = {{"adapter_name_or_path", "absent"}, {"lora_r", "8 default"}},
       .unknown = 0});
}

TEST(OthersSwift, ArgsJsonAndOldNames) {
  expect_run(
      other_run(
          "{\n\t\"sft_type\": \"lora\",\n\t\"model_id_or_path\": \"nowhere/Qwen2-7B\",\n\t\"dataset\": [\"nowhere/rows\"],\n"
          "\t\"batch_size\": 4,\n\t\"max_length\": 1024,\n\t\"eval_steps\": 50\n}\n",
          "args.json"),
      {.method = "sft",
       .options = {{"model_name_or_path", "nowhere/Qwen2-7B"},
                   {"per_device_train_batch_size", "4"},
                   {"gradient_accumulation_steps", "4 default"},
                   {"num_train_epochs", "1 default"},
                   {"warmup_steps", "0.05 default"},
                   {"lora_target_modules", "[q_proj, k_proj, v_proj] default"},
                   {"dataset_name", "nowhere/rows"}},
       .findings = {"note args.json:2 sft_type: a name of ms-swift 2",
                    "note args.json:7 eval_steps: evaluation is asked for"},
       .unknown = 0});
}

// What read as another run before: a float for a whole number, the other end of a row, columns by ms-swift's names.
TEST(OthersSwift, ValuesThatTrainAnotherRun) {
  const auto sft = [](const std::string& more) {
    return other_run("swift sft --model nowhere/model --dataset nowhere/rows --max_length 64 " + more + "\n",
                     "run.sh");
  };
  EXPECT_EQ(option_of(sft("--lora_alpha 32.0"), "lora_alpha"), "32");
  EXPECT_EQ(option_of(sft("--truncation_strategy truncation_left"), "truncation_mode"), "keep_end");
  EXPECT_EQ(option_of(sft("--loss_scale all"), "completion_only_loss"), "false");
  const OtherRun columns = sft(R"(--columns '{"text":"query","label":"response"}')");
  EXPECT_EQ(option_of(columns, "dataset_columns"), "{text: prompt, label: completion}");
  EXPECT_EQ(option_of(columns, "make_conversation"), "true");
  EXPECT_EQ(
      option_of(sft("--split_dataset_ratio 0.1 --save_strategy epoch --eval_steps 50"), "eval_strategy"),
      "epoch");
  EXPECT_EQ(sft("--split_dataset_ratio 0.1 --eval_strategy no").find("test_split_size"), nullptr);
  EXPECT_EQ(sft("--target_modules q_proj,v_proj").refused.size(), 1U);
  EXPECT_EQ(option_of(other_run("swift rlhf --rlhf_type grpo --model m --dataset d --max_new_tokens 2048\n",
                                "run.sh"),
                      "max_completion_length"),
            "2048");
}

TEST(OthersSwift, RefusedAndUnknownNames) {
  expect_run(
      script(
          "swift sft --model nowhere/model --dataset nowhere/rows --max_length 64 --loss_scale react --lora_rnk 4"
          " --tuner_type vera\nswift rlhf --rlhf_type gkd --model m --dataset d --max_length 9 --lora_rnk 4\n"),
      {.method = "sft",
       .findings = {"the script starts 2 runs", "hone has no gkd",
                    "lora_rnk: no name of ms-swift's that hone knows."},
       .unknown = 1,
       .refused = 1});
}

TEST(OthersSwift, DynamicSampleIsHonesFilterOfGroups) {
  const std::string words =
      "swift rlhf --rlhf_type grpo --model nowhere/model --dataset nowhere/prompts --dynamic_sample true";
  const OtherRun run = other_run(words + " --max_resample_times 5\n", "run.sh");
  EXPECT_EQ(option_of(run, "filter_groups"), "true");
  EXPECT_EQ(option_of(run, "max_num_gen_batches"), "6");
  EXPECT_EQ(option_of(other_run(words + "\n", "run.sh"), "max_num_gen_batches"), "4");
}

TEST(OthersSwift, NamesOfVersion2) {
  const std::string run =
      "swift sft --model_id_or_path nowhere/model --dataset nowhere/rows --sft_type lora ";
  const OtherRun known = script(
      run +
      "--model_type llama3-8b --bnb_4bit_comp_dtype bf16 --lora_modules_to_save lm_head "
      "--init_lora_weights gaussian --neftune_alpha 5 --lora_bias_trainable none --test_oom_error true\n");
  EXPECT_TRUE(known.unknown.empty());
  EXPECT_TRUE(known.refused.empty());
  EXPECT_EQ(option_of(known, "lora_modules_to_save"), "[lm_head]");
  EXPECT_EQ(option_of(known, "init_lora_weights"), "gaussian");
  EXPECT_EQ(option_of(known, "neftune_noise_alpha"), "5");
  expect_finding(script(run + "--additional_trainable_parameters lm_head\n"), "trained by name");
  expect_finding(script(run + "--lora_bias_trainable all\n"), "biases are trained beside the LoRA");
  expect_finding(script(run + "--lora_modules_to_save EMBEDDING\n"), "version 2 looks for these modules");
}

// Of the table of the linears that version 2 adapts.
TEST(OthersSwift, TargetsOfVersion2AreOfTheFamily) {
  const auto targets = [](const std::string& type) {
    return option_of(
        script("swift sft --model_id_or_path nowhere/model --sft_type lora --dataset nowhere/rows "
               "--model_type " +
               type + "\n"),
        "lora_target_modules");
  };
  EXPECT_EQ(targets("qwen2-7b-instruct"), "[q_proj, k_proj, v_proj] default");
  EXPECT_EQ(targets("internlm2-7b-chat"), "[wqkv] default");
  EXPECT_EQ(targets("chatglm3-6b"), "[query_key_value] default");
  EXPECT_EQ(targets("qwen2-vl-7b-instruct"), "absent");
  EXPECT_EQ(targets("nobodys-7b"), "absent");
}

TEST(OthersSwift, NamesOfVersion3) {
  const std::string run = "swift rlhf --rlhf_type grpo --model nowhere/model --dataset nowhere/rows ";
  expect_finding(script(run + "--multi_turn_func check_math\n"), "the turns are a program of its own");
  const OtherRun old = script(run + "--train_type lora --tools_prompt react_en\n");
  EXPECT_EQ(option_of(old, "gradient_accumulation_steps"), "absent");
  expect_finding(old, "the default is 1 since 3.7.3");
  const OtherRun written = script(run + "--train_type lora --gradient_accumulation_steps 4\n");
  EXPECT_EQ(option_of(written, "gradient_accumulation_steps"), "4");
}

TEST(OthersSwift, ProcessesThatOnlyAShellKnowsAreTold) {
  const std::string run =
      "swift sft --model nowhere/model --dataset nowhere/rows --gradient_accumulation_steps 2\n";
  expect_finding(script("NPROC_PER_NODE=$GPUS " + run), "how many processes take a batch each is known only");
  expect_finding(script("GPUS=4\nNPROC_PER_NODE=$GPUS " + run), "4 processes take a batch each");
}

// The rule of its AutoPreprocessor, on a first row.
TEST(OthersSwift, ColumnsByTheirNames) {
  const std::string rows = testing::TempDir() + "swift_rows.jsonl";
  const auto with = [&](const std::string& row, const std::string& verb = "swift sft") {
    base::write_file_atomic(rows, row + "\n");
    return script(verb + " --model nowhere/model --max_length 64 --dataset '" + rows + "#5'\n");
  };
  const OtherRun question = with(R"({"Question": "a", "answer": "b", "id": 1})");
  EXPECT_EQ(option_of(question, "dataset_columns"), "{Question: prompt, answer: completion}");
  EXPECT_EQ(option_of(question, "make_conversation"), "true");
  const OtherRun turns = with(R"({"conversation": [{"from": "human", "value": "a"}], "system": "b"})");
  EXPECT_EQ(option_of(turns, "row_format"), "sharegpt");
  EXPECT_EQ(option_of(turns, "dataset_columns"), "{conversation: conversations}");
  EXPECT_EQ(option_of(turns, "assistant_only_loss"), "true");
  EXPECT_EQ(option_of(with(R"({"instruction": "a", "input": "", "output": "b"})"), "row_format"), "alpaca");
  EXPECT_EQ(option_of(with(R"({"content": "a"})", "swift pt"), "dataset_text_field"), "content");
  expect_finding(with(R"({"query": "a", "answer": "b", "solution": "c"})"),
                 "no single column of response, answer");
  const std::string pairs = "swift rlhf --rlhf_type dpo";
  EXPECT_EQ(option_of(with(R"({"query": "a", "response": "b", "rejected_response": "c"})", pairs),
                      "dataset_columns"),
            "{query: prompt, response: chosen, rejected_response: rejected}");
  expect_finding(with(R"({"messages": [], "rejected_response": "c"})", pairs), "hone dpo reads them apart");
  EXPECT_EQ(option_of(with(R"({"problem": "a", "solution": "b"})", "swift rlhf --rlhf_type grpo"),
                      "dataset_columns"),
            "{problem: prompt}");
  EXPECT_TRUE(with(R"({"prompt": [{"role": "user", "content": "a"}], "completion": []})").unknown.empty());
}

// Its loss_scale default trains the answers in history too.
TEST(OthersSwift, TurnsBeforeThePrompt) {
  const std::string rows = testing::TempDir() + "swift_turns.jsonl";
  const auto with = [&](const std::string& row, const std::string& verb = "swift sft") {
    base::write_file_atomic(rows, row + "\n");
    return script(verb + " --model nowhere/model --max_length 64 --dataset '" + rows + "#5'\n");
  };
  const std::string talk = R"({"system": "s", "query": "a", "response": "b", "history": [["c", "d"]]})";
  const OtherRun whole = with(talk);
  EXPECT_EQ(option_of(whole, "row_format"), "alpaca");
  EXPECT_EQ(option_of(whole, "dataset_columns"), "{query: instruction, response: output}");
  EXPECT_EQ(option_of(whole, "make_conversation"), "true");
  EXPECT_EQ(option_of(whole, "assistant_only_loss"), "true");
  EXPECT_EQ(option_of(whole, "completion_only_loss"), "false");
  EXPECT_TRUE(whole.unknown.empty());
  const OtherRun system = with(R"({"system_prompt": "s", "query": "a", "response": "b"})");
  EXPECT_EQ(option_of(system, "dataset_columns"),
            "{query: instruction, response: output, system_prompt: system}");
  EXPECT_EQ(option_of(system, "assistant_only_loss"), "absent");
  expect_finding(with(R"({"system": "s", "query": "a", "response": "b", "input": "c"})"),
                 "the column system is turns before the prompt");
  expect_finding(with(talk, "swift rlhf --rlhf_type kto"), "the column history is turns before the prompt");
}

}  // namespace others_swift_test
}  // namespace hone::config
