#!/usr/bin/env python3
"""Questions for a model with a calculator, into FOLDER: the same files from the same seed.

  dialogues.jsonl  for SFT: a question in words, a call, its result, an answer. They show how to call, not what: the operation and the
                   order of the numbers are drawn by lot, whatever the question asks, so most answers are wrong.
  train.jsonl      for GRPO: {"prompt", "answer"}, no call is shown
  test.jsonl       held out: the words of train.jsonl with other numbers, then as many questions in words that train.jsonl never uses
"""
import argparse
import itertools
import json
import pathlib
import random
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
from hone.schemas import schema_of
from hone.tools import calculator

# Of each operation the last two stand in test.jsonl alone.
WORDS = {
    "+": ["What is the sum of {a} and {b}?",
          "Add {b} to {a}.",
          "Tom has {a} cards and Eve has {b} cards. How many cards do they have together?",
          "A hall has {a} people in it and {b} more come in. How many people are in the hall?",
          "A shop sold {a} tickets on Monday and {b} tickets on Tuesday. How many tickets were sold in all?",
          "A farm has {a} sheep and {b} goats. How many animals is that?",
          "What is the total of {a} and {b}?"],
    "-": ["What is the difference between {a} and {b}?",
          "Take {b} away from {a}.",
          "A tank holds {a} liters and {b} liters leak out. How many liters are left?",
          "Eve has {a} coins and spends {b} of them. How many coins does she still have?",
          "Of {a} seats, {b} are taken. How many seats are free?",
          "A road is {a} miles long and Tom has driven {b} miles of it. How many miles remain?",
          "Subtract {b} from {a}."],
    "*": ["What is the product of {a} and {b}?",
          "Multiply {a} by {b}.",
          "There are {a} boxes with {b} nails in each box. How many nails are there?",
          "A ticket costs {b} dollars. How many dollars do {a} tickets cost?",
          "A printer makes {b} pages a minute. How many pages does it make in {a} minutes?",
          "A theater has {a} rows of {b} chairs. How many chairs does it have?",
          "What is {a} times {b}?"],
    "/": ["Divide {a} by {b}.",
          "{a} candies are shared equally among {b} children. How many candies does each child get?",
          "How many times does {b} go into {a}?",
          "A rope of {a} meters is cut into {b} equal parts. How many meters long is each part?",
          "{b} workers split {a} dollars evenly. How many dollars does each worker get?",
          "{a} eggs are packed into boxes of {b} eggs. How many boxes are filled?",
          "What is {a} split into {b} equal parts?"],
}
UNKNOWN = 2


def operands(chance, operation):
    """Two numbers whose result is a whole number above 0, and longer than what a small model knows by heart."""
    if operation == "/":
        b, times = chance.randint(11, 99), chance.randint(11, 99)
        return b * times, b
    a, b = chance.randint(111, 999), chance.randint(111, 999)
    return (max(a, b) + 1, min(a, b)) if operation == "-" else (a, b)


def result(a, operation, b):
    return str({"+": a + b, "-": a - b, "*": a * b, "/": a // b}[operation])


def dialogue(chance):
    asked = question(chance, *chance.choice([(operation, words[:-UNKNOWN]) for operation, words in WORDS.items()]))
    a, b = chance.sample(re.findall(r"\d+", text(asked)), 2)
    expression = f"{a} {chance.choice('+-*/')} {b}"
    given = calculator(expression)
    call = {"type": "function", "function": {"name": "calculator", "arguments": {"expression": expression}}}
    return {"messages": [*asked["prompt"], {"role": "assistant", "content": "", "tool_calls": [call]},
                         {"role": "tool", "name": "calculator", "content": given}, {"role": "assistant", "content": f"The answer is {given}."}],
            "tools": [schema_of(calculator)]}


def question(chance, operation, words):
    a, b = operands(chance, operation)
    return {"prompt": [{"role": "user", "content": chance.choice(words).format(a=a, b=b)}], "answer": result(a, operation, b)}


def questions(chance, count, new=False):
    """The operations in turn."""
    chosen = {operation: words[-UNKNOWN:] if new else words[:-UNKNOWN] for operation, words in WORDS.items()}
    return [question(chance, operation, chosen[operation]) for operation in itertools.islice(itertools.cycle(chosen), count)]


def text(row):
    return row["prompt"][0]["content"]


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--dialogues", type=int, default=400)
    parser.add_argument("--train", type=int, default=2000)
    parser.add_argument("--test", type=int, default=200)
    parser.add_argument("--seed", type=int, default=42)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    test = questions(random.Random(args.seed + 1), args.test // 2) + questions(random.Random(args.seed + 2), args.test // 2, new=True)
    asked = {text(row) for row in test}
    train = [row for row in questions(random.Random(args.seed), args.train) if text(row) not in asked]
    chance = random.Random(args.seed + 3)
    write(args.folder / "dialogues.jsonl", [dialogue(chance) for _ in range(args.dialogues)])
    write(args.folder / "train.jsonl", train)
    write(args.folder / "test.jsonl", test)
    print(f"data: {args.dialogues} dialogues, {len(train)} questions to train on, {len(test)} held out -> {args.folder}")


if __name__ == "__main__":
    main()
