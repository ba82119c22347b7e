#!/usr/bin/env python3
"""Memory and time to the first step of `hone sft` on a large JSONL file.

usage: bench/large_file.py --model FOLDER --source train.jsonl --gigabytes 10 --folder /tmp/large [-- OPTIONS]

The rows are conversations of two to six questions and answers of SOURCE (GSM8K's form: question, answer), each row with a number of its
own. The file is made once and kept in FOLDER; delete it yourself. OPTIONS go to hone, such as --dataset_streaming true. Printed: the time
from the start to the end of step 1, the largest RssAnon and RssFile of samples every half second, and VmHWM."""
import argparse
import json
import os
import random
import subprocess
import time
from pathlib import Path


def make_rows(source, path, size):
    random.seed(1)
    pairs = [json.loads(line) for line in open(source)]
    conversations = []
    for _ in range(40_000):
        turns = []
        for pair in random.sample(pairs, random.randint(2, 6)):
            turns += [{"role": "user", "content": pair["question"]}, {"role": "assistant", "content": pair["answer"]}]
        conversations.append(json.dumps(turns, ensure_ascii=False)[len('[{"role": "user", "content": "'):])
    written = rows = 0
    with open(path, "w", buffering=1 << 24) as file:
        while written < size:
            text = conversations[rows % len(conversations)]
            row = '{"id": %d, "messages": [{"role": "user", "content": "Problem %d. %s}\n' % (rows, rows, text)
            written += file.write(row)
            rows += 1


def status(pid):
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return {}
    return {line.split(":")[0]: int(line.split()[1]) for line in lines if line.startswith(("Rss", "VmHWM"))}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hone", default="build/hone")
    parser.add_argument("--model", required=True)
    parser.add_argument("--source", required=True)
    parser.add_argument("--gigabytes", type=float, default=10)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("options", nargs="*", help="after --: hone's")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    data = asked.folder / f"rows-{asked.gigabytes:g}.jsonl"
    if not data.exists():
        make_rows(asked.source, data, asked.gigabytes * 1e9)
    environment = {**os.environ, "XDG_CACHE_HOME": str(asked.folder / "cache"), "TMPDIR": str(asked.folder)}
    command = [asked.hone, "sft", "--model_name_or_path", asked.model, "--dataset_name", str(data), "--use_peft",
               "--max_length", "512", "--per_device_train_batch_size", "1", "--max_steps", "5", "--save_strategy", "no",
               "--logging_steps", "1",
               "--overwrite_output_dir", "--output_dir", str(asked.folder / "out"), "--skip_doctor", *asked.options]
    begin, peak, first = time.time(), {}, None
    metrics = asked.folder / "out" / "metrics.jsonl"
    metrics.unlink(missing_ok=True)
    process = subprocess.Popen(command, env=environment)
    while process.poll() is None:
        for name, value in status(process.pid).items():
            peak[name] = max(peak.get(name, 0), value)
        if first is None and metrics.exists() and metrics.stat().st_size > 0:
            first = time.time() - begin
        time.sleep(0.5)
    print(json.dumps({"bytes": data.stat().st_size, "options": asked.options, "exit": process.returncode,
                      "first_step_s": first and round(first, 1), "whole_s": round(time.time() - begin, 1),
                      **{f"{name}_MB": round(kib / 1024) for name, kib in sorted(peak.items())}}))


main()
