#!/usr/bin/env python3
"""docs/doctor-for-others.md: each line that it shows of a file of tests/others is what `hone check` says of that file, in that order.

usage: tests/commands/others_page_test.py [--hone PROGRAM]
"""
import argparse
import pathlib
import re
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
from checks import SOURCE, Tests, holds

PAGE = SOURCE / "docs/doctor-for-others.md"
TRAINERS = {"axolotl", "llamafactory", "swift", "torchtune", "unsloth", "trl", "transformers"}


def shown():
    """(file, lines) of each block of the page that is of a file of tests/others."""
    blocks = re.findall(r"^```text\n(hone check +(tests/others/\S+) .*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [(file, text.splitlines()) for text, file in blocks]


def missing(lines, said):
    """The first of `lines` that does not come in `said` behind the ones before; null where all do."""
    rest = iter(said)
    return next((line for line in lines if line not in rest), None)


def test_examples(program):
    """each example of the page is what hone check says of its file"""
    files = shown()
    holds({file.split("/")[2] for file, _ in files} == TRAINERS, f"an example of each trainer: {[file for file, _ in files]}")
    for file, lines in files:
        said = subprocess.run([program, "check", file], cwd=SOURCE, capture_output=True, text=True, timeout=60).stdout
        line = missing(lines, said.splitlines())
        holds(line is None, f"{file} does not say\n{line}\nin\n{said}")


def test_missing():
    """a line that is not said, or in another order, is found"""
    holds(missing(["a", "c"], ["a", "b", "c"]) is None, "lines between are left out")
    holds(missing(["c", "a"], ["a", "b", "c"]) == "a", "another order")
    holds(missing(["d"], ["a"]) == "d", "a line that is not there")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hone", default=str(SOURCE / "build/hone"))
    tests = Tests()
    tests.run([test_examples], str(pathlib.Path(parser.parse_args().hone).resolve()))
    tests.run([test_missing])
    return 1 if tests.failed else 0


if __name__ == "__main__":
    sys.exit(main())
