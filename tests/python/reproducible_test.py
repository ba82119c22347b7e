#!/usr/bin/env python3
"""Two builds of the last commit, in folders of different names, with HONE_MAP_PATHS: the same bytes of the wheel, and no folder's name in it.

usage: tests/python/reproducible_test.py [--room NAME...]     two whole builds, half an hour; --room: only these libraries' objects, text's with Rust's

The source archive is git's, packed without times: wheel_test.py makes a release twice.
"""
import argparse
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

sys.dont_write_bytecode = True
from checks import SOURCE, Skip, Tests, holds, same

FOLDERS = ("a", "another-folder/of-a-longer-name")


def done(*words, cwd, **more):
    ended = subprocess.run([str(word) for word in words], cwd=cwd, capture_output=True, text=True, env=os.environ | more)
    same(ended.returncode, 0, f"{words}: {ended.stdout[-2000:]}{ended.stderr[-2000:]}")
    return ended.stdout


def configured(place, archive):
    """The last commit in `place`, with this tree's libtorch and uPlot by links."""
    (place / "third_party").mkdir(parents=True)
    subprocess.run(["tar", "x", "-C", str(place)], input=archive, check=True)
    for name in ("site", "uplot"):
        (place / "third_party" / name).symlink_to(SOURCE / "third_party" / name)
    done("cmake", "-G", "Ninja", "-S", ".", "-B", "build", "-DHONE_MAP_PATHS=ON", "-DHONE_TESTS=OFF", cwd=place)


def trees(folder):
    archive = subprocess.run(["git", "-C", str(SOURCE), "archive", "HEAD"], capture_output=True)
    if archive.returncode:
        raise Skip("no git history here")
    for name in FOLDERS:
        configured(folder / name, archive.stdout)
        yield folder / name


def compared(found, folder):
    """`found`: {name: bytes} of each tree."""
    same(sorted(found[0]), sorted(found[1]), "names")
    other = [name for name in found[0] if found[0][name] != found[1][name]]
    holds(not other, f"of {len(found[0])} files, {len(other)} differ: {other[:20]}")
    told = [name for name, data in found[0].items() if str(folder).encode() in data]
    holds(not told, f"the folder's name is in {told[:20]}")


def rooms_test(folder, rooms):
    found = []
    for place in trees(folder):
        done("ninja", "-C", "build", *(f"hone_{room}" for room in rooms), cwd=place)
        objects = sorted([*place.glob("build/**/*.o"), *place.glob("third_party/cargo-target/release/*.a")])
        holds(objects, "objects")
        found.append({str(path.relative_to(place)): path.read_bytes() for path in objects})
    compared(found, folder)


def wheel_test(folder):
    when = done("git", "log", "-1", "--format=%ct", cwd=SOURCE).strip()
    found, sums = [], []
    for place in trees(folder):
        done("ninja", "-C", "build", "hone", cwd=place)
        packed = pathlib.Path(done(sys.executable, "tools/wheel.py", cwd=place, SOURCE_DATE_EPOCH=when).strip())
        sums.append(hashlib.sha256(packed.read_bytes()).hexdigest())
        with zipfile.ZipFile(packed) as files:
            found.append({name: files.read(name) for name in files.namelist()})
    compared(found, folder)
    same(*sums, "the wheels")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--room", nargs="+")
    given = parser.parse_args()
    tests = Tests()
    with tempfile.TemporaryDirectory(prefix="hone-twice-") as folder:
        folder = pathlib.Path(folder)
        if given.room:
            tests.run([rooms_test], folder, given.room, title=f"two builds in two folders give the same objects of {', '.join(given.room)}")
        else:
            tests.run([wheel_test], folder, title="two builds in two folders give the same wheel")
    return 1 if tests.failed else 0


sys.exit(main())
