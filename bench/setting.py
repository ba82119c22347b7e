"""What the Python benchmarks share: where things are, what is said of the machine, running a program beside a clock and a look
at its peak memory, and the limits that bench_probe finds."""
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile
import threading
import time

SOURCE = pathlib.Path(__file__).resolve().parents[1]
PYTHON = SOURCE / "third_party/parity-venv/bin/python"
SEEN = re.compile(r"^(OMP|GOMP|MKL|KMP|ONEDNN|DNNL|MALLOC|TORCH|ATEN|HONE)_|^LD_PRELOAD$|^GLIBC_TUNABLES$")
INSTRUCTIONS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16")


def build(program):
    path = SOURCE / "build" / program
    if not path.exists():
        sys.exit(f"no {path.relative_to(SOURCE)}: cmake -S . -B build -DHONE_BENCH=ON && ninja -C build {program}")
    return path


def output_of(*words):
    return subprocess.run([str(word) for word in words], cwd=SOURCE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          check=False).stdout.strip()


def revision():
    changed = output_of("git", "status", "--porcelain", "--untracked-files=no", "--", "src", "bench", "cmake", "CMakeLists.txt", "text-ffi")
    return output_of("git", "rev-parse", "--short", "HEAD") + (" with uncommitted changes" if changed else "")


def versions(names, python=PYTHON):
    """Of packages in an environment, the parity environment if none is given, read without importing them."""
    script = "import importlib.metadata as m, sys; print(*(f'{n} {m.version(n)}' for n in sys.argv[1:]), sep=', ')"
    return output_of(python, "-c", script, *names) or "not installed"


# What holds libtorch to a level of instructions, as hone's own `--instructions` does (src/base/process/instruction_level.cpp).
LEVELS = {"avx2": ("avx2", "AVX2", "AVX2"), "avx512": ("avx512", "AVX512_CORE", "AVX512"),
          "avx512_bf16": ("avx512", "AVX512_CORE_BF16", "AVX512"), "amx": ("avx512", "AVX512_CORE_AMX", "AVX512")}


def environment_of(threads, level=None):
    """What every measured program gets; `level`: the instructions that it is held to."""
    held = dict(zip(("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS"), LEVELS[level])) if level else {}
    return dict(os.environ, OMP_NUM_THREADS=str(threads), HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", **held)


def precision_words(o):
    """hone's options of a run's precision and instructions: `o` has float32 and level where they are not the defaults."""
    words = ["--dtype", "float32", "--bf16", "false"] if o.get("float32") else ["--dtype", "bfloat16", "--bf16", "true"]
    return words + (["--instructions", o["level"]] if o.get("level") else [])


def setting(threads, packages=()):
    """The configuration of a result, as Markdown lines."""
    cpuinfo = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    cpu = re.search(r"model name\s*: (.*)", cpuinfo)
    number = [re.search(rf"^{name}\s*: (\d+)$", cpuinfo, re.MULTILINE) for name in ("cpu family", "model")]
    which = " family {} model {}".format(*(found.group(1) for found in number)) if all(number) else ""
    flags = set((re.search(r"flags\s*: (.*)", cpuinfo) or [None, ""])[1].split())
    caches = ", ".join(sorted(set(re.findall(r"^L[123]\w* cache:.*", output_of("lscpu"), re.MULTILINE))))
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    seen = {name: value for name, value in environment_of(threads).items() if SEEN.match(name)}
    environment = ", ".join(f"{name}={value}" for name, value in sorted(seen.items()))
    environment = re.sub(r"=[^,]*/", "=", environment)  # names of files, not where they lie here
    lines = [f"- hone {revision()}; {output_of(build('hone'), 'env').splitlines()[1].replace('    ', ' ')}"
             + (f"; {versions(packages)}" if packages else ""),
             f"- {cpu.group(1) if cpu else platform.machine()}{which}, {os.cpu_count()} processors, {threads} threads used, "
             f"{' '.join(name for name in INSTRUCTIONS if name in flags)}; {re.sub(' +', ' ', caches)}; {memory:.0f} GB",
             f"- {platform.system()} {platform.release().split('-')[0]}; load average at the start {os.getloadavg()[0]:.2f}; "
             f"environment: {environment}"]
    return lines


def warm(model):
    """The model's files in the page cache, as in a second run."""
    for path in sorted(pathlib.Path(model).glob("*.safetensors")):
        with open(path, "rb") as file:
            while file.read(1 << 24):
                pass


def children_of(pid):
    """All processes that a process started, and those that they started."""
    found = []
    for tasks in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        for child in tasks.read_text(encoding="utf-8").split():
            found += [child, *children_of(child)]
    return found


def held_mb(path, name):
    """A line of a file of /proc that counts kB, as MB; None where it has none."""
    found = re.search(rf"^{name}:\s+(\d+) kB", pathlib.Path(path).read_text(encoding="utf-8"), re.MULTILINE)
    return int(found.group(1)) / 1024 if found else None


class Run:
    """A command that ran to its end: `lines` [(seconds since its start, text)], `peak_mb` its VmHWM, `tree_mb` with the processes
    that it started, `began` on time.time(). `more`: variables of its environment."""

    def __init__(self, words, threads, level=None, more=()):
        self.lines, self.peak_mb, self.tree_mb = [], 0.0, 0.0
        with tempfile.TemporaryFile("w+") as errors:
            self.began, clock = time.time(), time.perf_counter()
            with subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, stderr=errors, text=True,
                                  env=dict(environment_of(threads, level), **dict(more))) as process:
                watcher = threading.Thread(target=self._watch, args=(process,), daemon=True)
                watcher.start()
                for line in process.stdout:
                    self.lines.append((time.perf_counter() - clock, line.rstrip("\n")))
            watcher.join()
            if process.returncode != 0:
                errors.seek(0)
                sys.exit(f"{pathlib.Path(str(words[0])).name} failed:\n" + "\n".join(text for _, text in self.lines[-20:]) + errors.read()[-2000:])

    def _watch(self, process):
        # The kernel keeps the peak; the last look before the end has it. (ru_maxrss of a child also counts what the parent
        # held when it forked.) Of children there is no such peak: they are looked at five times a second.
        looks = 0
        while process.poll() is None:
            try:
                self.peak_mb = held_mb(f"/proc/{process.pid}/status", "VmHWM") or self.peak_mb
                if looks % 10 == 0:
                    self._look_at_tree(process.pid)
            except OSError:
                pass
            looks += 1
            time.sleep(0.02)
        self.tree_mb = max(self.tree_mb, self.peak_mb)

    def _look_at_tree(self, pid):
        total = held_mb(f"/proc/{pid}/status", "VmRSS") or 0.0
        for child in children_of(pid):
            try:
                total += held_mb(f"/proc/{child}/smaps_rollup", "Pss") or 0.0
            except OSError:  # it has ended since
                pass
        self.tree_mb = max(self.tree_mb, total)

    def result(self):
        """What the program printed as `RESULT {json}`."""
        return json.loads(next(text for _, text in reversed(self.lines) if text.startswith("RESULT ")).removeprefix("RESULT "))


def probe(model, threads, quick=False, lengths=(256,) * 4, scored=1020):
    """bench_probe's JSON."""
    with tempfile.NamedTemporaryFile("r", suffix=".json") as out:
        Run([build("bench_probe"), "--model", model, "--threads", threads, "--lengths", ",".join(map(str, lengths)), "--scored", scored,
             "--json", out.name, *(["--quick"] if quick else [])], threads)
        return json.loads(pathlib.Path(out.name).read_text(encoding="utf-8"))


def better(a, b):
    """The rates that a machine which others disturb for a moment still has; the pass counts of `a`."""
    rates = {name: max(a["rates"][name], b["rates"][name]) for name in ("bf16_gflops", "read_gbs", "copy_gbs")}
    return dict(a, rates=dict(a["rates"], **rates))


def rates_sentence(found):
    rates = found["rates"]
    return f"probed before and after, the better: bf16 GEMM {rates['bf16_gflops']:.0f} GFLOP/s, reads {rates['read_gbs']:.1f} GB/s"


def table(head, rows):
    return ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * (len(head) - 1)] + ["| " + " | ".join(map(str, row)) + " |" for row in rows]
