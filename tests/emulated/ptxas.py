#!/usr/bin/env python3
"""libhone_cuda.so as nvcc made it: no kernel spills, none has too many registers, and the library is what the core looks for.

usage: tests/emulated/ptxas.py --build FOLDER       (after `ninja hone_cuda` there)
"""
import argparse
import ctypes
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
KERNELS = ROOT / "src/ops/backend/cuda/kernels"
MOST_REGISTERS = 64  # four blocks of 256 threads in the 65,536 registers of a multiprocessor
KERNEL = re.compile(r"Compiling entry function '(\S+)' for '(\S+)'.*?(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
                    r".*?Used (\d+) registers", re.DOTALL)
SYSTEMS = ("libstdc++.so.6", "libm.so.6", "libgcc_s.so.1", "libc.so.6", "ld-linux-x86-64.so.2")


def check_ptxas(build):
    """What is wrong with a kernel, a line each; and how many were read."""
    wrong, read = [], 0
    for source in sorted(KERNELS.glob("*.cu")):
        said = (build / f"cuda/{source.stem}.o.txt").read_text(encoding="utf-8")
        found = KERNEL.findall(said)
        read += len(found)
        if ("__global__" in source.read_text(encoding="utf-8")) != bool(found):
            wrong.append(f"{source.name}: ptxas told of {len(found)} kernels")
        for name, target, stack, stores, loads, registers in found:
            if int(stores) or int(loads) or int(stack):
                wrong.append(f"{source.name}, {name} for {target}: a stack of {stack} bytes, {stores} bytes stored and {loads} loaded")
            if int(registers) > MOST_REGISTERS:
                wrong.append(f"{source.name}, {name} for {target}: {registers} registers, more than {MOST_REGISTERS}")
    return wrong, read


def check_library(build):
    library = build / "libhone_cuda.so"
    text = (KERNELS / "kernels.h").read_text(encoding="utf-8")
    version = int(re.search(r"kVersion = (\d+);", text)[1])
    entry = re.search(r'kEntry = "(\w+)"', text)[1]
    functions = re.search(r"struct Kernels \{(.*?)\n\};", text, re.DOTALL)[1].count("(*")
    exported = subprocess.run(["nm", "-D", "--defined-only", str(library)], capture_output=True, text=True, check=True).stdout.split()[2::3]
    wrong = [] if entry in exported else [f"{entry} is not exported"]
    needed = re.findall(r"\(NEEDED\).*\[(.+)\]", subprocess.run(["readelf", "-d", str(library)], capture_output=True, text=True, check=True).stdout)
    wrong += [f"needs {name}" for name in needed if name not in SYSTEMS + ("libcudart.so.13",)]
    ctypes.CDLL(str(ROOT / "third_party/site/nvidia/cu13/lib/libcudart.so.13"), mode=ctypes.RTLD_GLOBAL)
    ask = getattr(ctypes.CDLL(str(library)), entry)
    ask.restype = ctypes.POINTER(ctypes.c_void_p)
    table = ask()
    if ctypes.cast(table, ctypes.POINTER(ctypes.c_int))[0] != version:
        wrong.append(f"version {ctypes.cast(table, ctypes.POINTER(ctypes.c_int))[0]}, and kernels.h has {version}")
    wrong += [f"function {i} of the table is missing" for i in range(functions) if not table[1 + i]]
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, required=True)
    build = parser.parse_args().build
    wrong, read = check_ptxas(build)
    results = [(f"{read} compiled kernels without a stack or spills, with at most {MOST_REGISTERS} registers", wrong),
               ("libhone_cuda.so is what the core looks for", check_library(build))]
    for name, found in results:
        print("not ok" if found else "ok", name)
        for line in found:
            print("  " + line)
    return int(any(found for _, found in results))


if __name__ == "__main__":
    sys.exit(main())
