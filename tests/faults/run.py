#!/usr/bin/env python3
"""Every class of fault injected into one tiny run, healthy runs, and the founding cases.

A fault (cases_*.py) names its class, how it is injected, the command and what it has to say: `hone doctor` before step 1, or
a training run of a few steps. Faults that hone's design excludes are injected by build/tests/sabotage, which breaks an opened
run by hand and hands it to the same doctor. A healthy run (healthy.py) must show no FAIL and end with 0; so must its training.

  run.py --hone build/hone             one fault of each class, and what is not slow; TAP-like lines: `ok NAME`, `not ok NAME`
  run.py --hone build/hone --slow      every fault, every healthy run
  run.py --write                       writes tests/faults/shown.tsv, docs/faults.md of it, and tests/faults/told.txt
  run.py NAME ...                      these cases alone; with --write their texts in told.txt

A class listed in EXPECTED_MISSING is not found yet: its case is green while that is so, and the table says `not found`.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import cases_causes
import cases_checks
import cases_data
import cases_policy
import cases_rows
import cases_run
import cases_tools
import cases_users
import cases_values
import cases_weights
import founding
import healthy
import healthy_more
import healthy_tools
import healthy_users
import scene
import study
import told
from fault import Outcome

HERE = pathlib.Path(__file__).resolve().parent
LIMIT_S = 900
LEVELS = ["ok", "note", "warn", "fail"]
TRAINED = ("sft", "grpo", "rloo", "dpo", "cpo", "orpo")

# So many faults of a class are injected without --slow: the others reach the same check by another way.
PER_CLASS = 1

# Codes whose injected fault hone does not name yet.
EXPECTED_MISSING = {}

# Classes that no run of one process can show: listed, never counted.
WAITING = {
    "DATA-18": "no text of a benchmark is in this repository: shown by tests/doctor/word_prints_test.cpp",
    "DIST-01": "no tensor is ever partitioned", "DIST-04": "tests/runs/ranks.py: the results are those of one process",
    "DIST-02": "shown by tests of several processes, tests/parallel/processes_test.cpp",
    "DIST-03": "shown by tests of several processes, tests/train/same_run_test.cpp",
}


class Verdict:
    """`text`: what was found; `words`: that with evidence and cause; `fix` None: not known."""

    def __init__(self, code, level, where, text="", words="", fix=None, not_this="", details=()):
        self.code, self.level, self.where, self.text = code, level, where, text
        self.words, self.fix, self.not_this = words or text, fix, not_this
        self.details = list(details)  # (field, text), as it was told


def doctor_verdicts(out):
    examined = json.loads(out)
    return [Verdict(v.get("code", ""), v["level"], part["name"], v["what"],
                    f"{v['what']} | {v.get('evidence', '')} | {v.get('cause', '')}", v.get("fix", ""), v.get("not_this", ""),
                    [(field, v.get(field, "")) for field in told.FIELDS])
            for part in examined["parts"] for v in part["verdicts"]]


PROPOSAL = re.compile(r"\b([a-z][a-z0-9_]*): ([^\s;,)]+)")


def same_value(held, proposed):
    try:
        return abs(float(held) - float(proposed)) <= 1e-6 * abs(float(held))
    except (TypeError, ValueError):
        return json.dumps(held).strip('"').lower() == proposed.lower()


def broken_rules(verdicts, options):
    """What holds for every verdict of every case: a warning names a fix, none that is already set, and a request to report
    comes only after the inputs were excluded."""
    found = []
    for one in verdicts:
        if one.fix is None or one.level not in ("warn", "fail"):
            continue
        proposals = [(name, value) for name, value in PROPOSAL.findall(one.fix) if name in options]
        taken = [f"{name}: {value}" for name, value in proposals if same_value(options[name], value)]
        if taken and len(taken) == len(proposals):
            found.append(f"{one.code} proposes what is set: {', '.join(taken)}")
        if not one.fix:
            found.append(f"{one.code} has no fix")
        if "please report" in one.fix and not one.not_this:
            found.append(f"{one.code} asks for a report and has excluded nothing")
    return found


def line_verdicts(out, err):
    """Of a training run: the doctor's lines, and the error that ended it."""
    found = []
    for line in out.splitlines():
        if found and line.startswith(" " * 10):  # evidence, cause and what follows
            found[-1].words += " " + line.strip()
            field = re.match(r" {10}(evidence|cause|not this|fix|cost) +(.*)", line)
            if field:
                found[-1].details.append(field.groups())
            elif found[-1].details:
                name, text = found[-1].details.pop()
                found[-1].details.append((name, f"{text} {line.strip()}"))
            else:
                found[-1].text += " " + line.strip()
            continue
        match = re.match(r"doctor +(?:step (\d+) +)?(ok|note|warn|FAIL) +(?:([A-Z]+-\d\d) +)?(.*)", line)
        if match:
            step, level, code, text = match.groups()
            found.append(Verdict(code or "", level.lower(), f"step {step}" if step else "before step 1", text))
    if "hone: " in err:
        for code in dict.fromkeys(re.findall(r"\b(?:GRAD|NUM|DATA|PREF|RL|TOOL|DIST|CKPT|ENV|MEM)-\d\d\b", err)):
            at = re.search(r"\[step (\d+)\]", err)
            found.append(Verdict(code, "fail", f"step {at.group(1)}" if at else "before step 1", err.strip()))
    return found


class Runner:
    def __init__(self, hone, sabotage, cache, writes=False):
        self.hone, self.sabotage, self.cache = hone, sabotage, cache
        self.writes, self.recorded, self.told = writes, told.read(), {}
        rows = [tuple(line.split("\t")) for line in (HERE / "shown.tsv").read_text(encoding="utf-8").splitlines() if line[:1] != "#"]
        self.shown = {row[:2]: row for row in rows}

    def command(self, words, method):
        if words[0] == "sabotage":
            return [self.sabotage, words[1], method, "--config", "run.yaml"]
        if words[0] == "doctor":
            return [self.hone, "doctor", method, "--config", "run.yaml", "--json", *words[1:]]
        if words[0] == "train":
            return [self.hone, method, "--config", "run.yaml", *words[1:]]
        return [self.hone, *words]

    def run(self, words, folder, method, broken=""):
        environment = {**os.environ, "NO_COLOR": "1", "XDG_CACHE_HOME": str(self.cache), "PYTHONDONTWRITEBYTECODE": "1"}
        if broken:
            environment["HONE_BREAK"] = broken
        done = subprocess.run(self.command(words, method), cwd=folder, capture_output=True, text=True, errors="replace",
                              timeout=LIMIT_S, stdin=subprocess.DEVNULL, env=environment, check=False)
        said = f"$ {' '.join(words)}\n{done.stdout}{done.stderr}exit {done.returncode}"
        if words[0] in ("doctor", "sabotage") and done.returncode in (0, 2) and done.stdout.startswith("{"):
            return done.returncode, doctor_verdicts(done.stdout), said
        return done.returncode, line_verdicts(done.stdout, done.stderr), said


def place_words(words, verdict, method):
    """Where it was found, for the table."""
    if words[0] == "train" or words[0] in TRAINED:
        return f"the {method} run, {verdict.where if verdict.where == 'before step 1' else 'while it goes on'}"  # steps vary with the machine
    deep = " --deep" if "--deep" in words else ""
    return f"hone doctor{deep}, {verdict.where}"


def best_verdict(verdicts, code, cause=""):
    fitting = [v for v in verdicts if v.code == code and cause in v.words]
    return max(fitting, key=lambda v: LEVELS.index(v.level), default=None)


def prepare(before, runner, place):
    """A command of hone, or a function of the place; what went wrong, or nothing."""
    if callable(before):
        before(place)
        return ""
    code, _, said = runner.run(before, place.folder, place.method)
    return said if code != 0 else ""


def told_of(case, found, said, words, folder):
    if found is None:
        return "nothing"
    runs = words[0] not in ("doctor", "sabotage") and found.where != "before step 1"
    if found.text.startswith("hone: "):  # an error that ended it
        return told.masked(said[said.index("hone: "):said.rindex("exit ")], folder, runs)
    return told.block(found.level, found.text, found.details, folder, runs or case.varies)


def run_fault(case, runner):
    name = f"fault {case.code} {case.name}"
    if case.excluded:
        return run_excluded(case, runner)
    with tempfile.TemporaryDirectory(prefix="hone-fault-") as folder:
        place = scene.Scene(folder)
        words = case.command
        case.build(place)
        for before in case.before:
            said = prepare(before, runner, place)
            if said:
                return Outcome(False, name, None, said)
        code, verdicts, said = runner.run(words, folder, place.method, case.broken)
    found = best_verdict(verdicts, case.code, case.cause)
    rules = broken_rules(verdicts, place.options)
    level = LEVELS.index(found.level) if found else -1
    enough = found is not None and level >= LEVELS.index(case.level)
    stops = case.level != "fail" or code != 0
    text = told_of(case, found, said, words, folder)
    name_told = f"{case.code or 'refused'} {case.name}"
    runner.told[name_told] = text
    if not runner.writes and runner.recorded.get(name_told) != text:
        rules.append(f"told otherwise than in told.txt (run.py --write '{case.name}' writes it):\n{text}\n  recorded:\n"
                     f"{runner.recorded.get(name_told, 'nothing')}")
    good = enough and stops and (not case.exactly or found.level == case.level) and not rules
    missing = EXPECTED_MISSING.get(case.code) == case.name
    if good:
        verdict = "FAIL" if found.level == "fail" else found.level
        where = place_words(words, found, place.method)
        row = (case.code, case.name, f"{verdict}: {where}")
    else:
        row = (case.code, case.name, "not found")
    if not case.code:  # a refusal is of no class
        row = None
    if missing and good:
        return Outcome(False, name, row, "  it is found now: take it out of EXPECTED_MISSING")
    if missing:
        return Outcome(True, name + " # expected missing", row)
    why = "".join(f"  {rule}\n" for rule in rules)
    why += f"  wanted {case.level} {case.code}" + (f" ({case.cause})" if case.cause else "") + "; found " + (", ".join(f"{v.level} {v.code}" for v in verdicts if v.level != "ok") or "nothing")
    return Outcome(good, name, row, f"{why}\n{said}")


def has_test(proof):
    """`tests/x/y_test.cpp Suite.Name` names a test that is there."""
    file, _, test = proof.partition(" ")
    path = HERE.parent.parent / file
    suite, _, name = test.partition(".")
    suite = suite.split("/")[-1]
    return path.exists() and re.search(rf"TEST(_F|_P)?\(\s*{suite},\s*{name.split('/')[0]}\b", path.read_text(encoding="utf-8")) is not None


def run_excluded(case, runner):
    """The catalogue says that it cannot happen, and names a test that exists (and that ./test runs)."""
    name = f"fault {case.code} {case.name}"
    code, _, said = runner.run(("faults", case.code, "--json"), HERE, "")
    page = json.loads(said[said.index("{"):said.rindex("}") + 1]) if code == 0 and "{" in said else {}
    proof = page.get("proof", "")
    good = page.get("status") == "impossible" and has_test(proof)
    row = (case.code, case.name, f"excluded by design: {proof}" if good else "not found")
    return Outcome(good, name, row, f"  wanted status impossible and a proof that exists\n{said}")


def run_healthy(case, runner):
    name = f"healthy {case.name}"
    with tempfile.TemporaryDirectory(prefix="hone-healthy-") as folder:
        place = scene.Scene(folder, case.family)
        case.build(place)
        for before in case.before:
            said = prepare(before, runner, place)
            if said:
                return Outcome(False, name, None, said)
        problems, told = [], []
        for words in (("doctor", *case.deep), ("train",)):
            code, verdicts, said = runner.run(words, folder, place.method)
            told.append(said)
            failing = [f"{v.code} {v.text}" for v in verdicts if v.level == "fail"]
            problems += broken_rules(verdicts, place.options)
            if code != 0 or failing:
                problems.append(f"{words[0]}: exit {code}, FAIL {failing}")
            warned = [f"{v.code} {v.text} | {v.words}" for v in verdicts if v.level == "warn"]
            if case.quiet and warned:
                problems.append(f"{words[0]}: warns of {warned}")
            named = [f"{v.code} {v.text}" for v in verdicts if case.without and v.code.startswith(case.without) and v.level != "ok"]
            if named:
                problems.append(f"{words[0]}: names {named}")
            if "could not run" in said:
                problems.append(f"{words[0]}: a probe could not run")
    shown = None if case.slow else ("healthy", case.name, "no FAIL" if not problems else "FAIL")
    return Outcome(not problems, name, shown,
                   "\n".join(["  " + p for p in problems] + told))


def table_text(rows, head):
    return head + "".join("\t".join(row) + "\n" for row in rows)


def recorded_row(case, runner):
    """Of a fault that only --slow injects: what shown.tsv has of it."""
    row = runner.shown.get((case.code, case.name))
    name = f"fault {case.code} {case.name}"
    missing = bool(case.code) and row is None
    return Outcome(not missing, name, row, "  shown.tsv has no row of it; --slow injects it, and --write writes the row" if missing else "")


def fault_jobs(faults, everything):
    """(function, case): the first faults of each class are injected, the rest only where everything is."""
    seen = collections.Counter()
    for case in faults:
        seen[case.code] += 1
        yield (run_fault if everything or case.excluded or seen[case.code] <= PER_CLASS else recorded_row, case)


SHOWN_HEAD = ("# Made by tests/faults/run.py --write: class, injected as, verdict and what found it; healthy runs; founding cases.\n")


def refused_rows(rows):
    """Rows that no run may write down: a healthy run is green or a defect, and what a slow or broken machine found is no truth."""
    return ["\t".join(row) for row in rows if row[0] == "healthy" and row[2] != "no FAIL"]


def compare(path, text, write):
    if write:
        path.write_text(text, encoding="utf-8")
        return f"ok wrote {path.name}"
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return f"ok {path.name} is what these runs show"
    had = set(path.read_text(encoding="utf-8").splitlines()) if path.exists() else set()
    new = [line for line in text.splitlines() if line not in had]
    gone = [line for line in had if line not in text.splitlines()]
    return "\n".join([f"not ok {path.name} is what these runs show; `tests/faults/run.py --write` writes it again",
                      *(f"  + {line}" for line in new), *(f"  - {line}" for line in gone)])


def tried(function, *arguments):
    name = getattr(arguments[0], "name", "?")
    try:
        return function(*arguments)
    except (OSError, ValueError, KeyError, subprocess.TimeoutExpired) as error:
        return Outcome(False, name, None, f"  {type(error).__name__}: {error}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hone", default=str(HERE.parent.parent / "build" / "hone"))
    parser.add_argument("--slow", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("only", nargs="*", help="words that a case's name contains; default all")
    args = parser.parse_args()
    hone = pathlib.Path(args.hone).resolve()
    wanted = lambda name: not args.only or any(word in name for word in args.only)  # noqa: E731
    faults = [c for module in (cases_weights, cases_data, cases_policy, cases_run, cases_values, cases_causes, cases_checks, cases_users, cases_rows, cases_tools) for c in module.CASES]
    jobs = [(function, c) for function, c in fault_jobs(faults, args.slow or args.write or args.only)
            if wanted(f"fault {c.code} {c.name}")]
    jobs += [(run_healthy, c) for c in (*healthy.CASES, *healthy_more.CASES, *healthy_users.CASES, *healthy_tools.CASES)
             if wanted(f"healthy {c.name}") and (args.slow or not c.slow)]
    jobs += [(founding.run, c) for c in founding.CASES if wanted(f"founding {c.name}") and (args.slow or not c.slow)]
    started = time.monotonic()
    rows, failed = {"faults": [], "founding": []}, False
    with tempfile.TemporaryDirectory(prefix="hone-faults-cache-") as cache:
        runner = Runner(str(hone), str(hone.parent / "tests" / "sabotage"), cache, args.write)
        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            for (function, case), outcome in zip(jobs, pool.map(lambda job: tried(job[0], job[1], runner), jobs)):
                if function is not recorded_row or not outcome.ok:
                    print(outcome.text(), flush=True)
                if args.verbose and outcome.ok:
                    print(outcome.detail)
                failed = failed or not outcome.ok
                if outcome.row:
                    rows["founding" if function is founding.run else "faults"].append(outcome.row)
        if args.write:
            told.write({**(runner.recorded if args.only else {}), **runner.told})
    if not args.only:
        left = {f"{case.code or 'refused'} {case.name}" for function, case in jobs if function is recorded_row}
        gone = [] if args.write else sorted(runner.recorded.keys() - runner.told.keys() - left)
        for name in gone:
            print(f"not ok told.txt: no case is called {name}")
        failed = failed or bool(gone)
        shown = rows["faults"] + [(code, "not run", why) for code, why in sorted(WAITING.items())]
        for row in founding.rows(rows["founding"]):
            if re.match(r"fails\b|not run yet", row[2]):  # a slow one, as --slow left it
                print(f"not ok {row[1]}: {row[2]}")
                failed = True
        studied = study.rows(has_test, {row[0] for row in rows["faults"] if row[2] != "not found"})
        for row in studied:
            if row[2].startswith("not found"):
                print(f"not ok {row[1]}: {row[2]}")
                failed = True
        refused = refused_rows(shown)
        for row in refused:
            print(f"not ok shown.tsv is not written with: {row}")
        args.write = args.write and not refused
        failed = failed or bool(refused)
        line = compare(HERE / "shown.tsv", table_text(shown + founding.rows(rows["founding"]) + studied, SHOWN_HEAD), args.write)
        failed = failed or line.startswith("not ok")
        print(line)
        if args.write:
            page = subprocess.run([hone, "faults", "--markdown", "--shown", HERE / "shown.tsv"], capture_output=True, text=True, check=True)
            (HERE.parent.parent / "docs" / "faults.md").write_text(page.stdout, encoding="utf-8")
        codes = {row[0] for row in rows["faults"] if row[0] != "healthy"}
        excluded = {row[0] for row in rows["faults"] if row[2].startswith("excluded")}
        lost = {row[0] for row in rows["faults"] if row[2] == "not found"}
        print(f"# {len(codes)} classes: {len(codes - excluded - lost)} named on the injected fault, {len(excluded)} excluded by design, "
              f"{len(lost)} not found ({' '.join(sorted(lost))}); {time.monotonic() - started:.0f} s", file=sys.stderr)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
