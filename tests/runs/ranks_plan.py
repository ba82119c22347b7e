#!/usr/bin/env python3
"""What `hone plan` forecasts for 1, 2, 4 and 8 processes, beside what they take here. No time is asserted: the ratios are printed.

Fails where a run or the plan fails, or where the plan's micro-batches of a step are not those of the run. With --methods it plans every
method, and compares rows, memory and options of the plan with each other and with a run of one process.
Prints `ok NAME`, `not ok NAME` or `skip NAME`. usage: ranks_plan.py [--hone PROGRAM] [--model FOLDER] [--ranks 1,2,4,8] [--steps 6] [--methods]
"""
import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

from ranks import METHODS, Runs, report, results, write_data

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


def plan_of(runs, case, more):
    words = runs.words(case, runs.folder / "unused", 2)
    del words[words.index("--max_steps"):words.index("--max_steps") + 2]
    return json.loads(run([words[0], "plan", *words[1:], *more, "--json"]))


def problems_of(plan, ranks):
    """What cannot be, whatever was measured."""
    rows = plan["rows"]
    if [row["ranks"] for row in rows] != ranks:
        yield f"rows of {[row['ranks'] for row in rows]} ranks"
    for row in rows:
        parts = [row[f"{part}_seconds"] for part in ("compute", "imbalance", "optimizer", "communication")]
        if not all(0 <= part < 1000 for part in parts) or abs(sum(parts) - row["step_seconds"]) > 1e-6 * row["step_seconds"]:
            yield f"{row['ranks']} ranks: {parts} make {row['step_seconds']} s"
        if sum(row["segments"].values()) != row["memory_of_rank"]:
            yield f"{row['ranks']} ranks: segments make {sum(row['segments'].values())} of {row['memory_of_rank']}"
        base = next((size for name, size in row["segments"].items() if name.startswith(("base weights", "the model as"))), 0)
        of_host = row["ranks"] * row["memory_of_rank"] - (row["ranks"] - 1) * base
        if row["memory_of_host"] != of_host:
            yield f"{row['ranks']} ranks: a host has {row['memory_of_host']}, not {of_host} with one base of {base}"
        if (row["bytes_sent_by_rank"] > 0) != (row["ranks"] > 1):
            yield f"{row['ranks']} ranks send {row['bytes_sent_by_rank']}"


def check_method(runs, case):
    ranks, one = [1, 2, 4], runs.folder / f"one-{case.replace(' ', '_').replace(',', '')}"
    codes, texts = runs.run(runs.words(case, one, 2, {"max_steps": 4}.items()), 1)
    if any(codes):
        return report(f"plan, {case}", False, texts[0][-1500:])
    plan = plan_of(runs, case, ["--nproc", "1,2,4"])
    why = list(problems_of(plan, ranks))
    tokens = [line["num_tokens"] / line["step"] for line in results(one)["metrics"] if "num_tokens" in line]
    rows = plan["rows"]
    samples = METHODS[case][0] in ("grpo", "rloo", "online-dpo")
    if not samples and tokens and not 0.4 < rows[0]["tokens_of_step"] / tokens[-1] < 2.5:
        why.append(f"{rows[0]['tokens_of_step']} tokens a step planned, {tokens[-1]} in the run")
    set_step = plan_of(runs, case, ["--nproc", "1,2,4", "--step_seconds", "50"])["rows"]
    if abs(set_step[0]["step_seconds"] - 50) > 2.5:  # uneven rows: the mean step is not that of all rows
        why.append(f"--step_seconds 50 gives {set_step[0]['step_seconds']}")
    measured_step = plan_of(runs, case, ["--nproc", "1", "--measured", one])
    last = [line["performance"] for line in map(json.loads, (one / "metrics.jsonl").read_text().splitlines()) if "performance" in line][-1]
    seconds = last["seconds"] / last["steps"]
    if abs(measured_step["rows"][0]["step_seconds"] - seconds) > 0.1 * seconds:
        why.append(f"--measured gives {measured_step['rows'][0]['step_seconds']}, the run took {seconds}")
    many = plan_of(runs, case, ["--nproc", "1,2,4", "--cores", "64", "--step_seconds", "50"])
    if many["processors_of_host"] != 64 or not many["rows"][0]["compute_seconds"] <= set_step[0]["compute_seconds"] * 1.5:
        why.append(f"--cores 64: {many['rows'][0]['compute_seconds']} s, not fewer than {set_step[0]['compute_seconds']}")
    kept = plan_of(runs, case, ["--nproc", "1,2", "--keep_batch"])["rows"]
    if abs(kept[1]["tokens_of_step"] - kept[0]["tokens_of_step"]) > 0.3 * kept[0]["tokens_of_step"]:
        why.append(f"--keep_batch: {[row['tokens_of_step'] for row in kept]} tokens a step")
    return report(f"plan, {case}: {rows[0]['step_seconds'] * 1e3:.1f} ms, {rows[0]['tokens_of_step']:.0f} tokens a step planned", not why,
                  "; ".join(why))


def check_methods(hone):
    cases = ("sft", "dpo", "kto", "reward", "orpo", "grpo", "online dpo", "sft of all weights")
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(hone, pathlib.Path(folder))
        write_data(runs.folder)
        good = True
        for case in cases:
            try:
                good &= check_method(runs, case)
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                good = report(f"plan, {case}", False, str(error))
        return good


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hone", type=pathlib.Path, default=SOURCE / "build/hone")
    parser.add_argument("--model", type=pathlib.Path, help="a folder of a model beside the tiny one")
    parser.add_argument("--ranks", default="1,2,4,8")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--methods", action="store_true")
    arguments = parser.parse_args()
    if arguments.methods:
        return 0 if check_methods(arguments.hone) else 1
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
