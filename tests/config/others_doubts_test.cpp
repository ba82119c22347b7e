// Hone check must not say that it knows these of a script: values that code which is not read may change, arms that differ,
// rows and models that are changed on the way.
#include "config/others_helpers.h"

namespace hone::config {
namespace others_doubts_test {

constexpr const char* kHead = R"py(import json, sys
from dataclasses import dataclass
from datasets import load_dataset
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer, HfArgumentParser
from trl import SFTTrainer, SFTConfig, DPOTrainer, DPOConfig
)py";

OtherRun script(const std::string& text) {
  return other_run(kHead + text, "train.py");
}

// The options that the script may not give, in one run: each has a value before, and then code that is not read.
TEST(OthersDoubts, ValuesThatCodeMayChange) {
  const OtherRun run = script(R"py(import argparse
given = json.load(open(sys.argv[1]))
updated = {"v": 1}
updated.update(given)
removed = [1, 2]
removed.pop(int(sys.argv[1]))
targets = ["a"]
targets.extend(sys.argv[1:])
class Box:
    def __init__(self, **kw):
        self.v = 1
        for k, v in kw.items():
            setattr(self, k, v)
boxed = Box(**given)
@dataclass
class Options:
    v: int = 1
options = Options(**given)
changed = Options()
vars(changed).update(given)
def low(o): o.v = 2
def high(o): o.v = 3
chosen = Options()
(low if sys.argv[1] == "x" else high)(chosen)
mapped = Options()
list(map(low, [mapped]))
def steps(o):
    o.v = 2
    yield o
yielded = Options()
list(steps(yielded))
if sys.argv[1] == "x":
    rate = lambda: 1
else:
    rate = lambda: 2
def twice(f):
    return lambda: 2 * f()
@twice
def decorated(): return 1
matched = 1
match sys.argv[1]:
    case "x":
        matched = 2
try:
    import fast
    tried = 1
except ImportError:
    tried = 2
parser = argparse.ArgumentParser()
parser.add_argument("--v", type=int, default=1)
parsed = parser.parse_args(json.load(open(sys.argv[1])))
config = SFTConfig("out", seed=updated["v"], max_steps=removed[0], run_name=targets, logging_steps=boxed.v, save_steps=options.v,
                   eval_steps=changed.v, save_total_limit=chosen.v, data_seed=mapped.v, max_length=yielded.v, warmup_steps=rate(),
                   gradient_accumulation_steps=decorated(), num_train_epochs=matched, weight_decay=tried,
                   per_device_train_batch_size=parsed.v)
SFTTrainer("nowhere/model", args=config, train_dataset=load_dataset("nowhere/rows", split="train")).train()
)py");
  for (const char* name :
       {"seed", "max_steps", "run_name", "logging_steps", "save_steps", "eval_steps", "save_total_limit",
        "data_seed", "max_length", "warmup_steps", "gradient_accumulation_steps", "num_train_epochs",
        "weight_decay", "per_device_train_batch_size"}) {
    EXPECT_EQ(option_of(run, name), "absent") << name;
    EXPECT_TRUE(std::any_of(run.unknown.begin(), run.unknown.end(),
                            [&](const OtherUnknown& one) { return one.name == name; }))
        << name << "\n"
        << findings_of(run);
  }
}

// Reading follows these instead of giving them up.
TEST(OthersDoubts, ValuesThatAreFollowed) {
  const OtherRun run = script(R"py(import argparse
class Made:
    def __init__(self, v=1): self.v = v
    @classmethod
    def of(cls, v=2): return cls(v)
def outer():
    n = 1
    def inner():
        nonlocal n
        n = 7
    inner()
    return n
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=1e-4)
parsed = parser.parse_args(["--lr", "5e-6"])
config, = HfArgumentParser(SFTConfig).parse_dict({"max_steps": 9})
config.learning_rate = parsed.lr
config.seed = Made.of(5).v
config.data_seed = outer()
names = {"q_proj"}
names.add("v_proj")
numbers = [30, 20]
numbers.sort()
config.logging_steps = numbers[0]
late = 3
def early(n=late): return n
late = 4
config.save_steps = early()
from typing import NamedTuple
class Pair(NamedTuple):
    v: int = 1
config.eval_steps = Pair(v=6).v
class Opened:
    def __enter__(self):
        config.warmup_steps = 8
with Opened():
    pass
more = names
more |= {"k_proj"}
config.model_init_kwargs = {"dtype": "bfloat16"}
trainer = SFTTrainer("nowhere/model", args=config, peft_config=LoraConfig(target_modules=names))
trainer.train(resume_from_checkpoint="out/checkpoint-5")
config.learning_rate = 1
)py");
  const std::pair<const char*, const char*> expected[] = {{"learning_rate", "5e-06"},
                                                          {"max_steps", "9"},
                                                          {"seed", "5"},
                                                          {"data_seed", "7"},
                                                          {"logging_steps", "20"},
                                                          {"lora_target_modules", "[k_proj, q_proj, v_proj]"},
                                                          {"save_steps", "3"},
                                                          {"eval_steps", "6"},
                                                          {"warmup_steps", "8"},
                                                          {"dtype", "absent"},
                                                          {"resume_from_checkpoint", "out/checkpoint-5"}};
  for (const auto& [name, value] : expected) EXPECT_EQ(option_of(run, name), value) << name;
  EXPECT_TRUE(run.refused.empty()) << findings_of(run);
}

struct Doubt {
  const char* text;
  const char* finding;
};

constexpr Doubt kDoubts[] = {
    // trainers of several arms
    {"if sys.argv[1] == 's':\n    SFTTrainer('m').train()\nelse:\n    DPOTrainer('m').train()\n",
     "differ: trl.SFTTrainer(), or trl.DPOTrainer()"},
    {"if sys.argv[1] == 's':\n    SFTTrainer('m').train()\nif sys.argv[1] == 'd':\n    DPOTrainer('m').train()\n",
     "differ: trl.SFTTrainer(), or trl.DPOTrainer()"},
    // configs
    {"a = SFTConfig(learning_rate=1e-4)\nfor k, v in json.load(open(sys.argv[1])).items():\n    setattr(a, k, v)\n"
     "SFTTrainer('m', args=a).train()\n",
     "unknown train.py:7 SFTConfig: setattr() in line 9 may change it"},
    {"class Mine(SFTConfig):\n    def __init__(self, *a):\n        super().__init__(*a, learning_rate=1)\n"
     "SFTTrainer('m', args=Mine('o')).train()\n",
     "its class Mine has its own __init__, which is not read"},
    {"LR = 1\nexec(open('x').read())\nSFTTrainer('m', args=SFTConfig(learning_rate=LR)).train()\n",
     "learning_rate: exec() in line 8 may set it"},
    {"lr = 1\nfrom mine import *\nSFTTrainer('m', args=SFTConfig(learning_rate=lr)).train()\n",
     "learning_rate: import * in line 8 may set it"},
    {"class A:\n    def __init__(self): self.v = 1\nclass B(A):\n    def __init__(self): super().__init__()\n"
     "SFTTrainer('m', args=SFTConfig(learning_rate=B().v)).train()\n",
     "learning_rate: super() in line 10 is not read"},
    // models and tokenizers
    {"model = AutoModelForCausalLM.from_pretrained('m')\nmodel.add_adapter(LoraConfig(r=64))\nmodel.config.rope_scaling = 1\n"
     "tok = AutoTokenizer.from_pretrained('m')\ntok.add_special_tokens({'a': 'b'})\n"
     "SFTTrainer(model=model, processing_class=tok).train()\n",
     "processing_class: transformers.AutoTokenizer.from_pretrained.add_special_tokens() in line 11 changes it\n"
     "unknown train.py:7 model: transformers.AutoModelForCausalLM.from_pretrained.add_adapter() in line 8 changes it"},
    {"model = AutoModelForCausalLM.from_pretrained('m')\nfor n, p in model.named_parameters():\n    p.requires_grad = False\n"
     "SFTTrainer(model=get_peft_model(model, LoraConfig(r=4))).train()\n",
     "its requires_grad is set in line 9"},
    // rows
    {"d = load_dataset('x')\nd['train'] = d['train'].map(print)\nSFTTrainer('m', train_dataset=d['train']).train()\n",
     "its rows are made by the script's code, .map() in line 8"},
    {"d = load_dataset('x')\nfor s in d:\n    d[s] = d[s].map(print)\nSFTTrainer('m', train_dataset=d['train']).train()\n",
     "an entry of it is set in line 9 whose name is not known"},
    {"d = load_dataset('x', split='train').shuffle(seed=1).select(range(10))\nSFTTrainer('m', train_dataset=d).train()\n",
     "its rows are made by the script's code, .shuffle()"},
    {"d = load_dataset('x', split='train').train_test_split(0.1)\nSFTTrainer('m', train_dataset=d['test']).train()\n",
     "its rows are made by the script's code, .train_test_split()"},
    {"d = load_dataset('json', data_files='a.json', field='data', split='train')\nd.set_transform(print)\n"
     "SFTTrainer('m', train_dataset=d).train()\n",
     "hone reads no field of load_dataset"},
};

TEST(OthersDoubts, AreTold) {
  for (const Doubt& one : kDoubts) {
    SCOPED_TRACE(one.text);
    expect_finding(script(one.text), one.finding);
  }
}

TEST(OthersDoubts, AllRowsOfALongSelect) {
  const OtherRun run = script(
      "d = load_dataset('x', split='train').select(range(50000))\nSFTTrainer('m', train_dataset=d).train()\n");
  EXPECT_EQ(option_of(run, "datasets"), "[{path: x, first: 50000}]") << findings_of(run);
}

TEST(OthersDoubts, UnslothIsWhatIsImported) {
  EXPECT_EQ(recognize("# FastLanguageModel, from unsloth, is not here\nfrom trl import SFTTrainer\n", "a.py")
                ->trainer,
            Trainer::kTrl);
  EXPECT_EQ(recognize("if True:\n    from unsloth import x\nfrom trl import y\n", "a.py")->trainer,
            Trainer::kUnsloth);
}

// Question marks of comments and texts ask for no help.
TEST(OthersDoubts, LinesOfANotebookThatArePython) {
  const OtherRun run = other_run(
      R"json({"cells": [{"cell_type": "code", "source": "from trl import SFTConfig, SFTTrainer\nLR = 1\nLR = 2  # why?"},
                    {"cell_type": "code", "source": "SFTTrainer('m', args=SFTConfig(learning_rate=LR)).train()"}]
})json",
      "train.ipynb");
  EXPECT_EQ(option_of(run, "learning_rate"), "2") << findings_of(run);
}

// A name of the file with a line end is no line of hone's own file.
TEST(OthersDoubts, ANameCannotAddALine) {
  const OtherRun run =
      other_run("base_model: m\nmicro_batch_size: 1\n\"x\\nlearning_rate: 7\\n\": 1\n", "a.yaml");
  EXPECT_EQ(hone_file(run).find("\nlearning_rate: 7"), std::string::npos) << hone_file(run);
}

TEST(OthersDoubts, ReferencesOfTorchtuneStaySmall) {
  std::string text =
      "model:\n  _component_: torchtune.models.x\nlong: " + std::string(900000, 'x') + "\nall:\n";
  for (int i = 0; i < 2000; ++i) text += "- ${long}\n";
  expect_finding(other_run(text), "its references repeat each other to more than 4 MB");
}

TEST(OthersDoubts, ArgumentsWithoutNames) {
  const auto with = [](const std::string& config) {
    return script(
        "SFTTrainer('nowhere/model', SFTConfig('out'), train_dataset=load_dataset('nowhere/rows'), peft_config=" +
        config + ").train()\n");
  };
  expect_finding(with("LoraConfig(16)"), "refused train.py:7 LoraConfig: its first argument is task_type");
  EXPECT_EQ(option_of(with("LoraConfig(16)"), "lora_r"), "8 default");
  EXPECT_TRUE(with("LoraConfig('CAUSAL_LM', r=4)").refused.empty());
  expect_finding(with("LoraConfig('CAUSAL_LM', 'LORA', r=4)"),
                 "LoraConfig: several arguments are given without");
}

}  // namespace others_doubts_test
}  // namespace hone::config
