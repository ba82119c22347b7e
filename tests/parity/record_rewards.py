"""What TRL's native-able rewards give: FIXTURES/rewards/accuracy.json (trl.rewards.accuracy_reward with math_verify) and
formats.json (the others). usage: record_rewards.py [--out FOLDER]

accuracy.json: `classes`: name -> rows [gold, completion, score] (null: None). `inside`: golds of which math_verify takes a
number from inside, and hone none. `open`: pairs in forms that hone says it does
not decide; the test prints how many of those differ, and wants none in `classes`.
tiny_reward/ (a random LlamaForSequenceClassification with the tokenizer of fixtures/text/tiny) and model.json: its scores as
GRPOTrainer asks for them, prompts and completions as text and as messages.
formats.json: each function with its arguments, completions or lengths or token ids, and scores."""
import argparse
import itertools
import logging
import random
import shutil
from fractions import Fraction
from pathlib import Path

import common
from common import FIXTURES, versions, write_json

from trl import rewards


TOKENIZER = Path("tests/fixtures/text/tiny")


def box(text):
    return rf"\boxed{{{text}}}"


def cross(golds, answers, wrap=box):
    """Every gold with every answer."""
    return [(gold, wrap(answer)) for gold, answer in itertools.product(golds, answers)]


def integers(rng):
    out = []
    for _ in range(60):
        n = rng.choice([rng.randint(-20, 20), rng.randint(-99999, 99999), rng.randint(10**6, 10**12)])
        out.append((str(n), box(rng.choice([str(n), f"{n:,}", f" {n} ", f"{n}.0", f"{n}.", f"+{n}", f"{n + 1}", f"-{n}",
                                            f"0{n}", f"{n}\\%", f"\\${n}", f"{n:,}".replace(",", "{,}"),
                                            f"{n:,}".replace(",", "\\,"), f"{n:,}".replace(",", "\\!"),
                                            f"{n:,}".replace(",", " "), f"x={n}", f"x = {n}", f"\\text{{{n}}}",
                                            f"{n}^\\circ", f"{n} \\text{{ cm}}", f"{n} \\mathrm{{~km}}"]))))
        out.append((f"{n:,}", box(str(n))))
        out.append((rng.choice([f"The answer is {n}.", f"${n}$", f"\\({n}\\)", f"{n} apples", f"so x={n}", f"**{n}**",
                                f"It costs ${n} in all", f"about 5, no {n}", f"#### {n}", f"\\boxed{{{n}}}"]), box(str(n))))
    big = "123456789012345678901234567890"
    out += [(big, box(big)), (big, box(big[:-1] + "1")), ("0", box("-0")), ("0", box("0.0")), ("007", box("7"))]
    return out


def decimals(rng):
    out = []
    for _ in range(50):
        places = rng.randint(1, 8)
        x = rng.choice([rng.uniform(-2, 2), rng.uniform(-1e4, 1e4)])
        text = f"{x:.{places}f}"
        fraction = Fraction(text)
        out.append((text, box(rng.choice([text, text + "0", text.replace("0.", ".", 1), f"{x:.{places + 1}f}", f"{x:.3f}",
                                          rf"\frac{{{fraction.numerator}}}{{{fraction.denominator}}}",
                                          f"{fraction.numerator}/{fraction.denominator}", f"{float(x * 100):.{places}f}\\%",
                                          text.replace(".", ",")]))))
    out += cross(["0.5", ".5", "1/2", "50%", "0,5"], ["0.5", ".5", r"\frac12", r"\frac{1}{2}", "1/2", "50\\%", "50%", "0,5"])
    out += cross([r"\frac{1}{3}", "1/3", "0.333333", "0.3333"], ["0.333333", "0.3333333", "0.33333", r"\frac{1}{3}", "1/3"])
    out += cross(["1.414214", r"$\sqrt{2}$", "1.5e3", "1500"], [r"\sqrt{2}", "1.414214", "1.4142", "1.5E3", "1500"])
    out += cross(["0.0000001", "0", "0.0000005", "0.0000015"], ["0", "0.0", "0.0000001", "0.000001", "0.000002"])
    return out


def fractions(rng):
    out = []
    for _ in range(60):
        p, q = rng.randint(-30, 30), rng.randint(1, 12)
        f, k = Fraction(p, q), rng.randint(2, 4)
        sign = "-" if p < 0 else ""
        forms = [rf"\frac{{{p}}}{{{q}}}", rf"{sign}\frac{{{abs(p)}}}{{{q}}}", rf"\dfrac{{{p * k}}}{{{q * k}}}", f"{p}/{q}",
                 rf"\tfrac{{{f.numerator}}}{{{f.denominator}}}", f"{f.numerator}/{f.denominator}", rf"\frac{{{p + 1}}}{{{q}}}",
                 rf"\frac{{{p}}}{{-{q}}}", rf"{p} \div {q}",
                 rf"\left(\frac{{{p}}}{{{q}}}\right)", rf"\frac {p} {q}", rf"\frac{{1}}{{{q}}} \cdot {p}",
                 rf"{abs(p) // q}\frac{{{abs(p) % q}}}{{{q}}}", rf"-{abs(p) // q}\frac{{{abs(p) % q}}}{{{q}}}"]
        gold = rng.choice([forms[0], f"{p}/{q}", f"${forms[1]}$", rf"Answer: $\frac{{{p}}}{{{q}}}$", forms[4]])
        out.append((gold, box(rng.choice(forms))))
        out.append((gold, box(rng.choice(forms))))
    out += cross([r"$2\frac{1}{2}$", "5/2", "2.5", "$1/0$", r"$\frac{1}{0}$"],
                 [r"2\frac{1}{2}", r"2 \frac{1}{2}", "2 1/2", "2.5", r"\frac{5}{2}", r"\frac{1}{0}", "1/0"])
    return out


def expressions(_):
    out = cross([r"$2\sqrt{3}$", r"$\sqrt{12}$", r"$\frac{\sqrt{2}}{2}$", r"$\frac{1}{\sqrt{2}}$", r"$\sqrt[3]{8}$", "2"],
                [r"2\sqrt{3}", r"\sqrt{12}", r"\sqrt{2}/2", r"\frac{1}{\sqrt{2}}", r"\frac{\sqrt2}{2}", r"\sqrt[3]{8}", "2",
                 r"2 \cdot \sqrt{3}", r"\sqrt{4}", r"2*3^{1/2}"])
    out += cross([r"$2\pi$", r"$\frac{\pi}{2}$", r"$e^2$", "$e$", r"$\ln 2$", r"$\log_2 8$", "3", r"$\pi$"],
                 [r"2\pi", r"2 \pi", r"\frac{\pi}{2}", r"\pi/2", r"e^{2}", "e", r"\ln(2)", r"\ln 2", r"\log_{2}{8}", "3",
                  r"\log_2(8)", "3.14", "3.141593", r"\pi"])
    out += cross(["$x^2+2x+1$", "$(x+1)^2$", "$2x$", r"$\frac{x}{2}$", "$3x+4y$"],
                 ["x^2+2x+1", "(x+1)^2", "(x+1)(x+1)", "1+2x+x^2", "2x", r"x \cdot 2", "x+x", "0.5x", r"\frac{x}{2}", "4y+3x",
                  r"\frac{1}{2}x", "2y", "x"])
    out += cross([r"$2^{10}$", "1024", "$5!$", "120", r"$\binom{5}{2}$", "10", "$|-3|$", r"$\lfloor 3.7 \rfloor$", "3"],
                 ["2^{10}", "2^10", "1024", "5!", "120", r"\binom{5}{2}", "10", "|-3|", r"\lfloor 3.7 \rfloor", "3", "4 - 1",
                  "2 + 2 \\times 4"])
    out += cross([r"$\sin(30^\circ)$", r"$\cos x$", r"$\sin^2 x + \cos^2 x$", "1", r"$\sin\frac{\pi}{6}$"],
                 [r"\sin 30", r"\cos(x)", "1", r"\frac{1}{2}", r"\sin(\pi/6)"])
    out += cross(["3+4", "(2+3)*4", "1/2+1/3", "2^3", "10-3-2", "-4*-2"], ["7", "20", r"\frac{5}{6}", "8", "5"])
    return out


def text(_):
    out = cross([r"$\text{Monday}$", "Monday", r"\boxed{\text{Monday}}", r"$\text{(A)}$", "$A$", "A", "$C$", r"$\text{C}$"],
                [r"\text{Monday}", "Monday", r"\textbf{(A)}", "A", r"\text{A}", "(A)", "a", "C", r"\text{C}", r"\mathrm{C}"])
    out += cross(["$abc$", r"$\text{abc}$", "$ab$", "$e$", "$E$"], ["abc", r"\text{abc}", "ab", "ba", "e", "E", r"\text{e}"])
    out += cross([r"$\text{yes}$", r"\boxed{yes}", r"\text{True}", "$no$"], [r"\text{yes}", "yes", "Yes", "no", r"\text{No}"])
    return out


def units(_):
    out = cross(["5 cm", r"$5\text{ cm}$", r"$5 \mathrm{~cm}$", "5", r"$5\%$", "5%", "0.05", r"$5^\circ$"],
                ["5 cm", r"5\text{ cm}", r"5 \text{ cm}^2", r"5\,\text{cm}", "5 meters", r"5 \text{ dollars}", "5 dollars", "5 kg",
                 "5", r"5\%", r"5 \%", "5%", r"5^\circ", r"5^{\circ}", r"5 \text{ degrees}", "5 percent", r"\$5", "5.00",
                 r"5 \text{ mph}", r"5 hours", "0.05", r"5\text{ and a half}"])
    return out


def lists(_):
    out = cross(["$1, 2, 3$", r"$\{1, 2, 3\}$", "$(1, 2, 3)$", "$3, 2, 1$", "1, 2, 3", "$1$ and $2$", "$1,2$", r"$\pm 2$"],
                ["1, 2, 3", r"\{1, 2, 3\}", r"\{3, 2, 1\}", "(1, 2, 3)", "3,2,1", "1,2,3", r"1 \text{ and } 2", "1, 2", r"\pm 2",
                 "2, -2", "1 and 2", r"\{1,2,3,3\}"])
    out += cross(["$(1, 2)$", "$[1, 2]$", "$(1, 2]$", r"$(-\infty, 2)$", r"$(2, \infty)$", "$x > 2$", "$(2, 1)$", r"$x \in (1,2)$"],
                 ["(1, 2)", "(1,2)", "[1, 2]", "(1, 2]", r"(-\infty, 2)", r"(2, \infty)", r"(2,+\infty)", "x > 2", "2 < x",
                  "(2, 1)", r"\left(1, 2\right)", r"x \in (1, 2)", r"\{1, 2\}", "1, 2", "1 < x < 2"])
    out += cross([r"$(-\infty, 1) \cup (2, \infty)$", r"$\mathbb{R}$", r"$\emptyset$", r"$(-\infty, \infty)$", "$1 < x < 2$"],
                 [r"(-\infty,1)\cup(2,\infty)", r"(2,\infty)\cup(-\infty,1)", r"\mathbb{R}", r"(-\infty,\infty)", r"\emptyset",
                  r"\{\}", "1<x<2", "(1,2)", r"(-\infty,1]\cup(2,\infty)", r"\mathbb{R}\setminus\{1\}"])
    out += cross([r"$\left(\frac{1}{2}, 3\right)$", r"$(\sqrt{2}, 1)$", "$(3, -4)$", "$(1,2), (3,4)$"],
                 ["(0.5, 3)", r"(\frac12, 3)", r"\left(\frac{1}{2},3\right)", r"(\sqrt{2},1)", "(3,-4)", "3, -4", "(1,2),(3,4)",
                  "(3,4),(1,2)", "(1, 2), (3, 4)"])
    return out


def equations(_):
    out = cross(["$x = 5$", "5", "$y = 2x + 1$", "$2x = 10$", "$x = 5, y = 6$", "$x=1,2$", "$a = b = 3$"],
                ["x = 5", "5", "x=5", "y = 5", "y=2x+1", "y = 1 + 2x", "2x - y + 1 = 0", "2x+1", "x = 1, x = 2", "5 = x",
                 "x=5,y=6", "x = 10/2", "2x = 10", "x = 1, 2", "x = 2 + 3 = 5", "3", "b = 3"])
    out += cross([r"$x \ge 3$", "$x < 3$", r"$x \neq 3$", r"$3 \le x$"],
                 [r"x \geq 3", r"x\ge3", r"3 \leq x", "x < 3", "3 > x", r"x \ne 3", "x > 3", "x \\le 3"])
    return out


def extraction(_):
    gold = "42"
    answers = [
        r"\boxed{42}", r"The answer is \boxed{42}.", r"$\boxed{42}$", r"\[ \boxed{42} \]", r"\(\boxed{42}\)", r"$$x=\boxed{42}$$",
        r"\boxed{41} no, \boxed{42}", r"\boxed{42}. Check: \boxed{41}", r"\boxed{41}, \boxed{42}", r"\boxed{42", r"\boxed 42",
        r"\boxed{42}\boxed{42}", r"\fbox{42}", r"\boxed{}", r"boxed{42}", "", " ", "42", "The answer is 42", "The answer is 42.",
        "#### 42", "The answer is $42$", "The answer is $42$.", "Answer: $42$", "answer: $x = 42$", "final answer is $42$",
        "The final answer is: $42$. I hope it is correct.", "The final answer is $41$. I hope it is correct. Answer: $42$",
        "Final answer: 42", "So $x = 42$.", "The answer is \\(42\\)", "The answer is \\[42\\]", "The answer is $$42$$",
        r"The answer is \frac{84}{2}", "The answer is [42] ok", "The answer is $41$ or $42$", "The answer is $42$ and $42$",
        r"\boxed{42 \text{ apples}}", r"\boxed{\boxed{42}}", r"\boxed{x = 42}", r"\boxed{\$42}", r"\boxed{ 42 }", r"\boxed{\n42}",
        "\\boxed{\n42\n}", r"\boxed{forty-two}", r"\boxed{42!}", r"\boxed{42?}", r"\boxed{4 2}", r"\boxed{**42**}", r"\boxed{`42`}",
        r"\boxed{42} dollars", r"\boxed{42}%", r"$\boxed{42}$%", r"\boxed{42\%}", "<think>\\boxed{41}</think> \\boxed{42}",
        r"\boxed{42} and then a very long text that goes on and on without saying anything about the number, at all, ever "
        r"again \boxed{7}", r"\boxed{4" + "2" * 3 + "}", r"\boxed{6 \times 7}", r"\boxed{6 \cdot 7 = 42}", r"\boxed{a=1,b=42}",
        r"Let $x=1$. Then the answer follows: $y=42$", "The answer" + " is" * 30 + " $42$", "answer " + "x" * 60 + " $42$",
        r"\boxed{42}" * 3, "junk " * 50, "0" * 300, r"\boxed{" * 40, "$" * 99, "\\(" * 50, r"\boxed{\frac{84}{2}}",
        "日本 \\boxed{42}", r"答案是 $42$", "The answer is \\boxed{42}\n\nThe answer is \\boxed{42}"]
    out = [(gold, answer) for answer in answers]
    golds = ["", "no number", r"\boxed{42}", r"$\boxed{42}$ is right", "Natalia sold 48/2 = <<48/2=24>>24 clips.\n#### 42",
             "x=42", "42 apples", "$x=42$", r"\sqrt{1764}", r"3\sqrt{2}", "A", "forty-two", "42.0", "-42", "$$42$$", r"\[42\]",
             "The final answer is 42. I hope it is correct.", "answer: 6*7 = 42", "the answer is 42, not 41", "41, 42", "41 42",
             r"$41$ and $42$", r"\frac{84}{2}", "84/2", "42%", "$42", "42$", "€42", "(42)", "42)", "[42]", "**42**", "42m2",
             "XY42Z", "1,042", "4.2e1", "0.42", "42/1", "6 * 7", "6×7", "(6)(7)", "2(21)", "50 - 8", "50 -8", "42 = 42"]
    out += [(one, box("42")) for one in golds]
    return out


def matrices(_):
    column, worked = r"\begin{pmatrix} 2 \\ 5 \end{pmatrix}", r"Solving, $x = 2$ and $y = 5$, so the vector is $\boxed{%s}$."
    golds = [f"${column}$", box(column), worked % column, f"$v = {column}$", r"$\begin{bmatrix} 1 & 2 \\ 3 & 4 \end{bmatrix}$",
             r"$\begin{vmatrix} 1 & 2 \\ 3 & 4 \end{vmatrix}$", r"$\left(\begin{array}{c} 2 \\ 5 \end{array}\right)$",
             r"$\begin{pmatrix} x & 1/3 \end{pmatrix}$", r"$\det\begin{pmatrix} 2 & 1 & 0 \\ 0 & 3 & 1 \\ 1 & 0 & 1 \end{pmatrix}$"]
    answers = ["2", "5", "-2", "7", "(2, 5)", "2, 5", column, column.replace("pmatrix", "bmatrix"), column.replace("pmatrix", "matrix"),
               r"\begin{pmatrix} 2.0 \\ \frac{10}{2} \end{pmatrix}", r"\begin{pmatrix} 2 & 5 \end{pmatrix}", f"v = {column}",
               r"\begin{pmatrix} 5 \\ 2 \end{pmatrix}", r"2\begin{pmatrix} 1 \\ \frac{5}{2} \end{pmatrix}",
               r"\begin{pmatrix} 1 \\ 5 \end{pmatrix} + \begin{pmatrix} 1 \\ 0 \end{pmatrix}", r"\begin{pmatrix} 2 & 5 \end{pmatrix}^T",
               r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}", r"\left[\begin{array}{cc} 1 & 2 \\ 3 & 4 \end{array}\right]",
               r"\begin{pmatrix} 1 & 2 \\ 3 & 5 \end{pmatrix}", r"\begin{pmatrix} x & \frac{1}{3} \end{pmatrix}",
               r"\begin{pmatrix} x & 0.333333 \end{pmatrix}", r"\begin{pmatrix} x + 0 & 2/6 \end{pmatrix}"]
    return cross(golds, answers)


def calculus(_):
    out = cross([r"$\gcd(4,6)$", r"$\gcd(12, 18, 8)$", r"$\text{lcm}(4, 6)$", r"$\lcm(4, 6)$", r"$\max(1, 2)$", "2", "12"],
                [r"\gcd(4,6)", r"\gcd(4, 6, 8)", r"\operatorname{gcd}(4,6)", r"\operatorname{lcm}(4, 6)", r"\lcm(1, 2)", "2", "4", "12",
                 r"\min(2, 3)", r"\max(2, 1)", "6"])
    out += cross([r"$\sum_{i=1}^{3} i$", r"$\sum_{i=1}^3 i^2$", r"$\sum_{n=0}^{10} 2^n$", r"$\prod_{i=1}^{4} i$", "6", "24",
                  r"$2\sum_{i=1}^{3} i$", r"$\sum_{i=1}^{3} i + 2$", r"$\sum_{k=1}^{4} \frac{1}{k}$"],
                 ["6", "14", "2047", "24", "3", "1", r"\sum_{i=1}^3 i", r"\sum_{k=1}^{3} k", "1 + 2 + 3", "6.0", "12", "8", r"4!",
                  r"\frac{25}{12}", "2.083333", "3x", "x"])
    out += cross([r"$\int_0^1 x dx$", r"$\int_{0}^{1} x^2 \, dx$", r"$\int_0^{\pi} \sin x dx$", r"$\int_1^2 \frac{1}{x} dx$",
                  r"$\int_0^1 \frac{dx}{1+x^2}$", r"$\int_0^2 3 dx + 1$", r"$\frac{1}{2}$", "2"],
                 [r"\int_0^1 x\,dx", r"\int_0^1 t dt", r"\frac{1}{2}", "0.5", "1", "0", r"\frac{1}{3}", "2", r"\ln 2", r"\frac{\pi}{4}", "7",
                  r"\int_0^1 2x dx", "x"])
    return out


def fullwidth(_):
    return cross(["$７２$", "７２", "72", "$72$", r"\boxed{７２}", "x＝7"], ["７２", "72", r"\text{７２}", "7", "2"])


def inside(_):
    """What math_verify's grammar does not take, so that it takes a number from inside; hone does not."""
    return cross([r"$\langle 1, 2 \rangle$", r"$\begin{cases} x \\ 2 \end{cases}$", r"$\begin{Bmatrix} 1 \\ 2 \end{Bmatrix}$"], ["1", "2"])


def open_forms(_):
    return cross([r"$\mathbb{Z}$", r"$\sum_{n=1}^{\infty} \frac{1}{n^2}$", r"$\sum_{i=1}^n i$", r"$\int x dx$", r"$\lim_{x \to 2} x^2$",
                  r"$\frac{d}{dx} x^2$"],
                 ["1", "2", "4", "6", r"\mathbb{Z}", r"\frac{\pi^2}{6}", r"\frac{n(n+1)}{2}", r"\frac{x^2}{2}", "2x"]) + \
        cross([r"\frac{12}{10}", "3"], [r"\frac{12.0}{10}", r"\frac{12.0}{4}", r"0.4 \cdot 3"])  # sympy's rounding of doubles


CLASSES = [integers, decimals, fractions, expressions, text, units, lists, equations, extraction, matrices, calculus, fullwidth]


def scored(pairs):
    pairs = list(dict.fromkeys(pairs))
    scores = rewards.accuracy_reward([[{"role": "assistant", "content": answer}] for _, answer in pairs],
                                     [gold for gold, _ in pairs])
    return [[gold, answer, score] for (gold, answer), score in zip(pairs, scores, strict=True)]


def formats(rng):
    think = ["<think>a</think>b", "<think>\na\n</think>\nb", "<think></think>", "<think>a", "a</think>", "x<think>a</think>",
             "<think>a<think>b</think>", "<think>a</think><think>", "<think>a</think></think>", "", "\n<think>a</think>",
             "<think>a</think>\n\n", "<THINK>a</THINK>", "<think>" + "x" * 3000 + "</think>y"]
    ids = [[], [1], [1, 2], [1, 2, 3], [1, 2, 3, 1, 2, 3], [5] * 9, [1, 2] * 5] + \
        [[rng.randint(0, 3) for _ in range(rng.randint(0, 40))] for _ in range(12)]
    messages = lambda texts: [[{"role": "assistant", "content": text}] for text in texts]
    overlong = [0, 1, 1023, 1024, 1025, 1100, 1279, 1280, 1281, 5000]
    reason = [r"<think> \boxed{41} </think> \boxed{42}", r"\boxed{42}", r"<think> \boxed{42}", r"</think></think>\boxed{42}",
              r"<think></think>\boxed{41}</think>", r"<think>a</think> The answer is $42$"]
    cosine = {"completions": [r"\boxed{42}", r"\boxed{41}"] * 4 + [r"\boxed{42}"], "lengths": [0, 0, 10, 10, 50, 50, 300, 300, 7],
              "solution": ["42"] * 8 + ["no number"]}
    several = [r"<think> \boxed{41} </think> \boxed{42}", r"a</answer>\boxed{42}", r"\boxed{42}", r"a</answer>\boxed{41}</think>\boxed{42}",
               r"a</think>\boxed{42}</answer>\boxed{41}", ""]
    with_lengths = lambda lengths: [[1] * n for n in lengths]
    return {
        "versions": {**versions(), "math_verify": version("math-verify"),
                     "latex2sympy2_extended": version("latex2sympy2_extended")},
        "think_format_reward": {"completions": think, "scores": rewards.think_format_reward(messages(think))},
        "get_soft_overlong_punishment": [
            {"word": word, "lengths": overlong, "scores": rewards.get_soft_overlong_punishment(*args)(with_lengths(overlong))}
            for word, args in [("get_soft_overlong_punishment", (1280, 256)),
                               ("get_soft_overlong_punishment(max_completion_len=1100, soft_punish_cache=0)", (1100, 0)),
                               ("get_soft_overlong_punishment(max_completion_len=1030, soft_punish_cache=7)", (1030, 7))]],
        "get_repetition_penalty_reward": [
            {"word": word, "ids": ids, "scores": rewards.get_repetition_penalty_reward(*args)(ids)}
            for word, args in [("get_repetition_penalty_reward", ()),
                               ("get_repetition_penalty_reward(ngram_size=2, max_penalty=-0.5)", (2, -0.5)),
                               ("get_repetition_penalty_reward(ngram_size=1)", (1,))]],
        "reasoning_accuracy_reward": {"completions": reason, "solution": ["42"] * len(reason), "scores":
                                      rewards.reasoning_accuracy_reward(messages(reason), ["42"] * len(reason))},
        "several_delimiters": {"completions": several, "solution": ["42"] * len(several), "word":
                               'reasoning_accuracy_reward(reasoning_delimiters="</think>, </answer>")', "scores":
                               rewards.reasoning_accuracy_reward(messages(several), ["42"] * len(several), ["</think>", "</answer>"])},
        "get_cosine_scaled_reward": {**cosine, "word": "get_cosine_scaled_reward(max_len=100)", "scores":
                                     rewards.get_cosine_scaled_reward(100)(messages(cosine["completions"]), cosine["solution"],
                                                                           with_lengths(cosine["lengths"]))},
    }


def reward_model(folder):
    """A tiny random one, saved by transformers; the pad token is given by the tokenizer's file."""
    import torch
    from transformers import LlamaConfig, LlamaForSequenceClassification
    model = LlamaForSequenceClassification(LlamaConfig(
        vocab_size=384, num_labels=1, rms_norm_eps=1e-5, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512))
    generator = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for name, value in model.named_parameters():
            noise = torch.randn(value.shape, generator=generator)
            value.copy_(1 + 0.2 * noise if "norm" in name else (1.6 if "score" in name else 0.08) * noise)
    model.save_pretrained(folder)
    share_base(folder, model.state_dict())
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(TOKENIZER / name, folder / name)


def share_base(folder, tensors):
    """Two shards in the place of one file: tiny_llama's, which has the same base, and the score head."""
    from safetensors.torch import load_file, save_file
    shards = {name: folder / f"model-0000{number}-of-00002.safetensors" for number, name in ((1, "base"), (2, "head"))}
    base = load_file(FIXTURES / "tiny_llama/model.safetensors")
    assert all(value.equal(base[name]) for name, value in tensors.items() if name != "score.weight"), "another base than tiny_llama's"
    shards["base"].unlink(missing_ok=True)
    shards["base"].symlink_to("../../tiny_llama/model.safetensors")
    save_file({"score.weight": tensors["score.weight"]}, shards["head"], metadata={"format": "pt"})
    files = {name: shards["head" if name == "score.weight" else "base"].name for name in sorted(tensors)}
    total = sum(value.numel() * value.element_size() for value in tensors.values())
    write_json(folder / "model.safetensors.index.json", {"metadata": {"total_size": total}, "weight_map": files})
    (folder / "model.safetensors").unlink()


def model_scores(folder):
    """The lines of GRPOTrainer._calculate_rewards for a model, with its preparation of the tokenizer."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer
    from trl import apply_chat_template
    from trl.data_utils import is_conversational
    model = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=1, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    model.config.get_text_config().pad_token_id = tokenizer.pad_token_id
    user = lambda text: [{"role": "user", "content": text}]
    reply = lambda text: [{"role": "assistant", "content": text}]
    texts = {"prompts": ["What is 2 + 3? ", "The answer is", "The answer is", "a"],
             "completions": ["5", " 42." + tokenizer.pad_token * 2, "", " long one" * 40]}
    chats = {"prompts": [user("What is 2 + 3?"), [{"role": "system", "content": "be brief"}] + user("Why?"), user("Hi")],
             "completions": [reply("5"), reply("The rest is silence."), reply("")]}
    out = []
    for case in (texts, chats):
        pairs = list(zip(case["prompts"], case["completions"], strict=True))
        if is_conversational({"prompt": case["prompts"][0]}):
            joined = [apply_chat_template({"messages": p + c}, tokenizer)["text"] for p, c in pairs]
        else:
            joined = [p + c for p, c in pairs]
        inputs = tokenizer(text=joined, return_tensors="pt", padding=True, padding_side="right", add_special_tokens=False)
        with torch.inference_mode():
            out.append({**case, "scores": model(**inputs).logits[:, 0].tolist()})
    return out


def version(name):
    from importlib.metadata import version as installed
    return installed(name)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=FIXTURES)
    parser.add_argument("--full")
    options = parser.parse_args()
    common.enter()
    logging.disable(logging.WARNING)
    rng = random.Random(7)
    rows = {one.__name__: scored(one(rng)) for one in CLASSES}
    write_json(options.out / "rewards/accuracy.json", {"classes": rows, "inside": scored(inside(rng)), "open": scored(open_forms(rng))})
    write_json(options.out / "rewards/formats.json", formats(rng))
    folder = options.out / "rewards/tiny_reward"
    reward_model(folder)
    write_json(options.out / "rewards/model.json", {"versions": versions(), "cases": model_scores(folder)})
    for name, one in rows.items():
        counts = {score: sum(row[2] == score for row in one) for score in (1.0, 0.0, None)}
        print(f"  {name}: {len(one)} pairs, right, wrong, none: {list(counts.values())}")


main()
