#!/usr/bin/env python3
"""What `hone plan` forecasts for 1, 2, 4 and 8 processes, beside what they take here. No time is asserted: the ratios are printed.

Fails where a run or the plan fails, or where the plan's micro-batches of a step are not those of the run.
Prints `ok NAME`, `not ok NAME` or `skip NAME`. usage: ranks_plan.py [--hone PROGRAM] [--model FOLDER] [--ranks 1,2,4,8] [--steps 6]
"""
import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
TINY = SOURCE / "tests/fixtures/parity/tiny_llama"
WORDS = "the a sum of two small numbers is seven nine green blue river stone light house walks runs and then".split()


def write_rows(path, rows, least, most):
    rng = random.Random(11)
    with path.open("w") as out:
        for _ in range(rows):
            out.write(json.dumps({"text": " ".join(rng.choice(WORDS) for _ in range(rng.randint(least, most)))}) + "\n")


def run(words):
    environment = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
    done = subprocess.run([str(word) for word in words], env=environment, capture_output=True, text=True, timeout=1500)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, words))} ended with {done.returncode}:\n{done.stdout[-800:]}{done.stderr[-1500:]}")
    return done.stdout


def measured(folder):
    """Seconds of a step without the first log, in which the program warms up; tokens of a step."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    steps = [line for line in lines if "performance" in line]
    seconds = sorted(line["performance"]["seconds"] / line["performance"]["steps"] for line in steps[1:])
    return seconds[len(seconds) // 2], steps[-1]["num_tokens"] / steps[-1]["step"]


def compare(hone, name, model, ranks, steps, options, folder):
    data = folder / "rows.jsonl"
    write_rows(data, 8 * max(ranks) * (steps + 1), *options.pop("words"))
    common = ["--model_name_or_path", model, "--dataset_name", data, "--use_peft", "true", "--lora_target_modules", "all-linear"]
    for key, value in options.items():
        common += [f"--{key}", value]
    plan = json.loads(run([hone, "plan", "sft", *common, "--nproc", ",".join(map(str, ranks)), "--json"]))
    good = True
    for row in plan["rows"]:
        count = row["ranks"]
        output = folder / f"{name}-{count}"
        command = ["sft", *common, "--max_steps", steps, "--logging_steps", 1, "--save_strategy", "no", "--skip_doctor", "true",
                   "--report_page", "false", "--output_dir", output]
        run([hone, "launch", "--nproc", count, "--", *command] if count > 1 else [hone, *command])
        seconds, tokens = measured(output)
        same = abs(tokens - row["tokens_of_step"]) <= 0.5 * row["tokens_of_step"]  # other rows, as many micro-batches
        good = good and same
        print(f"{'ok' if same else 'not ok'} plan: {name}, {count} ranks: {row['step_seconds'] * 1e3:.1f} ms planned, "
              f"{seconds * 1e3:.1f} ms measured, ratio {row['step_seconds'] / seconds:.2f}; {tokens:.0f} tokens a step, "
              f"{row['tokens_of_step']:.0f} planned", flush=True)
    return good


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hone", type=pathlib.Path, default=SOURCE / "build/hone")
    parser.add_argument("--model", type=pathlib.Path, help="a folder of a model beside the tiny one")
    parser.add_argument("--ranks", default="1,2,4,8")
    parser.add_argument("--steps", type=int, default=6)
    arguments = parser.parse_args()
    ranks = [int(word) for word in arguments.ranks.split(",")]
    size = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2, "max_length": 256}
    good = True
    cases = [("tiny", TINY, {**size, "words": (20, 60)})]
    if arguments.model is not None and arguments.model.exists():
        cases.append((arguments.model.name, arguments.model, {**size, "per_device_train_batch_size": 2, "words": (60, 160)}))
    elif arguments.model is not None:
        print(f"skip plan: {arguments.model} is not there")
    for name, model, options in cases:
        with tempfile.TemporaryDirectory() as folder:
            try:
                good = compare(arguments.hone, name, model, ranks, arguments.steps, options, pathlib.Path(folder)) and good
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                good = False
                print(f"not ok plan: {name}\n  {error}", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
