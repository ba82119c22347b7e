#!/usr/bin/env python3
"""Stub libraries for the paper GPU: cuBLAS, cuDNN, cuSPARSE ... without the 2 GB of NVIDIA's wheels.

Reads from libtorch's CUDA libraries which symbols of which library, in which version, they import, and makes a library of that
name for each: a function returns 0; one that creates a handle (`...Create...`) gives some memory; one that would run kernels
is counted by the runtime (runtime/counts.h). libraries.c has those whose answers libtorch looks at. Nothing is made again
while libtorch_cuda.so, this file and libraries.c are the same by size and time.

usage: stubs.py --torch FOLDER/lib --out FOLDER [--cc gcc]; prints the libraries, one a line
"""
import argparse
import collections
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
READERS = ["libtorch_cuda.so", "libc10_cuda.so", "libtorch_nvshmem.so", "libtorch_cuda_linalg.so"]
# Made elsewhere: the runtime is ours, cupti is there on a CPU too.
OWN = ("libcudart.so.", "libcupti.so.")
# Symbols without a version, by what their names begin with.
PREFIXES = {"libnccl.so.": "nccl", "libcusparseLt.so.": "cusparseLt", "libcurand.so.": "curand", "libcufile.so.": "cuFile",
            "libnvshmem_host.so.": "nvshmem"}
NVIDIA = re.compile(r"lib(cu|nccl|nvshmem_host)\w*\.so\.\d+$")

# Of each library, the functions that start kernels on a card.
WORK = re.compile(r"^(cublas(?!Lt|Create|Destroy|Get|Set)\w+|cublasLtMatmul|cusparseLtMatmul|cusparseLtSpMMACompress2|"
                  r"cusparse(SpMM|SpMV|SDDMM|SpGEMM_compute|SpSV_solve|SpSM_solve|X\w*sort\w*|\w*bsrmm|\w*bsrmv|\w*bsrsm2_solve)|"
                  r"cudnn(BackendExecute|\w+(Forward|Backward)\w*(?<!Size))|cufftXtExec|"
                  r"cusolverDn(?!Create|Destroy|Get|Set)\w+(?<!bufferSize)|nccl(All|Reduce|Broad|Bcast|Send|Recv)\w+)$")
CREATES = re.compile(r"^(cublas|cublasLt|cudnn|cusparse|cusparseLt|cusolverDn|cufft|curand)\w*Create(?!\w*Array)\w*$")


def output(*words):
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def needed_by(library):
    """Libraries that it needs, and (library, version) of its versioned imports, as `objdump -p` prints them."""
    needs, versions, current = [], {}, ""
    for line in output("objdump", "-p", str(library)).splitlines():
        if match := re.match(r"\s+NEEDED\s+(\S+)", line):
            needs.append(match.group(1))
        elif match := re.match(r"\s+required from (\S+):", line):
            current = match.group(1)
        elif current and (match := re.match(r"\s+0x\S+ \S+ \S+ (\S+)", line)):
            versions[match.group(1)] = current
    return needs, versions


def imports(torch):
    """library -> {symbol: version or ''} of all that are NVIDIA's."""
    out = collections.defaultdict(dict)
    for name in READERS:
        if not (torch / name).exists():
            continue
        needs, versions = needed_by(torch / name)
        for library in filter(NVIDIA.match, needs):
            out[library]
        for line in output("nm", "-D", "--undefined-only", "--with-symbol-versions", str(torch / name)).splitlines():
            symbol, _, version = line.split()[-1].replace("@@", "@").partition("@")
            if version and NVIDIA.match(versions.get(version, "")):
                out[versions[version]][symbol] = version
            elif not version:
                for start, prefix in PREFIXES.items():
                    for library in [one for one in out if one.startswith(start) and symbol.startswith(prefix)]:
                        out[library].setdefault(symbol, "")
    return {library: symbols for library, symbols in out.items() if not library.startswith(OWN)}


def source_of(library, symbols, special):
    lines = ["#include <stdlib.h>", "void paper_library_call(const char* name);"]
    for symbol in sorted(set(symbols) - special):
        if WORK.match(symbol):
            lines.append(f'long {symbol}(void) {{ paper_library_call("{symbol}"); return 0; }}')
        elif CREATES.match(symbol):
            lines.append(f"long {symbol}(void** out) {{ *out = malloc(256); return 0; }}")
        else:
            lines.append(f"long {symbol}(void) {{ return 0; }}")
    lines += [f"#define LIB_{re.sub(r'[^0-9A-Za-z]', '_', library)} 1", f'#include "{HERE / "libraries.c"}"', ""]
    return "\n".join(lines)


def make(library, symbols, special, out, compiler):
    (out / f"{library}.c").write_text(source_of(library, symbols, special))
    # Every symbol with the one version that is asked for; without one, plain.
    versions = sorted(set(symbols.values()) - {""})
    if len(versions) > 1:
        sys.exit(f"stubs.py: {library} is imported in {len(versions)} versions: {', '.join(versions)}")
    (out / f"{library}.map").write_text(f"{versions[0] if versions else library} {{ global: *; }};\n")
    subprocess.run([compiler, "-w", "-shared", "-fPIC", "-O1", "-o", str(out / library), str(out / f"{library}.c"),
                    f"-Wl,-soname,{library}", f"-Wl,--version-script={out / f'{library}.map'}"], check=True)
    (out / f"{library}.c").unlink()
    (out / f"{library}.map").unlink()


def stamp_of(torch):
    files = [torch / "libtorch_cuda.so", HERE / "stubs.py", HERE / "libraries.c"]
    return "".join(f"{file.name} {file.stat().st_size} {file.stat().st_mtime_ns}\n" for file in files)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--torch", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--cc", default=os.environ.get("CC", "gcc"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    listed, stamp = options.out / "libraries.txt", stamp_of(options.torch)
    stamped = options.out / "stamp.txt"
    if not (listed.exists() and stamped.exists() and stamped.read_text() == stamp):
        stamped.unlink(missing_ok=True)
        found = imports(options.torch)
        special = set(re.findall(r"^\w[\w *]*?\b(\w+)\(", (HERE / "libraries.c").read_text(), re.M))
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for done in [pool.submit(make, library, symbols, special, options.out, options.cc) for library, symbols in found.items()]:
                done.result()
        listed.write_text("".join(f"{library}\n" for library in sorted(found)))
        stamped.write_text(stamp)
    print(listed.read_text(), end="")


if __name__ == "__main__":
    main()
