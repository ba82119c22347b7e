#!/usr/bin/env python3
"""A run under `ulimit -v`: just above what it needs it ends well, with its examination; just below it is told before step 1, with
the limit's name. And the examination's own memory: a run with it needs no more than one without.

  memory_limits.py --hone build/hone
"""
import argparse
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "runs"))
sys.path.insert(0, str(HERE))
import make_wide  # noqa: E402 (a model whose adapter is large beside its batches)

LIMIT_S = 300
# What a process needs of addresses besides its memory moves from run to run, with where threads get their heaps.
STEP, SPREAD = 48 << 20, 160 << 20


class Shell:
    def __init__(self, hone, folder):
        self.hone, self.folder = hone, pathlib.Path(folder)
        self.environment = {**os.environ, "NO_COLOR": "1", "XDG_CACHE_HOME": str(self.folder / "cache")}

    def run(self, addresses, *more):
        """What it said, its exit code, its peak in bytes."""
        def bound():
            if addresses:
                resource.setrlimit(resource.RLIMIT_AS, (addresses, addresses))
        with open(self.folder / "said", "w+", encoding="utf-8") as said:
            child = subprocess.Popen([self.hone, "sft", "--config", "run.yaml", "--overwrite_output_dir", *more], cwd=self.folder,
                                     stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT, env=self.environment,
                                     preexec_fn=bound)
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            said.seek(0)
            return said.read(), child.returncode, usage.ru_maxrss * 1024


def write_run(folder):
    make_wide.write(folder / "model")
    rows = [{"text": f"What is {a} + {b}? {a + b}"} for a in range(10) for b in range(10)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    (folder / "run.yaml").write_text(
        "model_name_or_path: model\ndataset_name: rows.jsonl\nuse_peft: true\nlora_r: 128\nlora_target_modules: all-linear\n"
        "learning_rate: 1e-4\nper_device_train_batch_size: 4\nmax_length: 64\nmax_steps: 2\nsave_strategy: 'no'\nreport_to: none\n"
        "threads: 2\noutput_dir: out\n")


def check(name, good, detail=""):
    print(("ok " if good else "not ok ") + name + ("" if good else f"\n{detail}"), flush=True)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hone", default=str(HERE.parent.parent / "build" / "hone"))
    hone = str(pathlib.Path(parser.parse_args().hone).resolve())
    good = True
    with tempfile.TemporaryDirectory(prefix="hone-limits-") as folder:
        shell = Shell(hone, folder)
        write_run(shell.folder)
        said, code, without = shell.run(0, "--skip_doctor", "true")
        good &= check("a run without its examination", code == 0, said)
        said, code, examined = shell.run(0)
        good &= check("a run with its examination", code == 0 and "doctor    ok" in said, said)
        good &= check("the examination needs no more than the run", examined <= 1.03 * without,
                      f"  {examined / 1e6:.0f} MB with it, {without / 1e6:.0f} MB without\n{said}")
        # The lowest limit at which the run is not refused before step 1, to within STEP.
        low, high = 64 << 20, 24 << 30
        while high - low > STEP:
            middle = (low + high) // 2
            said, code, _ = shell.run(middle)
            accepted = "memory    peak" in said
            if accepted and code != 0:
                good &= check("an accepted run ends well", False, f"  ulimit -v {middle >> 10}, exit {code}\n{said}")
                break
            low, high = (low, middle) if accepted else (middle, high)
        high, low = high + SPREAD, low - SPREAD
        said, code, _ = shell.run(high)
        good &= check(f"just above: ulimit -v {high >> 10} ends well", code == 0 and "done      adapter" in said, said)
        said, code, _ = shell.run(low)
        good &= check(f"just below: ulimit -v {low >> 10} is told before step 1",
                      code == 2 and "MEM-01" in said and "`ulimit -v`" in said and "after step 1" not in said, said)
        said, code, _ = shell.run(300 << 20)
        good &= check("too little to load the program is told so", code == 2 and "`ulimit -v`" in said and "was moved" not in said, said)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
