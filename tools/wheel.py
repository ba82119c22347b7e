#!/usr/bin/env python3
"""Packs the wheel: the built program, the libraries that not every machine has, and the package python/hone.

usage: tools/wheel.py [--build build] [--out dist]      prints the path of the wheel

Two packings of one build give the same bytes: entries are sorted, their time is SOURCE_DATE_EPOCH, or else that of the last commit.
libtorch is not in it. The program finds it in the folder torch beside the package, or where hone/program.py finds that of this Python.
"""
import argparse
import base64
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TORCHS = ("libtorch_cpu.so", "libc10.so", "libgomp.so.1", "libcudart.so.13")  # of the user's torch
DISTRIBUTION = "hone-train"  # PyPI's `hone` is another project; the command and the import are `hone`
KERNELS = ("libhone_cuda.so", "libhone_graphs.so")  # packed where tools/cuda_kernels has built them
SYSTEMS = ("libstdc++.so.6", "libgcc_s.so.1", "libm.so.6", "libc.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "ld-linux-x86-64.so.2",
           "ld-linux-aarch64.so.1")
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
SUMMARY = "Post-trains language models: SFT, DPO, KTO, reward models, GRPO, RLOO, Online DPO, with TRL's option names"


def stop(text):
    sys.exit(f"stopped: {text}")


class TooNew(SystemExit):
    """The program was built on a system that is newer than the wheel's platform."""


def pins():
    lines = (ROOT / "tools/versions").read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if re.match(r"[A-Z_]+=", line))


def version():
    return re.search(r"project\(hone VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8"))[1]


def title():
    """How the names of its files begin: a distribution's name is written with underscores there."""
    return f"{DISTRIBUTION.replace('-', '_')}-{version()}"


def git(*words, root=ROOT):
    """What it prints; None where it fails, or is not installed."""
    if shutil.which("git") is None:
        return None
    ended = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True)
    return ended.stdout.strip() if ended.returncode == 0 else None


def epoch():
    """Seconds that every file of a release is from; not before 1980, where zip's times begin."""
    said = os.environ.get("SOURCE_DATE_EPOCH")
    if not said:
        said = git("log", "-1", "--format=%ct")
    return max(int(said or 0), 315532800)


# ---- libraries

def needed(path):
    said = subprocess.run(["readelf", "-d", str(path)], capture_output=True, text=True, check=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.+)\]", said)


def versions_of(path, what):
    """The newest versioned symbol that a file wants: (2, 34) of GLIBC."""
    said = subprocess.run(["readelf", "-V", "--wide", str(path)], capture_output=True, text=True, check=True).stdout
    found = [tuple(map(int, one.split("."))) for one in re.findall(rf"Name: {what}_([0-9.]+)", said)]
    return max(found, default=(0,))


def processor_of(program):
    """From its ELF header: the wheel's platform is the build's, not this machine's."""
    with open(program, "rb") as file:
        kind = int.from_bytes(file.read(20)[18:], "little")
    found = {0x3E: "x86_64", 0xB7: "aarch64"}.get(kind)
    return found or stop(f"{program} is for a processor of ELF's number {kind}: add it to processor_of in tools/wheel.py.")


def unpacked(processor):
    """Debian's packages for another processor, where tools/aarch64 has unpacked them."""
    return ROOT / "third_party" / processor / "packages"


def place_of(library, processor):
    if processor != "x86_64":
        return (unpacked(processor) / f"usr/lib/{processor}-linux-gnu" / library).resolve()
    for line in subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True).stdout.splitlines():
        if line.strip().startswith(library + " ") and "x86-64" in line:
            return pathlib.Path(line.split(" => ")[1]).resolve()
    stop(f"the program needs {library}, and `ldconfig -p` does not list it; install its package, then pack again.")


def own_libraries(programs, processor):
    """{name: path} of what the programs need that neither torch nor every system has."""
    found, left = {}, list(programs)
    while left:
        for name in needed(left.pop()):
            if name not in TORCHS + SYSTEMS and name not in found:
                found[name] = place_of(name, processor)
                left.append(found[name])
    return found


def license_of(name, library, processor):
    """The copyright file of the Debian package that a library is from: libfmt.so.9 is of libfmt9."""
    documents = pathlib.Path("/usr/share/doc")
    if processor == "x86_64":
        package = subprocess.run(["dpkg", "-S", str(library)], capture_output=True, text=True).stdout.split(":")[0]
    else:
        package, documents = name.replace(".so.", ""), unpacked(processor) / "usr/share/doc"
    path = documents / package / "copyright"
    return (package, path.read_bytes()) if package and path.is_file() else None


# ---- what is in the wheel

def programs_of(build, stage):
    ended = subprocess.run(["cmake", "--install", str(build), "--prefix", str(stage), "--component", "program", "--strip"],
                           capture_output=True, text=True)
    if ended.returncode:
        stop(f"cmake --install of {build} failed: {(ended.stderr or ended.stdout).strip()[-500:]}; build it first (./quickstart).")
    found = {name: stage / "lib/hone" / name for name in ("hone", "libhone_core.so", *KERNELS)}
    return {name: path for name, path in found.items() if name not in KERNELS or path.is_file()}


def metadata():
    minor = torch_minor()
    return "\n".join([
        "Metadata-Version: 2.4", f"Name: {DISTRIBUTION}", f"Version: {version()}", f"Summary: {SUMMARY}", "License-Expression: Apache-2.0",
        "License-File: LICENSE", "License-File: NOTICE", "Requires-Python: >=3.10",
        *(f"Classifier: Programming Language :: Python :: {one}" for one in PYTHONS),
        "Classifier: Operating System :: POSIX :: Linux", f"Requires-Dist: torch (=={minor}.*)",
        "Provides-Extra: hub", "Requires-Dist: huggingface_hub ; extra == 'hub'", "Description-Content-Type: text/markdown", "", ""]) + \
        (ROOT / "docs/python.md").read_text(encoding="utf-8")


def torch_minor():
    return ".".join(pins()["TORCH"].split(".")[:2])


def tag(processor):
    return f"py3-none-{pins()['WHEEL_PLATFORM'].replace('x86_64', processor)}"


def contents(build, stage):
    """{name in the wheel: (bytes, whether it is a program)} without RECORD, and the processor."""
    out = {}
    for path in sorted((ROOT / "python/hone").rglob("*.py")):
        out[f"hone/{path.relative_to(ROOT / 'python/hone').as_posix()}"] = (path.read_bytes(), False)
    programs = programs_of(build, stage)
    processor = processor_of(programs["hone"])
    facts = {"version": version(), "torch": torch_minor(), "processor": processor}
    out["hone/_build.json"] = (json.dumps(facts).encode() + b"\n", False)
    limit = tuple(map(int, re.search(r"manylinux_(\d+)_(\d+)", pins()["WHEEL_PLATFORM"]).groups()))
    info = f"{title()}.dist-info"
    for name, path in programs.items():
        out[f"hone/bin/{name}"] = (path.read_bytes(), True)
    for name, path in own_libraries(programs.values(), processor).items():
        out[f"hone/lib/{name}"] = (path.read_bytes(), True)
        found = license_of(name, path, processor)
        if found:
            out[f"{info}/licenses/{found[0]}.txt"] = (found[1], False)
    for name, path in programs.items():
        if versions_of(path, "GLIBC") > limit:
            raise TooNew(f"stopped: {name} wants glibc {versions_of(path, 'GLIBC')}, newer than WHEEL_PLATFORM in tools/versions says; build on an older system.")
    for name in ("LICENSE", "NOTICE"):
        out[f"{info}/licenses/{name}"] = ((ROOT / name).read_bytes(), False)
    out[f"{info}/METADATA"] = (metadata().encode(), False)
    out[f"{info}/WHEEL"] = (f"Wheel-Version: 1.0\nGenerator: hone {version()}\nRoot-Is-Purelib: false\nTag: {tag(processor)}\n".encode(), False)
    out[f"{info}/entry_points.txt"] = (b"[console_scripts]\nhone = hone.launcher:main\n", False)
    return out, processor


def record_of(files, name):
    lines = []
    for path, (data, _) in sorted(files.items()):
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(data)}\n")
    return "".join([*lines, f"{name},,\n"]).encode()


def pack(build, out):
    """The path of the wheel in `out`."""
    with tempfile.TemporaryDirectory() as stage:
        files, processor = contents(pathlib.Path(build).resolve(), pathlib.Path(stage))
    record = f"{title()}.dist-info/RECORD"
    files[record] = (record_of(files, record), False)
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    target = out / f"{title()}-{tag(processor)}.whl"
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    when = time.gmtime(epoch())[:6]
    try:
        # Level 9 takes three times as long for 0.7 % less.
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as wheel:
            # dist-info last, as the format advises
            for name in sorted(files, key=lambda name: (".dist-info/" in name, name)):
                data, is_program = files[name]
                entry = zipfile.ZipInfo(name, when)
                entry.external_attr = (0o100755 if is_program else 0o100644) << 16
                entry.create_system = 3  # unix
                entry.compress_type = zipfile.ZIP_DEFLATED
                wheel.writestr(entry, data)
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)
    return target


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=ROOT / "build")
    parser.add_argument("--out", default=ROOT / "dist")
    given = parser.parse_args()
    print(pack(given.build, given.out))


if __name__ == "__main__":
    main()
