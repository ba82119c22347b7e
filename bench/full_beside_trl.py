#!/usr/bin/env python3
"""Full fine-tuning (SFT) in hone and in TRL, in turn, on the same model folder and rows: seconds a step, share of the limit, peak memory.

usage: bench/full_beside_trl.py --model FOLDER --out bench/results/NAME.md [--pairs 2] [--batch 4] [--length 256] [--steps 3] [--level avx512] [--quick]
Both have fp32 weights, gradients and moments, and products in bf16 (TRL: `bf16: true` with weights in float32). TRL also runs with
weights, gradients and moments in bf16, which loses small steps: for its memory.
Needs build/hone, build/bench_probe and tests/parity/setup's environment. Run it on an idle machine.
"""
import argparse
import pathlib
import statistics
import tempfile

import beside_trl
from setting import LEVELS, better, probe, rates_sentence, setting, table

WHO = {"hone": "hone", "TRL": "TRL, fp32 weights, bf16 products", "TRL bf16": "TRL, everything in bf16"}


def measure(a, temporary):
    data, results = f"{temporary}/train.jsonl", {who: [] for who in WHO}
    beside_trl.rows(data, a.length)
    o = dict(model=a.model, data=data, batch=a.batch, length=a.length, steps=a.steps, threads=a.threads, checkpointing=False,
             recompute="none", layer_form="auto", full=True, rate=1e-5, level=a.level, more=a.more.split())
    for pair in range(a.pairs):
        for who, runs in results.items():
            run = beside_trl.hone if who == "hone" else beside_trl.trl
            runs.append(run(dict(o, float32_weights=who == "TRL"), f"{temporary}/{who[-4:]}{pair}"))
            print(f"pair {pair + 1}: {who} {runs[-1]['seconds']:.2f} s, {runs[-1]['peak_mb']:.0f} MB", flush=True)
    return results


def report(a, results, found, said):
    # 6 FLOP a weight and token: forward, input gradient, weight gradient; the counts of a LoRA pass have two of the three.
    flop = found["pass"]["layers"] + found["pass"]["head"]
    limit = 1.5 * flop / (found["rates"]["bf16_gflops"] * 1e9)
    tokens, ours = a.batch * a.length, statistics.median(one["seconds"] for one in results["hone"])
    body = []
    for who, runs in results.items():
        seconds = statistics.median(one["seconds"] for one in runs)
        body.append([WHO[who], f"{seconds:.2f}", f"{tokens / seconds:.0f}", f"{seconds / ours:.2f}", f"{100 * limit / seconds:.0f} %",
                     f"{statistics.median(one['peak_mb'] for one in runs):.0f}", " ".join(f"{one['seconds']:.2f}" for one in runs)])
    return "\n".join([f"# Full fine-tuning, SFT, batch {a.batch} x {a.length}, {pathlib.Path(a.model).name}, {a.threads} threads: hone beside TRL", "",
                      f"AdamW, learning rate 1e-5, no recomputing on either side; {a.pairs} rounds in turn, {a.steps} steps each, the first left out, "
                      f"median of the rest{'; both held to ' + a.level if a.level else ''}{'; hone: ' + a.more if a.more else ''}.", "", *said,
                      f"- {rates_sentence(found)}", "", f"Limit {limit:.2f} s a step: 6 FLOP a weight of the matrices and token, the optimizer's step left out.", "",
                      *table(["who", "s a step", "tokens/s", "time to hone's", "share of the limit", "MB", "each round"], body), "",
                      "MB is VmHWM of the main process.", "",
                      f"`bench/full_beside_trl.py --model {pathlib.Path(a.model).name} --batch {a.batch} --length {a.length} --steps {a.steps} --pairs {a.pairs}`", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    for name, default in dict(pairs=2, batch=4, length=256, steps=3, threads=2).items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--level", choices=list(LEVELS))
    parser.add_argument("--more", default="", help="options of hone's runs")
    parser.add_argument("--quick", action="store_true", help="one round of small steps: does it run?")
    a = parser.parse_args()
    if a.quick:
        a.pairs, a.batch, a.length, a.steps = 1, 2, 32, 3
    said = setting(a.threads, ("torch", "trl", "transformers"))
    counted = dict(lengths=[a.length] * a.batch, scored=a.batch * (a.length - 1))
    found = probe(a.model, a.threads, a.quick, **counted)
    with tempfile.TemporaryDirectory() as temporary:
        results = measure(a, temporary)
    found = better(found, probe(a.model, a.threads, a.quick, **counted))
    a.out.write_text(report(a, results, found, said), encoding="utf-8")
    print(a.out)


if __name__ == "__main__":
    main()
