#!/usr/bin/env python3
"""What ./quickstart and ./test install in fresh systems, made by debootstrap: Debian 12 and 13, Ubuntu 22.04 and 24.04. In each, as root
and without a question, the set-up of both installs compiler, cmake, ninja, Rust and libraries; then a room is configured and compiled.

usage: tests/python/fresh_systems_test.py [--whole SYSTEM] [--fetch] [SYSTEM...]      as root; minutes a system

--whole SYSTEM  the whole ./quickstart there instead, which trains, and then ./test (an hour)
--fetch         libtorch and the model are fetched there, too; else those of this tree are mounted
"""
import argparse
import contextlib
import os
import shutil
import socket
import subprocess
import sys

sys.dont_write_bytecode = True
from checks import Skip, Tests, holds, same
from systems import DEBIAN, ROOTS, SYSTEMS, last_lines, minutes, system, updated, with_sources, within

MOUNTED = {"third_party/site": "hone/third_party/site", "models": "hone/models"}
SETUP = "source tools/setup.sh && setup_machine"
ROOM = f"{SETUP} && configure_hone build -DHONE_TESTS=ON && ninja -C build hone_base"


def has_network():
    try:
        socket.create_connection((DEBIAN.split("/")[2], 80), timeout=20).close()
    except OSError as why:
        raise Skip(f"Debian's archive cannot be reached: {why}") from why


@contextlib.contextmanager
def copied(name):
    """A copy of the system, so that each test begins with a fresh one."""
    if os.geteuid() != 0:
        raise Skip("chroot needs root")
    has_network()
    made = system(name)
    root = ROOTS / f"{name}-used"
    shutil.rmtree(root, ignore_errors=True)
    subprocess.run(["cp", "-a", "--reflink=auto", str(made), str(root)], check=True)
    updated(root, name)
    try:
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


def done(root, command, mounted):
    ended, seconds = within(root, command, mounted)
    same(ended.returncode, 0, f"{command}: {last_lines(ended)}")
    return ended.stdout, seconds


def test_setup(name, mounted):
    with copied(name) as root:
        with_sources(root, mounted)
        said, seconds = done(root, SETUP, mounted)
        holds("system packages: apt-get install" in said, said)
        again, short = done(root, SETUP, mounted)
        holds("apt-get" not in again, f"the second set-up installs nothing: {again}")
        _, built = done(root, ROOM, mounted)
        holds((root / "hone/build/libhone_base.a").is_file(), "the room's library")
        versions, _ = done(root, f"{SETUP} && echo $CXX $($CXX -dumpfullversion), $(rustc --version | cut -d' ' -f1,2), $($python --version)", mounted)
    print(f"{SYSTEMS[name][0]}: set-up {minutes(seconds)}, the second {minutes(short)}, a room {minutes(built)}; {versions.strip()}",
          file=sys.__stdout__, flush=True)


def test_whole(name, mounted):
    with copied(name) as root:
        with_sources(root, mounted)
        said, seconds = done(root, "./quickstart", mounted)
        holds("the adapter is quickstart-out/adapter" in said, said[-2000:])
        phases = [line for line in said.splitlines() if line.startswith("== ")]
        print(f"{SYSTEMS[name][0]}: ./quickstart {minutes(seconds)}: {'; '.join(phases)}", file=sys.__stdout__, flush=True)
        said, seconds = done(root, "./test", mounted)
        holds(said.rstrip().endswith(" 0 failed"), said[-2000:])
    print(f"{SYSTEMS[name][0]}: ./test {minutes(seconds)}: {said.splitlines()[-1]}", file=sys.__stdout__, flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--whole", choices=list(SYSTEMS))
    parser.add_argument("--fetch", action="store_true")
    parser.add_argument("systems", nargs="*", default=list(SYSTEMS))
    given = parser.parse_args()
    mounted = {} if given.fetch else MOUNTED
    tests = Tests()
    if given.whole:
        tests.run([test_whole], given.whole, mounted, title=f"a fresh {SYSTEMS[given.whole][0]}: ./quickstart, ./test, and nothing else")
    else:
        for name in given.systems:
            tests.run([test_setup], name, mounted, title=f"a fresh {SYSTEMS[name][0]}: the set-up installs everything, and a room compiles")
    return 1 if tests.failed else 0


sys.exit(main())
