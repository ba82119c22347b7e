"""What open-r1's rewards give: FIXTURES/rewards/open_r1.json. usage: record_open_r1.py [--out FOLDER]

The formulas are those of github.com/huggingface/open-r1, src/open_r1/rewards.py (April 2026), with math_verify's own parse
and verify, written here without what prints or times out. Each entry: the word of reward_funcs, completions, perhaps columns
or lengths, and scores (null: None)."""
import argparse
import logging
import math
import re
from pathlib import Path

import common
from common import FIXTURES, write_json
from latex2sympy2_extended import NormalizationConfig
from math_verify import LatexExtractionConfig, parse, verify


def box(text):
    return rf"\boxed{{{text}}}"


def answer(text, boxed):
    config = NormalizationConfig(nits=False, malformed_operators=False, basic_latex=True, equations=True, boxed=boxed, units=True)
    target = LatexExtractionConfig(normalization_config=config, boxed_match_priority=0, try_extract_without_anchor=False)
    return parse(text, extraction_config=[target], extraction_mode="first_match")


def accuracy(texts, solution):
    scores = []
    for text, sol in zip(texts, solution, strict=True):
        gold = parse(sol, extraction_mode="first_match")
        scores.append(float(verify(gold, answer(text, "all"))) if gold else None)
    return scores


def latex_correct(text, sol):
    """As cosine and length judge; None: no LaTeX in the gold."""
    gold = parse(sol, extraction_mode="first_match", extraction_config=[LatexExtractionConfig()])
    return verify(answer(text, True), gold) if gold else None


def tags(text):
    return sum(0.25 for tag in ("<think>\n", "\n</think>\n", "\n<answer>\n", "\n</answer>") if text.count(tag) == 1)


def matches(pattern, text):
    return 1.0 if re.match(pattern, text, re.DOTALL | re.MULTILINE) else 0.0


def steps(text):
    return min(1.0, len(re.findall(r"(Step \d+:|^\d+\.|\n-|\n\*|First,|Second,|Next,|Finally,)", text)) / 3)


def length(texts, solution):
    right = [latex_correct(text, sol) is not False for text, sol in zip(texts, solution, strict=True)]
    sizes = [len(text) for text in texts]
    low, high = min(sizes), max(sizes)
    if low == high:
        return [0.0] * len(texts)
    scaled = [0.5 - (size - low) / (high - low) for size in sizes]
    return [float(score if good else min(0, score)) for score, good in zip(scaled, right, strict=True)]


def cosine(texts, solution, min_wrong=0.0, max_wrong=-0.5, min_right=0.5, max_right=1.0, longest=1000):
    scores = []
    for text, sol in zip(texts, solution, strict=True):
        good = latex_correct(text, sol)
        low, high = (min_right, max_right) if good else (max_wrong, min_wrong)
        curve = math.cos(len(text) / longest * math.pi)
        scores.append(1.0 if good is None else float(low + 0.5 * (high - low) * (1.0 + curve)))
    return scores


def repetition(text, n=3, most=-1.0):
    words = text.lower().split()
    grams = list(zip(*[words[i:] for i in range(n)]))
    return (1 - len(set(grams)) / len(grams)) * most if len(words) >= n else 0.0


def overlong(size, most, cache):
    if size <= most - cache:
        return 0.0
    return (most - cache - size) / cache if size <= most else -1.0


THOUGHT = "<think>\na\n</think>\n<answer>\n{}\n</answer>"
FORMATS = [THOUGHT.format("b"), THOUGHT.format(""), THOUGHT.format("a\n</answer>\nb"), THOUGHT.format("b") + "\n", THOUGHT.format("b") + " ",
           " " + THOUGHT.format("b"), THOUGHT.format("b") + "\nmore", THOUGHT.format("b") + "x\n</answer>", THOUGHT.replace("a", "").format("b"),
           "<think>\na</think>\n<answer>\nb\n</answer>", "<think>\n\n</think>\n<answer>\n\n</answer>", "<think>\n</think>\n<answer>\n</answer>",
           "<think>a</think><answer>b</answer>", THOUGHT.format("b").replace("\n", "\r\n"), "", "<think>\n", THOUGHT.format("b") * 2,
           "<think>\na\n</think>\nb\n</think>\n<answer>\nc\n</answer>", THOUGHT.format("日本")]
CODES = [THOUGHT.format("```python\nx\n```"), THOUGHT.format("```python```"), THOUGHT.format("```cpp\nx\n```"), THOUGHT.format("```python\nx"),
         THOUGHT.format("see ```python\nx\n``` there"), THOUGHT.format("```\nx\n```"), "```python\nx\n```", THOUGHT.format("``````python\nx```")]
STEPS = ["", "Step 1: a\nStep 2: b", "1. a\n2. b", "a\n- b\n- c\n* d", "First, a. Second, b. Next, c. Finally, d.", "Step x: Step 12 : Step 3:",
         "1 . a", "12. a First,First,", "\n\n- a", "step 1: first, Next ,", "Step Step 1:", "a 1. b"]
PAIRS = [("$42$", box(42)), ("$42$", box(41)), ("42", box(42)), ("no number", box(42)), (r"\boxed{42}", "The answer is $42$"), ("$42$", "42"),
         ("$42$", "The answer is 42"), ("$42$", ""), (r"$\frac{1}{2}$", box("0.5")), (r"$\frac12$", box(r"\frac{1}{2}")), (r"$\frac12$", box(r"\frac12")),
         ("$x=5$", box("x = 5")), ("$5$", box("x = 5")), ("$x=5$", box("5")), ("$3$", box("a = b = 3")), ("$3$", box("a = 3, b = 4")), ("1, 2", box("1, 2")),
         ("$1, 2$", box("2, 1")), ("$41$ or $42$", box("42")), ("$1$ then $2$ at last", box("2")), ("$x > 2$", box("x > 2")), (r"$(2, \infty)$", box("x > 2")),
         ("$x > 2$", box(r"(2, \infty)")), ("$5$ cm", box(r"5 \text{ cm}")), (r"\text{Monday}", box(r"\text{Monday}")), (r"$\sqrt{2}$", box("1.414214")),
         ("$50\\%$", box("0.5")), ("$42$", r"\[ x = \boxed{42} \]"), ("$42$", r"\boxed{41} no, \boxed{42}"), ("$42$", box("42") + "x" * 600),
         ("$42$", box("41") + "y" * 2000), ("$1/0$ $42$", box("42"))]
WORDS = ["", "a", "a b", "a b c", "a b c a b c", "A b C a B c", "x " * 30, "a\tb\nc  a b c", "É é É é É é", "Ж ж Ж ж", "日 本 日 本 日 本", "one two three four " * 4,
         "a b a b a b c"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=FIXTURES)
    parser.add_argument("--full")
    options = parser.parse_args()
    common.enter()
    logging.disable(logging.WARNING)
    solution, texts = (list(part) for part in zip(*PAIRS, strict=True))
    group = [box(42), box(41) + "x" * 10, box(42) + "y" * 30, box(41) + "z" * 40, box(42) + "é" * 20]
    plain = r"^<think>\n.*?\n</think>\n<answer>\n.*?\n</answer>$"
    code = r"^<think>\n.*?\n</think>\n<answer>\n.*?```{}.*?```.*?\n</answer>$"
    lengths = [0, 1, 12287, 12288, 12289, 16383, 16384, 16385, 40000]
    named = {"completions": CODES[:4], "columns": {"language": ["python", "cpp", "cpp", "python"]}}
    rows = [
        {"word": "accuracy", "completions": texts, "columns": {"solution": solution}, "scores": accuracy(texts, solution)},
        {"word": "format", "completions": FORMATS, "scores": [matches(plain, text) for text in FORMATS]},
        {"word": "tag_count", "completions": FORMATS, "scores": [tags(text) for text in FORMATS]},
        {"word": "reasoning_steps", "completions": STEPS, "scores": [steps(text) for text in STEPS]},
        {"word": "cosine", "completions": texts, "columns": {"solution": solution}, "scores": cosine(texts, solution)},
        {"word": "cosine(min_value_wrong=-1, max_value_wrong=-0.2, min_value_correct=0.1, max_value_correct=2, max_len=100)",
         "completions": texts, "columns": {"solution": solution}, "scores": cosine(texts, solution, -1, -0.2, 0.1, 2, 100)},
        {"word": "repetition_penalty", "completions": WORDS, "scores": [repetition(text) for text in WORDS]},
        {"word": "repetition_penalty(ngram_size=2, max_penalty=-0.5)", "completions": WORDS,
         "scores": [repetition(text, 2, -0.5) for text in WORDS]},
        {"word": "length", "completions": group, "columns": {"solution": ["$42$"] * 5}, "scores": length(group, ["$42$"] * 5)},
        {"word": "length", "completions": group, "columns": {"solution": ["42"] * 5}, "scores": length(group, ["42"] * 5)},
        {"word": "length", "completions": group[:1] * 2, "columns": {"solution": ["$1$"] * 2}, "scores": length(group[:1] * 2, ["$1$"] * 2)},
        {"word": "code_format", "completions": CODES, "scores": [matches(code.format("python"), text) for text in CODES]},
        {"word": "code_format(language=cpp)", "completions": CODES, "scores": [matches(code.format("cpp"), text) for text in CODES]},
        {"word": "code_format", **named, "scores": [matches(code.format(name), text)
                                                    for text, name in zip(CODES, named["columns"]["language"])]},
        {"word": "soft_overlong_punishment", "lengths": lengths, "scores": [overlong(size, 16384, 4096) for size in lengths]},
    ]
    write_json(options.out / "rewards/open_r1.json", {"cases": rows})


main()
