#!/usr/bin/env python3
"""Starts a program under the paper GPU: torch's own libtorch_cuda over libraries that count instead of computing.

  tests/paper/on_paper.py [--build FOLDER] [--report FILE] PROGRAM WORDS...
  tests/paper/on_paper.py build/tests/paper/paper_drive train --names 2 sft --model_name_or_path ...
  tests/paper/on_paper.py --report counts.jsonl build/hone sft --device cuda ...

Kernels are counted and not run, so losses are 0 and tokens are drawn from nothing; launches, waits, copies and the memory of libtorch's
allocator are those of a card. --report: a JSON line of counts, when each process ends. PAPER_MEMORY_GB, PAPER_DEVICES and PAPER_DRIVER
(12040: CUDA 12.4) say what card and driver there are; --no-driver leaves libcuda.so.1 out.
"""
import argparse
import os
import pathlib
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]


def environment(build, report=None, without=(), more=()):
    """The variables of a process under the paper GPU of that build; `without`: libraries that are missing."""
    libraries = pathlib.Path(build).resolve() / "tests/paper/lib"
    listed = libraries / "libraries.txt"
    if not listed.exists():
        sys.exit(f"{listed} is not there: build the target paper_drive first")
    # By path: libtorch's own search path comes before every variable. The runtime is first, since the others call it.
    names = ["libcudart.so.13", "libcuda.so.1", *listed.read_text().split()]
    # On an H100 libtorch prefers cuDNN's attention in the layers' autograd form; cuDNN makes its plans itself, and a stub cannot.
    preload = " ".join(str(libraries / name) for name in names if name not in without)
    out = {**os.environ, "TORCH_CUDNN_SDPA_DEPRIORITIZED": "1", "LD_PRELOAD": preload, **dict(more)}
    if report:
        out["PAPER_REPORT"] = str(pathlib.Path(report).resolve())
    return out


def main():
    parser = argparse.ArgumentParser(usage="on_paper.py [--build FOLDER] [--report FILE] [--no-driver] PROGRAM WORDS...")
    parser.add_argument("--build", type=pathlib.Path, default=SOURCE / "build")
    parser.add_argument("--report", type=pathlib.Path)
    parser.add_argument("--no-driver", action="store_true")
    parser.add_argument("words", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if not options.words:
        parser.error("which program?")
    without = ("libcuda.so.1",) if options.no_driver else ()
    os.execvpe(options.words[0], options.words, environment(options.build, options.report, without))


if __name__ == "__main__":
    main()
