#!/usr/bin/env python3
"""One SFT + LoRA configuration in hone and in TRL, in turn, on the same model folder and rows: seconds a step, tokens a second,
share of the machine's limit, peak memory, seconds from the start to the first step, and the ratio pair by pair. Everything is
said in the Markdown that is written to --out. What is counted, and how: docs/benchmarks.md.

usage: bench/beside_trl.py --model FOLDER --out bench/results/NAME.md [--pairs 3] [--batch 4] [--length 256] [--steps 4]
                           [--gradient_checkpointing] [--recompute auto|none|cheap|layer] [--layer_form auto|explicit|plain] [--quick]
--gradient_checkpointing: TRL's, and `recompute: layer` in hone; without it TRL keeps everything and hone has `recompute: none`.
Needs build/hone, build/bench_probe and tests/parity/setup's environment. Run it on an idle machine: two busy programs on two
cores measure each other.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import tempfile

from setting import PYTHON, Run, better, build, precision_words, probe, rates_sentence, setting, table, warm

TRL = r'''
import json, sys, time
import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import TrainerCallback
from trl import SFTConfig, SFTTrainer
o = json.loads(sys.argv[1]); torch.set_num_threads(o["threads"])
seconds, first = [], []
class Clock(TrainerCallback):
    def on_step_begin(self, *_, **__): first.append(time.time()); self.started = time.perf_counter()
    def on_step_end(self, *_, **__): seconds.append(time.perf_counter() - self.started)
args = SFTConfig(output_dir=o["out"], max_steps=o["steps"], bf16=not o.get("float32"), use_cpu=True, gradient_checkpointing=o["checkpointing"], logging_steps=1,
                 save_strategy="no", learning_rate=o.get("rate", 1e-4), model_init_kwargs=dict(dtype="float32" if o.get("float32_weights") else "bfloat16"), disable_tqdm=True, report_to="none",
                 per_device_train_batch_size=o["batch"], max_length=o["length"])
trainer = SFTTrainer(o["model"], args=args, train_dataset=Dataset.from_list([json.loads(line) for line in open(o["data"])]),
                     peft_config=None if o.get("full") else LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM"),
                     callbacks=[Clock()])
trainer.train()
counts = [entry["num_tokens"] for entry in trainer.state.log_history if "num_tokens" in entry]
print("RESULT", json.dumps({"seconds": seconds, "tokens": [b - a for a, b in zip([0] + counts, counts)], "first": first[0],
                            "losses": [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]}), flush=True)
'''


def rows(path, length):
    """Rows longer than `length` tokens: every step then has batch x length tokens."""
    words = "river stone winter seven carries little bridge under morning letter window quiet market ladder silver".split()
    with open(path, "w", encoding="utf-8") as out:
        for row in range(64):
            text = " ".join(words[(row * 7 + i * i + 3 * i) % len(words)] for i in range(length + 64))
            out.write(json.dumps({"text": text}) + "\n")


LORA = ("--use_peft", "true", "--lora_r", 16, "--lora_alpha", 32, "--lora_dropout", 0, "--lora_target_modules", "all-linear")
FULL = ("--use_peft", "false")


def hone(o, folder):
    words = [build("hone"), "sft", "--model_name_or_path", o["model"], "--dataset_name", o["data"], "--output_dir", folder,
             *(FULL if o.get("full") else LORA), *o.get("more", ()),
             *precision_words(o), "--learning_rate", o.get("rate", 1e-4), "--max_steps", o["steps"],
             "--per_device_train_batch_size", o["batch"], "--max_length", o["length"], "--logging_steps", 1, "--save_strategy", "no",
             "--report_to", "none", "--threads", o["threads"], "--recompute", o["recompute"], "--layer_form", o["layer_form"]]
    warm(o["model"])
    run = Run(words, o["threads"])
    tokens = o["batch"] * o["length"]
    steps = [(when, re.match(r"step .* loss (\S+) .* (\d+) tok/s", text)) for when, text in run.lines]
    steps = [(when, float(found.group(1)), int(found.group(2))) for when, found in steps if found]
    # From line to line, logging included; the first step's own seconds are the ones that its line tells.
    seconds = [after[0] - before[0] for before, after in zip(steps, steps[1:])]
    first_step = tokens / max(steps[0][2], 1)
    return {"seconds": statistics.median(seconds), "first_step": first_step, "peak_mb": run.peak_mb, "tree_mb": run.tree_mb,
            "start": steps[0][0] - first_step,
            "losses": [loss for _, loss, _ in steps]}


def trl(o, folder):
    warm(o["model"])
    run = Run([PYTHON, "-W", "ignore", "-c", TRL, json.dumps(dict(o, out=folder))], o["threads"], o.get("level"))
    result = run.result()
    expected = o["batch"] * o["length"]
    if any(count != expected for count in result["tokens"]):
        raise SystemExit(f"TRL's steps have {result['tokens']} tokens, not {expected}")
    return {"seconds": statistics.median(result["seconds"][1:]), "first_step": result["seconds"][0], "peak_mb": run.peak_mb, "tree_mb": run.tree_mb,
            "start": result["first"] - run.began, "losses": result["losses"]}


def report(a, o, results, found, lines_of_setting):
    tokens = a.batch * a.length
    limit = found["pass_recompute_layer" if o["recompute"] == "layer" else "pass"]
    gflops = found["rates"]["bf16_gflops"] * 1e9
    seconds = {"share": (limit["layers"] + limit["head"] + limit["recompute"]) / gflops,
               "share_all": (limit["layers"] + limit["head"] + limit["recompute"] + limit["attention"] + limit["lora"]) / gflops}
    checkpointing = "gradient checkpointing in TRL, recompute layer in hone" if a.gradient_checkpointing else "no checkpointing in TRL"
    lines = [f"# SFT + LoRA r 16 all-linear, bf16, batch {a.batch} x {a.length}, {a.threads} threads: hone beside TRL", "",
             f"model {pathlib.Path(a.model).name}; {checkpointing}; hone: recompute {o['recompute']}, layer_form {o['layer_form']}; dropout 0, "
             f"learning rate 1e-4; {a.pairs} pairs in turn, {a.steps} steps each, the first left out, median of the rest; file cache warm.", "",
             *lines_of_setting, f"- {rates_sentence(found)}", "",
             f"Limit {seconds['share']:.2f} s a step (matrices and head, as docs/benchmarks.md counts); {seconds['share_all']:.2f} s with attention and LoRA.", ""]
    head = ["pair", "hone s", "TRL s", "hone tok/s", "TRL tok/s", "ratio", "hone share", "hone MB", "TRL MB", "hone start s", "TRL start s"]
    body = [[pair, f"{ours['seconds']:.2f}", f"{theirs['seconds']:.2f}", f"{tokens / ours['seconds']:.1f}", f"{tokens / theirs['seconds']:.1f}",
             f"{theirs['seconds'] / ours['seconds']:.2f}", f"{100 * seconds['share'] / ours['seconds']:.0f} %", f"{ours['peak_mb']:.0f}",
             f"{theirs['peak_mb']:.0f}", f"{ours['start']:.2f}", f"{theirs['start']:.2f}"] for pair, (ours, theirs) in enumerate(results, 1)]
    lines += table(head, body)
    median = {name: statistics.median(value) for name, value in {
        "ratio": [t["seconds"] / o_["seconds"] for o_, t in results], "hone": [o_["seconds"] for o_, _ in results],
        "trl": [t["seconds"] for _, t in results], "hone_mb": [o_["peak_mb"] for o_, _ in results], "trl_mb": [t["peak_mb"] for _, t in results],
        "hone_start": [o_["start"] for o_, _ in results], "trl_start": [t["start"] for _, t in results]}.items()}
    share = {who: [f"{100 * seconds[name] / median[who]:.0f} %" for name in ("share", "share_all")] for who in ("hone", "trl")}
    lines += ["", f"Medians: ratio {median['ratio']:.2f}; hone {median['hone']:.2f} s a step, {share['hone'][0]} of the limit ({share['hone'][1]} with attention "
              f"and LoRA), {median['hone_mb']:.0f} MB, first step after {median['hone_start']:.2f} s; TRL {median['trl']:.2f} s, {share['trl'][0]}, "
              f"{median['trl_mb']:.0f} MB, {median['trl_start']:.2f} s.", "",
              f"Losses of the last pair: hone {results[-1][0]['losses']}; TRL {results[-1][1]['losses']}.", "",
              "MB is VmHWM of the main process. Start: from the program's start to the beginning of its first step.", "",
              f"`bench/beside_trl.py --model {pathlib.Path(a.model).name} --batch {a.batch} --length {a.length} --steps {a.steps} --pairs {a.pairs} "
              f"--recompute {o['recompute']}{' --gradient_checkpointing' if a.gradient_checkpointing else ''}`", ""]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    for name, default in dict(pairs=3, batch=4, length=256, steps=4, threads=2).items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--gradient_checkpointing", action="store_true")
    parser.add_argument("--recompute", choices=("auto", "none", "cheap", "layer"))
    parser.add_argument("--layer_form", choices=("auto", "explicit", "plain"), default="auto")
    parser.add_argument("--quick", action="store_true", help="one pair of small steps: does it run?")
    a = parser.parse_args()
    if a.quick:
        a.pairs, a.batch, a.length, a.steps = 1, 2, 32, 3
    if a.steps < 2:
        parser.error("--steps: the first is left out, so at least 2")
    recompute = a.recompute or ("layer" if a.gradient_checkpointing else "none")
    results, counted = [], dict(lengths=[a.length] * a.batch, scored=a.batch * (a.length - 1))
    lines_of_setting = setting(a.threads, ("torch", "trl", "peft", "transformers"))
    found = probe(a.model, a.threads, a.quick, **counted)
    with tempfile.TemporaryDirectory() as temporary:
        data = os.path.join(temporary, "train.jsonl")
        rows(data, a.length)
        o = dict(model=a.model, data=data, batch=a.batch, length=a.length, steps=a.steps, threads=a.threads,
                 checkpointing=a.gradient_checkpointing, recompute=recompute, layer_form=a.layer_form)
        for pair in range(a.pairs):
            ours, theirs = hone(o, f"{temporary}/hone{pair}"), trl(o, f"{temporary}/trl{pair}")
            results.append((ours, theirs))
            print(f"pair {pair + 1}: hone {ours['seconds']:.2f} s, {ours['peak_mb']:.0f} MB, start {ours['start']:.1f} s; TRL {theirs['seconds']:.2f} s, "
                  f"{theirs['peak_mb']:.0f} MB, start {theirs['start']:.1f} s; ratio {theirs['seconds'] / ours['seconds']:.2f}", flush=True)
    found = better(found, probe(a.model, a.threads, a.quick, **counted))
    a.out.write_text(report(a, o, results, found, lines_of_setting), encoding="utf-8")
    print(a.out)


if __name__ == "__main__":
    main()
