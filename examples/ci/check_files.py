#!/usr/bin/env python3
"""`hone check` of training files, and `hone doctor` of them where --doctor asks for it, for hooks and CI.

usage: check_files.py [--hone PROGRAM] [--doctor] [--report FILE] [--names FILE] FILE ...

A line of each finding; on GitHub an annotation of the file and its line. The exit code is 0 where every file is right,
2 where one is wrong, and 1 where hone itself could not run. The doctor leaves out another trainer's file of which something is
unknown, and says so. Only the standard library is needed.
"""
import argparse
import json
import os
import subprocess
import sys


def said_of(program, command, path):
    """(exit code, what was printed on standard output as JSON or null, the rest)."""
    ended = subprocess.run([program, command, named(path), "--json"], capture_output=True, text=True)
    try:
        return ended.returncode, json.loads(ended.stdout), ended.stderr
    except ValueError:
        return ended.returncode, None, ended.stdout + ended.stderr


def named(path):
    """No option, whatever its first letter."""
    return "./" + path if path.startswith("-") else path


def place(where, path):
    """The line of "path:7"; null where it has none."""
    path = named(path)
    end = where.removeprefix(path + ":") if where.startswith(path + ":") else ""
    return int(end) if end.isdigit() else None


def coded(words, letters):
    """Those letters as %0A and its like."""
    return "".join(f"%{ord(one):02X}" if one in letters else one for one in words)


def tell(level, path, line, text):
    """One finding, as GitHub reads it where it runs there."""
    if os.environ.get("GITHUB_ACTIONS") == "true":
        name, said = coded(path, "%\r\n:,"), coded(text, "%\r\n")
        print(f"::{level} file={name}{f',line={line}' if line else ''}::{said}")
    else:
        name = coded(path, "\r\n")
        print(f"{name}{f':{line}' if line else ''}: {level}: {text}")


def check(program, path, results):
    """(whether the file is right, the names of what is unknown in it)."""
    code, found, rest = said_of(program, "check", path)
    if found is None:  # a file of hone's own: it is told as text
        ended = subprocess.run([program, "check", named(path)], capture_output=True, text=True)
        code, rest = ended.returncode, ended.stderr
        results.append({"file": path, "command": "check", "exit_code": code})
        if code:
            tell("error", path, None, rest.strip())
        return code == 0, []
    results.append({"file": path, "command": "check", "exit_code": code, "result": found})
    for one in found["refused"]:
        tell("error", path, place(one["where"], path), f"{one['name']}: {one['why']}. {one['do']}")
    for one in found["unknown"].values():
        tell("warning", path, place(one["where"], path), f"{one['name']} is not known: {one['why']}")
    return code == 0, [one["name"] for one in found["unknown"].values()]


def examine(program, path, results):
    """True where the doctor finds no fault. Its codes are stable: `hone faults CODE` explains each."""
    code, found, rest = said_of(program, "doctor", path)
    results.append({"file": path, "command": "doctor", "exit_code": code, "result": found})
    if found is None:
        tell("error", path, None, rest.strip())
    for one in [one for part in (found or {}).get("parts", []) for one in part["verdicts"]]:
        if one["level"] in ("fail", "warn"):
            tell("error" if one["level"] == "fail" else "warning", path, None, f"{one['code']} {one['what']}. {one.get('fix', '')}".strip())
    return code == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--names", help="a file of more names, each ended by a byte of 0, as git -z writes them")
    parser.add_argument("--hone", default=os.environ.get("HONE", "hone"))
    parser.add_argument("--doctor", action="store_true")
    parser.add_argument("--report")
    options = parser.parse_args()
    if options.names:
        with open(options.names, "rb") as names:
            options.files += [os.fsdecode(one) for one in names.read().split(b"\0") if one]
    if not options.files:
        parser.error("no file is named")
    results, right = [], True
    try:
        for path in options.files:
            checked, unknown = check(options.hone, path, results)
            right = checked and right
            if checked and options.doctor and unknown:
                tell("warning", path, None, f"not examined by the doctor: {', '.join(unknown)} not known")
            elif checked and options.doctor:
                right = examine(options.hone, path, results) and right
    except OSError as error:
        print(f"{options.hone} does not run: {error}", file=sys.stderr)
        return 1
    finally:
        if options.report:
            with open(options.report, "w", encoding="utf-8") as out:
                json.dump(results, out, indent=1)
    ran = all(one["exit_code"] in (0, 2) for one in results)
    return 1 if not ran else 0 if right else 2


if __name__ == "__main__":
    sys.exit(main())
