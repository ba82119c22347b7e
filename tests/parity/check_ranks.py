#!/usr/bin/env python3
"""TRL on two processes (torchrun, Gloo, CPU) and hone on two ranks: losses, gradient norms and metrics of each step, fp32.

The rows of a step, denominators, clipping and schedule are then TRL's for several processes, not only for one.
Prints `ok NAME` or `not ok NAME` a check, with the margin. usage: check_ranks.py [--hone PROGRAM] [--only METHOD]
"""
import argparse
import json
import os
import pathlib
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
MODEL = SOURCE / "tests/fixtures/parity/tiny_llama"
BOUND = 1e-3
STEPS = 6
WORDS = "the a sum of two small numbers is seven nine green blue river stone light house walks runs and then".split()
# What is compared, for each method. Metrics that TRL pools over its processes (accuracy of tokens, KTO's margins) are hone's of each
# micro-batch, whatever the number of ranks (docs/ranks.md).
COMMON = {"max_steps": STEPS, "per_device_train_batch_size": 2, "gradient_accumulation_steps": 2, "learning_rate": 1e-3,
          "lr_scheduler_type": "linear", "warmup_steps": 2, "max_grad_norm": 0.5, "seed": 3, "logging_steps": 1, "weight_decay": 0.01}
METHODS = {
    "sft": ("texts", {"max_length": 64}, ("loss", "grad_norm", "learning_rate", "num_tokens")),
    "dpo": ("pairs", {"beta": 0.5}, ("loss", "grad_norm", "rewards/margins", "rewards/accuracies", "logps/chosen")),
    "kto": ("marked", {"beta": 0.5, "loss_type": "apo_zero_unpaired"}, ("loss", "grad_norm")),
}

TRAIN = '''
import json, sys, warnings
warnings.filterwarnings("ignore")
method, model, data, output, options = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4], json.loads(sys.argv[5])
import torch
from datasets import load_dataset
from peft import LoraConfig, PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer
torch.set_num_threads(1)
rows = load_dataset("json", data_files=data, split="train")
tokenizer = AutoTokenizer.from_pretrained(model)
common = dict(output_dir=output, use_cpu=True, bf16=False, report_to="none", save_strategy="no", disable_dropout=True,
              gradient_checkpointing=False, dataloader_pin_memory=False, **options)
from trl import DPOConfig, DPOTrainer, SFTConfig, SFTTrainer
from trl.experimental.kto import KTOConfig, KTOTrainer
config, trainer = {"sft": (SFTConfig, SFTTrainer), "dpo": (DPOConfig, DPOTrainer), "kto": (KTOConfig, KTOTrainer)}[method]
if method == "sft":
    common.pop("disable_dropout")
base = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
base = PeftModel.from_pretrained(base, sys.argv[6], is_trainable=True)
run = trainer(model=base, args=config(**common), train_dataset=rows, processing_class=tokenizer)
run.train()
if run.accelerator.is_main_process:
    json.dump(run.state.log_history, open(output + "/log.json", "w"))
'''


def text(rng):
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(3, 20)))


def write_rows(kind, path):
    rng = random.Random(11)
    make = {"texts": lambda: {"text": text(rng)},
            "pairs": lambda: {"prompt": text(rng), "chosen": " " + text(rng), "rejected": " " + text(rng)},
            "marked": lambda: {"prompt": text(rng), "completion": " " + text(rng), "label": rng.random() < 0.5}}[kind]
    path.write_text("".join(json.dumps(make()) + "\n" for _ in range(64)))


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def trl(method, data, adapter, options, folder):
    program = folder / "train.py"
    program.write_text(TRAIN)
    output = folder / "trl"
    output.mkdir()
    words = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--master_port", str(free_port()), str(program), method,
             str(MODEL), str(data), str(output), json.dumps(options), str(adapter)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, env={**os.environ, "ACCELERATE_USE_CPU": "true"})
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if re.match(r"\S*(Error|Exception)\b", line)]
        raise RuntimeError("TRL: " + ("\n".join(errors[:4]) or done.stderr[-2000:]))
    return [one for one in json.loads((output / "log.json").read_text()) if "loss" in one]


def hone(program, method, data, adapter, options, folder):
    output, port, processes = folder / "hone", free_port(), []
    words = [str(program), method, "--model_name_or_path", str(MODEL), "--dataset_name", str(data), "--output_dir", str(output),
             "--adapter_name_or_path", str(adapter), "--use_peft", "true", "--dtype", "float32", "--bf16", "false", "--lora_dropout", "0", "--skip_doctor", "true",
             "--save_strategy", "no", "--report_page", "false", "--threads", "1"]
    for name, value in options.items():
        words += [f"--{name}", str(value)]
    for rank in range(2):
        env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "2",
               "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        processes.append(subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    texts = [one.communicate(timeout=300)[0] for one in processes]
    if any(one.returncode for one in processes):
        raise RuntimeError("hone: " + "\n".join(texts)[-3000:])
    return [one for one in map(json.loads, (output / "metrics.jsonl").read_text().splitlines()) if "loss" in one]


def compare(method, theirs, ours, names):
    worst, at = 0.0, "nothing"
    if len(theirs) != STEPS or len(ours) != STEPS:
        return f"{len(theirs)} and {len(ours)} steps", 0, at
    for step, (a, b) in enumerate(zip(theirs, ours), 1):
        for name in names:
            if name not in a or name not in b:
                return f"step {step}: no {name} in " + ("TRL's log" if name not in a else "hone's"), 0, at
            gap = abs(a[name] - b[name]) / max(1.0, abs(a[name]))
            if gap > worst:
                worst, at = gap, f"{name} of step {step}: TRL {a[name]}, hone {b[name]}"
    return "" if worst <= BOUND else at, worst, at


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hone", default=SOURCE / "build/hone")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    passed = True
    for method, (kind, more, names) in METHODS.items():
        if options.only and options.only != method:
            continue
        with tempfile.TemporaryDirectory(prefix="hone-ranks-") as name:
            folder = pathlib.Path(name)
            write_rows(kind, folder / "rows.jsonl")
            shutil.copytree(MODEL / "adapter", folder / "adapter")
            settings = {**COMMON, **more}
            try:
                theirs = trl(method, folder / "rows.jsonl", folder / "adapter", settings, folder)
                ours = hone(options.hone, method, folder / "rows.jsonl", folder / "adapter", settings, folder)
                why, worst, at = compare(method, theirs, ours, names)
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                why, worst, at = str(error), 0, ""
            passed &= not why
            print(f"{'ok' if not why else 'not ok'} two ranks beside TRL on two processes: {method}" +
                  (f": worst {worst:.1e} of {BOUND}, {at}" if not why else f"\n  {why}"), flush=True)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
