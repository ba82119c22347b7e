// Scripts and a notebook of TRL, Unsloth and transformers, written after the field's habits: read, never run.
#include <filesystem>
#include <fstream>

#include "base/stopwatch.h"
#include "config/others_helpers.h"

namespace hone::config {
namespace others_script_test {

OtherRun script(const std::string& text, const std::string& path = "train.py") {
  return other_run(text, path);
}

TEST(OthersScript, SftWithLora) {
  expect_run(script(R"py(from datasets import load_dataset
from peft import LoraConfig
from trl import SFTConfig, SFTTrainer

LR = 2e-4
dataset = load_dataset("nowhere/rows", split="train")
config = SFTConfig(
    output_dir="out",
    learning_rate=LR,
    per_device_train_batch_size=2,
    lr_scheduler_type="cosine",
    warmup_ratio=0.1,
    max_length=512,
    packing=True,
)
trainer = SFTTrainer(
    "nowhere/model",
    args=config,
    train_dataset=dataset,
    peft_config=LoraConfig(r=32, lora_alpha=64, target_modules="all-linear", task_type="CAUSAL_LM"),
)
trainer.train()
)py"),
             {.method = "sft",
              .options = {{"model_name_or_path", "nowhere/model"},
                          {"dataset_name", "nowhere/rows"},
                          {"learning_rate", "0.0002"},
                          {"per_device_train_batch_size", "2"},
                          {"warmup_steps", "0.1"},
                          {"max_length", "512"},
                          {"packing", "true"},
                          {"use_peft", "true"},
                          {"lora_r", "32"},
                          {"lora_alpha", "64"},
                          {"lora_dropout", "0 default"},
                          {"lora_target_modules", "[all-linear]"},
                          {"num_train_epochs", "3.0 default"},
                          {"gradient_accumulation_steps", "1 default"},
                          {"weight_decay", "0.0 default"}},
              .findings = {"note train.py:16 SFTTrainer: of a row of text every token is trained"}});
}

TEST(OthersScript, DpoWithAReferenceOfTheSameModel) {
  expect_run(script(R"py(import torch
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import DPOConfig, DPOTrainer

def load(name):
    return AutoModelForCausalLM.from_pretrained(name, torch_dtype=torch.bfloat16, device_map="auto")

NAME = "nowhere" + "/model"
training_args = DPOConfig("out", beta=0.2, max_steps=100, loss_type="ipo")
training_args.learning_rate = 5e-7
trainer = DPOTrainer(
    model=load(NAME), ref_model=load(NAME), args=training_args,
    train_dataset=load_dataset("json", data_files="pairs.jsonl", split="train"),
    processing_class=AutoTokenizer.from_pretrained(NAME))
trainer.train()
)py"),
             {
                 .method = "dpo",
                 .options = {{"model_name_or_path", "nowhere/model"},
                             {"dtype", "bfloat16"},
                             {"beta", "0.2"},
                             {"max_steps", "100"},
                             {"loss_type", "ipo"},
                             {"learning_rate", "5e-07"},
                             {"output_dir", "out"},
                             {"use_peft", "false default"},
                             {"num_train_epochs", "absent"}},
             });
}

TEST(OthersScript, GrpoWithRewardFunctions) {
  expect_run(script(R"py(from datasets import load_dataset
from trl import GRPOConfig, GRPOTrainer
from trl.rewards import think_format_reward

def reward_len(completions, **kwargs):
    return [-abs(20 - len(c)) for c in completions]

trainer = GRPOTrainer(
    model="nowhere/model",
    reward_funcs=[think_format_reward, reward_len],
    args=GRPOConfig(output_dir="out", num_generations=4, max_completion_length=128, logging_steps=10),
    train_dataset=load_dataset("nowhere/prompts", "main")["train"],
)
trainer.train()
)py"),
             {.method = "grpo",
              .options = {{"num_generations", "4"},
                          {"max_completion_length", "128"},
                          {"datasets", "[{path: nowhere/prompts, name: main}]"},
                          {"reward_funcs", "absent"},
                          {"learning_rate", "1e-06 default"}},
              .findings = {"reward_funcs: they are programs, which reading does not run: reward_len"},
              .unknown = 1});
}

TEST(OthersScript, UnslothWithItsOwnDefaults) {
  expect_run(script(R"py(from unsloth import FastLanguageModel, is_bfloat16_supported
from trl import SFTTrainer, SFTConfig
from datasets import load_dataset
max_seq_length = 2048
model, tokenizer = FastLanguageModel.from_pretrained(
    model_name = "unsloth/tiny-bnb-4bit",
    max_seq_length = max_seq_length,
    dtype = None,
)
model = FastLanguageModel.get_peft_model(
    model, r = 16, target_modules = ["q_proj", "v_proj", "embed_tokens", "lm_head"], lora_alpha = 32,
    use_gradient_checkpointing = "unsloth", random_state = 3407)
EOS = tokenizer.eos_token
def formatting(examples):
    return {"text": [t + EOS for t in examples["instruction"]]}
dataset = load_dataset("nowhere/alpaca", split = "train").map(formatting, batched = True)
trainer = SFTTrainer(
    model = model,
    tokenizer = tokenizer,
    train_dataset = dataset,
    dataset_text_field = "text",
    args = SFTConfig(max_steps = 60, bf16 = is_bfloat16_supported(), fp16 = not is_bfloat16_supported(), output_dir = "out"),
)
trainer_stats = trainer.train()
)py"),
             {.method = "sft",
              .options = {{"model_name_or_path", "unsloth/tiny-bnb-4bit"},
                          {"load_in_4bit", "true default"},
                          {"lora_target_modules", "[q_proj, v_proj]"},
                          {"lora_modules_to_save", "[embed_tokens, lm_head]"},
                          {"lora_alpha", "32"},
                          {"max_length", "2048"},
                          {"bf16", "true"},
                          {"per_device_train_batch_size", "4 default"},
                          {"gradient_accumulation_steps", "2 default"},
                          {"weight_decay", "0.001 default"},
                          {"warmup_steps", "0.1 default"},
                          {"optim", "adamw_8bit default"},
                          {"seed", "3407 default"},
                          {"learning_rate", "5e-05 default"},
                          {"dataset_name", "nowhere/alpaca"}},
              .findings = {"its files are quantized already", "is_bfloat16_supported() asks the GPU",
                           "train_dataset: its rows are made by the script's code, .map() in line 16"},
              .unknown = 1});
}

TEST(OthersScript, ArgumentsOfTheCommandLine) {
  expect_run(
      script(R"py(import argparse
from trl import SFTConfig, SFTTrainer
from datasets import load_dataset

def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--learning-rate", type=float, default="3e-5")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--packing", action="store_true")
    return parser.parse_args()

def main():
    args = parse()
    trainer = SFTTrainer(
        model=args.model, train_dataset=load_dataset("nowhere/rows", split="train"),
        args=SFTConfig(output_dir="out", learning_rate=args.learning_rate, num_train_epochs=args.epochs, packing=args.packing))
    trainer.train()

if __name__ == "__main__":
    main()
)py"),
      {.method = "sft",
       .options = {{"model_name_or_path", "absent"},
                   {"learning_rate", "3e-05"},
                   {"num_train_epochs", "2"},
                   {"packing", "false"}},
       .findings = {"unknown train.py:16 model: the command line gives it: --model has no default (line 7)",
                    "the command line may set other values"},
       .unknown = 1});
}

TEST(OthersScript, HfArgumentParser) {
  expect_run(script(R"py(from dataclasses import dataclass, field
from typing import Optional
from transformers import HfArgumentParser
from trl import SFTConfig, SFTTrainer
from datasets import load_dataset

@dataclass
class ScriptArguments:
    model_name: Optional[str] = field(default="nowhere/model", metadata={"help": "the model"})
    dataset_name: str = field(default="nowhere/rows")
    lora: bool = False

parser = HfArgumentParser((ScriptArguments, SFTConfig))
script_args, training_args = parser.parse_args_into_dataclasses()
training_args.max_length = 256
trainer = SFTTrainer(model=script_args.model_name, args=training_args,
                     train_dataset=load_dataset(script_args.dataset_name, split="train"))
trainer.train()
)py"),
             {.method = "sft",
              .options = {{"model_name_or_path", "nowhere/model"},
                          {"dataset_name", "nowhere/rows"},
                          {"max_length", "256"},
                          {"learning_rate", "2e-05 default"}},
              .findings = {"its values come from the command line"}});
}

TEST(OthersScript, ADictionaryOfArguments) {
  expect_run(script(R"py(from transformers import TrainingArguments
from trl import SFTTrainer
from datasets import load_dataset
common = dict(output_dir="out", seed=7)
options = {**common, "learning_rate": 1e-4, "gradient_accumulation_steps": 16 // 4}
options.update(weight_decay=0.01)
for name in ("logging_steps", "save_steps"):
    options[name] = 50
trainer = SFTTrainer(model="nowhere/model", args=TrainingArguments(**options), max_seq_length=1024,
                     train_dataset=load_dataset("nowhere/rows", split="train[:10%]"))
trainer.train()
)py"),
             {.method = "sft",
              .options = {{"learning_rate", "0.0001"},
                          {"gradient_accumulation_steps", "4"},
                          {"weight_decay", "0.01"},
                          {"seed", "7"},
                          {"logging_steps", "50"},
                          {"save_steps", "50"},
                          {"max_length", "1024"},
                          {"bf16", "false default"},
                          {"per_device_train_batch_size", "8 default"},
                          {"datasets", "[{path: nowhere/rows, split: \"train[:10%]\"}]"}},
              .findings = {"today's is max_length of the config"}});
}

TEST(OthersScript, ANotebook) {
  const std::string book = R"py({"cells": [
 {"cell_type": "markdown", "source": ["# title"]},
 {"cell_type": "code", "source": ["%%capture\n", "!pip install unsloth\n", "import os\n", "if True:\n", "    !ls\n"]},
 {"cell_type": "code", "source": "%%bash\nrm -rf nothing"},
 {"cell_type": "code", "source": ["from unsloth import FastLanguageModel\n", "gpus = !nvidia-smi\n",
   "model, tokenizer = FastLanguageModel.from_pretrained('nowhere/model', load_in_4bit=False)\n"]},
 {"cell_type": "code", "source": ["from trl import SFTTrainer, SFTConfig\n", "from datasets import load_dataset\n",
   "trainer = SFTTrainer(model=model, args=SFTConfig(learning_rate=1e-4,\n", "   num_train_epochs=1),\n",
   "   train_dataset=load_dataset('nowhere/rows', split='train'))\n", "trainer.train()"]}
], "metadata": {}, "nbformat": 4})py";
  const OtherRun run = script(book, "run.ipynb");
  expect_run(run, {.method = "sft",
                   .options = {{"model_name_or_path", "nowhere/model"},
                               {"load_in_4bit", "false"},
                               {"max_length", "2048 default"},
                               {"num_train_epochs", "1"}},
                   .findings = {"6 shell and magic lines of the notebook are left out"}});
  EXPECT_EQ(run.find("learning_rate")->where, "run.ipynb:cell 4 line 3");
}

TEST(OthersScript, TransformersTrainer) {
  expect_run(
      script(
          R"py(from transformers import (AutoModelForCausalLM, AutoTokenizer, DataCollatorForLanguageModeling,
                          Trainer, TrainingArguments)
from datasets import load_dataset
from peft import LoraConfig, get_peft_model
tokenizer = AutoTokenizer.from_pretrained("nowhere/model")
if tokenizer.pad_token is None:
    tokenizer.pad_token = tokenizer.eos_token
model = AutoModelForCausalLM.from_pretrained("nowhere/model")
model.config.use_cache = False
model = get_peft_model(model, LoraConfig(r=4))
def tokenize(row):
    return tokenizer(row["text"], truncation=True, max_length=256)
data = load_dataset("nowhere/rows")
tokenized = data.map(tokenize, batched=True, remove_columns=["text"])
trainer = Trainer(model=model, args=TrainingArguments(output_dir="out", evaluation_strategy="no", fp16=True, optim="adamw_hf"),
                  train_dataset=tokenized["train"], data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False))
trainer.train()
)py"),
      {.method = "sft",
       .options = {{"lora_r", "4"},
                   {"lora_alpha", "8 default"},
                   {"learning_rate", "5e-05 default"},
                   {"logging_steps", "500 default"},
                   {"optim", "adamw_torch"},
                   {"max_length", "absent"}},
       .findings = {"refused train.py:15 fp16: NUM-03", "transformers has no adamw_hf any more",
                    "rows are cut where the script makes tokens", ".map() in line 14",
                    "it trains on the labels of the rows"},
       .unknown = 2,
       .refused = 1});
}

TEST(OthersScript, QuantizedByBitsAndBytesConfig) {
  expect_run(script(R"py(import torch
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
from peft import LoraConfig, prepare_model_for_kbit_training
from trl import SFTTrainer, SFTConfig
from datasets import load_dataset
major, _ = torch.cuda.get_device_capability()
bnb = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.bfloat16 if major >= 8 else torch.float16)
model = AutoModelForCausalLM.from_pretrained("nowhere/model", quantization_config=bnb, device_map={"": 0})
model = prepare_model_for_kbit_training(model)
SFTTrainer(model=model, args=SFTConfig(output_dir="out"), peft_config=LoraConfig(r=8, lora_alpha=16),
           train_dataset=load_dataset("nowhere/rows", split="train")).train()
)py"),
             {.method = "sft",
              .options = {{"load_in_4bit", "true"},
                          {"bnb_4bit_quant_type", "fp4 default"},
                          {"use_bnb_nested_quant", "false default"},
                          {"dtype", "auto default"},
                          {"lora_r", "8"}},
              .findings = {"get_device_capability() asks the GPU"}});
}

TEST(OthersScript, BothArmsOfACondition) {
  const OtherRun run = script(R"py(import sys
from trl import SFTTrainer, SFTConfig
from datasets import load_dataset
options = {"learning_rate": 1e-4}
if len(sys.argv) > 1:
    options["max_steps"] = 10
    options["seed"] = 3
else:
    options["num_train_epochs"] = 2
    options["seed"] = 3
model = "nowhere/a" if sys.argv[1] == "a" else "nowhere/b"
trainer = SFTTrainer(model=model, args=SFTConfig("out", **options),
                     train_dataset=load_dataset("nowhere/rows", split="train"))
trainer.train()
)py");
  expect_run(
      run,
      {.method = "sft",
       .options = {{"seed", "3"},
                   {"max_steps", "absent"},
                   {"model_name_or_path", "absent"},
                   {"num_train_epochs", "absent"}},
       .findings = {"max_steps: the arms of the condition in line 5 differ: 10, or not set",
                    "num_train_epochs: the arms of the condition in line 5 differ: not set, or 2",
                    "model: the arms of the condition in line 11 differ: \"nowhere/a\", or \"nowhere/b\""},
       .unknown = 3});
}

TEST(OthersScript, TwoMethodsOfOneScriptAreNotGuessed) {
  const OtherRun run = script(R"py(import os
from trl import SFTTrainer, DPOTrainer
if os.environ["METHOD"] == "dpo":
    trainer = DPOTrainer("nowhere/model")
else:
    trainer = SFTTrainer("nowhere/model")
trainer.train()
)py");
  expect_finding(
      run,
      "refused train.py:3 trainer: the arms of the condition in line 3 differ: trl.DPOTrainer(), or "
      "trl.SFTTrainer()");
  EXPECT_TRUE(run.options.empty());
}

TEST(OthersScript, ALoopForEver) {
  const auto begin = base::Clock::now();
  const OtherRun run =
      script("from trl import SFTTrainer\nn = 0\nwhile True:\n    n += 1\ntrainer = SFTTrainer('m')\n");
  expect_finding(run, "refused train.py trainer: it runs for ever, or for too long to be read");
  EXPECT_LT(base::seconds_since(begin), 15);
}

TEST(OthersScript, WhatWouldBeLargeOrHarmful) {
  const std::string mark = (std::filesystem::temp_directory_path() / "hone_script_was_run").string();
  const OtherRun run = script("import os\nfrom trl import SFTTrainer, SFTConfig\nMARK = '" + mark + R"py('
os.system('touch ' + MARK)
open(MARK, 'w').write('x')
big = 'x' * 10**12
power = 9 ** 9 ** 9
wide = f"{1:999999999}"
grown = "ab".replace("", "c" * 900000) * 500
many = list(range(10**12))
nest = [1]
for i in range(12):
    nest = [nest] * 100
def again(n):
    return again(n + 1)
deep = again(0)
trainer = SFTTrainer("nowhere/model", args=SFTConfig(run_name=big, max_steps=power, output_dir=wide, logging_steps=deep, hub_model_id=f"{nest}"))
trainer.train()
)py");
  EXPECT_FALSE(std::filesystem::exists(mark));
  for (const char* name : {"run_name", "max_steps", "output_dir", "logging_steps", "hub_model_id"}) {
    EXPECT_EQ(option_of(run, name), "absent") << name;
    expect_finding(run, std::string(name) + ": ");
  }
}

TEST(OthersScript, CodeThatIsNotReadMayChangeAConfig) {
  const OtherRun run = script(R"py(from trl import SFTTrainer, SFTConfig
from my_library import patch, rows
options = {"learning_rate": 1e-4}
patch(options)
config = SFTConfig("out", max_steps=10)
patch(config)
SFTTrainer("nowhere/model", args=config, train_dataset=rows()).train()
)py");
  expect_finding(run, "SFTConfig: my_library.patch of a file that is not read has it in line 6");
  expect_finding(run, "train_dataset: its rows come from my_library.rows() in line 7");
}

TEST(OthersScript, ATrainerOfItsOwn) {
  const OtherRun run = script(R"py(from trl import SFTTrainer
class Weighted(SFTTrainer):
    def compute_loss(self, model, inputs, return_outputs=False):
        return 0
Weighted("nowhere/model").train()
)py");
  expect_finding(run,
                 "refused train.py:5 Weighted: a trainer of the script's own, with its own compute_loss");
}

TEST(OthersScript, AFileOfTheScript) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "hone_script_with_file";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.yaml")
      << "model: nowhere/model\ntraining:\n  learning_rate: 0.003\n  max_steps: 5\n";
  const std::string text = R"py(import yaml
from trl import SFTTrainer, SFTConfig
with open("config.yaml") as f:
    config = yaml.safe_load(f)
with open("missing.yaml") as f:
    more = yaml.safe_load(f)
trainer = SFTTrainer(config["model"], args=SFTConfig(seed=more["seed"], output_dir="out", **config["training"]))
trainer.train()
)py";
  const OtherRun run = other_run(text, (folder / "train.py").string());
  EXPECT_EQ(option_of(run, "model_name_or_path"), "nowhere/model");
  EXPECT_EQ(option_of(run, "learning_rate"), "0.003");
  EXPECT_EQ(option_of(run, "max_steps"), "5");
  expect_finding(run, "seed: it comes from missing.yaml, which is not here");
  std::filesystem::remove_all(folder);
}

TEST(OthersScript, NoPython) {
  EXPECT_THROW(script("from trl import SFTTrainer\ntrainer = SFTTrainer(\n"), base::UserError);
  EXPECT_THROW(script("from trl import SFTTrainer", "run.ipynb"), base::UserError);
  EXPECT_THROW(script("from trl import SFTTrainer\nx = " + std::string(100000, '(') + "\n"), base::UserError);
}

TEST(OthersScript, WordsThatTheScriptGivesToItsParserOfClasses) {
  const std::string text = R"py(from transformers import HfArgumentParser
from trl import SFTConfig, SFTTrainer

(config,) = HfArgumentParser(SFTConfig).parse_args_into_dataclasses(args=[WORDS])
trainer = SFTTrainer("nowhere/model", args=config)
trainer.train()
)py";
  const auto with = [&](const std::string& words) {
    std::string out = text;
    return script(out.replace(out.find("WORDS"), 5, words));
  };
  const OtherRun run =
      with(R"("--learning_rate", "3e-5", "--packing", "--output_dir=out", "--max_length", "256")");
  EXPECT_EQ(option_of(run, "learning_rate"), "3e-05");
  EXPECT_EQ(option_of(run, "packing"), "true");
  EXPECT_EQ(option_of(run, "max_length"), "256");
  EXPECT_EQ(option_of(run, "output_dir"), "out");
  const OtherRun other = with(R"("--learning_rate", "3e-5", "1e-5")");
  EXPECT_NE(option_of(other, "learning_rate"), "3e-05") << "two words behind one name";
  expect_finding(other, "are not read");
}

TEST(OthersScript, IsUnslothsByItsImportsAndNotByItsWords) {
  const std::string rest =
      "from trl import SFTConfig, SFTTrainer\nSFTTrainer('nowhere/model', args=SFTConfig(output_dir='out')).train()\n";
  const OtherRun second = script("import torch, unsloth\n" + rest);
  EXPECT_EQ(second.trainer, Trainer::kUnsloth);
  EXPECT_EQ(second.recognized, "an import of unsloth");
  const OtherRun words = script("\"\"\"\nfrom unsloth came the idea\n\"\"\"\n" + rest);
  EXPECT_EQ(words.trainer, Trainer::kTrl);
  EXPECT_EQ(words.recognized, "no import of unsloth in its code");
}

}  // namespace others_script_test
}  // namespace hone::config
