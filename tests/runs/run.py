#!/usr/bin/env python3
"""Golden command runs: each folder beside this file is a case, run in a copy of itself.

  cmd      one command a line, `hone ...`; all but the last have to succeed. {source} is the project, {model} the SmolLM2 file.
  expect   one assertion a line, about the last command:
             exit 2                 its exit code (0 where it is not said)
             out: text              stdout has a line that contains the text          out~ regex    ... that matches
             err: text / err~ regex the same for stderr
             not: text              neither stdout nor stderr contains it
             file: path             the file is there afterwards
             untouched              nothing in the folder was created, changed or removed
             slow                   only with --slow
             needs: path            without it (placeholders allowed) the case is skipped, not passed

Prints `ok NAME`, `not ok NAME` or `skip NAME: why`; a case that fails shows what was printed.
"""
import argparse
import hashlib
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
LIMIT_S = 600
WORDS = ("exit", "out:", "out~", "err:", "err~", "not:", "file:", "untouched", "slow", "needs:")


def snapshot(folder):
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() if p.is_file() else "folder"
            for p in sorted(folder.rglob("*"))}


def statements(path, places):
    """(word, rest) a line. An unknown word is an error: an assertion never passes by being misspelt."""
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        word, _, rest = line.strip().partition(" ")
        if word not in WORDS:
            raise ValueError(f"{path}: unknown assertion `{line}`; known: {' '.join(WORDS)}")
        yield word, fill(rest.strip(), places)


def fill(text, places):
    for name, value in places.items():
        text = text.replace("{" + name + "}", str(value))
    return text


def run_commands(case, folder, hone, places):
    """The last command's (exit code, stdout, stderr, snapshot before it)."""
    lines = [l for l in (case / "cmd").read_text(encoding="utf-8").splitlines() if l.strip() and l[0] != "#"]
    for i, line in enumerate(lines):
        words = shlex.split(fill(line, places))
        if words[0] != "hone":
            raise ValueError(f"{case.name}/cmd: a command begins with `hone`, not `{words[0]}`")
        before = snapshot(folder)
        done = subprocess.run([hone, *words[1:]], cwd=folder, capture_output=True, text=True, errors="replace",
                              timeout=LIMIT_S, env={**os.environ, "NO_COLOR": "1"}, stdin=subprocess.DEVNULL)
        if done.returncode != 0 and i + 1 < len(lines):
            raise ValueError(f"`{line}` ended with {done.returncode}: {done.stderr.strip()}")
    return done.returncode, done.stdout, done.stderr, before


def holds(word, rest, code, out, err, before, folder):
    if word in ("out:", "out~", "err:", "err~"):
        lines = (out if word.startswith("out") else err).splitlines()
        return any(rest in l if word[3] == ":" else re.search(rest, l) for l in lines)
    if word == "not:":
        return rest not in out and rest not in err
    if word == "file:":
        return (folder / rest).exists()
    if word == "untouched":
        return snapshot(folder) == before
    return True


def run_case(case, hone, places):
    """The assertions that do not hold, and what was printed."""
    with tempfile.TemporaryDirectory(prefix="hone-run-") as temporary:
        folder = pathlib.Path(temporary) / "case"
        shutil.copytree(case, folder, ignore=shutil.ignore_patterns("cmd", "expect"))
        code, out, err, before = run_commands(case, folder, hone, places)
        asserted = list(statements(case / "expect", places))
        wanted = int(next((rest for word, rest in asserted if word == "exit"), 0))
        broken = [f"exit {wanted}, found {code}"] if code != wanted else []
        broken += [f"{word} {rest}" for word, rest in asserted if not holds(word, rest, code, out, err, before, folder)]
        return broken, f"stdout:\n{out}stderr:\n{err}"


def outcome(case, hone, places, slow):
    asserted = list(statements(case / "expect", places))
    if any(word == "slow" for word, _ in asserted) and not slow:
        return None
    for word, rest in asserted:
        if word == "needs:" and not pathlib.Path(rest).exists():
            return f"skip {case.name}: {rest} is not there"
    broken, printed = run_case(case, hone, places)
    if not broken:
        return f"ok {case.name}"
    return "\n".join([f"not ok {case.name}", *(f"  does not hold: {b}" for b in broken), printed.rstrip()])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hone", default=str(HERE.parent.parent / "build" / "hone"))
    parser.add_argument("--cases", type=pathlib.Path, default=HERE)
    parser.add_argument("--model", default="")
    parser.add_argument("--slow", action="store_true")
    parser.add_argument("only", nargs="*", help="names of cases; default all")
    args = parser.parse_args()
    places = {"source": HERE.parent.parent, "model": args.model}
    failed = False
    for case in sorted(p.parent for p in args.cases.glob("*/cmd")):
        if args.only and case.name not in args.only:
            continue
        try:
            text = outcome(case, os.path.abspath(args.hone), places, args.slow)
        except (ValueError, OSError, re.error, subprocess.TimeoutExpired) as error:
            text = f"not ok {case.name}\n  {error}"
        if text:
            print(text, flush=True)
            failed = failed or text.startswith("not ok")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
