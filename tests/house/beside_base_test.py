#!/usr/bin/env python3
"""bench/beside_base.py with programs that stand in for bench_step and bench_ops: order, ratios and medians, and what only one commit has."""
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
from scripts import ROOT, run_tests

# Writes the times of its next call, and its own folder into the log.
PROGRAM = """#!/usr/bin/env python3
import json, pathlib, sys
here = pathlib.Path(__file__).resolve()
log = here.parent.parent / f"{here.name}.log"
with open(log, "a") as file:
    print(here.parent.name, file=file)
call = log.read_text().split().count(here.parent.name) - 1
rows = json.loads((here.parent / f"{here.name}.json").read_text())
rows = [dict(row, best_s=row["best_s"][call % len(row["best_s"])]) for row in rows]
pathlib.Path(sys.argv[sys.argv.index("--json") + 1]).write_text(json.dumps({"passes": rows, "operators": rows}))
"""


def planted(folder, name, step, ops):
    build = folder / name
    build.mkdir()
    for program, rows in (("bench_step", step), ("bench_ops", ops)):
        (build / program).write_text(PROGRAM)
        (build / program).chmod(0o755)
        (build / f"{program}.json").write_text(rows)
    return build


def run(*words):
    return subprocess.run([sys.executable, ROOT / "bench/beside_base.py", *map(str, words)], capture_output=True, text=True)


def test_ratios_and_medians(folder):
    base = planted(folder, "base", '[{"pass": "training", "form": "explicit, layer", "best_s": [2]}]',
                   '[{"name": "rope", "best_s": [0.001]}, {"name": "gone", "best_s": [1]}]')
    head = planted(folder, "head", '[{"pass": "training", "form": "explicit, layer", "best_s": [3, 5, 1]}]',
                   '[{"name": "rope", "best_s": [0.0005]}, {"name": "added", "best_s": [1]}]')
    out = folder / "out.md"
    done = run("--builds", base, head, "--pairs", 3, "--threads", 1, "--out", out)
    assert done.returncode == 0, done.stderr
    assert out.read_text() == done.stdout[:-1], "--out"
    for row in ("| training, explicit, layer | 2000.00 | 3000.00 | 1.500 | 0.500 to 2.500 |", "| rope | 1.00 | 0.50 | 0.500 | 0.500 to 0.500 |",
                "| gone |  |  | only in the base |  |", "| added |  |  | new |  |"):
        assert row in done.stdout.splitlines(), (row, done.stdout)
    order = (folder / "bench_step.log").read_text().split()
    assert order == ["base", "head", "head", "base", "base", "head"], order


def test_a_missing_program_is_named(folder):
    (folder / "empty").mkdir()
    done = run("--builds", folder / "empty", folder / "empty", "--quick")
    assert done.returncode == 1 and "-DHONE_BENCH=ON" in done.stderr, done.stderr


def test_an_unknown_commit_is_named(_):
    done = run("--base", "0" * 40)
    wanted = "git knows no commit 000" if shutil.which("git") else "git is not installed"
    assert done.returncode == 1 and wanted in done.stderr, done.stderr


if __name__ == "__main__":
    run_tests(globals())
