#!/usr/bin/env python3
"""The tree and the pack for a machine with a GPU (tools/gpu_pack) fit what such a machine takes: 64 MiB.

Usage: tests/house/size_test.py
"""
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MIB = 1 << 20
TREE, TOGETHER = 48 * MIB, 62 * MIB


def tracked_bytes():
    names = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, check=True).stdout.decode().split("\0")
    paths = [ROOT / name for name in names if name]
    return sum(path.lstat().st_size for path in paths if os.path.lexists(path))


def findings(tree, pack):
    if tree > TREE:
        yield f"the tracked tree has {tree / MIB:.2f} MiB, of at most {TREE // MIB}: new fixtures take the place of old ones"
    if tree + pack > TOGETHER:
        yield f"tree and .gpu have {(tree + pack) / MIB:.2f} MiB, of at most {TOGETHER // MIB}"


def main():
    if not (ROOT / ".git").exists():
        print("skip the tree has its size: no git here")
        return 0
    tree = tracked_bytes()
    pack = sum(path.stat().st_size for path in (ROOT / ".gpu").rglob("*") if path.is_file())
    found = list(findings(tree, pack))
    print(*found, sep="\n", end="\n" if found else "")
    print(f"{'not ok' if found else 'ok'} the tree has its size ({tree / MIB:.2f} MiB, and {pack / MIB:.2f} in .gpu)")
    planted = [len(list(findings(TREE + 1, 0))), len(list(findings(TREE, 0))), len(list(findings(TREE, TOGETHER - TREE + 1)))]
    print("ok each planted size is found" if planted == [1, 0, 1] else f"not ok each planted size is found: {planted}")
    return 1 if found or planted != [1, 0, 1] else 0


if __name__ == "__main__":
    sys.exit(main())
