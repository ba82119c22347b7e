#!/usr/bin/env python3
"""One SFT + LoRA configuration in hone and in TRL, in turn, on the same model folder and rows: seconds a step, tokens a second,
peak memory, and the ratio pair by pair. Everything is said in the Markdown that is written to --out.

usage: bench/beside_trl.py --model FOLDER --out bench/results/NAME.md [--pairs 3] [--batch 4] [--length 256] [--steps 4]
Needs build/hone and tests/parity/setup's environment (third_party/parity-venv). Run it on an idle machine: two busy programs
on two cores measure each other.
"""
import argparse
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[1]
PYTHON = SOURCE / "third_party/parity-venv/bin/python"
TRL = r'''
import json, resource, sys, time
import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import TrainerCallback
from trl import SFTConfig, SFTTrainer
o = json.loads(sys.argv[1]); torch.set_num_threads(o["threads"])
seconds, tokens = [], []
class Clock(TrainerCallback):
    def on_step_begin(self, *_, **__): self.started = time.perf_counter()
    def on_step_end(self, *_, **__): seconds.append(time.perf_counter() - self.started)
args = SFTConfig(output_dir=o["out"], max_steps=o["steps"], bf16=True, use_cpu=True, gradient_checkpointing=False, logging_steps=1,
                 save_strategy="no", learning_rate=1e-4, model_init_kwargs=dict(dtype="bfloat16"), disable_tqdm=True, report_to="none",
                 per_device_train_batch_size=o["batch"], max_length=o["length"])
trainer = SFTTrainer(o["model"], args=args, train_dataset=Dataset.from_list([json.loads(line) for line in open(o["data"])]),
                     peft_config=LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM"), callbacks=[Clock()])
trainer.train()
counts = [entry["num_tokens"] for entry in trainer.state.log_history if "num_tokens" in entry]
print("RESULT", json.dumps({"seconds": seconds, "tokens": [b - a for a, b in zip([0] + counts, counts)],
                            "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
'''


def rows(path, length):
    """Rows longer than `length` tokens: every step then has batch x length tokens."""
    words = "river stone winter seven carries little bridge under morning letter window quiet market ladder silver".split()
    with open(path, "w", encoding="utf-8") as out:
        for row in range(64):
            text = " ".join(words[(row * 7 + i * i + 3 * i) % len(words)] for i in range(length + 64))
            out.write(json.dumps({"text": text}) + "\n")


def measure(words, **more):
    """Runs a command; (stdout, peak memory in MB)."""
    with tempfile.NamedTemporaryFile("r") as usage:
        done = subprocess.run(["/usr/bin/time", "-f", "%M", "-o", usage.name, *words], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, check=False, **more)
        if done.returncode != 0:
            sys.exit(f"{words[0]} failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
        return done.stdout, int(usage.read().split()[-1]) / 1024


def hone(o, folder):
    words = [SOURCE / "build/hone", "sft", "--model_name_or_path", o["model"], "--dataset_name", o["data"], "--output_dir", folder,
             "--use_peft", "true", "--lora_r", 16, "--lora_alpha", 32, "--lora_dropout", 0, "--lora_target_modules", "all-linear",
             "--dtype", "bfloat16", "--learning_rate", 1e-4, "--max_steps", o["steps"], "--per_device_train_batch_size", o["batch"],
             "--max_length", o["length"], "--logging_steps", 1, "--save_strategy", "no", "--threads", o["threads"]]
    output, peak = measure([str(word) for word in words])
    rates = [float(rate) for rate in re.findall(r"^step .* (\d+) tok/s", output, re.MULTILINE)]
    return {"rate": statistics.median(rates[1:]), "peak_mb": peak}


def trl(o, folder):
    output, _ = measure([str(PYTHON), "-W", "ignore", "-c", TRL, json.dumps(dict(o, out=folder))])
    result = json.loads(output.split("RESULT ", 1)[1])
    rates = [count / seconds for count, seconds in zip(result["tokens"], result["seconds"])]
    return {"rate": statistics.median(rates[1:]), "peak_mb": result["peak_mb"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    for name, default in dict(pairs=3, batch=4, length=256, steps=4, threads=2).items():
        parser.add_argument(f"--{name}", type=int, default=default)
    a = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as temporary:
        data = os.path.join(temporary, "train.jsonl")
        rows(data, a.length)
        o = dict(model=a.model, data=data, batch=a.batch, length=a.length, steps=a.steps, threads=a.threads)
        for pair in range(a.pairs):
            ours, theirs = hone(o, f"{temporary}/hone{pair}"), trl(o, f"{temporary}/trl{pair}")
            results.append((ours, theirs))
            print(f"pair {pair + 1}: hone {ours['rate']:.0f} tok/s, {ours['peak_mb']:.0f} MB; TRL {theirs['rate']:.0f} tok/s, "
                  f"{theirs['peak_mb']:.0f} MB; ratio {ours['rate'] / theirs['rate']:.2f}", flush=True)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=SOURCE, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    cpu = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text()).group(1)
    lines = [f"# SFT + LoRA r 16 all-linear, bf16, batch {a.batch} x {a.length}, {a.threads} threads: hone beside TRL 1.16", "",
             f"model {pathlib.Path(a.model).name}; hone {commit}; torch 2.11.0; {cpu}, {platform.system()} {platform.release()}; {a.pairs} pairs in turn, "
             f"{a.steps} steps each, the first left out, median of the rest; dropout 0, no checkpointing, learning rate 1e-4.", "",
             "| pair | hone tok/s | TRL tok/s | ratio | hone peak MB | TRL peak MB |", "| --- | --- | --- | --- | --- | --- |"]
    for pair, (ours, theirs) in enumerate(results, 1):
        lines.append(f"| {pair} | {ours['rate']:.0f} | {theirs['rate']:.0f} | {ours['rate'] / theirs['rate']:.2f} | {ours['peak_mb']:.0f} | "
                     f"{theirs['peak_mb']:.0f} |")
    lines += ["", f"Median ratio {statistics.median(o['rate'] / t['rate'] for o, t in results):.2f}.", "",
              f"`bench/beside_trl.py --model {pathlib.Path(a.model).name} --batch {a.batch} --length {a.length} --steps {a.steps} --pairs {a.pairs}`", ""]
    a.out.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
