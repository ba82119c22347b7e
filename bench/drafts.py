#!/usr/bin/env python3
"""Sampling with `drafts: auto` beside `drafts: off`, in turn: tokens a second of `hone generate` on texts that repeat and that do not,
and seconds a step of `hone grpo`. The completions of both are compared byte for byte.

usage: bench/drafts.py --model FILE --data TRAIN.jsonl [--data TRAIN.jsonl] --out bench/results/NAME.md [--pairs 3] [--steps 5]
--data: prompts of GRPO runs, such as tools/make_gsm8k.py and tools/make_arithmetic.py write. Needs build/hone and an idle machine.
"""
import argparse
import json
import pathlib
import statistics
import tempfile
import time

from sampled_steps import medians, sampled_steps
from setting import Run, build, setting, table

PEOPLE = [("Ann", 31, "Oslo"), ("Bob", 45, "Rome"), ("Cid", 27, "Lima"), ("Dora", 52, "Kyiv"), ("Emil", 38, "Bern"), ("Fay", 19, "Cork"),
          ("Gus", 64, "Riga"), ("Hana", 33, "Nara")]
WORDS = ["total", "count", "price", "weight", "score", "length", "speed", "volume"]


def records():
    rows = [json.dumps([{"name": n, "age": a, "city": c, "active": True} for n, a, c in PEOPLE[i:] + PEOPLE[:i]][:5]) for i in range(8)]
    return [f"Write this JSON again, with every \"active\" false:\n{row}" for row in rows]


def edits():
    body = "def add_{0}(values, start):\n    {0} = start\n    for value in values:\n        {0} = {0} + value\n    return {0}\n\n\n" \
           "def mean_{0}(values):\n    if not values:\n        return 0\n    return add_{0}(values, 0) / len(values)\n"
    return [f"Add a comment above each function of this Python file, and write the whole file:\n{body.format(word)}" for word in WORDS]


def answers():
    rows = [f"tool result: city={c}, temperature={a} C, wind={a // 3} km/h, station={n.lower()}-{c.lower()}-{a}" for n, a, c in PEOPLE]
    return ["Repeat the lines of the tool word for word, then say which city is the warmest.\n" + "\n".join(rows[i:] + rows[:i]) for i in range(8)]


def stories():
    return [f"Tell a short story about {n}, who is {a} years old and lives in {c}." for n, a, c in PEOPLE]


# What is completed, at which temperature.
TEXTS = [("JSON again", records, 0.0), ("an edit of code", edits, 0.0), ("tool answers again", answers, 0.0), ("JSON again, drawn", records, 1.0),
         ("stories", stories, 0.0), ("stories, drawn", stories, 1.0)]


def generate(o, prompts, temperature, tokens, drafts, folder):
    """(seconds, bytes of the completions, tokens in them)."""
    out = pathlib.Path(folder, f"{drafts}.jsonl")
    clock = time.perf_counter()
    Run([build("hone"), "generate", "--model_name_or_path", o.model, "--dtype", "bfloat16", "--prompts", prompts, "--max_new_tokens", tokens,
               "--temperature", temperature, "--drafts", drafts, "--output", out, "--logprobs", "true", "--threads", o.threads], o.threads)
    seconds, text = time.perf_counter() - clock, out.read_text(encoding="utf-8")
    return seconds, text, sum(len(json.loads(line)["logprobs"]) for line in text.splitlines())


def decode(o, texts, temperature, folder):
    """Tokens a second of decoding, of each side in each pair: the whole run less the same run's first tokens."""
    prompts = pathlib.Path(folder, "prompts.jsonl")
    prompts.write_text("".join(json.dumps({"prompt": text}) + "\n" for text in texts), encoding="utf-8")
    rates, said = {"off": [], "auto": []}, {}
    for _ in range(o.pairs):
        for drafts in rates:
            first, _, _ = generate(o, prompts, temperature, 1, drafts, folder)
            whole, said[drafts], tokens = generate(o, prompts, temperature, o.tokens, drafts, folder)
            rates[drafts].append((tokens - len(texts)) / (whole - first))
    if said["off"] != said["auto"]:
        raise SystemExit("drafts changed a completion")
    return rates, tokens


def grpo(o, data, drafts, folder):
    """Medians of a run's parts of a step, and its tokens and drafts."""
    out = pathlib.Path(folder, drafts)
    words = dict(model_name_or_path=o.model, dataset_name=data, output_dir=out, num_generations=8, max_completion_length=128, temperature=1.0,
                 use_peft="true", lora_r=16, lora_target_modules="all-linear", dtype="bfloat16", per_device_train_batch_size=32, max_steps=o.steps,
                 logging_steps=1, save_strategy="no", report_to="none", drafts=drafts, threads=o.threads,
                 reward_funcs="regex(pattern=\"[0-9]+$\")")
    run = Run([build("hone"), "grpo", *(word for name, value in words.items() for word in (f"--{name}", value))], o.threads)
    _, steps, logs = sampled_steps(run, out, o.steps)
    spec = [entry.get("performance", {}) for entry in logs]
    per_pass = [one["spec/accepted_per_pass"] for one in spec if "spec/accepted_per_pass" in one]
    return dict(medians(steps), length=statistics.mean(entry["completions/mean_length"] for entry in logs), losses=[entry["loss"] for entry in logs],
                kept=statistics.mean(per_pass) if per_pass else 0)


def decode_rows(o, folder):
    rows = []
    for batch, (name, make, temperature) in ((batch, one) for batch in (8, 1) for one in TEXTS):
        rates, tokens = decode(o, make()[:batch], temperature, folder)
        ratios = [a / b for a, b in zip(rates["auto"], rates["off"])]
        rows.append((name, batch, temperature, tokens, *(f"{statistics.median(rates[side]):.1f}" for side in ("off", "auto")),
                     f"{statistics.median(ratios):.2f}", " ".join(f"{ratio:.2f}" for ratio in ratios)))
        print(rows[-1], flush=True)
    return rows


def grpo_rows(o, folder):
    rows = []
    for data in o.data:
        for pair in range(o.pairs):
            found = {drafts: grpo(o, data, drafts, pathlib.Path(folder, f"{data.parent.parent.name}-{pair}")) for drafts in ("off", "auto")}
            if found["off"]["losses"] != found["auto"]["losses"]:
                raise SystemExit("drafts changed a loss")
            off, auto = found["off"], found["auto"]
            rows.append((data.parent.parent.name, pair + 1, f"{off['length']:.1f}", f"{off['rollout']:.2f}", f"{auto['rollout']:.2f}", f"{off['seconds']:.2f}",
                         f"{auto['seconds']:.2f}", f"{auto['kept']:.2f}", f"{off['seconds'] / auto['seconds']:.2f}"))
            print(rows[-1], flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", action="append", default=[], type=pathlib.Path)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=160)
    parser.add_argument("--threads", type=int, default=2)
    o = parser.parse_args()
    lines = ["# Sampling with and without drafts", "", f"model {pathlib.Path(o.model).name}, weights kept in bf16.", "", *setting(o.threads), "",
             f"{o.pairs} pairs in turn; the completions and losses of both sides are equal in every byte.", "",
             f"`hone generate`, at most {o.tokens} tokens a sequence; loading and the first tokens are not counted:", ""]
    with tempfile.TemporaryDirectory() as folder:
        lines += table(["text", "sequences", "temperature", "tokens", "off tokens/s", "auto tokens/s", "ratio", "ratios"], decode_rows(o, folder))
        if o.data:
            lines += ["", f"`hone grpo`, 4 prompts x 8 completions of at most 128 tokens, LoRA r 16, {o.steps} steps, median without the first:", ""]
            lines += table(["data", "pair", "tokens a completion", "off rollout s", "auto rollout s", "off step s", "auto step s", "kept a guess", "ratio"],
                           grpo_rows(o, folder))
    o.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
