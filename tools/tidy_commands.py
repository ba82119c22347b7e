#!/usr/bin/env python3
"""Writes OUTPUT/compile_commands.json from BUILD's, as clang reads it: g++'s precompiled header is taken out.

clang cannot read a .gch and would compile the whole of ATen through it; our files include what they use anyway.
A file of several sources (a unity build, or a joined folder) becomes one command a source.
"""
import json
import pathlib
import re
import shlex
import sys


# Of g++ alone. The last one is of g++ 13 and newer (cmake/Rooms.cmake).
OF_GCC = ("-Winvalid-pch", "-Werror", "-fopenmp", "-munroll-only-small-loops")


def for_clang(command):
    words, kept = shlex.split(command), []
    skip = False
    for i, word in enumerate(words):
        if skip:
            skip = False
        elif word == "-include" and "cmake_pch" in words[i + 1]:
            skip = True
        elif word not in OF_GCC and not word.startswith("--param="):
            kept.append(word)
    # clang's own opinions about code that g++ accepts are not what this run is for
    return shlex.join(kept + ["-Wno-everything"])


def alone(entry):
    """The entries of the sources that a unity file includes; of any other file, its own."""
    file = pathlib.Path(entry["directory"], entry["file"])
    if not re.fullmatch(r"unity_\d+_cxx\.cxx", file.name) and file.parent.name != "joined":
        yield entry
        return
    for source in re.findall(r'#include "([^"]+\.cpp)"', file.read_text(encoding="utf-8")):
        yield {**entry, "file": source, "command": entry["command"].replace(entry["file"], source)}


def main():
    build, output = map(pathlib.Path, sys.argv[1:3])
    output.mkdir(parents=True, exist_ok=True)
    entries = json.loads((build / "compile_commands.json").read_text())
    entries = [one for entry in entries for one in alone(entry)]
    for entry in entries:
        entry["command"] = for_clang(entry["command"])
    (output / "compile_commands.json").write_text(json.dumps(entries, indent=1))


if __name__ == "__main__":
    main()
