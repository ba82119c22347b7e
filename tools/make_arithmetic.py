#!/usr/bin/env python3
"""Writes FOLDER/train.jsonl and FOLDER/test.jsonl: sums to learn by reinforcement, {"prompt": [...], "answer": "19"}.

The training file is a course: one-digit sums first, then more and more two-digit ones, so it is read in order
(shuffle_dataset: false). With --one-digit: one-digit sums alone, each once. With --sft: sums
and differences up to 99 with their completions, for supervised learning.
The same files on every machine and Python: a question's place is decided by SHA-256, not by `random`.
No question of the test is in the training file, nor its mirror (7 + 12 for 12 + 7).
"""
import argparse
import hashlib
import json
import pathlib

ONE_DIGIT, TWO_DIGITS = range(10), range(10, 100)
HELD_OUT = {1: 4, 2: 10}  # of sums: one key in so many; there are few one-digit ones
WARM_UP = 128             # rows of the course before the first two-digit sum
REVISION = 8              # after them: one row in so many is a one-digit sum


def rank(text):
    return hashlib.sha256(("hone arithmetic 1: " + text).encode()).hexdigest()


def is_held_out(key, one_in):
    return int(rank(key)[:8], 16) % one_in == 0


def prompt(text):
    return [{"role": "user", "content": f"What is {text}? Answer with the number only."}]


def in_order(texts, salt="order "):
    return sorted(texts, key=lambda text: rank(salt + text))


def sums(digits):
    """(train, test): texts such as "12 + 7", in an order that the hash decides; mirrored sums are in the same file."""
    train, test = [], []
    numbers = ONE_DIGIT if digits == 1 else TWO_DIGITS
    for a in numbers:
        for b in numbers:
            held_out = is_held_out(f"{min(a, b)}+{max(a, b)}", HELD_OUT[digits])
            (test if held_out else train).append(f"{a} + {b}")
    return in_order(train), in_order(test)


def course(rows):
    """Texts of the training file, in the order of learning; one-digit sums come again and again, two-digit ones as often as needed."""
    (one, _), (two, _) = sums(1), sums(2)
    out, taken = [], {1: 0, 2: 0}
    for row in range(rows):
        digits = 1 if row < WARM_UP or row % REVISION == 0 else 2
        texts = one if digits == 1 else two
        out.append(texts[taken[digits] % len(texts)])
        taken[digits] += 1
    return out


def sum_row(text):
    a, b = text.split(" + ")
    return {"prompt": prompt(text), "answer": str(int(a) + int(b))}


def sft_questions():
    """Every (key, text, answer); mirrored sums share their key, so that they land in the same file."""
    for a in range(100):
        for b in range(100):
            yield f"{min(a, b)}+{max(a, b)}", f"{a} + {b}", a + b
            if a >= b:
                yield f"{a}-{b}", f"{a} - {b}", a - b


def sft_split(train_rows, test_rows):
    """(train, test) with completions: one key in ten is held out; order and choice follow the hash."""
    answers, train, test = {}, [], []
    for key, text, answer in sft_questions():
        answers[text] = {"prompt": prompt(text), "completion": [{"role": "assistant", "content": str(answer)}]}
        (test if is_held_out(key, 10) else train).append(text)
    return [answers[text] for text in in_order(train)[:train_rows]], [answers[text] for text in in_order(test)[:test_rows]]


def write(path, rows):
    path.write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--sft", action="store_true", help="sums and differences with completions")
    parser.add_argument("--one-digit", action="store_true", help="one-digit sums alone")
    parser.add_argument("--train", type=int, default=4000)
    parser.add_argument("--test", type=int, default=200, help="of --sft, or the two-digit sums beside all one-digit ones")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    if args.sft:
        train, test = sft_split(args.train, args.test)
    elif args.one_digit:
        train, test = ([sum_row(text) for text in texts] for texts in sums(1))
    else:
        train = [sum_row(text) for text in course(args.train)]
        test = [sum_row(text) for text in sums(1)[1] + sums(2)[1][:args.test]]
    write(args.folder / "train.jsonl", train)
    write(args.folder / "test.jsonl", test)
    print(f"data: {len(train)} questions to train on, {len(test)} held out -> {args.folder}")


if __name__ == "__main__":
    main()
