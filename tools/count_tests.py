#!/usr/bin/env python3
"""Sums a folder of results: GoogleTest's NAME.json beside its NAME.log, and NAME.tap (`ok`, `not ok`, `skip` lines).

Names what failed and what was skipped, then prints `N passed, N failed[, N skipped]` as the last line.
NAME.exit holds each program's exit code: one that failed without saying which case counts as one failure.
NAME.seconds holds the time of what has no GoogleTest; the longest of both kinds are named, so that the suite's time has an address.
"""
import json
import pathlib
import re
import sys

LONGEST = 12


def skip_reasons(log):
    """gtest prints `file:line: Skipped`, the reason, then `[  SKIPPED ] Suite.Case`."""
    reasons, text = {}, None
    for line in log.splitlines():
        match = re.match(r"\[  SKIPPED \] (\S+?)(,| \(|$)", line)
        if match:
            reasons.setdefault(match.group(1), " ".join(text or []).strip())
            text = None
        elif line.endswith(": Skipped"):
            text = []
        elif text is not None:
            text.append(line)
    return reasons


def from_gtest(path):
    log = path.with_suffix(".log")
    reasons = skip_reasons(log.read_text(errors="replace")) if log.exists() else {}
    try:
        suites = json.loads(path.read_text())["testsuites"]
    except (ValueError, KeyError, TypeError) as error:  # its program ended while it wrote, or the disk was full
        yield "not ok", path.name, f"no results of GoogleTest: {error}"
        return
    for suite in suites:
        for case in suite["testsuite"]:
            name = f"{suite['name']}.{case['name']}"
            if case["status"] != "RUN" or case["result"] == "SUPPRESSED":
                continue  # left out by the filter: a slow test in the fast suite
            outcome = {"SKIPPED": "skip"}.get(case["result"], "not ok" if case.get("failures") else "ok")
            yield outcome, f"{path.stem}: {name}", reasons.get(name, "")


def from_tap(path):
    for line in path.read_text(errors="replace").splitlines():
        match = re.match(r"(ok|not ok|skip) (.+)", line)
        if match:
            name, _, why = match.group(2).partition(": ")
            yield match.group(1), f"{path.stem}: {name}", why


def collect(folder):
    cases = []
    for path in sorted(folder.glob("*.exit")):
        found = []
        if path.with_suffix(".json").exists():
            found = list(from_gtest(path.with_suffix(".json")))
        elif path.with_suffix(".tap").exists():
            found = list(from_tap(path.with_suffix(".tap")))
        code = path.read_text().strip()
        if code != "0" and not any(outcome == "not ok" for outcome, _, _ in found):
            found.append(("not ok", path.stem, f"ended with exit code {code}"))
        if code == "0" and not found and not path.with_suffix(".may_be_empty").exists():
            found.append(("not ok", path.stem, "ran no test"))
        cases += found
    return cases


def seconds_of(folder):
    """(seconds, name) of every GoogleTest case, and of every other test as a whole."""
    for path in folder.glob("*.seconds"):
        yield float(path.read_text()), path.stem
    for path in folder.glob("*.json"):
        try:
            suites = json.loads(path.read_text())["testsuites"]
        except (ValueError, KeyError, TypeError):
            continue  # collect() has named it
        for suite in suites:
            for case in suite["testsuite"]:
                yield float(case.get("time", "0").rstrip("s")), f"{path.stem}: {suite['name']}.{case['name']}"


def main():
    folder = pathlib.Path(sys.argv[1])
    cases = collect(folder)
    longest = sorted((found for found in seconds_of(folder) if found[0] >= 1), reverse=True)[:LONGEST]
    if longest:
        print("the longest, in seconds beside the others: " + ", ".join(f"{name} {seconds:.0f}" for seconds, name in longest))
    of = lambda outcome: [case for case in cases if case[0] == outcome]
    for word, outcome in (("skipped", "skip"), ("FAILED", "not ok")):
        for _, name, why in of(outcome):
            print(f"{word:<8} {name}" + (f": {why}" if why else ""))
    skipped = f", {len(of('skip'))} skipped" if of("skip") else ""
    print(f"{len(of('ok'))} passed, {len(of('not ok'))} failed{skipped}")
    sys.exit(1 if of("not ok") or not cases else 0)


if __name__ == "__main__":
    main()
