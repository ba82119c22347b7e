#!/usr/bin/env python3
"""Held-out success by step, as a Markdown table, from the metrics of examples/calculator/run.

A question counts where the calculator gave its answer and the last message says it. One completion a question, sampled at temperature 1.
"""
import argparse
import json
import pathlib


def evaluations(folder):
    """(step, logged) of every evaluation in that run."""
    with open(folder / "metrics.jsonl", encoding="utf-8") as lines:
        logged = [json.loads(line) for line in lines]
    return [(entry["step"], entry) for entry in logged if any(name.startswith("eval_") for name in entry)]


def row(name, entry):
    return [name, f"{100 * entry['eval_rewards/used_calculator/mean']:.0f} %", f"{entry['eval_tools/call_frequency']:.2f}",
            f"{entry['eval_completions/mean_length']:.0f}"]


def table(out):
    rows = [row("before", evaluations(out / "before")[0][1])]
    rows += [row("SFT" if step == 0 else f"GRPO step {step}", entry) for step, entry in evaluations(out / "grpo")]
    head = ["", "held-out success", "calls a question", "tokens a question"]
    return ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * (len(head) - 1), *("| " + " | ".join(cells) + " |" for cells in rows)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path, help="runs/calculator")
    print("\n".join(table(parser.parse_args().folder)))


if __name__ == "__main__":
    main()
