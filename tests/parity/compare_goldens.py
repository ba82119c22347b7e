"""Compares a folder of freshly recorded goldens with the committed one. usage: compare_goldens.py FRESH COMMITTED
Numbers agree within TOLERANCE of the largest magnitude of their tensor or list; everything else is equal, except
versions, which are named when they differ. A golden that was recorded on another maker's processor agrees within
OTHER_MAKER: libtorch's products take other kernels there. Prints the largest deviation of each file, its share of the
tolerance, and how many goldens have each tolerance."""
import collections
import json
import sys
from pathlib import Path

import numpy as np
from safetensors import safe_open

from common import processor_maker

TOLERANCE = 1e-6
OTHER_MAKER = 1e-3  # 1e-4 was seen: of values that are sums of rounding errors, after ten steps of training
FIRST_MAKER = "AuthenticAMD"  # of goldens from before the maker was written into them


def maker_of(versions):
    found = json.loads(versions) if isinstance(versions, str) else versions or {}
    return found.get("processor", FIRST_MAKER)


def tolerance_of(committed):
    """By the maker of the processor that recorded a golden."""
    if committed.suffix == ".safetensors":
        with safe_open(str(committed), "np") as file:
            maker = maker_of((file.metadata() or {}).get("versions"))
    elif committed.suffix == ".json":
        content = json.loads(committed.read_text())
        maker = maker_of(content.get("versions") if isinstance(content, dict) else None)
    else:
        return TOLERANCE
    return TOLERANCE if maker == processor_maker() else OTHER_MAKER


def relative(a, b):
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if a.shape != b.shape:
        return float("inf")
    worst = np.max(np.abs(a - b), initial=0.0)
    return float("inf") if np.isnan(worst) else worst / max(np.max(np.abs(b), initial=0.0), 1e-30)


def compare_tensors(fresh, committed, problems):
    with safe_open(str(fresh), "np") as a, safe_open(str(committed), "np") as b:
        if set(a.keys()) != set(b.keys()):
            problems.append(f"{committed}: tensors {sorted(set(a.keys()) ^ set(b.keys()))[:4]} on one side only")
        note_versions(committed, (a.metadata() or {}).get("versions"), (b.metadata() or {}).get("versions"))
        both = set(a.keys()) & set(b.keys())
        return max((relative(a.get_tensor(key), b.get_tensor(key)) for key in both), default=0.0)


def note_versions(path, a, b):
    if a != b:
        print(f"note: {path} was recorded with {b}, now {a}")


def compare_json(path, a, b, problems, where=""):
    number = lambda x: isinstance(x, (int, float)) and not isinstance(x, bool)
    if number(a) and number(b):
        return relative(a, b) if isinstance(a, float) or isinstance(b, float) else (0.0 if a == b else float("inf"))
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        worst = 0.0
        for key in a:
            if key == "versions":
                note_versions(path, a[key], b[key])
            elif key != "isolation":  # itself a rounding error
                worst = max(worst, compare_json(path, a[key], b[key], problems, f"{where}.{key}"))
        return worst
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return max((compare_json(path, x, y, problems, f"{where}[{i}]")
                    for i, (x, y) in enumerate(zip(a, b))), default=0.0)
    if a != b:
        problems.append(f"{path}{where}: {json.dumps(a)[:80]} is not {json.dumps(b)[:80]}")
    return 0.0


def main():
    fresh_root, committed_root = Path(sys.argv[1]), Path(sys.argv[2])
    problems, worst, files, counts = [], 0.0, 0, collections.Counter()
    for fresh in sorted(path for path in fresh_root.rglob("*") if path.is_file()):
        committed = committed_root / fresh.relative_to(fresh_root)
        if not committed.exists():
            problems.append(f"{committed}: recorded now, not committed")
            continue
        files += 1
        if fresh.suffix == ".safetensors":
            off = compare_tensors(fresh, committed, problems)
        elif fresh.suffix == ".json":
            a, b = json.loads(fresh.read_text()), json.loads(committed.read_text())
            off = compare_json(str(committed), a, b, problems)
        else:
            off = 0.0 if fresh.read_bytes() == committed.read_bytes() else float("inf")
        worst = max(worst, off)
        allowed = tolerance_of(committed)
        counts[allowed] += 1
        print(f"{off:9.2e}  {100 * off / allowed:6.2f} % of the tolerance  {committed}")
        if off > allowed:
            problems.append(f"{committed}: off by {off:.2e} relative, allowed {allowed}")
    left = [path for path in sorted(committed_root.rglob("*")) if path.suffix in (".json", ".jsonl", ".safetensors")
            and not (fresh_root / path.relative_to(committed_root)).exists()]
    for path in left:
        print(f"note: not recorded this time: {path}")
    for problem in problems:
        print("FAILED", problem)
    print(f"{files} goldens, worst {worst:.2e} relative, tolerance {', '.join(f'{allowed:g} of {count}' for allowed, count in sorted(counts.items()))}: {'FAILED' if problems else 'equal'}")
    sys.exit(1 if problems or not files else 0)


main()
