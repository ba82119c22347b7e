#!/usr/bin/env python3
"""Held-out accuracy before and after training, by the digits of the question, and some completions side by side.

An answer is right when the last number in the completion is the expected one: "12 + 7 = 19" counts, so the model
before training is not marked down for its manners. Those shown are the first of each kind in the file, not the best.
"""
import argparse
import json
import re

KINDS = {1: "one-digit", 2: "two-digit"}


def rows(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def text(value):
    """A completion or prompt as text: plain, or the content of its last message."""
    return value if isinstance(value, str) else value[-1]["content"]


def expected(row):
    return str(row["answer"]) if "answer" in row else text(row["completion"])


def kind(row):
    """The digits of the question's longest number."""
    digits = max((len(number) for number in re.findall(r"\d+", text(row["prompt"]))), default=0)
    return KINDS.get(digits, f"{digits} digits")


def is_right(completion, answer):
    numbers = re.findall(r"-?\d+", re.sub(r"(?<=\d),(?=\d{3})", "", completion))
    return bool(numbers) and numbers[-1] == answer


def score(test, answers):
    """One bool a row; the two files have to be about the same questions in the same order."""
    if len(test) != len(answers):
        raise SystemExit(f"{len(test)} questions but {len(answers)} completions: generate them again (--again)")
    return [is_right(text(a["completion"]), expected(t)) for t, a in zip(test, answers)]


def shorten(value, width):
    value = " ".join(value.split())
    return value if len(value) <= width else value[: width - 3] + "..."


def shown(kinds, each):
    """Positions of the first `each` of every kind."""
    return [i for name in dict.fromkeys(kinds) for i in [i for i, k in enumerate(kinds) if k == name][:each]]


def share(right):
    return f"{sum(right):>4} of {len(right):<4}{100 * sum(right) / len(right):4.0f} %"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("test")
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--show", type=int, default=3, help="of each kind")
    args = parser.parse_args()
    test, before, after = rows(args.test), rows(args.before), rows(args.after)
    right_before, right_after = score(test, before), score(test, after)
    kinds = [kind(row) for row in test]

    line = "{:<24} {:>8}   {:<32} {:<24}"
    print(line.format("held-out question", "answer", "before", "after").rstrip())
    for i in shown(kinds, args.show):
        question = text(test[i]["prompt"]).split("?")[0] + "?"
        cells = [("right  " if ok else "wrong  ") + shorten(text(a["completion"]), 22)
                 for ok, a in ((right_before[i], before[i]), (right_after[i], after[i]))]
        print(line.format(question, expected(test[i]), *cells).rstrip())
    print()
    for name in dict.fromkeys(kinds):
        pick = lambda right: [ok for ok, k in zip(right, kinds) if k == name]
        print(f"held-out {name:<10} before: {share(pick(right_before))}   after: {share(pick(right_after))}")


if __name__ == "__main__":
    main()
