#!/usr/bin/env python3
"""One DPO + LoRA configuration in hone and in TRL, in turn, on the same model folder and pairs: seconds a step, tokens a second, share
of the machine's limit, peak memory, seconds from the start to the first step, and the ratio pair by pair. What is counted, and
how: docs/benchmarks.md.

usage: bench/dpo_beside_trl.py --model FOLDER --out bench/results/NAME.md [--pairs 3] [--batch 4] [--prompt 256] [--completion 64] [--steps 4]
                               [--gradient_checkpointing] [--recompute auto|none|cheap|layer] [--precompute_ref_log_probs] [--quick]
--batch counts pairs. Every prompt has exactly --prompt tokens, every completion exactly --completion, its end included. Tokens are
counted as TRL counts them: the prompt twice. --precompute_ref_log_probs on both sides: the steps have no pass of the reference.
Needs build/hone, build/bench_probe and tests/parity/setup's environment. Run it on an idle machine.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import tempfile

from setting import PYTHON, Run, better, build, probe, rates_sentence, setting, table, warm

ROWS = r'''
import json, sys
from tokenizers import Tokenizer
o = json.loads(sys.argv[1]); tokenizer = Tokenizer.from_file(o["model"] + "/tokenizer.json")
words = "river stone winter seven carries little bridge under morning letter window quiet market ladder silver people water house green".split()
words = [word for word in words if len(tokenizer.encode(" " + word).ids) == 1]
text = lambda row, count, step: "".join(" " + words[(row * 7 + i * i + step * i) % len(words)] for i in range(count))
with open(o["data"], "w", encoding="utf-8") as out:
    for row in range(64):
        one = {"prompt": text(row, o["prompt"], 3), "chosen": text(row + 1, o["completion"] - 1, 5), "rejected": text(row + 2, o["completion"] - 1, 2)}
        assert len(tokenizer.encode(one["prompt"] + one["chosen"]).ids) == o["prompt"] + o["completion"] - 1, "a row's tokens"
        out.write(json.dumps(one) + "\n")
'''

TRL = r'''
import json, sys, time
import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import TrainerCallback
from trl import DPOConfig, DPOTrainer
o = json.loads(sys.argv[1]); torch.set_num_threads(o["threads"])
seconds, first = [], []
class Clock(TrainerCallback):
    def on_step_begin(self, *_, **__): first.append(time.time()); self.started = time.perf_counter()
    def on_step_end(self, *_, **__): seconds.append(time.perf_counter() - self.started)
args = DPOConfig(output_dir=o["out"], max_steps=o["steps"], bf16=True, use_cpu=True, gradient_checkpointing=o["checkpointing"], logging_steps=1,
                 save_strategy="no", learning_rate=1e-5, model_init_kwargs=dict(dtype="bfloat16"), disable_tqdm=True, report_to="none",
                 per_device_train_batch_size=o["batch"], precompute_ref_log_probs=o["precompute"], max_length=None)
trainer = DPOTrainer(o["model"], args=args, train_dataset=Dataset.from_list([json.loads(line) for line in open(o["data"])]),
                     peft_config=LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM"), callbacks=[Clock()])
trainer.train()
counts = [entry["num_tokens"] for entry in trainer.state.log_history if "num_tokens" in entry]
print("RESULT", json.dumps({"seconds": seconds, "tokens": [b - a for a, b in zip([0] + counts, counts)], "first": first[0],
                            "losses": [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]}), flush=True)
'''


def tokens_of(o):
    return 2 * o["batch"] * (o["prompt"] + o["completion"])


def checked(who, o, tokens):
    if any(count != tokens_of(o) for count in tokens):
        raise SystemExit(f"{who}'s steps have {tokens} tokens, not {tokens_of(o)}")


def hone(o, folder):
    words = [build("hone"), "dpo", "--model_name_or_path", o["model"], "--dataset_name", o["data"], "--output_dir", folder,
             "--use_peft", "true", "--lora_r", 16, "--lora_alpha", 32, "--lora_target_modules", "all-linear", "--dtype", "bfloat16",
             "--bf16", "true", "--learning_rate", 1e-5, "--max_steps", o["steps"], "--per_device_train_batch_size", o["batch"],
             "--max_length", "null", "--precompute_ref_log_probs", str(o["precompute"]).lower(), "--logging_steps", 1,
             "--save_strategy", "no", "--report_to", "none", "--threads", o["threads"], "--recompute", o["recompute"], "--skip_doctor"]
    warm(o["model"])
    run = Run(words, o["threads"])
    steps = [(when, re.match(r"^step +\d+/\d+ .*?loss (\S+) .* (\d+) tok/s", text)) for when, text in run.lines]
    steps = [(when, float(found.group(1)), int(found.group(2))) for when, found in steps if found]
    if len(steps) != o["steps"]:
        raise SystemExit("hone's progress lines tell no steps:\n" + "\n".join(text for _, text in run.lines[-8:]))
    logs = [json.loads(line) for line in pathlib.Path(folder, "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    counts = [entry["num_tokens"] for entry in logs if "num_tokens" in entry and "loss" in entry]
    checked("hone", o, [after - before for before, after in zip([0, *counts], counts)])
    # From line to line, logging included; the first step's own seconds are the ones that its line tells.
    seconds = [after[0] - before[0] for before, after in zip(steps, steps[1:])]
    return {"seconds": statistics.median(seconds), "peak_mb": run.peak_mb, "start": steps[0][0] - tokens_of(o) / max(steps[0][2], 1),
            "losses": [loss for _, loss, _ in steps]}


def trl(o, folder):
    warm(o["model"])
    run = Run([PYTHON, "-W", "ignore", "-c", TRL, json.dumps(dict(o, out=folder))], o["threads"])
    result = run.result()
    checked("TRL", o, result["tokens"])
    return {"seconds": statistics.median(result["seconds"][1:]), "peak_mb": run.peak_mb, "start": result["first"] - run.began,
            "losses": result["losses"]}


def limits(o, found):
    """Seconds of a step at the machine's rates: a forward and backward of the pairs with their prompts once, and the reference's forward,
    which is half of it (the base has no gradients of its own)."""
    counted = found["pass_recompute_layer" if o["recompute"] == "layer" else "pass"]
    rate = found["rates"]["bf16_gflops"] * 1e9
    passes = 1 if o["precompute"] else 1.5
    matrices = passes * (counted["layers"] + counted["head"]) + counted["recompute"]
    return {"share": matrices / rate, "share_all": (matrices + passes * (counted["attention"] + counted["lora"])) / rate}


def report(a, o, results, found, lines_of_setting):
    tokens, seconds = tokens_of(o), limits(o, found)
    checkpointing = "gradient checkpointing in TRL, recompute layer in hone" if a.gradient_checkpointing else "no checkpointing in TRL"
    reference = "its reference precomputed on both sides" if o["precompute"] else "the reference computed in every step on both sides"
    lines = [f"# DPO + LoRA r 16 all-linear, bf16, {a.batch} pairs of prompt {a.prompt} and completions {a.completion}, {a.threads} threads: hone beside TRL", "",
             f"model {pathlib.Path(a.model).name}; loss sigmoid, {reference}; {checkpointing}; hone: recompute {o['recompute']}, prompts computed once a pair; "
             f"dropout 0, learning rate 1e-5; {a.pairs} pairs of runs in turn, {a.steps} steps each, the first left out, median of the rest; file cache warm.", "",
             *lines_of_setting, f"- {rates_sentence(found)}", "",
             f"Limit {seconds['share']:.2f} s a step (matrices and head, as docs/benchmarks.md counts); {seconds['share_all']:.2f} s with attention and LoRA.", ""]
    head = ["pair", "hone s", "TRL s", "hone tok/s", "TRL tok/s", "ratio", "hone share", "hone MB", "TRL MB", "hone start s", "TRL start s"]
    body = [[pair, f"{ours['seconds']:.2f}", f"{theirs['seconds']:.2f}", f"{tokens / ours['seconds']:.1f}", f"{tokens / theirs['seconds']:.1f}",
             f"{theirs['seconds'] / ours['seconds']:.2f}", f"{100 * seconds['share'] / ours['seconds']:.0f} %", f"{ours['peak_mb']:.0f}",
             f"{theirs['peak_mb']:.0f}", f"{ours['start']:.2f}", f"{theirs['start']:.2f}"] for pair, (ours, theirs) in enumerate(results, 1)]
    lines += table(head, body)
    median = lambda side, name: statistics.median(pair[side][name] for pair in results)
    ratio = statistics.median(theirs["seconds"] / ours["seconds"] for ours, theirs in results)
    lines += ["", f"Medians: ratio {ratio:.2f}; hone {median(0, 'seconds'):.2f} s a step, {100 * seconds['share'] / median(0, 'seconds'):.0f} % of the limit, "
              f"{median(0, 'peak_mb'):.0f} MB; TRL {median(1, 'seconds'):.2f} s, {100 * seconds['share'] / median(1, 'seconds'):.0f} %, {median(1, 'peak_mb'):.0f} MB.", "",
              f"Losses of the last pair: hone {results[-1][0]['losses']}; TRL {results[-1][1]['losses']}.", "",
              f"Tokens: {tokens} a step, both sequences of every pair, as TRL counts them. MB is VmHWM of the main process. Start: from the program's start to the "
              "beginning of its first step.", "",
              f"`bench/dpo_beside_trl.py --model {pathlib.Path(a.model).name} --batch {a.batch} --prompt {a.prompt} --completion {a.completion} --steps {a.steps} "
              f"--pairs {a.pairs} --recompute {o['recompute']}{' --gradient_checkpointing' if a.gradient_checkpointing else ''}"
              f"{' --precompute_ref_log_probs' if o['precompute'] else ''}`", ""]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    for name, default in dict(pairs=3, batch=4, prompt=256, completion=64, steps=4, threads=2).items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--gradient_checkpointing", action="store_true")
    parser.add_argument("--precompute_ref_log_probs", action="store_true")
    parser.add_argument("--recompute", choices=("auto", "none", "cheap", "layer"))
    parser.add_argument("--quick", action="store_true", help="one pair of small steps: does it run?")
    a = parser.parse_args()
    if a.quick:
        a.pairs, a.batch, a.prompt, a.completion, a.steps = 1, 2, 16, 8, 3
    if a.steps < 2:
        parser.error("--steps: the first is left out, so at least 2")
    recompute = a.recompute or ("layer" if a.gradient_checkpointing else "none")
    results, counted = [], dict(lengths=[a.prompt + 2 * (a.completion - 1)] * a.batch, scored=2 * a.batch * a.completion)
    lines_of_setting = setting(a.threads, ("torch", "trl", "peft", "transformers"))
    found = probe(a.model, a.threads, a.quick, **counted)
    with tempfile.TemporaryDirectory() as temporary:
        o = dict(model=a.model, data=os.path.join(temporary, "train.jsonl"), batch=a.batch, prompt=a.prompt, completion=a.completion,
                 steps=a.steps, threads=a.threads, checkpointing=a.gradient_checkpointing, precompute=a.precompute_ref_log_probs,
                 recompute=recompute)
        subprocess.run([PYTHON, "-c", ROWS, json.dumps(o)], check=True)
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
