#!/usr/bin/env python3
"""Held-out success by step, as a Markdown table, from the metrics of examples/calculator/run.

A question counts where the calculator gave its answer and the last message says it. One completion a question, sampled at temperature 1.
"""
import argparse
import json
import pathlib

SETS = {"known": "known words", "new": "new words"}


def evaluations(folder):
    """(step, logged) of every evaluation in that run."""
    with open(folder / "metrics.jsonl", encoding="utf-8") as lines:
        logged = [json.loads(line) for line in lines]
    return [(entry["step"], entry) for entry in logged if any(name.startswith("eval_") for name in entry)]


def by_step(found):
    """{step: what all sets logged there}."""
    out = {}
    for step, entry in found:
        out.setdefault(step, {}).update(entry)
    return out


def row(name, entry):
    success = [entry[f"eval_{which}_rewards/used_calculator/mean"] for which in SETS]
    calls = [entry[f"eval_{which}_tools/call_frequency"] for which in SETS]
    return [name, *(f"{100 * share:.0f} %" for share in success), f"{50 * sum(success):.0f} %", f"{sum(calls) / 2:.2f}"]


def table(out):
    before, after = by_step(evaluations(out / "before")), by_step(evaluations(out / "grpo"))
    rows = [row("before", before[min(before)])]
    rows += [row("SFT" if step == 0 else f"GRPO step {step}", entry) for step, entry in sorted(after.items())]
    head = ["", *SETS.values(), "all", "calls a question"]
    return ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * (len(head) - 1), *("| " + " | ".join(cells) + " |" for cells in rows)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path, help="runs/calculator")
    print("\n".join(table(parser.parse_args().folder)))


if __name__ == "__main__":
    main()
