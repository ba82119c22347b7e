#!/usr/bin/env python3
"""Whole runs of hone on the paper GPU: what they cost, and that libtorch's checks for CUDA take every call.

The paper GPU is torch's own libtorch_cuda, from the pinned wheel, over a runtime of ours (runtime/) and stubs of NVIDIA's other libraries
(stubs.py). Argument checks, the choice of kernels, launches, waits, copies, the allocator and captures are real; kernels are counted
instead of run, so there are no values and no times. The card's memory is addresses that the host cannot touch: an access ends the
process. What a run costs is held against runs.md, one row a run, whose models have real shapes and no bytes (checkpoints.py).

  run.py                 the fast part: the paper GPU itself, runs of runs.md that are not slow, methods, optimizers, quantized bases
  run.py --slow          all of them, and every model family
  run.py --only WORD     those whose name has the word
  run.py --write         also writes what was measured into runs.md as the new bounds, where it is less; --loosen: also where it is more
  run.py --show NAME     runs that row and prints the driver's lines, with the kernels of its last step by name

Prints `ok NAME: ...` or `not ok NAME: ...`. on_paper.py starts any other program, paper_drive (drive/) is what runs here.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import cases
import checkpoints
import loading
import on_paper
import table

SECONDS = 900  # of one program


class Bench:
    """Where programs and files of this test are."""

    def __init__(self, build, folder):
        self.build, self.folder = build, pathlib.Path(folder)
        self.drive = build / "tests/paper/paper_drive"
        self.environment = on_paper.environment(build, more={"OMP_NUM_THREADS": "1", "GOMP_SPINCOUNT": "1000"})
        checkpoints.make(self.folder / "models")
        self.hone = build / "hone"
        self.run_hone("export", "--model_name_or_path", cases.FIXTURES / "tiny_llama", "--output", self.folder / "models/tiny.gguf",
                      "--outtype", "q8_0", "--compare", 0)

    def run_hone(self, *words, environment=None):
        """(exit code, what it printed)"""
        done = subprocess.run([str(word) for word in (self.hone, *words)], env=environment, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=SECONDS)
        return done.returncode, done.stdout

    def start(self, words, name):
        """The driver's lines; RuntimeError when it failed."""
        row = cases.ROWS.get(name)
        own = {} if row and row.own else {"HONE_OWN_KERNELS": "off"}
        if row and row.graphs:
            own["HONE_STEP_GRAPHS"] = "on"
        given = {"{MODELS}": self.folder / "models", "{FIXTURES}": cases.FIXTURES, "{OUT}": self.folder / "out" / name.replace(" ", "_")}
        filled = [str(word) for word in words]
        for place, path in given.items():
            filled = [word.replace(place, str(path)) for word in filled]
        done = subprocess.run([str(self.drive), *filled], env=self.environment | own, capture_output=True, text=True, timeout=SECONDS)
        shutil.rmtree(given["{OUT}"], ignore_errors=True)  # what all rows write together may be more than the disk has
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        if done.returncode != 0:
            raise RuntimeError(f"ended with {done.returncode} after {len(lines)} lines: {done.stderr.strip()[-900:]}")
        return lines


def measured(lines):
    """The columns of runs.md that a driver's lines give."""
    if lines[-1]["event"] == "decoded":
        line = lines[-1]
        return {"launches": round(line["launches"] + line["graph_launches"]), "waits": round(line["waits"]), "copies": round(line["to_device"] + line["to_host"])}
    steps, end = [line for line in lines if line["event"] == "step"], lines[-1]
    later = [step for step in steps if step["step"] >= 2]
    return {"launches": max(step["launches"] for step in later), "waits": max(step["waits"] for step in later),
            "copies": max(step["to_device"] + step["to_host"] for step in later),
            "allocations": sum(step["allocations"] for step in steps if step["step"] > 2),
            "reserved": round(end["reserved_peak"] / 1e9, 2), "planned": round(lines[0]["planned"] / 1e9, 2),
            "keys": round(lines[0]["keys"] / 1e9, 2),
            "plan": round(100 * (end["planned"] / end["reserved_peak"] - 1), 1)}


def check_row(bench, row):
    """(good, text, what was measured)"""
    try:
        lines = bench.start(cases.ROWS[row["run"]].words, row["run"])
        found = measured(lines)
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        return False, str(error), {}
    texts, good = [], True
    for column in table.COUNTS:
        if column not in found:
            continue
        bound, goal = row[column], row.get(f"{column} goal")
        over = bound is None or found[column] > bound
        good = good and not over
        reached = "" if goal is None else f", goal {goal:,}" + (" reached" if found[column] <= goal else "")
        texts.append(f"{found[column]:,} {column}{' ABOVE' if over else ''} ({'no bound' if bound is None else f'{bound:,}'}{reached})")
    if "plan" in found:
        least, most = row["plan least"], row["plan most"]
        outside = least is None or most is None or not least <= found["plan"] <= most
        good = good and not outside
        texts.append(f"plan {found['plan']:+.1f} % of reserved{' OUTSIDE' if outside else ''} ({least} to {most})")
    if row["planned most"] is not None:
        above = found["planned"] > row["planned most"]
        good = good and not above
        texts.append(f"planned {found['planned']} GB{' ABOVE' if above else ''} ({row['planned most']})")
    if row["keys least"] is not None:
        below = found["keys"] < row["keys least"]
        good = good and not below
        texts.append(f"keys of completions {found['keys']} GB{' BELOW' if below else ''} ({row['keys least']})")
    if cases.ROWS[row["run"]].graphs and "layers" in lines[-1]:
        # All that a token starts is in its graph: what is left out would be started beside it, or not at all. Where many rows read one
        # part, as rows that are nobody's do, each layer has a launch more, of wide parts.
        held, layers = round(lines[-1]["kernels_of_graphs"]), lines[-1]["layers"]
        known = held in (10 * layers + 10, 11 * layers + 10)
        good = good and known
        texts.append(f"{held} kernels in a graph{'' if known else ' OTHERS'}")
    if "steps_alone" in lines[-1]:
        steps, alone = lines[-1]["steps"], lines[-1]["steps_alone"]
        good = good and alone == steps > 0
        texts.append(f"{alone} of {steps} steps wait for nothing before their logits are read{'' if alone == steps else ' BELOW'}")
    return good, "; ".join(texts), found


def check_case(bench, case):
    """A run that only has to pass libtorch's checks, or to fail as it is known to."""
    try:
        lines = bench.start(case.words, case.name)
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        if case.fails and case.fails in str(error):
            return True, f"fails as expected: {case.why}"
        return False, str(error)
    if case.fails:
        return False, f"passes now; take it out of the expected failures ({case.why})"
    counted = [line["launches"] for line in lines if line["event"] in ("step", "decoded")]
    good = len(counted) == max(case.steps, 1) and min(counted) > 0
    return good, f"{max(counted):,.0f} launches {'a step' if case.steps else 'a token'}" if good else f"{len(counted)} lines of counts"


def check_parts(bench):
    words = [str(bench.drive), "parts", str(bench.build / "tests/paper/libpaper_captures.so")]
    done = subprocess.run(words, env=bench.environment, capture_output=True, text=True, timeout=SECONDS)
    print(done.stdout, end="", flush=True)
    if done.returncode != 0:
        print(f"not ok the paper GPU itself: ended with {done.returncode}: {done.stderr.strip()[-900:]}", flush=True)
    return done.returncode == 0


def check_capture(bench):
    """A step of hone's own sampler and its logits, recorded as a graph: CUDA refuses waits and allocations there, and so does the
    paper GPU."""
    replays, library, model = 10, bench.build / "tests/paper/libpaper_captures.so", bench.folder / "models/qwen2.5-0.5b"
    words = [str(word) for word in (bench.drive, "capture", library, model, 8)]
    without = bench.environment | {"HONE_OWN_KERNELS": "off"}  # the paper GPU does not count them in a graph
    done = subprocess.run(words, env=without, capture_output=True, text=True, timeout=SECONDS)
    if done.returncode != 0:
        return False, f"ended with {done.returncode}: {done.stderr.strip()[-900:]}"
    found = json.loads(done.stdout)
    good = found["good"] and found["refused_in_capture"] == 0 and found["kernels_of_graphs"] == replays * found["kernels"] > 0
    return good, f"{found['kernels']} kernels, {found['refused_in_capture']} calls refused {done.stderr.strip()[-300:]}".strip()


def check_steps(bench):
    """Steps of the sampler with hone's own kernels are the same calls at the same addresses, so that a graph of one could be the next."""
    words = [str(word) for word in (bench.drive, "steps", bench.folder / "models/qwen2.5-0.5b", 8)]
    done = subprocess.run(words, env=bench.environment, capture_output=True, text=True, timeout=SECONDS)
    if done.returncode != 0:
        return False, f"ended with {done.returncode}: {done.stderr.strip()[-900:]}"
    found = json.loads(done.stdout)
    good = found["equal"] == found["compared"] > 0 < found["kernels"]
    return good, (f"{found['equal']} of {found['compared']} are the one before, of {found['calls']} calls and {found['kernels']} kernels "
                  f"{found['difference']}").strip()


def check_graphs(bench):
    """Graphs of a sampler's steps by libtorch's own class: recordings that fail, and an engine on the second of two cards."""
    library = bench.build / "tests/paper/libhone_graphs.so"
    words = [str(word) for word in (bench.drive, "graphs", library, bench.folder / "models/qwen2.5-0.5b")]
    more = bench.environment | {"HONE_STEP_GRAPHS": "on", "PAPER_DEVICES": "2"}
    done = subprocess.run(words, env=more, capture_output=True, text=True, timeout=SECONDS)
    lines = done.stdout.splitlines()
    wrong = [line for line in lines if not line.startswith("ok ")] + ([done.stderr.strip()[-900:]] if done.returncode != 0 else [])
    return done.returncode == 0 and len(lines) == 4 and not wrong, "; ".join(wrong or [line[3:] for line in lines])


def show(bench, name):
    lines = bench.start([cases.ROWS[name].words[0], "--names", "3", *cases.ROWS[name].words[1:]], name)
    for line in lines:
        names = line.pop("names", {})
        print(json.dumps(line))
        for kernel, count in names.items():
            print(f"{count:9} {kernel}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, default=on_paper.SOURCE / "build")
    for flag in ("slow", "write", "loosen"):
        parser.add_argument(f"--{flag}", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--show")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    if not (options.build / "tests/paper/paper_drive").exists():
        print("skip the paper GPU: this build has none; the pinned libtorch has no libtorch_cuda.so, or sanitizers are on")
        return 0
    with tempfile.TemporaryDirectory(prefix="hone_paper_") as folder:
        bench = Bench(options.build.resolve(), folder)
        if options.show:
            return show(bench, options.show)
        return 0 if check_all(bench, options) else 1


def check_all(bench, options):
    def wanted(name, slow):
        return options.only in name and (options.slow or not slow)

    rows = [row for row in table.read() if wanted(row["run"], cases.ROWS[row["run"]].slow)]
    checked = [case for case in cases.all_cases() if wanted(case.name, case.slow)]
    checks = loading.CHECKS | {"a decoded token is captured": check_capture, "decoded tokens have the same launches": check_steps,
                               "graphs that fail, and two cards": check_graphs}
    good, found = not options.only and check_parts(bench) or bool(options.only), {}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        # the longest first
        started = [(row["run"], pool.submit(check_row, bench, row)) for row in rows]
        started += [(name, pool.submit(check, bench)) for name, check in checks.items() if wanted(name, False)]
        started += [(case.name, pool.submit(check_case, bench, case)) for case in checked]
        for name, result in started:
            try:
                passed, text, *more = result.result()
            except (OSError, subprocess.SubprocessError) as error:
                passed, text, more = False, str(error), []
            print(f"{'ok' if passed else 'not ok'} {name}: {text}", flush=True)
            good = good and passed
            if more:
                found[name] = more[0]
    if options.write or options.loosen:
        table.write(found, options.loosen)
    return good


if __name__ == "__main__":
    sys.exit(main())
