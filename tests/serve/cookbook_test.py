#!/usr/bin/env python3
"""hone serve under tinker-cookbook, in third_party/serve-venv (tests/serve/requirements-cookbook.txt).

usage: tests/serve/cookbook_test.py [--hone PROGRAM]
"""

import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
from checks import Tests, holds, same
from server import SOURCE, TINY, Server
from tinker_test import PYTHON, sdk


def test_recipes(program):
    """sl_basic learns its talks; rl_basic's optim/kl_sample_train_v1 is exactly 0 at temperature 1, in each step"""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        with Server(program, "--root", str(folder / "root")) as server:
            found = sdk(server, str(folder), str(TINY), script="cookbook_loops.py")
            same(server.stop(), 0, "the exit code")
        losses = [row["train_mean_nll"] for row in found["sl"] if "train_mean_nll" in row]
        same(len(losses), 9, "steps of sl_basic")
        holds(losses[-1] < 0.7 * losses[0], losses)
        steps = [row for row in found["rl"] if "optim/kl_sample_train_v1" in row]
        same(len(steps), 4, "steps of rl_basic")
        for name in ("optim/kl_sample_train_v1", "optim/kl_sample_train_v2"):
            same([row[name] for row in steps], [0.0] * 4, name)
        holds(all(row["optim/entropy"] > 0 for row in steps), steps)
        mixed = [row["env/all/by_group/frac_mixed"] for row in steps]
        holds(sum(mixed) > 0, f"no group of rl_basic had an advantage: {mixed}")


def main():
    program = sys.argv[sys.argv.index("--hone") + 1] if "--hone" in sys.argv else str(SOURCE / "build/hone")
    has = PYTHON.exists() and subprocess.run([PYTHON, "-c", "import tinker_cookbook"], capture_output=True, check=False).returncode == 0
    if not has:
        print("skip tinker-cookbook: third_party/serve-venv lacks it; tests/serve/requirements-cookbook.txt says how it is installed")
        return 0
    tests = Tests()
    tests.run([test_recipes], program)
    return 1 if tests.failed else 0


if __name__ == "__main__":
    sys.exit(main())
