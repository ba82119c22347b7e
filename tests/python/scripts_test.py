#!/usr/bin/env python3
"""TRL's own scripts (trl/scripts/*.py), with hone.trl in the place of trl, and a small model and data; and the objects of PEFT, datasets and
transformers as arguments.

usage: tests/python/scripts_test.py [NAME...]     with the packages of third_party/parity-venv
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from checks import MARKED, PAIRS, PROMPTS, SOURCE, TEXTS, TINY, Skip, Tests, holds, same

PYTHON = SOURCE / "third_party/parity-venv/bin/python"
ROWS = {"sft": TEXTS, "dpo": PAIRS, "kto": MARKED, "reward": PAIRS, "grpo": PROMPTS, "rloo": PROMPTS}
MORE = {"grpo": ["--reward_funcs", "rewards.longest", "think_format_reward", "--num_generations", "2", "--max_completion_length", "4"],
        "rloo": ["--reward_funcs", "rewards.longest", "--num_generations", "2", "--max_completion_length", "4"]}
REWARDS = '''
def longest(completions, **kwargs):
    return [float(len(one if isinstance(one, str) else one[0]["content"])) for one in completions]
'''


OBJECTS = """
import sys
import torch
from datasets import Dataset, DatasetDict
from peft import LoraConfig
from transformers import AutoTokenizer, BitsAndBytesConfig, EarlyStoppingCallback, IntervalStrategy, TrainerCallback
from hone.trl import GRPOConfig, GRPOTrainer, Refused, SFTConfig, SFTTrainer

tiny, out = sys.argv[1:]
steps = []


class Counts(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        steps.append(state.global_step)


rows = DatasetDict(train=Dataset.from_list([{"text": f"one two three {n}"} for n in range(4)]), test=Dataset.from_list([{"text": "one two"}] * 2))
args = SFTConfig(out + "/sft", learning_rate=0.0, max_steps=20, per_device_train_batch_size=2, logging_steps=1, eval_strategy=IntervalStrategy.STEPS,
                 eval_steps=1, save_strategy="steps", save_steps=1, load_best_model_at_end=True, metric_for_best_model="eval_loss", threads=1,
                 skip_doctor=True, bf16=False, model_init_kwargs={"dtype": torch.float32})
config = LoraConfig(r=4, lora_alpha=12, target_modules=["q_proj"], lora_dropout=0.0, task_type="CAUSAL_LM")
trainer = SFTTrainer(model=tiny, args=args, train_dataset=rows["train"], eval_dataset=rows["test"], peft_config=config,
                     processing_class=AutoTokenizer.from_pretrained(tiny), callbacks=[Counts, EarlyStoppingCallback(2)])
trainer.train()
assert steps == [1, 2, 3], steps  # the loss does not fall: two evaluations later it ends
assert trainer.state.best_global_step == 1, trainer.state
try:
    SFTTrainer(model=torch.nn.Linear(2, 2), args=args)
except Refused as error:
    assert "a Linear in this process's memory" in str(error), error
else:
    raise AssertionError("a module is no name")


def scored(completion_ids, **kwargs):
    return torch.tensor([float(len(ids)) for ids in completion_ids])


grpo = GRPOConfig(out + "/grpo", max_steps=1, num_generations=2, per_device_train_batch_size=2, max_completion_length=4, threads=1, skip_doctor=True,
                  bf16=False, logging_steps=1)
prompts = Dataset.from_list([{"prompt": "count"}] * 2)
trainer = GRPOTrainer(tiny, scored, grpo, prompts, peft_config=LoraConfig(r=2, target_modules="all-linear"),
                      quantization_config=BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4"))
trainer.train()
assert trainer.state.log_history[0]["reward"] > 0, trainer.state.log_history
assert "load_in_4bit: true" in open(out + "/grpo/inputs/run.yaml").read()
"""


def test_objects(folder):
    """datasets, PEFT's LoraConfig, transformers' callbacks, tokenizers and BitsAndBytesConfig are taken as they are"""
    scripts()
    clean = os.environ | {"PYTHONPATH": str(SOURCE / "python"), "HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "cache")}
    ended = subprocess.run([str(PYTHON), "-c", OBJECTS, TINY, str(folder)], cwd=folder, env=clean, capture_output=True, text=True)
    same(ended.returncode, 0, ended.stderr[-3000:] + ended.stdout[-1000:])


def test_example(folder):
    """the example of docs/python.md runs, with a small model and two steps"""
    scripts()
    text = re.search(r"```python\n(.*?)```", (SOURCE / "docs/python.md").read_text(), re.DOTALL)[1]
    for old, new in (("HuggingFaceTB/SmolLM2-135M-Instruct", TINY), ("max_completion_length=128", "max_completion_length=8, threads=1, bf16=False"),
                     ("max_steps=200, per_device_train_batch_size=32", "max_steps=2, per_device_train_batch_size=8, skip_doctor=True")):
        same(text.count(old), 1, old)
        text = text.replace(old, new)
    rows = [{"prompt": [{"role": "user", "content": f"{n} + {n} ="}], "answer": str(2 * n)} for n in range(4)]
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    clean = os.environ | {"PYTHONPATH": str(SOURCE / "python"), "HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "cache")}
    ended = subprocess.run([str(PYTHON), "-c", text], cwd=folder, env=clean, capture_output=True, text=True)
    same(ended.returncode, 0, ended.stderr[-3000:] + ended.stdout[-1000:])
    holds((folder / "adapter/adapter_config.json").is_file() and "train_loss" in ended.stdout.splitlines()[-1], ended.stdout[-1000:])


def scripts():
    """{name: text} of TRL's scripts, their imports changed."""
    found = list((SOURCE / "third_party/parity-venv").glob("lib/python*/site-packages/trl/scripts"))
    if not found:
        raise Skip("tests/parity/setup has installed no trl")
    return {name: re.sub(r"\bfrom trl(\.rewards)? import", r"from hone.trl\1 import", (found[0] / f"{name}.py").read_text()) for name in ROWS}


def run_script(folder, text, words):
    (folder / "script.py").write_text(text)
    clean = os.environ | {"PYTHONPATH": str(SOURCE / "python"), "HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "cache")}
    ended = subprocess.run([str(PYTHON), "script.py", *words], cwd=folder, env=clean, capture_output=True, text=True)
    same(ended.returncode, 0, ended.stderr[-3000:] + ended.stdout[-1000:])
    holds("Training completed" in ended.stdout, ended.stdout[-1000:])


def test_losses(folder, name):
    """In float32, of all weights: no adapter's random numbers are in it."""
    text = scripts()[name]
    (folder / "data").mkdir()
    (folder / "data/train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS[name]))
    found = {}
    for whose, script in (("trl", text.replace("from hone.trl", "from trl")), ("hone", text)):
        out = folder / whose
        words = ["--model_name_or_path", TINY, "--dataset_name", str(folder / "data"), "--output_dir", str(out), "--max_steps", "4",
                 "--per_device_train_batch_size", "2", "--learning_rate", "1e-3", "--bf16", "false", "--logging_steps", "1", "--save_strategy",
                 "steps", "--save_steps", "4", "--report_to", "none", "--use_cpu", "true"]
        run_script(folder, script, words + (["--skip_doctor", "true"] if whose == "hone" else []))
        history = json.loads((out / "checkpoint-4/trainer_state.json").read_text())["log_history"]
        found[whose] = [(entry["loss"], entry["grad_norm"]) for entry in history if "loss" in entry]
    same(len(found["trl"]), 4, "steps")
    worst = max(abs(a - b) / abs(b) for ours, theirs in zip(found["hone"], found["trl"]) for a, b in zip(ours, theirs))
    holds(len(found["hone"]) == 4 and worst < 1e-4, f"relative difference {worst:.2g}: {found}")
    holds(found["trl"][0][0] != found["trl"][3][0], f"the weights move: {found}")


def test_script(folder, name):
    text = scripts()[name]
    holds("from hone.trl import" in text, "its import")
    (folder / "rewards.py").write_text(REWARDS)
    (folder / "data").mkdir()
    (folder / "data/train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS[name]))
    words = ["--model_name_or_path", TINY, "--dataset_name", str(folder / "data"), "--output_dir", str(folder / "out"), "--max_steps", "2",
             "--per_device_train_batch_size", "2", "--use_peft", "--lora_r", "2", "--no_bf16", "--logging_steps", "1", "--skip_doctor", "true",
             "--threads", "1", "--report_to", "none", *MORE.get(name, [])]
    run_script(folder, text, words)
    holds((folder / "out/adapter_model.safetensors").is_file(), "an adapter")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("only", nargs="*")
    given = parser.parse_args()
    tests = Tests()
    for one in (test_objects, test_example):
        if not given.only or one.__name__[5:] in given.only:
            with tempfile.TemporaryDirectory() as folder:
                tests.run([one], pathlib.Path(folder))
    for name in ROWS:
        if given.only and name not in given.only:
            continue

        def one(folder, name=name):
            test_script(folder, name)

        one.__doc__ = f"TRL's script {name}.py runs with its import changed"
        with tempfile.TemporaryDirectory() as folder:
            tests.run([one], pathlib.Path(folder))
    for name in ("sft", "dpo", "kto"):  # a reward model's head is random
        if given.only and "losses" not in given.only:
            continue

        def two(folder, name=name):
            test_losses(folder, name)

        two.__doc__ = f"TRL's script {name}.py gives TRL's losses and gradient norms in float32"
        with tempfile.TemporaryDirectory() as folder:
            tests.run([two], pathlib.Path(folder))
    return 1 if tests.failed else 0


sys.exit(main())
