#!/usr/bin/env python3
"""bench_step and bench_ops of this commit beside those of another, in turn on this machine: ratios of the times, and their medians.

usage: bench/beside_base.py (--base REVISION | --builds BASE HEAD) [--pairs 5] [--threads N] [--shapes smollm2] [--out FILE.md] [--quick]
--base: both are built, the other commit in a worktree in build/base, so that one compiler has made both (.github/workflows/benchmarks.yml).
--builds: two build folders that have the programs. --quick: does it run? Its figures mean nothing.

A ratio is this commit's best time divided by the other's, pair by pair: above 1 this commit is slower. Pairs change their order, so that a
machine that slows down hits both. The range over the pairs says what the machine's own noise is: a median within it proves nothing.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

from setting import SOURCE, Run, output_of, table

PROGRAMS = {"bench_step": "passes", "bench_ops": "operators"}


def stop(text):
    sys.exit(f"stopped: {text}")


def built(root):
    """The build folder of the tree `root`, with the benchmarks."""
    words = f"source tools/setup.sh; setup_machine; build_hone build-bench bench_step -DHONE_BENCH=ON -DHONE_TESTS=OFF; ninja -C build-bench {' '.join(PROGRAMS)}"
    if subprocess.run(["bash", "-c", words], cwd=root, stdout=sys.stderr).returncode:
        stop(f"the benchmarks of {root} cannot be built; the message is above.")
    return root / "build-bench"


def worktree(revision):
    """The other commit's tree."""
    if shutil.which("git") is None:
        stop("git is not installed, which has the other commit: install it, then call this again.")
    commit = output_of("git", "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    if not commit:
        stop(f"git knows no commit {revision}: fetch it, with its history, then call this again.")
    folder = SOURCE / "build/base"
    if not folder.is_dir():
        subprocess.run(["git", "worktree", "add", "--detach", str(folder), commit], cwd=SOURCE, check=True, stdout=sys.stderr)
    elif output_of("git", "-C", folder, "rev-parse", "HEAD") != commit:
        subprocess.run(["git", "-C", str(folder), "checkout", "--quiet", "--detach", commit], check=True)
    return folder


def times(folder, program, a):
    """{row of the program's table: its best seconds}"""
    path = folder / program
    if not path.is_file():
        stop(f"no {path}: cmake -S . -B {folder} -DHONE_BENCH=ON && ninja -C {folder} {program}")
    with tempfile.NamedTemporaryFile("r", suffix=".json") as out:
        Run([path, "--shapes", a.shapes, "--threads", a.threads, "--json", out.name, *(["--quick"] if a.quick else [])], a.threads)
        rows = json.loads(pathlib.Path(out.name).read_text(encoding="utf-8"))[PROGRAMS[program]]
    return {row["name"] if "name" in row else f"{row['pass']}, {row['form']}": row["best_s"] for row in rows}


def pairs_of(base, head, program, a):
    """[(times of the base, times of the head)] of each pair."""
    found = []
    for pair in range(a.pairs):
        order = [base, head] if pair % 2 == 0 else [head, base]
        one = {folder: times(folder, program, a) for folder in dict.fromkeys(order)}
        found.append((one[base], one[head]))
    return found


def compared(pairs):
    """Rows of the table: name, median milliseconds of both, median ratio, and the range of ratios. What only one commit has is named."""
    rows = []
    for name in dict.fromkeys([*pairs[0][0], *pairs[0][1]]):
        both = [(base[name], head[name]) for base, head in pairs if name in base and name in head]
        if not both:
            rows.append([name, "", "", "only in the base" if name in pairs[0][0] else "new", ""])
            continue
        ratios = [head / base for base, head in both]
        medians = [f"{1e3 * statistics.median(side):.2f}" for side in zip(*both)]
        rows.append([name, *medians, f"{statistics.median(ratios):.3f}", f"{min(ratios):.3f} to {max(ratios):.3f}"])
    return rows


def report(base, head, a):
    lines = [f"# This commit beside {a.base or base}", "",
             f"{a.pairs} pairs in turn, {a.threads} threads, shapes of {a.shapes}, random weights{', --quick: the figures mean nothing' if a.quick else ''}. "
             "A ratio above 1: this commit is slower. A median within the range that crosses 1 is noise.", ""]
    for program in PROGRAMS:
        lines += [f"## {program}", "", *table(["row", "base, ms", "head, ms", "median ratio", "ratios"], compared(pairs_of(base, head, program, a))), ""]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--base")
    which.add_argument("--builds", nargs=2, metavar=("BASE", "HEAD"), type=pathlib.Path)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--shapes", default="smollm2")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--quick", action="store_true")
    a = parser.parse_args()
    base, head = [path.resolve() for path in a.builds] if a.builds else (built(worktree(a.base)), built(SOURCE))
    said = report(base, head, a)
    if a.out:
        a.out.write_text(said, encoding="utf-8")
    print(said)


if __name__ == "__main__":
    main()
