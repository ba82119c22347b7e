#!/usr/bin/env python3
"""Writes FOLDER/train.jsonl and FOLDER/test.jsonl: sums and differences of one- and two-digit numbers.

The same files on every machine and Python: a question's place is decided by SHA-256, not by `random`.
No question of the test is in the training file, nor its mirror (7 + 12 for 12 + 7).
"""
import argparse
import hashlib
import json
import pathlib


def rank(text):
    return hashlib.sha256(("hone arithmetic 1: " + text).encode()).hexdigest()


def questions():
    """Every (key, text, answer); mirrored sums share their key, so that they land in the same file."""
    for a in range(100):
        for b in range(100):
            yield f"{min(a, b)}+{max(a, b)}", f"{a} + {b}", a + b
            if a >= b:
                yield f"{a}-{b}", f"{a} - {b}", a - b


def row(text, answer):
    return {
        "prompt": [{"role": "user", "content": f"What is {text}? Answer with the number only."}],
        "completion": [{"role": "assistant", "content": str(answer)}],
    }


def split(train_rows, test_rows):
    """(train, test): one key in ten is held out; order and choice follow the hash."""
    train, test = [], []
    for key, text, answer in questions():
        held_out = int(rank(key)[:8], 16) % 10 == 0
        (test if held_out else train).append((rank("order " + text), row(text, answer)))
    pick = lambda rows, count: [r for _, r in sorted(rows, key=lambda item: item[0])[:count]]
    return pick(train, train_rows), pick(test, test_rows)


def write(path, rows):
    path.write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--train", type=int, default=4000)
    parser.add_argument("--test", type=int, default=100)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    train, test = split(args.train, args.test)
    write(args.folder / "train.jsonl", train)
    write(args.folder / "test.jsonl", test)
    print(f"data: {len(train)} questions to train on, {len(test)} held out -> {args.folder}")


if __name__ == "__main__":
    main()
