#!/usr/bin/env python3
"""docs/quickstart-output.txt, from which README quotes, against what ./quickstart prints.

  the start page of its training: on every machine; the run is ended when the page is there
  its result, with --slow: with the kernels of AVX512-BF16, whose bits do not depend on the machine

Usage: tests/house/quickstart_test.py [--hone build/hone] [--slow]
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
KEPT = ROOT / "docs" / "quickstart-output.txt"
CONFIG = "examples/quickstart.yaml"


def kept(section):
    """The lines of docs/quickstart-output.txt below `== section...`."""
    lines = KEPT.read_text(encoding="utf-8").splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith(f"== {section}")) + 1
    end = next((i for i in range(begin, len(lines)) if lines[i].startswith("== ")), len(lines))
    return lines[begin:end]


def masked(lines):
    """Without memory that is measured (the program's, what is free, the total), and without what follows from the processor's
    instructions: whether weights are packed, and the scratch of the products."""
    lines = [line for line in lines if not line.startswith("products ")]  # rates of the processor
    plain = (re.sub(r"\bbase weights, packed {4}", "base weights            ", line.rstrip()) for line in lines)
    return [re.sub(r"\b(program and data|one layer or the head|total|free) +[\d.]+ GB", r"\1", line) for line in plain]


def differences(expected, found):
    return [f"line {i}: expected `{a}`, found `{b}`"
            for i, (a, b) in enumerate(zip(expected + [""] * len(found), found + [""] * len(expected)), 1) if a != b]


def start_page(hone, folder):
    """What `hone grpo` says from `trained` to `run`, of the quickstart's own configuration and data."""
    for name in ("examples", "models"):
        (folder / name).symlink_to(ROOT / name)
    subprocess.run([sys.executable, ROOT / "tools" / "make_arithmetic.py", folder / "quickstart-out" / "data"], check=True,
                   stdout=subprocess.DEVNULL)
    with (folder / "said").open("w+") as said:
        run = subprocess.Popen([hone, "grpo", "--config", CONFIG, "--skip_doctor", "true"], cwd=folder, stdout=subprocess.PIPE,
                               stderr=said, text=True)
        lines = []
        try:
            for line in run.stdout:
                lines += [line.rstrip("\n")]
                if line.startswith("run "):
                    return lines
        finally:
            run.kill()
            run.wait()
        said.seek(0)
        raise ValueError(f"no start page: {said.read().strip()}")


def test_the_start_page_of_the_quickstart_is_the_documented_one(args, folder):
    if not (ROOT / "models" / "smollm2-gguf").exists():
        return "skip", ["SmolLM2 is not there; ./quickstart fetches it"]
    return "", differences(masked(kept("training")), masked(start_page(args.hone.resolve(), folder)))


def test_the_result_of_the_quickstart_is_the_documented_one(args, _):
    if not args.slow:
        return "", []
    if "avx512_bf16" not in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8"):
        return "skip", ["the processor has no AVX512-BF16, so its bits are others"]
    for kept_answers in (ROOT / "quickstart-out").glob("before.jsonl*"):  # maybe of other kernels
        kept_answers.unlink()
    held = {**os.environ, "HONE_INSTRUCTIONS": "avx512_bf16"}  # by itself hone may find avx512 faster
    done = subprocess.run([ROOT / "quickstart", "--again"], capture_output=True, text=True, check=False, env=held)
    found = [line for line in done.stdout.splitlines() if line.startswith("held-out ") and "before:" in line and "after:" in line]
    return "", differences(kept("result"), found)


def test_a_difference_is_seen(_args, _folder):
    """The comparison's own test: another line, a missing one and one too many are each a difference."""
    expected = kept("training")
    cases = ([*expected[:3], "other", *expected[4:]], expected[:-1], [*expected, "more"])
    return "", [f"not seen: {len(case)} lines" for case in cases if len(differences(masked(expected), masked(case))) != 1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hone", type=pathlib.Path, default=ROOT / "build" / "hone")
    parser.add_argument("--slow", action="store_true")
    args = parser.parse_args()
    failed = False
    for name, test in [(n, f) for n, f in globals().items() if n.startswith("test_")]:
        if name == "test_the_result_of_the_quickstart_is_the_documented_one" and not args.slow:
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                skipped, findings = test(args, pathlib.Path(folder))
            except Exception as error:  # a test that raises has failed, whatever it raised
                skipped, findings = "", [f"{type(error).__name__}: {error}"]
        if skipped:
            print(f"skip {name[5:]}: {findings[0]}")
        else:
            failed = failed or bool(findings)
            print("\n  ".join([f"not ok {name[5:]}", *findings]) if findings else f"ok {name[5:]}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
