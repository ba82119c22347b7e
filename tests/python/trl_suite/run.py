#!/usr/bin/env python3
"""TRL's own tests of nine trainers (text, CPU) with hone's classes in the place of TRL's: which pass, which are refused with a reason.

`fetch` brings the tests, make_cache.py their models and data. TRL itself runs first, once: its results stay in third_party/trl-suite/results. A test
that TRL passes and that passed with hone (expected.json) has to pass again; one that was refused has to be refused or to pass.

usage: tests/python/trl_suite/run.py [--hone PROGRAM] [--trl REPOSITORY] [--write] [TRAINER...]
  --trl     a copy of TRL's repository; without it GitHub's
  --write   writes expected.json, and the tables into third_party/trl-suite/results
TRAINER: sft dpo kto reward grpo rloo cpo orpo online_dpo
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import classify

SOURCE = HERE.parents[2]
SUITE = SOURCE / "third_party/trl-suite"
PYTHON = SOURCE / "third_party/parity-venv/bin/python"
RESULTS = SUITE / "results"
EXPECTED = HERE / "expected.json"
TRAINERS = ("sft", "dpo", "kto", "reward", "grpo", "rloo", "cpo", "orpo", "online_dpo")
SECONDS = 900  # of one test; TRL takes minutes for some on a busy machine
# The tiny models have large vocabularies: with glibc's defaults half of TRL's time goes to fresh pages of the same tensors.
MEMORY = "glibc.malloc.mmap_threshold=4294967295:glibc.malloc.trim_threshold=17179869184:glibc.malloc.top_pad=268435456"


def obstacle(repository):
    """Why the tests cannot run here; "" where they can."""
    if not PYTHON.is_file():
        return "tests/parity/setup has installed no references"
    if not (SUITE / "commit").is_file() or not (SUITE / "site/installed.txt").is_file():
        fetched = subprocess.run([str(HERE / "fetch"), *([repository] if repository else [])], capture_output=True, text=True)
        if fetched.returncode:
            return "TRL's repository, PyPI or npm does not answer"
    missing = [name for name in ("tokenizers", "trl-templates") if not (SOURCE / "third_party" / name).is_dir()]
    if missing:
        return f"third_party/{missing[0]} is not there, of which the models are made"
    if not (SUITE / "cache/left_out.json").is_file():
        made = subprocess.run([str(PYTHON), "-W", "ignore", str(HERE / "make_cache.py")], capture_output=True, text=True)
        if made.returncode:
            return "the models could not be made: " + (made.stderr.strip().splitlines() or ["?"])[-1]
    return ""


def test_file(name):
    return next(str(path.relative_to(SUITE)) for path in (SUITE / f"tests/test_{name}_trainer.py", SUITE / f"tests/experimental/test_{name}_trainer.py")
                if path.is_file())


def result_of(whose, name):
    return RESULTS / f"{whose}-{name}.jsonl"


def run(whose, name, program):
    """One file of tests; what a run that was broken off has found stays, and only the rest runs."""
    RESULTS.mkdir(exist_ok=True)
    environment = os.environ | {
        "TRL_SUITE_WHOSE": whose, "TRL_SUITE_CACHE": str(SUITE / "cache"), "TRL_SUITE_OUT": str(result_of(whose, name)), "TRL_SUITE_SECONDS": str(SECONDS),
        "HF_HOME": str(SUITE / "cache"), "HF_HUB_OFFLINE": "1", "TRL_EXPERIMENTAL_SILENCE": "1", "TOKENIZERS_PARALLELISM": "false",
        "HONE_PROGRAM": program, "PYTHONPATH": os.pathsep.join(map(str, (SUITE / "site", SOURCE / "python", HERE)))}
    if whose == "trl":
        environment["GLIBC_TUNABLES"] = MEMORY
    with open(RESULTS / f"{whose}-{name}.log", "w", encoding="utf-8") as log:
        subprocess.run([str(PYTHON), "-W", "ignore", "-m", "pytest", "-p", "plugin", "-p", "no:cacheprovider", "-q", "--tb=short", test_file(name)],
                       cwd=SUITE, env=environment, stdout=log, stderr=log)


def results(whose, names):
    out = {}
    for name in names:
        out.update(classify.rows_of(result_of(whose, name)))
    return out


def worse(found, expected):
    """Tests that came out worse than expected.json says; one that it does not know may be refused, and not fail."""
    rank = {"passed": 0, "refused": 1, "failed": 2}
    return [f"{kind}, expected {expected.get(test, 'refused')}: {test}\n    {classify.first_line(row)[:300]}" for test, (kind, _, row) in sorted(found.items())
            if rank[kind] > rank[expected.get(test, "refused")]]


def not_compared(found, expected, names):
    """Tests of these trainers that were compared before, and that TRL itself did not pass now: a missing model would take them away in silence."""
    return [f"TRL itself did not pass it, and it was compared before: {test}" for test in sorted(expected)
            if classify.trainer_of(test) in names and test not in found]


def write(found, apart):
    kept = json.loads(EXPECTED.read_text(encoding="utf-8")) if EXPECTED.is_file() else {}
    kept.update({test: kind for test, (kind, *_) in found.items() if kind != "failed"})
    EXPECTED.write_text(json.dumps(dict(sorted(kept.items())), indent=0, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
    (RESULTS / "table.txt").write_text(classify.text_of(found, apart), encoding="utf-8")
    (RESULTS / "failures.txt").write_text(classify.failures_of(found), encoding="utf-8")
    rows = {test: {"kind": kind, "reason": reason, "last": classify.first_line(row)[:400]} for test, (kind, reason, row) in found.items()}
    (RESULTS / "table.json").write_text(json.dumps({"tests": rows, "left out": apart}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hone", default=str(SOURCE / "build/hone"))
    parser.add_argument("--trl", default="")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("trainers", nargs="*", choices=[*TRAINERS, []], metavar="TRAINER", default=[])
    given = parser.parse_args()
    names = given.trainers or TRAINERS
    title = "TRL's own tests pass with hone's classes, or are refused with a reason, as before"
    why = obstacle(given.trl)
    if why:
        print(f"skip {title}: {why}")
        return 0
    for name in names:
        run("trl", name, given.hone)
        result_of("hone", name).unlink(missing_ok=True)
        run("hone", name, given.hone)
    found, apart = classify.compared(results("trl", names), results("hone", names))
    expected = json.loads(EXPECTED.read_text(encoding="utf-8")) if EXPECTED.is_file() else {}
    if given.write:
        write(found, apart)
        expected = json.loads(EXPECTED.read_text(encoding="utf-8"))
    lost = worse(found, expected) + not_compared(found, expected, names) if found else ["no test ran: see third_party/trl-suite/results"]
    print(f"{'not ok' if lost else 'ok'} {title}", flush=True)
    print("  " + (classify.text_of(found, apart) + "".join(f"{line}\n" for line in lost)).strip().replace("\n", "\n  "))
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
