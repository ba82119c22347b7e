#!/usr/bin/env python3
"""The tree and the pack for a machine with a GPU (tools/gpu_pack) fit what such a machine takes: 64 MiB.

Goldens of equal bytes in one folder are one file and links to it. So are equal tokenizers of all folders, and their configurations.

Usage: tests/house/size_test.py [--link]    --link: makes those links
"""
import collections
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MIB = 1 << 20
TREE, TOGETHER = 49 * MIB, 63 * MIB
GOLDENS = ROOT / "tests" / "fixtures"
LEAST = 8 << 10  # bytes of a file that is worth a link


def tracked_bytes():
    names = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, check=True).stdout.decode().split("\0")
    paths = [ROOT / name for name in names if name]
    return sum(path.lstat().st_size for path in paths if os.path.lexists(path))


def copies(folder):
    """(file, the first file with the same bytes, of its folder or any tokenizer): those that are no links to it."""
    found = collections.defaultdict(list)
    for path in sorted([*folder.rglob("*.safetensors"), *folder.rglob("tokenizer.json"), *folder.rglob("tokenizer_config.json")]):
        of_all = path.suffix == ".json"
        if not path.is_symlink() and (of_all or path.stat().st_size >= LEAST):
            found[path.name if of_all else path.parent, hashlib.sha256(path.read_bytes()).digest()].append(path)
    return [(path, same[0]) for same in found.values() for path in same[1:]]


def link(pairs):
    for path, first in pairs:
        path.unlink()
        path.symlink_to(os.path.relpath(first, path.parent))


def finds_a_copy():
    with tempfile.TemporaryDirectory() as folder:
        for name, byte in (("a", b"1"), ("b", b"1"), ("c", b"2")):
            pathlib.Path(folder, f"{name}.safetensors").write_bytes(byte * LEAST)
        for name in "xy":
            pathlib.Path(folder, name).mkdir()
            pathlib.Path(folder, name, "tokenizer.json").write_bytes(b"{}")
            pathlib.Path(folder, name, "tokenizer_config.json").write_bytes(b"{}")
        planted = copies(pathlib.Path(folder))
        link(planted)
        linked = pathlib.Path(folder, "b.safetensors").read_bytes() + pathlib.Path(folder, "y", "tokenizer.json").read_bytes()
        return len(planted) == 3 and not copies(pathlib.Path(folder)) and linked == b"1" * LEAST + b"{}"


def findings(tree, pack):
    if tree > TREE:
        yield f"the tracked tree has {tree / MIB:.2f} MiB, of at most {TREE // MIB}: new fixtures take the place of old ones"
    if tree + pack > TOGETHER:
        yield f"tree and .gpu have {(tree + pack) / MIB:.2f} MiB, of at most {TOGETHER // MIB}"


def main():
    if "--link" in sys.argv[1:]:
        link(copies(GOLDENS))
        return 0
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
    twice = [f"{path.relative_to(ROOT)} has the bytes of {first.relative_to(ROOT)}" for path, first in copies(GOLDENS)]
    print(*twice, sep="\n", end="\n" if twice else "")
    print(f"{'not ok' if twice else 'ok'} goldens of equal bytes are links (tests/house/size_test.py --link makes them)")
    finds = finds_a_copy()
    print(f"{'ok' if finds else 'not ok'} a planted copy is found and linked")
    return 1 if found or planted != [1, 0, 1] or twice or not finds else 0


if __name__ == "__main__":
    sys.exit(main())
