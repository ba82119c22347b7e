"""The steps of a run of hone that samples, from its progress lines: what the benchmarks beside TRL compare."""
import json
import pathlib
import re
import statistics

PARTS = re.compile(r"^step +\d+/.* rollout ([\d.]+)s reward ([\d.]+)s train ([\d.]+)s")


def medians(steps):
    """Of every part, without the first step."""
    return {name: statistics.median(step[name] for step in steps[1:]) for name in ("seconds", "rollout", "reward", "train")}


def sampled_steps(run, folder, count):
    """(when step 1 began, [{"seconds", "rollout", "reward", "train"}] of each step, its entries of metrics.jsonl)."""
    found = [(when, PARTS.match(text)) for when, text in run.lines]
    ends = [when for when, parts in found if parts]
    parts = [dict(zip(("rollout", "reward", "train"), map(float, parts.groups()))) for _, parts in found if parts]
    if len(parts) != count:
        raise SystemExit("hone's progress lines tell no parts:\n" + "\n".join(text for _, text in run.lines[-8:]))
    # From line to line, logging included; the first step's own seconds are the ones that its line tells.
    first = ends[0] - sum(parts[0].values())
    steps = [dict(part, seconds=end - begin) for part, begin, end in zip(parts, [first, *ends], ends)]
    logs = [json.loads(line) for line in pathlib.Path(folder, "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    logs = [entry for entry in logs if "num_tokens" in entry]
    return first, steps, logs
