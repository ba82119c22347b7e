#!/usr/bin/env python3
"""What happens to a long run: it is told to stop, its storage goes away, the clock is set, its files change, it is started twice.

Each check runs with one rank and with two. Nothing that was trained is lost: what is saved is resumed, and ends with the bytes of
a run to which nothing happened. Storage and clock are those of tests/runs/long_runs.c, loaded before the program.

Prints `ok NAME`, `not ok NAME` or `skip NAME` a check. usage: long_runs.py [--only WORD] [--hone PROGRAM]
"""
import argparse
import errno
import json
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

from ranks import SOURCE, Runs, difference, results, write_data

SAVING = {"max_steps": 4, "save_strategy": "steps", "save_steps": 1}
LIMIT_S = 150
HASTE = "100"  # a wait for storage is so many times shorter


class Program:
    """A run in a folder of its own; what its ranks print is read from a file while they run."""

    def __init__(self, runs, name, ranks, words, environment=None):
        self.said_file = runs.folder / f"{name}-{ranks}.txt"
        with self.said_file.open("w") as out:
            self.processes = runs.start(words, ranks, {"NO_COLOR": "1", **(environment or {})}, out)

    def said(self):
        return self.said_file.read_text(errors="replace")

    def wait_for(self, holds):
        end = time.monotonic() + 60
        while not holds() and time.monotonic() < end and any(one.poll() is None for one in self.processes):
            time.sleep(0.02)
        return holds()

    def signal(self, number, ranks=None):
        for one in self.processes if ranks is None else [self.processes[rank] for rank in ranks]:
            one.send_signal(number)

    def codes(self):
        try:
            return [one.wait(LIMIT_S) for one in self.processes]
        except subprocess.TimeoutExpired:
            for one in self.processes:
                one.kill()
                one.wait()
            return ["it hangs"]


class LongRuns(Runs):
    def __init__(self, hone, folder, shim):
        super().__init__(hone, folder)
        self.shim, self.passed = str(shim), True

    def start(self, words, ranks, environment=None, out=subprocess.PIPE):
        port = None
        processes = []
        for rank in range(ranks):
            env = {**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})}
            if ranks > 1:
                from ranks import free_port
                port = port or free_port()
                env |= {"RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(ranks),
                        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            processes.append(subprocess.Popen(words, env=env, stdout=out, stderr=subprocess.STDOUT, text=True))
        return processes

    def check(self, name, holds, why=""):
        self.passed = self.passed and bool(holds)
        print(f"{'ok' if holds else 'not ok'} long runs: {name}" + ("" if holds else f"\n  {str(why)[-2500:]}"), flush=True)
        return holds

    def place(self, name, ranks):
        return self.folder / f"{name.replace(' ', '_')}-{ranks}"

    def words_of(self, output, ranks, more=(), case="sft", work=2):
        return self.words(case, output, work // ranks, {**SAVING, **dict(more)}.items())

    def whole(self, name, more=(), case="sft", work=2):
        """The end of a run of one process to which nothing happens."""
        output = self.place(name, "whole")
        if not (output / "trainer_state.json").exists():
            program = Program(self, name + "-whole", 1, self.words_of(output, 1, more, case, work))
            if program.codes() != [0]:
                raise RuntimeError(f"{name}: the run to which nothing happens does not end: {program.said()[-2000:]}")
        return results(output)

    def resumes(self, name, output, ranks, expected, more=(), case="sft", work=2):
        program = Program(self, name + "-resumed", ranks,
                          self.words_of(output, ranks, {**dict(more), "resume_from_checkpoint": "true"}, case, work))
        codes = program.codes()
        if any(codes):
            return self.check(f"{name}: resumed", False, f"{codes}: {program.said()}")
        why = difference(expected, results(output), 0)
        return self.check(f"{name}: resumed, the end is that of a run to which nothing happened", not why, why)


def steps_of(output):
    return sorted(int(path.name[11:]) for path in output.glob("checkpoint-*"))


def logged(output, step):
    """Whether the line of `step` is in metrics.jsonl."""
    path = output / "metrics.jsonl"
    return path.exists() and any(json.loads(line)["step"] >= step for line in path.read_text().splitlines() if line.endswith("}"))


# ---- told to stop

def stopped_twice(runs, ranks):
    """Two SIGTERMs within a second, the second in the middle of saving, to every rank."""
    name = f"two SIGTERMs, {ranks} ranks"
    more = {"max_steps": 60, "save_steps": 100}
    output = runs.place("twice", ranks)
    program = Program(runs, "twice", ranks, runs.words_of(output, ranks, more),
                      {"LD_PRELOAD": runs.shim, "HONE_SHIM_FOLDER": str(output), "HONE_SHIM_SLOW": "40"})
    program.wait_for(lambda: logged(output, 2))
    program.signal(signal.SIGTERM)
    program.wait_for(lambda: list(output.glob(".hone-partial.checkpoint-*")))
    program.signal(signal.SIGTERM)
    codes = program.codes()
    runs.check(f"{name}: saved, and code 130", codes == [130] * ranks and len(steps_of(output)) == 1, f"{codes} {program.said()}")
    runs.resumes(name, output, ranks, runs.whole("twice", more), more)


def warned(runs, ranks):
    """SIGUSR1, as Slurm's --signal sends it, twice, to one rank."""
    output = runs.place("usr1", ranks)
    program = Program(runs, "usr1", ranks, runs.words_of(output, ranks, {"max_steps": 100000, "save_steps": 100000}))
    program.wait_for(lambda: logged(output, 2))
    for _ in range(2):
        program.signal(signal.SIGUSR1, [ranks - 1])
    codes = program.codes()
    runs.check(f"SIGUSR1 of one of {ranks} ranks saves and ends all", codes == [130] * ranks and len(steps_of(output)) == 1,
               f"{codes} {program.said()}")


def cut_short(runs, ranks, case):
    """A step that takes longer than the grace: the one before it is saved."""
    name = f"a long step of {case}, {ranks} ranks"
    more = {"max_steps": 3, "save_steps": 100, "stop_grace": 0, "eval_strategy": "no", "eval_steps": None}
    if case == "grpo":
        more |= {"max_completion_length": 80}
    work = 240 if case == "sft" else 40
    output = runs.place(f"cut_{case}", ranks)
    program = Program(runs, f"cut-{case}", ranks, runs.words_of(output, ranks, more, case, work))
    program.wait_for(lambda: logged(output, 1))
    program.signal(signal.SIGTERM)
    codes = program.codes()
    runs.check(f"{name}: cut short, the step before it is saved",
               codes == [130] * ranks and steps_of(output) == [1] and "stopped   after step 1" in program.said(),
               f"{codes} {steps_of(output)} {program.said()}")
    runs.resumes(name, output, ranks, runs.whole(f"cut_{case}", more, case, work), more, case, work)


# ---- storage

def storage_gone(runs, ranks, error, hides):
    """Calls fail for a while, during which a checkpoint is due; `hides`: longer than is waited for."""
    name = f"storage gone with {errno.errorcode[error]}, {ranks} ranks"
    output, gone = runs.place(f"gone_{error}_{hides}", ranks), runs.folder / f"gone-{ranks}-{error}-{hides}.flag"
    more = {"max_steps": 40, "save_steps": 4, "save_total_limit": 2}
    program = Program(runs, f"gone-{error}-{hides}", ranks, runs.words_of(output, ranks, more),
                      {"LD_PRELOAD": runs.shim, "HONE_SHIM_FOLDER": str(output), "HONE_SHIM_GONE": str(gone),
                       "HONE_SHIM_ERRNO": str(error), "HONE_SHIM_HASTE": "1000" if hides else HASTE})
    program.wait_for(lambda: steps_of(output))
    gone.touch()
    program.wait_for(lambda: "was not saved" in program.said() if hides else "; again in 4 s" in program.said())
    gone.unlink()
    codes = program.codes()
    said = program.said()
    told = ("was not saved" in said and "the run goes on" in said) if hides else "was not saved" not in said and "; again in" in said
    runs.check(f"{name} {'for long' if hides else 'for a while'}: the run goes on, and it is said", codes == [0] * ranks and told,
               f"{codes} {said}")
    why = difference(runs.whole("gone", more), results(output), 0)
    runs.check(f"{name}: the end is that of a run to which nothing happened", not why, why)


def storage_never_back(runs, ranks):
    output, gone = runs.place("never", ranks), runs.folder / f"never-{ranks}.flag"
    more = {"max_steps": 100000, "save_steps": 5}
    program = Program(runs, "never", ranks, runs.words_of(output, ranks, more),
                      {"LD_PRELOAD": runs.shim, "HONE_SHIM_FOLDER": str(output), "HONE_SHIM_GONE": str(gone),
                       "HONE_SHIM_ERRNO": str(errno.ENOSPC), "HONE_SHIM_HASTE": "1000"})
    program.wait_for(lambda: steps_of(output))
    gone.touch()
    codes = program.codes()
    gone.unlink()
    said = program.said()
    runs.check(f"a full disk ends {ranks} ranks with a sentence", set(codes) == {2} and "disk is full" in said, f"{codes} {said}")


# ---- the clock

def clock_set(runs, ranks):
    """The wall clock jumps back by 400 days, then forward by 800, while it trains."""
    name = f"the clock is set, {ranks} ranks"
    output, clock = runs.place("clock", ranks), runs.folder / f"clock-{ranks}.bin"
    clock.write_bytes(struct.pack("q", 0))
    more = {"max_steps": 12, "save_steps": 4}
    program = Program(runs, "clock", ranks, runs.words_of(output, ranks, more),
                      {"LD_PRELOAD": runs.shim, "HONE_SHIM_CLOCK": str(clock)})
    day = 86_400 * 10**9
    with clock.open("r+b") as file:
        for step, days in ((2, -400), (6, 400)):
            program.wait_for(lambda step=step: logged(output, step))
            file.seek(0)
            file.write(struct.pack("q", days * day))
            file.flush()
    codes = program.codes()
    why = difference(runs.whole("clock", more), results(output), 0) if not any(codes) else f"{codes} {program.said()}"
    runs.check(f"{name}: the end is the same", not why, why)
    lines = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    seconds = [line[key] for line in lines for key in ("train_runtime", "eval_runtime") if key in line]
    seconds += [value for line in lines for key, value in line.get("performance", {}).items() if key.endswith("seconds")]
    runs.check(f"{name}: times in the metrics are seconds", seconds and all(0 <= one < 120 for one in seconds), seconds)


def clock_set_then_killed(runs, ranks):
    name = f"the clock is set, then a rank of {ranks} is killed"
    output, clock = runs.place("clock_killed", ranks), runs.folder / f"clock-killed-{ranks}.bin"
    clock.write_bytes(struct.pack("q", 0))
    program = Program(runs, "clock-killed", ranks, runs.words_of(output, ranks, {"max_steps": 100000, "save_steps": 100000}),
                      {"LD_PRELOAD": runs.shim, "HONE_SHIM_CLOCK": str(clock)})
    program.wait_for(lambda: logged(output, 3))
    with clock.open("r+b") as file:
        file.write(struct.pack("q", 400 * 86_400 * 10**9))
    program.signal(signal.SIGKILL, [ranks - 1])
    codes = program.codes()
    said = program.said()
    times = re.findall(r"  (\d+) (s|min|h)$", said, re.M)
    runs.check(f"{name}: the table's times are seconds",
               codes[0] == 75 and times and all(unit == "s" and int(one) < 60 for one, unit in times),
               f"{codes} {times} {said}")


# ---- files that change

def truncated_while_read(runs, ranks, looks):
    """Rows that are read as they are needed: the file is cut in place. `looks`: the run looks at its files before that."""
    name = f"rows cut while they are read, {ranks} ranks, {'seen at a checkpoint' if looks else 'seen by who reads them'}"
    rows = runs.folder / f"cut-{ranks}-{looks}.jsonl"
    lines = (runs.folder / "texts-train.jsonl").read_text()
    rows.write_text(lines * 200)
    output = runs.place(f"rows_cut_{looks}", ranks)
    more = {"dataset_name": rows, "dataset_streaming": "true", "packing": "false", "max_steps": 100000, "save_total_limit": 2,
            "eval_strategy": "no", "eval_steps": None, "save_steps": 5 if looks else 50000, "per_device_train_batch_size": 2 if looks else 16}
    program = Program(runs, f"rows-cut-{looks}", ranks, runs.words_of(output, ranks, more))
    program.wait_for(lambda: logged(output, 6))
    os.truncate(rows, 5000)
    codes = program.codes()
    said = program.said()
    found = "the file has 5000 bytes, and had" if looks else "found:  5000 bytes"
    runs.check(f"{name}: named, and the last step is saved",
               set(codes) <= {2, 75} and str(rows) in said and found in said and steps_of(output) and "--resume_from_checkpoint" in said,
               f"{codes} {said}")


def changed_rows(runs, ranks):
    """Rows that were read at the start: a note, and the run goes on; a resumed run says it too."""
    name = f"rows changed after they were read, {ranks} ranks"
    rows = runs.folder / f"changed-{ranks}.jsonl"
    rows.write_text((runs.folder / "texts-train.jsonl").read_text())
    output = runs.place("rows_changed", ranks)
    more = {"dataset_name": rows, "max_steps": 30, "save_steps": 10}
    program = Program(runs, "rows-changed", ranks, runs.words_of(output, ranks, more))
    program.wait_for(lambda: logged(output, 2))
    with rows.open("a") as file:
        file.write('{"text": "one more row"}\n')
    codes = program.codes()
    runs.check(f"{name}: said, and the run goes on", codes == [0] * ranks and f"{rows} has " in program.said(), f"{codes} {program.said()}")
    program = Program(runs, "rows-changed-resumed", ranks,
                      runs.words_of(output, ranks, {**more, "max_steps": 32, "resume_from_checkpoint": "true"}))
    codes = program.codes()
    runs.check(f"{name}: said when it is resumed", codes == [0] * ranks and "96 rows -> 97 rows" in program.said(),
               f"{codes} {program.said()}")


def truncated_model(runs, ranks):
    """The base's weights, cut while they are read: here before, since a tiny model is read in no time."""
    model = runs.folder / f"model-{ranks}"
    shutil.copytree(SOURCE / "tests/fixtures/parity/tiny_llama", model)
    output = runs.place("model_changed", ranks)
    more = {"model_name_or_path": model, "max_steps": 30, "save_steps": 10}
    program = Program(runs, "model-changed", ranks, runs.words_of(output, ranks, more))
    program.wait_for(lambda: logged(output, 2))
    weights = model / "model.safetensors"
    whole = weights.read_bytes()
    os.truncate(weights, len(whole) // 2)
    codes = program.codes()
    said = program.said()
    runs.check(f"the base cut while {ranks} ranks train: said, and the run goes on", codes == [0] * ranks and f"{weights} has " in said,
               f"{codes} {said}")


# ---- the same folder twice

def two_runs(runs, ranks):
    output = runs.place("two", ranks)
    more = {"max_steps": 100000, "save_steps": 100000}
    first = Program(runs, "two-first", ranks, runs.words_of(output, ranks, more))
    first.wait_for(lambda: logged(output, 1))
    second = Program(runs, "two-second", ranks, runs.words_of(output, ranks, {**more, "overwrite_output_dir": "true"}))
    codes = second.codes()
    holder = f"process {first.processes[0].pid}"
    runs.check(f"a second run of {ranks} ranks is refused, with the process of the first",
               set(codes) == {2} and holder in second.said() and "on host" in second.said(), f"{codes} {second.said()}")
    first.signal(signal.SIGKILL)
    first.codes()
    runs.check(f"{ranks} ranks that are killed leave their lock", (output / "hone-lock.json").exists(), list(output.iterdir()))
    # the number of a process that runs, which is another one
    lock = json.loads((output / "hone-lock.json").read_text())
    (output / "hone-lock.json").write_text(json.dumps({**lock, "pid": os.getpid()}))
    third = Program(runs, "two-third", ranks, runs.words_of(output, ranks))
    codes = third.codes()
    runs.check(f"which {ranks} ranks take over, and remove at the end", codes == [0] * ranks and not (output / "hone-lock.json").exists(),
               f"{codes} {third.said()}")


def another_host(runs, ranks):
    """A lock of another machine: watched, and taken over when it does not beat; refused while it does."""
    output = runs.place("other_host", ranks)
    output.mkdir()
    lock = output / "hone-lock.json"
    there = {"format": "hone-lock-1", "host": "node7", "machine": "another boot", "pid": 4711, "started": 1, "pulse": 1}
    lock.write_text(json.dumps(there))
    program = Program(runs, "beats", ranks, runs.words_of(output, ranks))
    pulse = 1
    while any(one.poll() is None for one in program.processes) and pulse < 1500:
        pulse += 1
        whole = lock.with_suffix(".new")  # nobody reads half of one
        whole.write_text(json.dumps({**there, "pulse": pulse}))
        whole.replace(lock)
        time.sleep(0.2)
    codes = program.codes()
    runs.check(f"a run of another host that lives refuses {ranks} ranks",
               set(codes) == {2} and "on host node7, process 4711" in program.said(),
               f"{codes} {program.said()}")
    lock.write_text(json.dumps(there))
    program = Program(runs, "beats-not", ranks, runs.words_of(output, ranks), {"LD_PRELOAD": runs.shim})
    codes = program.codes()
    runs.check(f"one that gives no sign of life is replaced by {ranks} ranks", codes == [0] * ranks, f"{codes} {program.said()}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hone", type=pathlib.Path, default=SOURCE / "build/hone")
    parser.add_argument("--only", default="")
    parser.add_argument("--few", action="store_true", help="one number of ranks a check")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hone-long-") as temporary:
        folder = pathlib.Path(temporary)
        shim = folder / "long_runs.so"
        words = [os.environ.get("CC", "gcc"), "-shared", "-fPIC", "-O1", "-o", shim, SOURCE / "tests/runs/long_runs.c", "-ldl"]
        subprocess.run(words, check=True)
        runs = LongRuns(options.hone.resolve(), folder, shim)
        write_data(folder)
        checks = [(check, ()) for check in (stopped_twice, warned, clock_set, changed_rows, truncated_model, two_runs, another_host,
                                            storage_never_back)]
        checks += [(truncated_while_read, (looks,)) for looks in (True, False)]
        checks += [(cut_short, (case,)) for case in ("sft", "grpo")]
        checks += [(storage_gone, more) for more in ((errno.ESTALE, False), (errno.EIO, False), (errno.ETIMEDOUT, True))]
        checks += [(clock_set_then_killed, ())]
        for number, (check, more) in enumerate(checks):
            for ranks in (2,) if check is clock_set_then_killed else (1 + number % 2,) if options.few else (1, 2):
                if options.only in f"{check.__name__} {ranks}":
                    check(runs, ranks, *more)
    return 0 if runs.passed else 1


if __name__ == "__main__":
    sys.exit(main())
