#!/usr/bin/env python3
"""Decoding in hone and in llama.cpp, in turn, on the same numbers: milliseconds a decode step (all sequences of the batch go one
token on), prefill and loading not counted.

usage: bench/decode_beside_llama.py --model FOLDER --llama llama-batched-bench --out bench/results/NAME.md [--pairs 3] [--new 32]
The folder's model is exported with `hone export` to BF16, Q8_0 and Q4_K_M, which llama.cpp reads. Beside each: hone on the folder
in bf16, and on the same file kept in its blocks; and hone on the folder in 8 bits and nf4 (load_in_8bit, load_in_4bit).
Needs build/hone, build/bench_decode, and llama-batched-bench of llama.cpp, built for this processor. Run it on an idle machine.
"""
import argparse
import pathlib
import re
import statistics
import subprocess
import tempfile

from setting import Run, build, setting, table

FILES = ("bf16", "q8_0", "q4_k_m")
# The row of the table, who, the file or the folder, hone's --base.
SIDES = [("bf16", "llama.cpp", "bf16", None), ("bf16", "hone", None, ""), ("8 bits", "llama.cpp Q8_0", "q8_0", None),
         ("8 bits", "hone Q8_0", "q8_0", "blocks"), ("8 bits", "hone load_in_8bit", None, "int8"),
         ("4 bits", "llama.cpp Q4_K_M", "q4_k_m", None), ("4 bits", "hone Q4_K_M", "q4_k_m", "blocks"), ("4 bits", "hone nf4", None, "nf4")]


def llama(o, file):
    run = Run([o.llama, "-m", file, "-t", o.threads, "-tb", o.threads, "-c", 4096, "-npp", o.prompt, "-ntg", o.new, "-npl", o.batches], o.threads)
    found = {}
    for _, text in run.lines:
        cells = [cell.strip() for cell in text.split("|")]  # PP, TG, B, N_KV, T_PP, S_PP, T_TG s, ...
        if re.match(r"^\|\s*\d+ \|", text):
            found[int(cells[3])] = float(cells[7]) / int(cells[2])
    return found, run.peak_mb


def hone(o, model, base):
    run = Run([build("bench_decode"), "--model", model, "--threads", o.threads, "--generate", o.new + 1, "--prompt", o.prompt, "--batch", o.batches,
               *(["--base", base] if base else [])], o.threads)
    return {one["batch"]: one["step_s"] for one in run.result()["batches"]}, run.peak_mb


def report(o, lines_of_setting, times, memory):
    lines = [f"# Greedy decoding, {o.threads} threads: hone beside llama.cpp", "",
             f"model {pathlib.Path(o.model).name}; prompt {o.prompt} tokens, {o.new} new; ms a step, one token of every sequence; medians of {o.pairs} rounds, "
             "in each of which every program runs once. llama.cpp: llama-batched-bench of llama-cpp-python 0.3.36's sources, GGML_NATIVE.",
             "", *lines_of_setting, ""]
    batches = [int(b) for b in o.batches.split(",")]
    rows = []
    for kind, who, file, base in SIDES:
        own = times[who, file, base]
        beside = next(times[w, f, b] for k, w, f, b in SIDES if k == kind and w.startswith("llama"))
        row = [kind, who]
        for batch in batches:
            mine = [one[batch] for one in own]
            ratio = statistics.median(one[batch] for one in beside) / statistics.median(mine)
            row += [f"{1e3 * statistics.median(mine):.1f} ({1e3 * min(mine):.1f} to {1e3 * max(mine):.1f})", f"{ratio:.2f}"]
        rows.append([*row, f"{statistics.median(memory[who, file, base]):.0f}"])
    head = ["bits", "who"] + [cell for batch in batches for cell in (f"batch {batch}: ms (range)", "times llama.cpp")] + ["peak MB"]
    return "\n".join(lines + table(head, rows) + ["", f"`bench/decode_beside_llama.py --model {pathlib.Path(o.model).name} --batches {o.batches} "
                                                  f"--prompt {o.prompt} --new {o.new} --pairs {o.pairs}`", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--llama", required=True)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--batches", default="1,8")
    for name, default in dict(prompt=64, new=32, pairs=3, threads=2).items():
        parser.add_argument(f"--{name}", type=int, default=default)
    o = parser.parse_args()
    lines_of_setting = setting(o.threads)
    times, memory = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for kind in FILES:
            subprocess.run([build("hone"), "export", "--model_name_or_path", o.model, "--outtype", kind, "--output", f"{folder}/{kind}.gguf"], check=True,
                           stdout=subprocess.DEVNULL)
        for number in range(o.pairs):
            for _, who, file, base in SIDES:
                model = f"{folder}/{file}.gguf" if file else o.model
                one, peak = llama(o, model) if base is None else hone(o, model, base)
                times.setdefault((who, file, base), []).append(one)
                memory.setdefault((who, file, base), []).append(peak)
                print(f"round {number + 1}, {who}: " + ", ".join(f"batch {batch} {1e3 * s:.1f} ms" for batch, s in one.items()), flush=True)
    o.out.write_text(report(o, lines_of_setting, times, memory), encoding="utf-8")
    print(o.out)


if __name__ == "__main__":
    main()
