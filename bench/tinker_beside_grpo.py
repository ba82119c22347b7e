#!/usr/bin/env python3
"""A step of a loop with the tinker SDK on hone serve beside a step of hone grpo, in turn: the same prompts, tokens and updates.

usage: bench/tinker_beside_grpo.py --model FOLDER --out bench/results/NAME.md [--group 8] [--completion 64] [--steps 6] [--pairs 3] [--shared] [--sums bins]
The run draws first; the loop draws and trains on what it drew (tests/serve/tinker_grpo.py). With --sums bins, the server's --gradient_sums,
its tokens are the run's; by arrival they differ from the second step on, since the weights differ by a rounding. Seconds a step, without
the first, and seconds of processor time: of the run's process, and of the server's with the client's beside it. --shared: the run computes
the prompt of a group once, which the server does not. Needs build/hone and third_party/serve-venv. Run it on an idle machine; processor time
says something on a busy one too.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from setting import SOURCE, build, environment_of, setting, table

sys.path[:0] = [str(SOURCE / "tests" / part) for part in ("python", "serve")]
from server import Server
from tinker_test import groups_of

CLIENT = SOURCE / "third_party/serve-venv/bin/python"
SEED, RATE = 7, 1e-4
REWARD = "def reward(completion_ids, **_):\n    return [sum(one) % 64 / 64 for one in completion_ids]\n"
WORDS = "river stone winter seven carries little bridge under morning letter window quiet market ladder silver people water house green".split()


def processor_seconds(pid):
    """Of all threads, without children."""
    cells = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(cells[11]) + int(cells[12])) / os.sysconf("SC_CLK_TCK")


def grpo(o, folder):
    """([(wall, processor) seconds of each step but the first], what it drew)."""
    (folder / "reward.py").write_text(REWARD, encoding="utf-8")
    rows = [json.dumps({"prompt": " ".join(WORDS[(row * 7 + i * i) % len(WORDS)] for i in range(o.prompt))}) + "\n" for row in range(64)]
    (folder / "rows.jsonl").write_text("".join(rows), encoding="utf-8")
    words = {"model_name_or_path": o.model, "dataset_name": folder / "rows.jsonl", "reward_funcs": f"{folder}/reward.py:reward", "output_dir": folder / "run",
             "use_peft": "true", "lora_r": 16, "lora_alpha": 32, "lora_target_modules": "all-linear", "lora_dropout": 0, "per_device_train_batch_size": 1,
             "gradient_accumulation_steps": o.group, "num_generations": o.group, "share_prompt": "true" if o.shared else "false",
             "max_completion_length": o.completion, "max_steps": o.steps, "save_strategy": "no", "learning_rate": RATE, "lr_scheduler_type": "constant", "beta": 0,
             "loss_type": "grpo", "scale_rewards": "none", "temperature": 1, "seed": SEED, "dump_rollouts": "true", "skip_doctor": "true", "threads": o.threads,
             "report_to": "none", "logging_steps": 1, "dtype": "bfloat16", "bf16": "true"}
    at = []
    with subprocess.Popen([str(build("hone")), "grpo", *(str(word) for name, value in words.items() for word in (f"--{name}", value))], stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.DEVNULL, env=environment_of(o.threads)) as process:
        for line in process.stdout:
            if line.startswith("step "):
                at.append((time.perf_counter(), processor_seconds(process.pid)))
    if process.returncode != 0 or len(at) != o.steps:
        sys.exit(f"hone grpo ended with {process.returncode} after {len(at)} steps")
    drawn = [json.loads(line) for line in (folder / "run/rollouts.jsonl").read_text(encoding="utf-8").splitlines()]
    return [tuple(b - a for a, b in zip(*pair)) for pair in zip(at, at[1:])], drawn[:o.steps]


def loop(o, folder, drawn):
    """([(wall, the server's, the client's processor seconds) of each step but the first], tokens of each step)."""
    with Server(build("hone"), "--root", str(folder / "root"), "--seed", str(SEED), "--threads", str(o.threads), "--dtype", "bfloat16", "--gradient_sums", o.sums, model=o.model,
                environment=environment_of(o.threads)) as server:
        plan = {"seed": SEED, "rate": RATE, "length": o.completion, "calls": 1, "rank": 16, "saves": False, "server": server.process.pid,
                "generations": [groups_of(one, o.group) for one in drawn], "other_tokens": o.shared or o.sums != "bins"}
        (folder / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
        done = subprocess.run([CLIENT, SOURCE / "tests/serve/tinker_grpo.py", server.url, "tiny", folder / "plan.json"], stdout=subprocess.PIPE, text=True, check=False,
                              env={**os.environ, "HF_HUB_OFFLINE": "1", "TINKER_TELEMETRY": "0"})
        if done.returncode != 0:
            sys.exit(f"the loop failed: {done.stdout[-2000:]}")
    told = json.loads(done.stdout.splitlines()[-1])
    at = told["clocks"]
    return [tuple(b - a for a, b in zip(*pair)) for pair in zip(at, at[1:])][1:], told["tokens"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--shared", action="store_true")
    parser.add_argument("--sums", choices=("arrival", "bins"), default="arrival")
    for name, default in dict(group=8, completion=64, prompt=32, steps=6, pairs=3, threads=2).items():
        parser.add_argument(f"--{name}", type=int, default=default)
    o = parser.parse_args()
    lines, rows, ratios = setting(o.threads), [], []
    for pair in range(1, o.pairs + 1):
        with tempfile.TemporaryDirectory() as folder:
            ours, drawn = grpo(o, pathlib.Path(folder))
            theirs, looped_tokens = loop(o, pathlib.Path(folder), drawn)
        tokens = [sum(sum(len(one["ids"]) for one in step["samples"]) for step in drawn[1:]), sum(looped_tokens[1:])]
        run, looped = ([statistics.median(one) for one in zip(*steps)] for steps in (ours, theirs))
        ratios.append((looped[0] / run[0], (looped[1] + looped[2]) / run[1], looped[1] / run[1]))
        rows.append([pair, *tokens, *(f"{one:.2f}" for one in (*run, *looped, *ratios[-1]))])
        print(*rows[-1], flush=True)
    head = ["pair", "run's tokens", "loop's", "run s", "its processor s", "loop s", "server's processor s", "client's", "wall: times the run", "processor: server and client", "server alone"]
    middle = [statistics.median(one) for one in zip(*ratios)]
    o.out.parent.mkdir(parents=True, exist_ok=True)
    o.out.write_text("\n".join([f"# A loop with the tinker SDK beside hone grpo, {o.threads} threads", "",
                                f"model {pathlib.Path(o.model).name}, bf16, LoRA r 16; prompts of {o.prompt} words, {o.group} completions of at most {o.completion} tokens a step; medians "
                                f"of {o.steps - 1} steps; the run {'computes a prompt once for its group' if o.shared else 'has share_prompt false'}; the server's "
                                f"sums are {'those of the run' if o.sums == 'bins' else 'by arrival, as by default'}", "", *lines, "", *table(head, rows), "",
                                f"Medians: {middle[0]:.2f} times the run's seconds, {middle[1]:.2f} times its processor time with the client, {middle[2]:.2f} without.", ""]), encoding="utf-8")
    print(o.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
