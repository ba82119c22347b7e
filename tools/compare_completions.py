#!/usr/bin/env python3
"""Held-out accuracy before and after training, and the first five completions side by side.

An answer is right when the last number in the completion is the expected one: "12 + 7 = 19" counts, so the model
before training is not marked down for its manners. The five shown are the file's first five, not the best.
"""
import argparse
import json
import re


def rows(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def text(value):
    """A completion or prompt as text: plain, or the content of its last message."""
    return value if isinstance(value, str) else value[-1]["content"]


def is_right(completion, expected):
    numbers = re.findall(r"-?\d+", re.sub(r"(?<=\d),(?=\d{3})", "", completion))
    return bool(numbers) and numbers[-1] == expected


def score(test, answers):
    """One bool a row; the two files have to be about the same questions in the same order."""
    if len(test) != len(answers):
        raise SystemExit(f"{len(test)} questions but {len(answers)} completions: generate them again (--again)")
    return [is_right(text(a["completion"]), text(t["completion"])) for t, a in zip(test, answers)]


def shorten(value, width):
    value = " ".join(value.split())
    return value if len(value) <= width else value[: width - 3] + "..."


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("test")
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--show", type=int, default=5)
    args = parser.parse_args()
    test, before, after = rows(args.test), rows(args.before), rows(args.after)
    right_before, right_after = score(test, before), score(test, after)

    line = "{:<24} {:>8}   {:<32} {:<24}"
    print(line.format("held-out question", "answer", "before", "after"))
    for i in range(min(args.show, len(test))):
        question = text(test[i]["prompt"]).split("?")[0] + "?"
        cells = [("right  " if ok else "wrong  ") + shorten(text(a["completion"]), 22)
                 for ok, a in ((right_before[i], before[i]), (right_after[i], after[i]))]
        print(line.format(question, text(test[i]["completion"]), *cells).rstrip())
    print()
    for name, right in (("before", right_before), ("after", right_after)):
        print(f"held-out accuracy {name + ':':<8} {sum(right):>4} of {len(right)}  ({100 * sum(right) / len(right):.0f} %)")


if __name__ == "__main__":
    main()
