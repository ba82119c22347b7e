#!/usr/bin/env python3
"""QLoRA (4-bit nf4, double quantized) in hone and in TRL with bitsandbytes, and LoRA on bf16 in hone, in turn, on the same model folder
and rows: seconds a step, tokens a second, peak memory, and the losses. Everything is said in the Markdown that is written to --out.

usage: PYTHONPATH=FOLDER bench/qlora_beside_trl.py --model FOLDER --out bench/results/NAME.md [--pairs 3] [--batch 4] [--length 256] [--steps 4]
                           [--gradient_checkpointing] [--recompute none|cheap|layer] [--single] [--quick]
PYTHONPATH: a folder that holds bitsandbytes 0.50.2 (pip install --no-deps --target FOLDER bitsandbytes==0.50.2); the rest is the environment
of tests/parity/setup. TRL keeps its defaults (use_bnb_nested_quant is set on both sides; the compute type is bfloat16, as dtype says).
--single: single quantization (4.5 bits a number instead of 4.13).
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import tempfile

from beside_trl import rows
from setting import PYTHON, Run, build, setting, table, warm

TRL = r'''
import json, os, sys, time
os.environ["TORCHDYNAMO_DISABLE"] = "1"
import torch
import bitsandbytes
from datasets import Dataset
from peft import LoraConfig
from transformers import BitsAndBytesConfig, TrainerCallback
from trl import SFTConfig, SFTTrainer
o = json.loads(sys.argv[1]); torch.set_num_threads(o["threads"])
seconds, first = [], []
class Clock(TrainerCallback):
    def on_step_begin(self, *_, **__): first.append(time.time()); self.started = time.perf_counter()
    def on_step_end(self, *_, **__): seconds.append(time.perf_counter() - self.started)
quantized = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=o["nested"], bnb_4bit_compute_dtype=torch.bfloat16)
args = SFTConfig(output_dir=o["out"], max_steps=o["steps"], bf16=True, use_cpu=True, gradient_checkpointing=o["checkpointing"], logging_steps=1,
                 save_strategy="no", learning_rate=1e-4, disable_tqdm=True, report_to="none", per_device_train_batch_size=o["batch"], max_length=o["length"],
                 model_init_kwargs=dict(dtype="bfloat16", quantization_config=quantized, device_map={"": "cpu"}))
trainer = SFTTrainer(o["model"], args=args, train_dataset=Dataset.from_list([json.loads(line) for line in open(o["data"])]),
                     peft_config=LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM"), callbacks=[Clock()])
trainer.train()
print("RESULT", json.dumps({"seconds": seconds, "first": first[0], "bitsandbytes": bitsandbytes.__version__,
                            "losses": [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]}), flush=True)
'''


def hone(o, folder, four_bit):
    words = [build("hone"), "sft", "--model_name_or_path", o["model"], "--dataset_name", o["data"], "--output_dir", folder,
             "--use_peft", "true", "--lora_r", 16, "--lora_alpha", 32, "--lora_dropout", 0, "--lora_target_modules", "all-linear",
             "--dtype", "bfloat16", "--bf16", "true", "--learning_rate", 1e-4, "--max_steps", o["steps"],
             "--per_device_train_batch_size", o["batch"], "--max_length", o["length"], "--logging_steps", 1, "--save_strategy", "no",
             "--report_to", "none", "--threads", o["threads"], "--recompute", o["recompute"], "--skip_doctor", "true"]
    if four_bit:
        words += ["--load_in_4bit", "true", "--use_bnb_nested_quant", str(o["nested"]).lower()]
    warm(o["model"])
    run = Run(words, o["threads"])
    steps = [(when, re.match(r"step .* loss (\S+) .* (\d+) tok/s", text)) for when, text in run.lines]
    steps = [(when, float(found.group(1))) for when, found in steps if found]
    seconds = [after[0] - before[0] for before, after in zip(steps, steps[1:])]
    return {"seconds": statistics.median(seconds), "peak_mb": run.peak_mb, "losses": [loss for _, loss in steps]}


def trl(o, folder):
    warm(o["model"])
    run = Run([PYTHON, "-W", "ignore", "-c", TRL, json.dumps(dict(o, out=folder))], o["threads"])
    result = run.result()
    return {"seconds": statistics.median(result["seconds"][1:]), "peak_mb": run.peak_mb, "losses": result["losses"],
            "bitsandbytes": result["bitsandbytes"]}


def report(a, o, results, lines_of_setting):
    tokens = a.batch * a.length
    kind = "4-bit nf4, double quantized" if o["nested"] else "4-bit nf4"
    lines = [f"# QLoRA r 16 all-linear on {kind}, batch {a.batch} x {a.length}, {a.threads} threads: hone beside TRL with bitsandbytes", "",
             f"model {pathlib.Path(a.model).name}; {'gradient checkpointing in TRL' if a.gradient_checkpointing else 'no checkpointing in TRL'}; hone: recompute "
             f"{o['recompute']}; bfloat16, dropout 0, learning rate 1e-4; {a.pairs} rounds in turn, {a.steps} steps each, the first left out, median of the "
             f"rest; bitsandbytes {results[0][2]['bitsandbytes']}; file cache warm.", "", *lines_of_setting, ""]
    head = ["round", "hone 4-bit s", "hone bf16 s", "TRL 4-bit s", "hone 4-bit tok/s", "ratio", "hone 4-bit MB", "hone bf16 MB", "saved MB", "TRL MB"]
    lines += table(head, [[i, f"{q['seconds']:.2f}", f"{b['seconds']:.2f}", f"{t['seconds']:.2f}", f"{tokens / q['seconds']:.1f}", f"{t['seconds'] / q['seconds']:.2f}",
                           f"{q['peak_mb']:.0f}", f"{b['peak_mb']:.0f}", f"{b['peak_mb'] - q['peak_mb']:.0f}", f"{t['peak_mb']:.0f}"]
                          for i, (q, b, t) in enumerate(results, 1)])
    ratio = statistics.median(t["seconds"] / q["seconds"] for q, _, t in results)
    saved = statistics.median(b["peak_mb"] - q["peak_mb"] for q, b, _ in results)
    lines += ["", f"Medians: ratio {ratio:.2f}; {saved:.0f} MB below LoRA on bf16.", "",
              f"Losses of the last round: hone 4-bit {results[-1][0]['losses']}; hone bf16 {results[-1][1]['losses']}; TRL 4-bit {results[-1][2]['losses']}.", "",
              "MB is VmHWM of the main process.", "",
              f"`bench/qlora_beside_trl.py --model {pathlib.Path(a.model).name} --batch {a.batch} --length {a.length} --steps {a.steps} --pairs {a.pairs} "
              f"--recompute {o['recompute']}{' --gradient_checkpointing' if a.gradient_checkpointing else ''}{' --single' if a.single else ''}`", ""]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    for name, default in dict(pairs=3, batch=4, length=256, steps=4, threads=2).items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--gradient_checkpointing", action="store_true")
    parser.add_argument("--recompute", choices=("none", "cheap", "layer"))
    parser.add_argument("--single", action="store_true", help="single quantization")
    parser.add_argument("--quick", action="store_true", help="one round of small steps: does it run?")
    a = parser.parse_args()
    if a.quick:
        a.pairs, a.batch, a.length, a.steps = 1, 2, 32, 3
    if a.steps < 2:
        parser.error("--steps: the first is left out, so at least 2")
    results = []
    lines_of_setting = setting(a.threads, ("torch", "trl", "peft", "transformers"))
    with tempfile.TemporaryDirectory() as temporary:
        data = os.path.join(temporary, "train.jsonl")
        rows(data, a.length)
        o = dict(model=a.model, data=data, batch=a.batch, length=a.length, steps=a.steps, threads=a.threads, nested=not a.single,
                 checkpointing=a.gradient_checkpointing, recompute=a.recompute or ("layer" if a.gradient_checkpointing else "none"))
        for i in range(a.pairs):
            four, full, theirs = hone(o, f"{temporary}/four{i}", True), hone(o, f"{temporary}/full{i}", False), trl(o, f"{temporary}/trl{i}")
            results.append((four, full, theirs))
            print(f"round {i + 1}: hone 4-bit {four['seconds']:.2f} s, {four['peak_mb']:.0f} MB; hone bf16 {full['seconds']:.2f} s, {full['peak_mb']:.0f} MB; TRL 4-bit "
                  f"{theirs['seconds']:.2f} s, {theirs['peak_mb']:.0f} MB; ratio {theirs['seconds'] / four['seconds']:.2f}", flush=True)
    a.out.write_text(report(a, o, results, lines_of_setting), encoding="utf-8")
    print(a.out)


if __name__ == "__main__":
    main()
