#!/usr/bin/env python3
"""A run under `ulimit -v` and in a cgroup: just above its planned peak it ends well, with its examination; just below it is told
before step 1, with the limit's name. And the examination's own memory: a run with it needs no more than one without.

Where the border is follows from a run under a wide limit: its start page says what is planned and what is left of the limit.

  memory_limits.py --hone build/hone   TAP-like lines; without a memory cgroup that can be made, those cases are skipped
  memory_limits.py --search            also searches the lowest limit of `ulimit -v` that is accepted, of any plan
"""
import argparse
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "runs"))
sys.path.insert(0, str(HERE))
import make_wide  # noqa: E402 (a model whose adapter is large beside its batches)

WIDE = 8 << 30
GB = 1_000_000_000
# What a process needs of addresses besides its memory moves from run to run, with where threads get their heaps.
STEP, SPREAD = 48 << 20, 160 << 20
CGROUP_SPREAD = 48 << 20  # a start page rounds to 10 MB


class Shell:
    def __init__(self, hone, folder):
        self.hone, self.folder = hone, pathlib.Path(folder)
        self.environment = {**os.environ, "NO_COLOR": "1", "XDG_CACHE_HOME": str(self.folder / "cache")}

    def run(self, *more, prepare=None):
        """What it said, its exit code, its peak in bytes. `prepare` is called in the child."""
        with open(self.folder / "said", "w+", encoding="utf-8") as said:
            child = subprocess.Popen([self.hone, "sft", "--config", "run.yaml", "--overwrite_output_dir", *more], cwd=self.folder,
                                     stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT, env=self.environment,
                                     preexec_fn=prepare)
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            said.seek(0)
            return said.read(), child.returncode, usage.ru_maxrss * 1024


def addresses(limit):
    return lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


class MemoryGroup:
    """A cgroup below this process's own. OSError where the machine does not permit one."""

    def __init__(self):
        groups = [line.split(":", 2) for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines()]
        first = next((path for _, controllers, path in groups if "memory" in controllers.split(",")), None)
        second = next((path for _, controllers, path in groups if controllers == ""), "/")
        root = pathlib.Path("/sys/fs/cgroup")
        self.limit_file = "memory.max" if first is None else "memory.limit_in_bytes"
        parent = root / second.lstrip("/") if first is None else root / "memory" / first.lstrip("/")
        self.path = parent / f"hone-limits-{os.getpid()}"
        self.path.mkdir()

    def limit(self, number):
        (self.path / self.limit_file).write_text(str(number))  # v2: absent where the parent does not pass memory on

    def enter(self):
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def remove(self):
        self.path.rmdir()


def planned(said):
    """(the plan's total, what is left of the limit) in bytes, of a start page."""
    found = [re.search(rf"^ +{word} +([0-9.]+) GB$", said, re.MULTILINE) for word in ("total", "free")]
    return [float(one.group(1)) * GB for one in found] if all(found) else [0, 0]


def write_run(folder):
    """One thread: of two, both may render text at the same time, and a second worker takes 512 MB of addresses for its stack."""
    make_wide.write(folder / "model")
    rows = [{"text": f"What is {a} + {b}? {a + b}"} for a in range(10) for b in range(10)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    (folder / "run.yaml").write_text(
        "model_name_or_path: model\ndataset_name: rows.jsonl\nuse_peft: true\nlora_r: 128\nlora_target_modules: all-linear\n"
        "learning_rate: 1e-4\nper_device_train_batch_size: 4\nmax_length: 64\nmax_steps: 2\nsave_strategy: 'no'\nreport_to: none\n"
        "threads: 1\noutput_dir: out\n")


def check(name, good, detail=""):
    print(("ok " if good else "not ok ") + name + ("" if good else f"\n{detail}"), flush=True)
    return good


def around(shell, name, word, spread, limit_of):
    """Just above and just below the border of a limit; `limit_of(bytes)` is what a child calls first."""
    said, code, _ = shell.run(prepare=limit_of(WIDE))
    total, left = planned(said)
    good = check(f"{name}: a wide limit is on the start page", code == 0 and 0 < total < left, said)
    if not good:
        return False
    border = int(WIDE - left + total)
    said, code, _ = shell.run(prepare=limit_of(border + spread))
    good &= check(f"{name}: just above the planned peak the run ends well, with its examination",
                  code == 0 and "done      adapter" in said and "doctor    ok" in said, f"  {border + spread}, exit {code}\n{said}")
    said, code, _ = shell.run(prepare=limit_of(border - spread))
    good &= check(f"{name}: just below it is told before step 1",
                  code == 2 and "MEM-01" in said and word in said and "after step 1" not in said and "or raise that limit by" in said,
                  f"  {border - spread}, exit {code}\n{said}")
    return good


def in_a_cgroup(shell):
    try:
        group = MemoryGroup()
    except OSError as why:
        print(f"skip cgroup: a memory cgroup cannot be made here ({why.strerror})")
        return True

    def limit_of(number):
        group.limit(number)
        return group.enter
    try:
        group.limit(WIDE)
        return around(shell, "cgroup", "the cgroup limit of", CGROUP_SPREAD, limit_of)
    except OSError as why:
        print(f"skip cgroup: its memory cannot be limited here ({why.strerror})")
        return True
    finally:
        group.remove()


def search(shell):
    """The lowest limit at which the run is not refused before step 1, to within STEP, whatever the plan recomputes."""
    good, low, high = True, 64 << 20, WIDE
    while high - low > STEP:
        middle = (low + high) // 2
        said, code, _ = shell.run("--recompute", "auto", prepare=addresses(middle))
        accepted = "memory    peak" in said
        if accepted and code != 0:
            return check("an accepted run ends well", False, f"  ulimit -v {middle >> 10}, exit {code}\n{said}")
        low, high = (low, middle) if accepted else (middle, high)
    said, code, _ = shell.run("--recompute", "auto", prepare=addresses(high + SPREAD))
    good &= check(f"just above: ulimit -v {high + SPREAD >> 10} ends well", code == 0 and "done      adapter" in said, said)
    said, code, _ = shell.run("--recompute", "auto", prepare=addresses(low - SPREAD))
    good &= check(f"just below: ulimit -v {low - SPREAD >> 10} is told before step 1",
                  code == 2 and "MEM-01" in said and "`ulimit -v`" in said and "after step 1" not in said, said)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hone", default=str(HERE.parent.parent / "build" / "hone"))
    parser.add_argument("--search", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hone-limits-") as folder:
        shell = Shell(str(pathlib.Path(args.hone).resolve()), folder)
        write_run(shell.folder)
        said, code, without = shell.run("--skip_doctor", "true")
        good = check("a run without its examination", code == 0, said)
        said, code, examined = shell.run()
        good &= check("a run with its examination", code == 0 and "doctor    ok" in said, said)
        good &= check("the examination needs no more than the run", examined <= 1.03 * without,
                      f"  {examined / 1e6:.0f} MB with it, {without / 1e6:.0f} MB without\n{said}")
        good &= around(shell, "ulimit -v", "`ulimit -v`", SPREAD, addresses)
        good &= in_a_cgroup(shell)
        said, code, _ = shell.run(prepare=addresses(300 << 20))
        good &= check("too little to load the program is told so", code == 2 and "`ulimit -v`" in said and "was moved" not in said, said)
        if args.search:
            good &= search(shell)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
