#!/usr/bin/env python3
"""Preference pairs for DPO: rows {"prompt", "chosen", "rejected"} of SOURCE/train.jsonl, the prompt and each answer as messages,
to FOLDER/train.jsonl and, every fifth problem, FOLDER/test.jsonl (held out: no problem is in both). The same for KTO, rows
{"prompt", "completion", "label"}, right and wrong ones shuffled: FOLDER/marked-train.jsonl and FOLDER/marked-test.jsonl.

SOURCE defaults to gsm8k-preference in $HONE_DATA, or in data/ where that is not set.
"""
import argparse
import json
import os
import pathlib
import random
import sys


def converted(row, where):
    if any(not isinstance(row.get(name), str) or not row[name].strip() for name in ("prompt", "chosen", "rejected")):
        sys.exit(f"{where}: expected prompt, chosen and rejected as text")
    message = lambda role, text: [{"role": role, "content": text.strip()}]  # noqa: E731
    return {"prompt": message("user", row["prompt"]), "chosen": message("assistant", row["chosen"]),
            "rejected": message("assistant", row["rejected"])}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--source", type=pathlib.Path, default=pathlib.Path(os.environ.get("HONE_DATA", "data")) / "gsm8k-preference")
    args = parser.parse_args()
    file = args.source if args.source.is_file() else args.source / "train.jsonl"
    if not file.is_file():
        sys.exit(f"{file} is not there: --source (or gsm8k-preference in $HONE_DATA) is the folder with the pairs' train.jsonl")
    with open(file, encoding="utf-8") as lines:
        rows = [converted(json.loads(line), f"{file}:{number}") for number, line in enumerate(lines, 1) if line.strip()]
    problems = list(dict.fromkeys(row["prompt"][0]["content"] for row in rows))
    held_out = set(problems[::5])
    args.folder.mkdir(parents=True, exist_ok=True)
    for name, wanted in (("train", False), ("test", True)):
        some = [row for row in rows if (row["prompt"][0]["content"] in held_out) == wanted]
        (args.folder / f"{name}.jsonl").write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in some), encoding="utf-8")
        print(f"{args.folder / name}.jsonl: {len(some)} pairs")
        marked = [{"prompt": row["prompt"], "completion": row[side], "label": side == "chosen"}
                  for row in some for side in ("chosen", "rejected")]
        random.Random(7).shuffle(marked)
        (args.folder / f"marked-{name}.jsonl").write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in marked),
                                                          encoding="utf-8")


if __name__ == "__main__":
    main()
