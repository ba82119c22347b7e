#!/usr/bin/env python3
"""The tokens of a Parquet file of conversations: `hone sft` up to its first step beside `datasets.map` with apply_chat_template.

usage: bench/tokens_beside_datasets.py --model FOLDER [--rows 1000000] [--pairs 1] [--threads 2] [--out FILE] [--quick]
Both read the same file in turn, with as many threads or processes; neither finds kept tokens. hone's time is that from its start to
`run`, less that for 64 rows; its CPU time is the whole run's, less that for 64 rows. Of `datasets` the call of map is timed, after
loading; its CPU time is the whole process's. Run it with a Python that has datasets and transformers.
"""
import argparse
import importlib.metadata
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

from setting import SOURCE, build, environment_of, setting, table

FEW = 64
MAP = """
import sys, time
import datasets, transformers
model, file, processes, cache = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
datasets.disable_progress_bars()
tokenizer = transformers.AutoTokenizer.from_pretrained(model)
rows = datasets.load_dataset("parquet", data_files=file, split="train", cache_dir=cache)
def tokens(row):
    return {"input_ids": tokenizer.apply_chat_template(row["messages"], tokenize=True, return_dict=True)["input_ids"]}
begin = time.perf_counter()
rows.map(tokens, num_proc=processes, load_from_cache_file=False)
print("SECONDS", time.perf_counter() - begin)
"""


def write_rows(path, count):
    """Conversations of 30 and 60 words, drawn from the README."""
    import pyarrow
    import pyarrow.parquet
    words = sorted(set(re.findall(r"[A-Za-z]+", (SOURCE / "README.md").read_text(encoding="utf-8"))))
    draw = random.Random(1)
    block = [[{"role": "user", "content": " ".join(draw.choices(words, k=30))},
              {"role": "assistant", "content": " ".join(draw.choices(words, k=60))}] for _ in range(min(count, 100_000))]
    part = pyarrow.table({"messages": block})
    whole = pyarrow.concat_tables([part] * -(-count // len(block))).slice(0, count)
    pyarrow.parquet.write_table(whole, path)


def ran(words, threads, mark, more=()):
    """Seconds to the line that begins with `mark`, that line, and the CPU seconds of the process and its children."""
    clock, seen = time.perf_counter(), None
    with subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          env=dict(environment_of(threads), **dict(more))) as process:
        for line in process.stdout:
            if line.startswith(mark) and seen is None:
                seen = (time.perf_counter() - clock, line)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0 or seen is None:
        sys.exit(f"{words[0]} failed, or printed no {mark}")
    return (*seen, usage.ru_utime + usage.ru_stime)


def hone(a, file, folder):
    seconds, _, cpu = ran([build("hone"), "sft", "--model_name_or_path", a.model, "--dataset_name", file, "--use_peft", "true", "--max_steps", 1,
                           "--per_device_train_batch_size", 1, "--skip_doctor", "true", "--threads", a.threads, "--cache_tokens", "false",
                           "--output_dir", folder / f"out-{time.monotonic_ns()}"], a.threads, "run ")
    return seconds, cpu


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--pairs", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--quick", action="store_true")
    a = parser.parse_args()
    count = 2000 if a.quick else a.rows
    lines = [f"# Tokens of {count:,} conversations: hone beside datasets.map", "", *setting(a.threads),
             "- " + ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("datasets", "transformers", "tokenizers")), ""]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        write_rows(folder / "rows.parquet", count)
        write_rows(folder / "few.parquet", FEW)
        rows, ratios = [], []
        for pair in range(a.pairs):
            least, least_cpu = hone(a, folder / "few.parquet", folder)
            ours, our_cpu = hone(a, folder / "rows.parquet", folder)
            ours, our_cpu = ours - least, our_cpu - least_cpu
            _, said, their_cpu = ran([sys.executable, "-c", MAP, a.model, folder / "rows.parquet", a.threads, folder / "cache"], a.threads, "SECONDS")
            theirs = float(said.split()[1])
            ratios.append(theirs / ours)
            rows.append((pair + 1, f"{count / ours:,.0f}", f"{count / theirs:,.0f}", f"{ratios[-1]:.2f}", f"{our_cpu:.1f}", f"{their_cpu:.1f}"))
    lines += table(("pair", "hone, rows a second", "datasets.map, rows a second", "ratio", "hone, CPU s", "datasets, CPU s"), rows)
    lines += ["", f"Median ratio {statistics.median(ratios):.2f}.", "",
              f"`bench/tokens_beside_datasets.py --model {pathlib.Path(a.model).name} --rows {count} --pairs {a.pairs} --threads {a.threads}`", ""]
    text = "\n".join(lines)
    print(text)
    if a.out:
        a.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
