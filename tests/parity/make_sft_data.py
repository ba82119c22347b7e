"""Writes FIXTURES/sft/: text.jsonl, prompt_completion.jsonl and messages.jsonl (40 rows each, the same content in the
three forms of SFT data) and eval_text.jsonl (6 rows). Seeded; every row differs; the lengths differ widely, so that
truncation, packing and padding all happen. usage: make_sft_data.py [FOLDER]"""
import json
import random
import sys
from pathlib import Path

from common import FIXTURES, enter

PROSE = ["A kettle sings before it boils, and the cook who listens is never late.",
         "The lighthouse keeper counted seven ships, wrote the number down, and went back to his book.",
         "Rain fell on the tin roof all night; by morning the path to the well was a small river.",
         "Two clocks in the same hall never agree, so the porter asks the sun.",
         "She kept the letters in a blue box, tied with string, in the order in which they were not answered.",
         "When the orchard freezes, the old trees crack like glass and the young ones only bend."]


def pairs(count, seed):
    """(prompt, completion): sums of two or three numbers, products, and every seventh a line of prose to continue."""
    draw = random.Random(seed)
    for n in range(count):
        a, b, c = draw.randint(2, 99), draw.randint(2, 99), draw.randint(2, 9)
        if n % 7 == 6:
            line = PROSE[(n // 7 + seed) % len(PROSE)]
            cut = line.index(" ", len(line) // 2)
            yield f"Go on with line {n}: {line[:cut]}", line[cut:]
        elif n % 3 == 0:
            yield f"What is {a} + {b}?", f" {a + b}"
        elif n % 3 == 1:
            yield f"What is {a} * {c}?", f" {a} * {c} = {a * c}, that is {' + '.join([str(a)] * c)}."
        else:
            yield f"Add {a}, {b} and {c}.", f" {a} + {b} = {a + b}, and {a + b} + {c} = {a + b + c}."


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def main():
    enter()
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else FIXTURES / "sft"
    out.mkdir(parents=True, exist_ok=True)
    rows = list(pairs(40, seed=7))
    assert len(set(rows)) == len(rows)
    write(out / "text.jsonl", ({"text": prompt + completion} for prompt, completion in rows))
    write(out / "prompt_completion.jsonl", ({"prompt": p, "completion": c} for p, c in rows))
    write(out / "messages.jsonl", ({"messages": [{"role": "user", "content": p},
                                                 {"role": "assistant", "content": c.strip()}]} for p, c in rows))
    write(out / "eval_text.jsonl", ({"text": p + c} for p, c in pairs(6, seed=8)))


main()
