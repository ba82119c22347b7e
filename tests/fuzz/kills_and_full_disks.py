#!/usr/bin/env python3
"""Nothing that was whole is lost: kills at file calls, full disks and damaged checkpoints, over SFT, GRPO and DPO.

A run is killed before, in or after its Nth call that changes a file (tests/fuzz/file_calls.c), or the Nth call fails as on a full
disk; it is resumed, and killed again, until it comes to its end. Branches are resumed from an earlier checkpoint, with another
learning rate, beside the checkpoints of the run that they left. After each process
  - every folder named checkpoint-N is equal to that of the run which nobody interrupted;
  - the newest of them is no older than it was, and than what the process said it had saved;
  - a full disk ends with exit code 2 and a sentence, a Ctrl-C with 130; EIO once is tried again, and for good ends as a full disk does;
and every file at the end is equal to the byte (times of day aside). A damaged checkpoint is either left for an older whole one, and
that is said, or refused with a sentence.

Prints `ok NAME` or `not ok NAME` a group; a case that fails prints how to run it again.
usage: kills_and_full_disks.py [--kills N] [--full-disks N] [--damaged N] [--seed N] [--jobs N] [--case GROUP:INDEX] [--hone PROGRAM]
"""
import argparse
import concurrent.futures
import errno
import pathlib
import random
import re
import shutil
import signal
import sys
import tempfile
import traceback

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import damage  # noqa: E402
from file_calls import Meddler  # noqa: E402
from small_runs import SmallRun, SOURCE, checkpoint_content, difference, quick_folder, results, steps_of  # noqa: E402

KILLS = ("before", "after", "torn")
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
MOST_LIVES = 6  # of one run: then it may come to its end
ALL = 100  # as save_total_limit: nothing is rotated
BRANCH_RATE = 0.003


class Wrong(Exception):
    """What a case found."""


def limit(keep):
    """Options of a run that keeps so many; one that keeps all saves each step, as a Ctrl-C does at any step."""
    return {"save_total_limit": keep, "save_steps": 1} if keep == ALL else {"save_total_limit": keep}


class Story:
    """A kind of run: its command, its folder at the start, and how it goes when nobody interrupts it."""

    def __init__(self, run, keep, start=None, branch_at=0, changes=None):
        self.run, self.keep, self.start, self.branch_at, self.changes = run, keep, start, branch_at, changes or {}
        self.name = run.method + (f" branch, limit {keep}" if branch_at else "")
        self.whole, self.end, self.calls, self.stale = {}, {}, {}, {}

    def words(self, folder, resume=None, **changes):
        return self.run.words(folder, self.keep, resume, **{**self.changes, **changes})

    def place(self, folder):
        if self.start:
            shutil.copytree(self.start, folder, symlinks=True)

    def first_resume(self, folder):
        return str(folder / f"checkpoint-{self.branch_at}") if self.branch_at else None

    def measure(self, meddler, root):
        """How it goes when nobody interrupts it: every checkpoint (nothing rotated), the end, its calls."""
        for keep in (ALL, self.keep):
            folder = root / f"whole_{self.run.method}_{self.branch_at}_{self.keep}_{keep}"
            self.place(folder)
            self.stale = {step: checkpoint_content(folder / f"checkpoint-{step}") for step in steps_of(folder)}
            done = meddler.run(self.words(folder, self.first_resume(folder), **limit(keep)), folder)
            if done.code != 0:
                raise Wrong(f"{self.name}: the run that nobody interrupts does not end: {done.said()}")
            if keep == ALL:
                early = {step: stale for step, stale in self.stale.items() if step <= self.branch_at}
                self.whole = {**early, **{step: checkpoint_content(folder / f"checkpoint-{step}") for step in steps_of(folder)}}
            self.end, self.calls[keep] = results(folder), done.calls
            shutil.rmtree(folder)

    def saved_at(self, step, keep):
        """The number of the call that gives checkpoint-`step` its name."""
        calls = [i for i, (name, path) in enumerate(self.calls[keep], 1) if name == "rename" and path.endswith(f"/checkpoint-{step}")]
        if not calls:
            raise Wrong(f"{self.name}: no call renames checkpoint-{step} into place")
        return calls[0]

    def stopped(self, meddler, root, step, keep):
        """A folder of this run, killed when it had saved checkpoint-`step`."""
        folder = root / f"stopped_{self.run.method}_{step}_{keep}"
        meddler.run(self.words(folder, **limit(keep)), folder, "after", self.saved_at(step, keep) + 1)
        if step not in steps_of(folder):
            raise Wrong(f"{self.name}: killed after checkpoint-{step} was saved, and it is not there: {steps_of(folder)}")
        return folder

    def abandoned(self, folder):
        """Steps in `folder` that are still of the run which the branch left."""
        later = [step for step in steps_of(folder) if self.branch_at and step > self.branch_at]
        return [step for step in later if checkpoint_content(folder / f"checkpoint-{step}") == self.stale.get(step)]

    def resume(self, folder):
        """The words that a user gives now: a branch that was not begun is begun again, and a run without a checkpoint starts."""
        if self.abandoned(folder):
            return self.first_resume(folder)
        return "true" if steps_of(folder) else None

    def check_checkpoints(self, folder, at_least, said):
        left = self.abandoned(folder)
        steps = [step for step in steps_of(folder) if step not in left]
        for step in steps:
            wrong = difference(self.whole.get(step, {}), checkpoint_content(folder / f"checkpoint-{step}"))
            if wrong:
                raise Wrong(f"checkpoint-{step} is not that of the uninterrupted run: {wrong}")
        newest = max(steps, default=0)
        if newest < at_least:
            raise Wrong(f"checkpoint-{at_least} was whole before, and the newest is checkpoint-{newest}")
        for step in said:
            if step > newest:
                raise Wrong(f"checkpoint-{step} was said to be saved, and the newest is checkpoint-{newest}")
        return newest

    def check_end(self, folder, interrupted):
        """A run that was interrupted has saved at a step of its own: then only the last checkpoint is compared."""
        def of_interest(files):
            return {name: value for name, value in files.items()
                    if not interrupted or not name.startswith("checkpoint-") or f"{name}/".startswith(f"checkpoint-{self.run.steps}/")}
        wrong = difference(of_interest(self.end), of_interest(results(folder)))
        if wrong:
            raise Wrong(f"the end differs: {wrong}")


def saved_steps(out):
    """Steps that a process said it had saved."""
    return [int(step) for step in re.findall(r"^saved\s+\S*checkpoint-(\d+)", out, re.M)]


def require_sentence(done):
    """An error that a user can act on: exit code 2 and words on stderr."""
    if done.code != 2:
        raise Wrong(f"neither 0 nor 2: {done.said()}")
    if len(done.err.strip()) < 20 or "internal" in done.err.lower():
        raise Wrong(f"no sentence: {done.said()}")


def check_ended_well(done, act):
    """The process met no meddling any more, or was stopped in the way it should be; True: it came to the end."""
    if done.code == 0:
        return True
    if act in KILLS and done.code == -signal.SIGKILL:
        return False
    if act == "interrupt" and done.code == 130:
        return False
    if act in ("once", "full"):
        require_sentence(done)
        return False
    raise Wrong(f"with {act}: {done.said()}")


def live(story, meddler, root, seed, acts, most):
    """One run from its start to its end, through at most `most` lives that are meddled with. Returns how many were."""
    chance = random.Random(seed)
    folder = root / f"life_{seed}".replace(":", "_").replace(" ", "_").replace(",", "")
    story.place(folder)
    newest = story.check_checkpoints(folder, 0, [])
    begun = newest
    meddled = 0
    trail = []
    try:
        while True:
            resume = story.first_resume(folder) if not trail else story.resume(folder)
            steps = max(1, story.run.steps - begun)
            left = max(30, int(len(story.calls[story.keep]) * (story.run.steps - newest) / steps))
            act = chance.choice(acts) if meddled < most else "count"
            # One in four in the first calls: what a start repairs is itself interrupted.
            at = 1 + chance.randrange(min(left, 25) if trail and chance.random() < 0.25 else left)
            error, short = chance.choice(FULL), chance.random() < 0.3
            trail.append(f"{act} at {at}{f' errno {error}' if act in ('once', 'full') else ''}, resume {resume}")
            done = meddler.run(story.words(folder, resume), folder, act, at, error, short)
            meddled += act != "count" and len(done.calls) >= at
            ended = check_ended_well(done, act)
            newest = story.check_checkpoints(folder, newest, saved_steps(done.out))
            if ended:
                story.check_end(folder, any(line.startswith("interrupt") for line in trail))
                return meddled
            if len(trail) > 3 * MOST_LIVES:
                raise Wrong("it does not come to its end")
    except Wrong as wrong:
        raise Wrong(f"{story.name}: {wrong}\n    after " + "\n          ".join(trail)) from wrong
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def damaged(story, meddler, root, seed):
    """A run that was stopped with two checkpoints, of which the newest, or both, or a named one are damaged."""
    chance = random.Random(seed)
    folder = root / f"damaged_{seed}".replace(":", "_").replace(" ", "_").replace(",", "")
    shutil.copytree(story.start, folder)
    try:
        steps = steps_of(folder)
        both = chance.random() < 0.15
        what = damage.spoil(folder, steps if both else steps[-1:], steps[0], chance)
        named = not both and chance.random() < 0.15
        kept = {step: checkpoint_content(folder / f"checkpoint-{step}") for step in steps[:-1]}
        done = meddler.run(story.words(folder, str(folder / f"checkpoint-{steps[-1]}") if named else "true"), folder)
        told = f"checkpoint-{steps[-1]}" in done.out + done.err
        try:
            if done.code == 0:
                resumed = re.search(r"^resumed\s.*checkpoint-(\d+)", done.out, re.M)
                if not resumed:
                    raise Wrong(f"it began again and did not say so: {done.said()}")
                if int(resumed[1]) != steps[-1] and (named or not told):
                    raise Wrong(f"resumed from checkpoint-{resumed[1]} without a word about the damaged one: {done.said()}")
                wrong = difference(story.end, damage.without_moved_aside(results(folder), story.end))
                if wrong:
                    raise Wrong(f"the end differs: {wrong}\n{done.said()}")
            else:
                require_sentence(done)
                if not both and not named:
                    raise Wrong(f"checkpoint-{steps[0]} is whole and was not taken: {done.said()}")
                for step, before in kept.items():
                    if checkpoint_content(folder / f"checkpoint-{step}") != before:
                        raise Wrong(f"checkpoint-{step} was touched by a start that failed")
        except Wrong as wrong:
            raise Wrong(f"{story.name}, {what}, resumed {'by name' if named else 'true'}: {wrong}") from wrong
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def make_stories(hone, meddler, root, methods, limits):
    """(runs and branches, stories that begin with checkpoints to be damaged)"""
    lives, halves = [], []
    for i, method in enumerate(methods):
        run = SmallRun(hone, method, root)
        story = Story(run, keep=2)
        story.measure(meddler, root)
        middle = run.steps // 2 // run.save_steps * run.save_steps
        half = Story(run, keep=2, start=story.stopped(meddler, root, middle, 2))
        half.whole, half.end = story.whole, story.end
        halves.append(half)
        left = story.stopped(meddler, root, middle + run.save_steps, ALL)
        for keep in limits or (1 + i % 2,):
            branch = Story(run, keep, start=left, branch_at=run.save_steps * 2, changes={"learning_rate": BRANCH_RATE})
            branch.measure(meddler, root)
            lives += [story, branch]
    return lives, halves


def killed_before_rotation(story, meddler, root):
    """Killed when its last checkpoint was there and the oldest not yet removed: the end has as many as save_total_limit says."""
    folder = root / f"unrotated_{story.run.method}"
    meddler.run(story.words(folder), folder, "after", story.saved_at(story.run.steps, story.keep))
    if len(steps_of(folder)) <= story.keep:
        raise Wrong(f"{story.name}: no checkpoint too many was left: {steps_of(folder)}")
    done = meddler.run(story.words(folder, "true"), folder)
    if done.code != 0:
        raise Wrong(f"{story.name}: {done.said()}")
    story.check_end(folder, False)
    return 1


def killed_before_a_checkpoint(story, meddler, root):
    """Killed just before its first checkpoint gets its name, and started again: what the first start logged is kept aside, no more."""
    folder = root / f"unsaved_{story.run.method}"
    meddler.run(story.words(folder), folder, "before", story.saved_at(story.run.save_steps, story.keep))
    if steps_of(folder):
        raise Wrong(f"{story.name}: a checkpoint was there: {steps_of(folder)}")
    done = meddler.run(story.words(folder), folder)
    if done.code != 0:
        raise Wrong(f"{story.name}: {done.said()}")
    aside = folder / "abandoned-1-after-0"
    if not (aside / "metrics.jsonl").is_file() or steps_of(aside):
        raise Wrong(f"{story.name}: expected the metrics of the first start in {aside.name}, found {sorted(aside.glob('*'))}")
    shutil.rmtree(aside)
    story.check_end(folder, False)
    return 1


class Groups:
    """Runs cases two at a time, counts them, and prints a line a group."""

    def __init__(self, meddler, root, options):
        self.meddler, self.root, self.options, self.failed = meddler, root, options, False

    def run(self, group, wanted, case):
        """`case(index)` returns how much it counts; until the sum is `wanted`."""
        if self.options.case:
            name, _, index = self.options.case.rpartition(":")
            if name != group:
                return
            print(case(int(index)))
            return
        done, problems, index = 0, [], 0
        with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            running = {}
            while done + len(running) < wanted or running:
                while len(running) < self.options.jobs and done + len(running) < wanted and len(problems) < 20:
                    running[pool.submit(case, index)] = index
                    index += 1
                if not running:
                    break
                for future in concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED).done:
                    number = running.pop(future)
                    try:
                        done += future.result()
                    except Exception as error:  # noqa: BLE001 (reported with its case, and the others go on)
                        done += 1
                        text = str(error) if isinstance(error, Wrong) else traceback.format_exc()
                        problems.append(f"--seed {self.options.seed} --case '{group}:{number}': {text}")
        print(f"{'not ok' if problems else 'ok'} {group}: {done}", flush=True)
        for problem in problems:
            print(f"  {problem}", flush=True)
        self.failed = self.failed or bool(problems)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=12)
    parser.add_argument("--full-disks", type=int, default=12)
    parser.add_argument("--damaged", type=int, default=9)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--methods", nargs="+", default=["sft", "grpo", "dpo"])
    parser.add_argument("--case", default="")
    parser.add_argument("--hone", type=pathlib.Path, default=SOURCE / "build/hone")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hone_lost_", dir=quick_folder()) as temporary:
        root = pathlib.Path(temporary)
        meddler = Meddler()
        try:
            few = options.kills < 50
            lives, halves = make_stories(options.hone, meddler, root, options.methods, () if few else (1, 2))
        except Wrong as wrong:
            print(f"not ok runs that nobody interrupts\n  {wrong}")
            return 1
        groups = Groups(meddler, root, options)

        def meddled(name, acts):
            def case(index):
                return live(lives[index % len(lives)], meddler, root, f"{options.seed}:{name}:{index}", acts, 2 if few else MOST_LIVES)
            return case
        groups.run("a kill between the last save and the rotation", 1, lambda _: killed_before_rotation(lives[0], meddler, root))
        methods, straight = len(options.methods), list(dict.fromkeys(story for story in lives if not story.branch_at))
        groups.run("a kill before the first checkpoint", methods,
                   lambda index: killed_before_a_checkpoint(straight[index % methods], meddler, root))
        groups.run("kills at file calls", options.kills, meddled("kills", (*KILLS, *KILLS, "interrupt")))
        groups.run("full disks", options.full_disks, meddled("full", ("full", "full", "once")))

        def case_damaged(index):
            damaged(halves[index % len(halves)], meddler, root, f"{options.seed}:damaged:{index}")
            return 1
        groups.run("damaged checkpoints", options.damaged, case_damaged)
    return 1 if groups.failed else 0


if __name__ == "__main__":
    sys.exit(main())
