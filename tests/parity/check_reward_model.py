"""A reward model that hone trained, read by its other users: transformers and PEFT give the evaluation that hone logged.

usage: check_reward_model.py [build/hone]
Trains three steps on trl_reward/margin.jsonl (tiny_llama) and evaluates; then TRL's RewardTrainer evaluates the run's folder, opened by
PeftModel.from_pretrained and by AutoModelForSequenceClassification.from_pretrained, and what `hone merge` makes of it. Prints the largest difference; ends with 1 above 1e-5."""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import common
from common import FIXTURES

common.enter()

import torch
from datasets import Dataset
from peft import PeftModel
from transformers import AutoModelForSequenceClassification, AutoTokenizer
from trl import RewardConfig, RewardTrainer

MODEL, DATA = FIXTURES / "tiny_llama", FIXTURES / "trl_reward"
BOUND = 1e-5


KINDS = {"LoRA": {}, "DoRA, all-linear": {"use_dora": "true", "lora_target_modules": "all-linear"}, "rank-stabilized": {"use_rslora": "true", "lora_r": 3}}


def train(program, folder, options):
    words = options | {"model_name_or_path": MODEL, "dataset_name": DATA / "margin.jsonl", "eval_dataset": DATA / "eval.jsonl", "output_dir": folder,
             "bf16": "false", "max_steps": 3, "learning_rate": 1e-2, "eval_strategy": "steps", "eval_steps": 3, "save_strategy": "no"}
    subprocess.run([program, "reward", "--use_peft"] + [str(one) for key, value in words.items() for one in (f"--{key}", value)],
                   check=True, stdout=subprocess.DEVNULL)
    records = [json.loads(line) for line in (Path(folder) / "metrics.jsonl").read_text().splitlines()]
    return next(one for one in records if "eval_loss" in one)


def evaluate(model, folder):
    rows = [json.loads(line) for line in (DATA / "eval.jsonl").read_text().splitlines()]
    args = RewardConfig(output_dir=folder, use_cpu=True, bf16=False, report_to="none", disable_tqdm=True)
    trainer = RewardTrainer(model, args=args, train_dataset=Dataset.from_list(rows), eval_dataset=Dataset.from_list(rows),
                            processing_class=AutoTokenizer.from_pretrained(folder))
    return trainer.evaluate()


def main():
    program = str(Path(sys.argv[1] if len(sys.argv) > 1 else "build/hone").resolve())
    worst = 0.0
    for kind, options in KINDS.items():
        worst = max(worst, compare(program, kind, options))
    print(f"largest difference {worst:.1e}, bound {BOUND:.0e}")
    return 0 if worst <= BOUND else 1


def compare(program, kind, options):
    with tempfile.TemporaryDirectory() as place:
        folder, merged = str(Path(place) / "judge"), str(Path(place) / "merged")
        ours = train(program, folder, options)
        subprocess.run([program, "merge", "--adapter_name_or_path", folder, "--output", merged], check=True, stdout=subprocess.DEVNULL)
        base = AutoModelForSequenceClassification.from_pretrained(str(MODEL), num_labels=1, dtype=torch.float32)
        users = {"PeftModel": (PeftModel.from_pretrained(base, folder), folder),
                 "AutoModelForSequenceClassification": (AutoModelForSequenceClassification.from_pretrained(folder, num_labels=1,
                                                                                                           dtype=torch.float32), folder),
                 "merged": (AutoModelForSequenceClassification.from_pretrained(merged, dtype=torch.float32), merged)}
        worst = 0.0
        for name, (model, files) in users.items():
            theirs = evaluate(model, files)
            for key in ("eval_loss", "eval_min_reward", "eval_mean_reward", "eval_max_reward", "eval_accuracy", "eval_margin"):
                difference = abs(theirs[key] - ours[key])
                worst = max(worst, difference)
                print(f"{kind}, {name}: {key} {theirs[key]:.6f}, hone {ours[key]:.6f}, difference {difference:.1e}")
    return worst


sys.exit(main())
