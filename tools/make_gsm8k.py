#!/usr/bin/env python3
"""GSM8K as prompts for GRPO: rows {"question", "answer"} of SOURCE/train.jsonl and test.jsonl (or of one file) to rows
{"prompt": [...], "solution": "18"} in FOLDER, for accuracy_reward.

SOURCE defaults to gsm8k in $HONE_DATA, or in data/ where that is not set. An answer's number follows its last "####"; thousands separators go.
"""
import argparse
import json
import os
import pathlib
import sys

# One solved question shows the form of an answer; a small model writes \boxed{} in a quarter of its completions after it,
# and in hardly any when it is only told to.
SHOWN = [{"role": "user", "content": "Tom has 3 bags with 4 apples each and eats 2 apples. How many apples are left?"},
         {"role": "assistant", "content": "There are 3 * 4 = 12 apples. After eating 2, 12 - 2 = 10 are left. The answer is \\boxed{10}."}]


def converted(row, where):
    reasoning, mark, number = row["answer"].rpartition("####")
    number = number.strip().replace(",", "")
    if not mark or not reasoning or not number:
        sys.exit(f"{where}: no #### and number in the answer: {row['answer'][-60:]!r}")
    return {"prompt": [*SHOWN, {"role": "user", "content": row["question"].strip()}], "solution": number}


def convert(source, target, most):
    with open(source, encoding="utf-8") as lines:
        rows = [converted(json.loads(line), f"{source}:{number}") for number, line in enumerate(lines, 1) if line.strip()]
    rows = rows[:most] if most else rows
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    print(f"{target}: {len(rows)} prompts")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--source", type=pathlib.Path, default=pathlib.Path(os.environ.get("HONE_DATA", "data")) / "gsm8k")
    parser.add_argument("--most", type=int, default=0, help="rows of each file; 0: all")
    args = parser.parse_args()
    files = [args.source] if args.source.is_file() else [args.source / name for name in ("train.jsonl", "test.jsonl")]
    for file in files:
        if not file.is_file():
            sys.exit(f"{file} is not there: --source (or gsm8k in $HONE_DATA) is the folder with GSM8K's train.jsonl and test.jsonl")
        convert(file, args.folder / file.name, args.most)


if __name__ == "__main__":
    main()
