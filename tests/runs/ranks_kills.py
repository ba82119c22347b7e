#!/usr/bin/env python3
"""Random ranks are killed at random times, over all methods; each run is resumed, and ends with the bytes of one that nobody killed.

A case starts `hone launch` with 2 or 4 ranks and kills one of them with SIGKILL at a random moment between its start and its end.
Half of the cases restart by themselves (`--restarts`); the others end with code 75 and are started again with
resume_from_checkpoint, on 1, 2 or 4 ranks. After each process every checkpoint is whole and equal to that of the run that nobody
killed, and the newest is no older than before.

Then the newest of a run's checkpoints, or both of two, is damaged, and 1, 2 or 4 ranks resume: by resume_from_checkpoint, or as a
launcher's restart does. The older one is taken and that is said, or where none is whole, the run is refused.

Prints `ok NAME` or `not ok NAME`; a case that fails prints how to run it again.
usage: ranks_kills.py [--count KILLS] [--damaged N] [--seconds S] [--seed N] [--case INDEX] [--jobs N] [--hone PROGRAM]
"""
import argparse
import concurrent.futures
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from ranks import METHODS, SOURCE, Runs, difference, results, write_data

sys.path.insert(0, str(SOURCE / "tests/fuzz"))
import damage  # noqa: E402
from small_runs import checkpoint_content, quick_folder, steps_of  # noqa: E402
from small_runs import difference as file_difference  # noqa: E402

STEPS, ALL_WORK, LIMIT_S = 5, 4, 150
SAVING = {"max_steps": STEPS, "save_strategy": "steps", "save_steps": 1}
LOST = 75


class Wrong(Exception):
    """What a case found."""


class Story:
    """A method, and how it goes when nobody kills it."""

    def __init__(self, runs, case):
        self.runs, self.case = runs, case
        folder = runs.folder / f"whole_{case.replace(' ', '_').replace(',', '')}"
        # all weights: bits are those of equally many ranks
        self.sizes = (2,) if "all weights" in case else (1, 2, 4)
        ranks_of_whole = self.sizes[0]
        started = time.monotonic()
        codes, texts = runs.run(runs.words(case, folder, ALL_WORK // ranks_of_whole, SAVING.items()), ranks_of_whole)
        if any(codes):
            raise Wrong(f"{case}: the run that nobody kills does not end: {texts[0][-2000:]}")
        self.seconds = time.monotonic() - started
        self.saved = None
        self.end = results(folder)
        self.whole = {step: checkpoint_content(folder / f"checkpoint-{step}") for step in steps_of(folder)}
        shutil.rmtree(folder)

    def keep_two(self, folder):
        """What is left of it with its two newest checkpoints, from which damaged ones are made."""
        if self.saved is None:
            self.saved = self.runs.folder / f"saved_{self.case.replace(' ', '_').replace(',', '')}"
            words = self.runs.words(self.case, self.saved, ALL_WORK // 2, {**SAVING, "save_total_limit": 2}.items())
            codes, texts = self.runs.run(words, 2)
            if any(codes):
                raise Wrong(f"{self.case}: the run to be damaged does not end: {texts[0][-2000:]}")
        shutil.copytree(self.saved, folder)

    def check(self, folder, at_least):
        steps = steps_of(folder)
        for step in steps:
            found = checkpoint_content(folder / f"checkpoint-{step}")
            due = found.get("hone_state.json", {}).get("evaluation_due")
            if wrong := file_difference(unevaluated(self.whole[step], step) if due else self.whole[step], found):
                raise Wrong(f"checkpoint-{step} is not that of the run that nobody killed: {wrong}")
        if max(steps, default=0) < at_least:
            raise Wrong(f"checkpoint-{at_least} was whole before, and the newest is {steps}")
        return max(steps, default=0)


def unevaluated(checkpoint, step):
    """As a loss in the evaluation of its step leaves it: a run that goes on from it evaluates first."""
    state = checkpoint["hone_state.json"]
    log = [one for one in state["log_history"] if one["step"] < step or "loss" in one]
    return {**checkpoint, "hone_state.json": {**state, "log_history": log, "evaluation_due": True}}


def ranks_of(launcher):
    """Processes that the launcher has started, by rank."""
    try:
        children = [int(pid) for task in pathlib.Path(f"/proc/{launcher}/task").iterdir()
                    for pid in (task / "children").read_text().split()]
    except OSError:
        return {}
    found = {}
    for pid in children:
        try:
            variables = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            found.update({int(one[5:]): pid for one in variables if one.startswith(b"RANK=")})
        except (OSError, ValueError):
            pass
    return found


def live(story, folder, words, size, kill_after, chance):
    """One `hone launch`; kills a rank `kill_after` seconds after its start. Returns (exit code, output, killed rank or None)."""
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
                               env={**os.environ, "OMP_NUM_THREADS": "1", "NO_COLOR": "1"})
    killed = None
    try:
        if kill_after is not None:
            time.sleep(kill_after)
            rank = chance.randrange(size)
            while (pid := ranks_of(process.pid).get(rank)) is None and process.poll() is None:
                time.sleep(0.01)  # of a busy machine: there is no rank yet
            if pid and process.poll() is None:
                try:
                    os.kill(pid, signal.SIGKILL)
                    killed = rank
                except ProcessLookupError:
                    pass
        said = process.communicate(timeout=LIMIT_S)[0]
    except subprocess.TimeoutExpired as late:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise Wrong(f"it hangs after rank {killed} of {size} was killed") from late
    return process.returncode, said, killed


def one_case(stories, folder, seed, index):
    """A run from its start to its end. Returns how many ranks were killed."""
    chance = random.Random(f"{seed}:{index}")
    story = stories[index % len(stories)]
    restarts = chance.random() < 0.5
    most, kills, newest, trail = chance.randint(1, 3), 0, 0, []
    folder = folder / f"case_{index}"
    size = chance.choice([size for size in story.sizes if size > 1])
    seconds = story.seconds
    try:
        while True:
            more = dict(SAVING)
            if newest:
                more["resume_from_checkpoint"] = "true"
            words = story.runs.words(story.case, folder, ALL_WORK // size, more.items())
            launch = [words[0], "launch", "--nproc", str(size), "--grace", "5", *(["--restarts", "2"] if restarts else []), *words[1:]]
            kill_after = chance.uniform(0.05, seconds) if kills < most else None
            started = time.monotonic()
            code, said, killed = live(story, folder, launch, size, kill_after, chance)
            took = time.monotonic() - started
            trail.append(f"{size} ranks, {'restarts, ' if restarts else ''}rank {killed} killed after {kill_after}: exit {code}, "
                         f"{took:.1f} s")
            if killed is None or took < seconds:
                seconds = max(0.5, took)
            if killed is None and not newest:
                story.seconds = took  # of a whole run, on the machine as it is now
            kills += killed is not None
            newest = story.check(folder, newest)
            if code == 0:
                if why := difference(story.end, results(folder), 1e-5 if "all weights" in story.case and size != 2 else 0):
                    raise Wrong(f"the end differs: {why}")
                return kills
            if killed is None or code != LOST:
                raise Wrong(f"exit {code} after rank {killed} was killed: {said[-2500:]}")
            if f"rank {killed}" not in said:
                raise Wrong(f"rank {killed} is not named: {said[-2500:]}")
            size = chance.choice(story.sizes[1:] or story.sizes)
    except Wrong as wrong:
        raise Wrong(f"{story.case}: {wrong}\n    " + "\n    ".join(trail)) from wrong
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def damaged_case(stories, folder, seed, index):
    """Returns 1; Wrong when a damaged checkpoint is taken, or the older one is not."""
    chance = random.Random(f"{seed}:damaged:{index}")
    story = stories[index % len(stories)]
    folder = folder / f"damaged_{index}"
    story.keep_two(folder)
    try:
        steps = steps_of(folder)
        both = chance.random() < 0.1
        what = damage.spoil(folder, steps if both else steps[-1:], steps[0], chance)
        size, restart = chance.choice(story.sizes), chance.random() < 0.4
        options = {**SAVING, "save_total_limit": 2, **({} if restart else {"resume_from_checkpoint": "true"})}
        environment = {"TORCHELASTIC_RESTART_COUNT": "1", "TORCHELASTIC_RUN_ID": "again"} if restart and size > 1 else {}
        if restart and size == 1:
            options["resume_from_checkpoint"] = "true"
        processes = story.runs.start(story.runs.words(story.case, folder, ALL_WORK // size, options.items()), size, environment)
        texts = [one.communicate(timeout=LIMIT_S)[0] for one in processes]
        codes = [one.returncode for one in processes]
        if both and any(codes):
            if set(codes) != {2} or len(texts[0]) < 20 or "internal" in texts[0].lower():
                raise Wrong(f"refused without a sentence: {codes} {texts[0][-1500:]}")
            return 1
        if any(codes):
            raise Wrong(f"checkpoint-{steps[0]} is whole and was not taken: {codes} {texts[0][-2500:]}")
        if f"checkpoint-{steps[-1]}" not in texts[0]:
            raise Wrong(f"not a word about checkpoint-{steps[-1]}: {texts[0][-2500:]}")
        if why := difference(story.end, results(folder), 0):
            raise Wrong(f"the end differs: {why}")
        return 1
    except Wrong as wrong:
        raise Wrong(f"{story.case}, {what}, {size} ranks{', a restart' if restart else ''}: {wrong}") from wrong
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_cases(wanted, jobs, seconds, case):
    """case(index) returns how much it counts; until the sum is `wanted`, or `seconds` are over. Returns (sum, cases, problems)."""
    count, cases, problems = 0, 0, []
    end = time.monotonic() + seconds
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        running = {}
        def goes_on():
            return count < wanted and len(problems) < 10 and time.monotonic() < end
        while goes_on() or running:
            while len(running) < jobs and goes_on():
                running[pool.submit(case, cases)] = cases
                cases += 1
            for future in concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED).done:
                number = running.pop(future)
                try:
                    count += future.result()
                except Wrong as wrong:
                    count += 1
                    problems.append((number, wrong))
    return count, cases, problems


def tell(text, options, problems):
    print(f"{'not ok' if problems else 'ok'} ranks: {text}", flush=True)
    for number, wrong in problems:
        print(f"  --count {options.count} --damaged {options.damaged} --seed {options.seed} --case {number}: {wrong}", flush=True)
    return not problems


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=4)
    parser.add_argument("--damaged", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9, help="no case is begun after so many, kills and damage each")
    parser.add_argument("--case", type=int, default=-1)
    parser.add_argument("--hone", type=pathlib.Path, default=SOURCE / "build/hone")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hone-kills-", dir=quick_folder()) as temporary:
        folder = pathlib.Path(temporary)
        runs = Runs(options.hone.resolve(), folder)
        write_data(folder)
        names = list(METHODS)
        random.Random(options.seed).shuffle(names)
        names = names[:max(2, options.count // 2)]
        if options.case >= 0:
            names = names[options.case % len(names):][:1]
        stories = [Story(runs, name) for name in names]
        if options.case >= 0:
            print(one_case(stories, folder, options.seed, options.case))
            return 0
        passed = True
        if options.count:
            kills, cases, problems = run_cases(options.count, options.jobs, options.seconds,
                                               lambda index: one_case(stories, folder, options.seed, index))
            passed &= tell(f"{kills} kills of random ranks over {len(names)} methods, {cases} runs", options, problems)
        if options.damaged:
            whole = [story for story in stories if "all weights" not in story.case][:4]
            count, _, problems = run_cases(options.damaged, options.jobs, options.seconds,
                                           lambda index: damaged_case(whole, folder, options.seed, index))
            passed &= tell(f"{count} damaged checkpoints, each found", options, problems)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
