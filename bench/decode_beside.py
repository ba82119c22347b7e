#!/usr/bin/env python3
"""Greedy decoding in hone and in transformers, in turn, on the same model folder and prompts: milliseconds a decode step (all
sequences of the batch go one token on), prefill and loading not counted, and the share of the machine's limit.

usage: bench/decode_beside.py --model FOLDER --out bench/results/NAME.md [--batches 1,8] [--prompt 64] [--new 64] [--pairs 3] [--quick]
Needs build/bench_decode, build/bench_probe and tests/parity/setup's environment, and an idle machine.
"""
import argparse
import json
import pathlib
import statistics

from setting import PYTHON, Run, better, build, probe, rates_sentence, setting, table, warm

TRANSFORMERS = r'''
import json, sys, time
import torch
from transformers import AutoModelForCausalLM
o = json.loads(sys.argv[1]); torch.set_num_threads(o["threads"])
model = AutoModelForCausalLM.from_pretrained(o["model"], dtype=torch.bfloat16).eval()
found = []
for batch in o["batches"]:
    ids = torch.tensor([[(1000 * row + i) * 7919 % model.config.vocab_size for i in range(o["prompt"])] for row in range(batch)])
    def seconds(count):
        start = time.perf_counter()
        out = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, min_new_tokens=count, max_new_tokens=count, pad_token_id=0)
        assert out.shape[1] == o["prompt"] + count
        return time.perf_counter() - start
    seconds(2)
    one, every = seconds(1), seconds(o["new"])
    found.append({"batch": batch, "prefill_s": one, "step_s": (every - one) / (o["new"] - 1)})
print("RESULT", json.dumps({"batches": found}), flush=True)
'''


def hone(o):
    warm(o["model"])
    run = Run([build("bench_decode"), "--model", o["model"], "--threads", o["threads"], "--generate", o["new"], "--prompt", o["prompt"],
               "--batch", ",".join(map(str, o["batches"]))], o["threads"])
    return run.result()["batches"], run.peak_mb


def transformers(o):
    warm(o["model"])
    run = Run([PYTHON, "-W", "ignore", "-c", TRANSFORMERS, json.dumps(o)], o["threads"])
    return run.result()["batches"], run.peak_mb


def limit_seconds(found, o, batch):
    """The larger of reading every weight and the keys and values once, and of multiplying: 2 FLOP a weight and sequence."""
    context = o["prompt"] + o["new"] / 2
    read = (found["decode_bytes"] + found["kv_bytes_per_token"] * batch * context) / found["rates"]["read_gbs"]
    return max(read, found["decode_bytes"] * batch / found["rates"]["bf16_gflops"]) / 1e9


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--batches", default="1,8")
    for name, default in dict(prompt=64, new=64, pairs=3, threads=2).items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--quick", action="store_true", help="one pair of few tokens: does it run?")
    a = parser.parse_args()
    if a.quick:
        a.pairs, a.new, a.prompt = 1, 4, 8
    o = dict(model=a.model, threads=a.threads, prompt=a.prompt, new=a.new, batches=[int(b) for b in a.batches.split(",")])
    lines_of_setting = setting(a.threads, ("torch", "transformers"))
    found = probe(a.model, a.threads, a.quick)
    rows, memory = [], []
    for pair in range(1, a.pairs + 1):
        (ours, our_mb), (theirs, their_mb) = hone(o), transformers(o)
        memory.append((our_mb, their_mb))
        for left, right in zip(ours, theirs):
            rows.append((pair, left["batch"], left["step_s"], right["step_s"]))
            print(f"pair {pair} batch {left['batch']}: hone {1e3 * left['step_s']:.1f} ms, transformers {1e3 * right['step_s']:.1f} ms a step", flush=True)
    found = better(found, probe(a.model, a.threads, a.quick))
    lines = [f"# Greedy decoding, bf16, {a.threads} threads: hone beside transformers", "",
             f"model {pathlib.Path(a.model).name}; prompt {a.prompt} tokens, {a.new} new; a step is one token of every sequence, (time of {a.new} tokens - "
             f"time of 1) / {a.new - 1}; {a.pairs} pairs in turn.", "", *lines_of_setting, f"- {rates_sentence(found)}", ""]
    lines += table(["pair", "batch", "hone ms", "transformers ms", "ratio"],
                   [[pair, batch, f"{1e3 * left:.1f}", f"{1e3 * right:.1f}", f"{right / left:.2f}"] for pair, batch, left, right in rows])
    summary = []
    for batch in o["batches"]:
        mine = [row for row in rows if row[1] == batch]
        left, right = (statistics.median(row[i] for row in mine) for i in (2, 3))
        limit = limit_seconds(found, o, batch)
        summary.append([batch, f"{1e3 * left:.1f}", f"{1e3 * right:.1f}", f"{statistics.median(row[3] / row[2] for row in mine):.2f}", f"{1e3 * limit:.1f}",
                        f"{100 * limit / left:.0f} %", f"{100 * limit / right:.0f} %"])
    lines += ["", "Medians:", "", *table(["batch", "hone ms", "transformers ms", "ratio", "limit ms", "hone share", "transformers share"], summary), "",
              f"Peak memory (VmHWM), medians: hone {statistics.median(m[0] for m in memory):.0f} MB, transformers {statistics.median(m[1] for m in memory):.0f} MB.",
              "", f"`bench/decode_beside.py --model {pathlib.Path(a.model).name} --batches {a.batches} --prompt {a.prompt} --new {a.new} --pairs {a.pairs}`", ""]
    a.out.write_text("\n".join(lines), encoding="utf-8")
    print(a.out)


if __name__ == "__main__":
    main()
