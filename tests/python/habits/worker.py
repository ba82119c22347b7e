#!/usr/bin/env python3
"""Runs habits in this process, each in an empty folder, and writes what they return: a line of JSON for each.

usage: worker.py trl|hone OUT.jsonl HABIT...     HABIT: group.name
"""
import contextlib
import json
import os
import pathlib
import re
import sys
import tempfile
import time
import traceback
import types

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))


def opened(group, whose):
    """A file of habits, whose imports of trl are of hone.trl where that is asked for: the one change that a user makes."""
    text = (HERE / f"{group}.py").read_text(encoding="utf-8")
    if whose == "hone":
        text = re.sub(r"^( *)from trl((?:\.[a-z_.]+)?) import", r"\1from hone.trl\2 import", text, flags=re.MULTILINE)
    module = types.ModuleType(group)
    module.__file__ = str(HERE / f"{group}.py")
    sys.modules[f"habits_{group}"] = module
    exec(compile(text, module.__file__, "exec"), vars(module))
    return module


def habits_of(group):
    return {name: value.habit for name, value in vars(opened(group, "trl")).items() if hasattr(value, "habit")}


def plain(value):
    """As JSON has it, so that a value of today and one that was recorded are compared alike."""
    return json.loads(json.dumps(value, default=lambda one: one.tolist() if hasattr(one, "tolist") else str(one)))


def run(call, log):
    started = time.monotonic()
    out = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(log), contextlib.redirect_stderr(log):
        os.chdir(folder)
        try:
            out["values"] = plain(call())
        except BaseException as error:
            kinds = [kind.__name__ for kind in type(error).__mro__]
            out |= {"error": type(error).__name__, "text": str(error), "refused": "Refused" in kinds or "RefusedName" in kinds}
            traceback.print_exc(file=log)
        finally:
            os.chdir(HERE)
    return {**out, "seconds": round(time.monotonic() - started, 1)}


def main():
    whose, path, *names = sys.argv[1:]
    opened_groups = {}
    with open(path, "a", encoding="utf-8") as out, open(f"{path}.log", "a", encoding="utf-8") as log:
        for name in names:
            group, _, one = name.partition(".")
            if group not in opened_groups:
                opened_groups[group] = opened(group, whose)
            print(f"==== {name}", file=log, flush=True)
            found = run(getattr(opened_groups[group], one), log)
            out.write(json.dumps({"habit": name, **found}) + "\n")
            out.flush()


if __name__ == "__main__":
    main()
