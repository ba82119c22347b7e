"""Where the program is, and what it needs of this machine and this Python."""
import dataclasses
import functools
import hashlib
import importlib.util
import json
import os
import pathlib
import platform
import re
import sys

from hone.errors import HoneError

PACKAGE = pathlib.Path(__file__).resolve().parent
INSTALL_CPU = "pip install 'torch=={0}.*' --index-url https://download.pytorch.org/whl/cpu"
INSTALL_CUDA = "pip install 'torch=={0}.*'"


@functools.lru_cache(maxsize=None)
def build():
    """What the wheel was packed with: its version, and the minor version of torch; empty in a source tree."""
    path = PACKAGE / "_build.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def version():
    return build().get("version", "0+source")


def path():
    """The program: $HONE_PROGRAM, that of the wheel, or that of the source tree which this file is in."""
    named = os.environ.get("HONE_PROGRAM")
    if named:
        return named
    for candidate in (PACKAGE / "bin" / "hone", PACKAGE.parent.parent / "build" / "hone"):
        if candidate.is_file():
            return str(candidate)
    raise HoneError(f"[hone] expected the program in {PACKAGE / 'bin'}\n  found:  no such file\n"
                    "  do:     install the wheel again, build the source tree with ./quickstart, or name it in HONE_PROGRAM")


def is_packed():
    """Whether the wheel's program is used, which finds libtorch in this Python's torch."""
    return not os.environ.get("HONE_PROGRAM") and (PACKAGE / "bin" / "hone").is_file()


# ---- the machine

@dataclasses.dataclass
class Machine:
    """What decides whether the program can run. Tests make their own."""
    system: str = "Linux"
    processor: str = "x86_64"
    libc: str = "glibc"          # "musl", or what else there is
    flags: frozenset = frozenset()  # of the processor; empty: not known
    torch: str = ""              # its version; "": not installed
    torch_lib: str = ""          # the folder of its libraries


def processor_flags(cpuinfo="/proc/cpuinfo"):
    try:
        text = pathlib.Path(cpuinfo).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return frozenset()
    found = re.search(r"^flags\s*:(.*)$", text, re.MULTILINE)
    return frozenset(found[1].split()) if found else frozenset()


def libc_name():
    try:
        if os.confstr("CS_GNU_LIBC_VERSION"):
            return "glibc"
    except (OSError, ValueError):
        pass
    return "musl" if list(pathlib.Path("/lib").glob("ld-musl-*")) else "a libc that is not glibc"


def torch_of(find=importlib.util.find_spec):
    """(version, folder of its libraries) without importing it, which takes seconds; ("", "") where there is none."""
    try:
        spec = find("torch")
    except (ImportError, ValueError):
        spec = None
    folders = list(getattr(spec, "submodule_search_locations", None) or [])
    if not folders:
        return "", ""
    folder = pathlib.Path(folders[0])
    try:
        text = (folder / "version.py").read_text(encoding="utf-8")
    except OSError:
        text = ""
    found = re.search(r"^__version__\s*(?::[^=]*)?=\s*['\"]([^'\"]+)", text, re.MULTILINE)
    return (found[1] if found else "of an unknown version"), str(folder / "lib")


def this_machine():
    torch, lib = torch_of()
    return Machine(system=platform.system(), processor=platform.machine(), libc=libc_name(), flags=processor_flags(), torch=torch,
                   torch_lib=lib)


def obstacle(machine, wanted, processor="x86_64"):
    """Why the program cannot run here: one sentence with what to do; "" where it can. `wanted`: the minor version of torch."""
    if machine.system != "Linux" or {"AMD64": "x86_64", "arm64": "aarch64"}.get(machine.processor, machine.processor) != processor:
        return (f"this wheel is for Linux on {processor}, and this is {machine.system} on {machine.processor}: install the wheel for it, or "
                "build hone from its source there.")
    if machine.libc != "glibc":
        return (f"this system's C library is {machine.libc}, and hone and torch's wheels need glibc: use a Debian, Ubuntu or Fedora system "
                "or container.")
    if not machine.torch:
        return (f"torch is not installed in {sys.executable}: install it with `{INSTALL_CPU.format(wanted)}`, or with "
                f"`{INSTALL_CUDA.format(wanted)}` for the one with CUDA.")
    if machine.torch.split(".")[:2] != wanted.split("."):
        return (f"torch is {machine.torch}, and this wheel of hone is built for torch {wanted}: install that with "
                f"`{INSTALL_CUDA.format(wanted)}`, or a wheel of hone for yours.")
    return ""


def remark(machine):
    """What works, but not as the user may expect."""
    if machine.flags and "avx2" not in machine.flags:
        return ("this processor has no AVX2: hone computes with its plain kernels, many times slower; a machine with AVX2 or AVX-512 gives "
                "the same results.")
    return ""


# ---- its environment

def cache():
    base = os.environ.get("XDG_CACHE_HOME") or (pathlib.Path.home() / ".cache")
    return pathlib.Path(base) / "hone"


def openmp(folder, links=None):
    """Some wheels of torch name their OpenMP library libgomp-HASH.so.1: a folder with a link of the name that the program asks for, or None."""
    hashed = sorted(folder.glob("libgomp-*.so*"))
    if (folder / "libgomp.so.1").exists() or not hashed:
        return None
    target = hashed[0].resolve()
    links = (links or cache() / "openmp") / hashlib.sha256(str(target).encode()).hexdigest()[:16]
    link = links / "libgomp.so.1"
    try:
        links.mkdir(parents=True, exist_ok=True)
        if not link.is_symlink():
            link.symlink_to(target)
    except FileExistsError:
        pass  # another start of hone was faster
    except OSError:
        return None  # the system's own is then looked for
    return links


def libraries(machine):
    """Folders that the dynamic linker has to be told of: none where torch is beside this package, as RPATH has it."""
    if not machine.torch_lib:
        return []
    folder = pathlib.Path(machine.torch_lib)
    beside = PACKAGE.parent / "torch" / "lib"
    out = [] if beside.is_dir() and folder.is_dir() and beside.samefile(folder) else [str(folder)]
    links = openmp(folder)
    return out + [str(links)] if links else out


def environment(machine=None, base=None):
    """For a process of the program: this Python for rewards, loggers and the hub, and this Python's torch."""
    out = dict(os.environ if base is None else base)
    if sys.executable:
        out["HONE_PYTHON"] = sys.executable
    if not is_packed():
        return out
    folders = libraries(machine or this_machine())
    if folders:
        out["LD_LIBRARY_PATH"] = os.pathsep.join(folders + [p for p in [out.get("LD_LIBRARY_PATH")] if p])
    return out


def other_package():
    """Why this folder is not hone's alone: the files of the distribution `hone` of PyPI; "" where it is."""
    import hone
    if (PACKAGE / "hone.py").is_file() or (PACKAGE / "utils/csv_utils.py").is_file() or not hasattr(hone, "HoneError"):
        return (f"[{PACKAGE}] expected the files of hone-train alone\n  found:  files of the distribution `hone` of PyPI, a tool for CSV files, "
                "which has the same folder\n  do:     pip uninstall hone hone-train, then install hone-train's wheel again; give the other an "
                "environment of its own")
    return ""


def require(machine=None):
    """HoneError with one sentence where the program cannot run; the machine where it can."""
    machine = machine or this_machine()
    if is_packed():
        why = obstacle(machine, build()["torch"], build().get("processor", "x86_64"))
        if why:
            raise HoneError(why, code=2)
    return machine
