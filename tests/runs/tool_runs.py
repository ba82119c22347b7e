#!/usr/bin/env python3
"""Whole runs with tools and environments at random: neither delays, workers, threads, memory, ranks nor kills change a byte of them.

A tiny model is held to calls by a pattern. Its functions sleep, raise and end their processes; its environments draw random numbers and
get lost. Each run has its own delays, tool_workers, threads, memory for keys (little: sequences are evicted) and 1 or 2 ranks. It is
killed up to twice, at a random event of its tools, environments and rewards or at a random time, and resumed, perhaps on
another number of ranks. Compared with a run of its story that nobody disturbs: rollouts (ids, masks, calls, results, rewards), metrics,
each checkpoint and the adapter.

Functions are called once over all starts. The exception is counted exactly: a call that was asked for when the run was killed and
whose result had not been written. Methods of environments are called once in each start, in those batches that the start samples.

Prints `ok NAME` or `not ok NAME`; a run that fails prints how to run it again.
usage: tool_runs.py [--first INDEX] [--count N] [--seconds S] [--seed N] [--case INDEX] [--hone PROGRAM]
"""
import argparse
import collections
import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(SOURCE / "tests/fuzz"), str(SOURCE / "tests/faults")]
from cases_tools import TEMPLATE  # noqa: E402
from ranks_kills import ranks_of  # noqa: E402
from small_runs import quick_folder, steps_of  # noqa: E402
from small_runs import difference as file_difference  # noqa: E402
from tool_ends import ROLLOUTS, checkpoint_of, end_of, places_of, read_lines  # noqa: E402

MODEL, TEACHER = SOURCE / "tests/fixtures/parity/tiny_llama", SOURCE / "tests/fixtures/parity/tiny_gemma2"
STEPS, LIMIT_S, LOST = 3, 120, 75


def acts(names):
    call = f'<tool_call>\\n\\{{"name": "({names})", "arguments": \\{{"a": [0-9]\\}}\\}}\\n</tool_call>'
    return {"vllm_structured_outputs_regex": f"({call}|{call}\\n{call}|{call}|ok [0-9])"}


# name: method, options
STORIES = {
    "functions": ("grpo", {"tools": "tools.py:add,later,risk", **acts("add|later|risk"), "reward_funcs": "tools.py:calls"}),
    "environments": ("grpo", {"environment": {"bag": "tools.py:Bag", "clock": "tools.py:Clock"}, **acts("put|drop|tick")}),
    "both, off-policy": ("grpo", {"tools": "tools.py:add,risk", "environment": "tools.py:Bag", **acts("add|risk|put|drop"),
                                  "reward_funcs": "tools.py:calls", "num_iterations": 2, "tool_failures_to_stop": 2}),
    "rloo": ("rloo", {"tools": "tools.py:add,later", "environment": "tools.py:Clock", **acts("add|later|tick"),
                      "reward_funcs": "tools.py:calls", "max_tool_calling_iterations": 2}),
    "distillation": ("distill", {"tools": "tools.py:add,risk", "environment": "tools.py:Bag", **acts("add|risk|put|drop"),
                                 "teacher_model_name_or_path": "../teacher", "per_device_train_batch_size": 3, "num_generations": None}),
}
COMMON = {"use_peft": True, "lora_r": 4, "lora_target_modules": "all-linear", "lora_dropout": 0, "learning_rate": 0.01,
          "max_steps": STEPS, "per_device_train_batch_size": 4, "num_generations": 4, "max_completion_length": 260, "logging_steps": 1,
          "save_strategy": "steps", "save_steps": 1, "dump_rollouts": True, "report_to": "none", "report_page": False,
          "skip_doctor": True}
ALL_WORK = 2  # ranks x accumulation


class Wrong(Exception):
    """What a run found."""


def make_model(folder, model):
    folder.mkdir()
    for name in ("model.safetensors", "tokenizer.json", "generation_config.json"):
        if (model / name).exists():
            shutil.copyfile(model / name, folder / name)
    config = json.loads((model / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 2048}))
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", "chat_template": TEMPLATE}))


class Story:
    """How it goes when nobody disturbs it."""

    def __init__(self, hone, root, name):
        self.hone, self.root, self.name = hone, root, name
        self.method, self.options = STORIES[name]
        self.folder = root / name.replace(" ", "_").replace(",", "")
        self.folder.mkdir()
        is_map = isinstance(self.options.get("environment"), dict)
        rows = [{"prompt": [{"role": "user", "content": f"Number {i}"}], "start": i, **({"environment": ("bag", "clock")[i % 2]} if is_map else {})}
                for i in range(7)]
        (self.folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        shutil.copyfile(SOURCE / "tests/runs/random_tools.py", self.folder / "tools.py")
        options = {**COMMON, **self.options, "model_name_or_path": str(self.root / "model"), "dataset_name": "rows.jsonl"}
        (self.folder / "run.yaml").write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in options.items() if value is not None))
        self.calls, self.checkpoints, self.end, self.seconds = {}, {}, None, LIMIT_S
        started = time.monotonic()
        one = Run(self, "whole")
        code, said, _ = one.live({"threads": 1, "tool_workers": 2}, 1, {})
        self.seconds = time.monotonic() - started
        if code:
            raise Wrong(f"{name}: the run that nobody disturbs does not end: {said[-3000:]}")
        self.end = end_of(one.output)
        self.checkpoints = {step: checkpoint_of(one.output / f"checkpoint-{step}") for step in steps_of(one.output)}
        self.calls = places_of(self.end[ROLLOUTS])
        self.events = len(one.events(1))
        if len(self.calls) < 15 or not any(call["failed"] for call in self.calls.values()):
            raise Wrong(f"{name}: the model makes too few calls, or none fails: {len(self.calls)}")
        one.done.append(set(self.calls))
        one.check_calls()

    def command(self, output, ranks, changes):
        words = [str(self.hone)] + (["launch", "--nproc", str(ranks), "--grace", "5"] if ranks > 1 else []) + [self.method, "--config", "run.yaml"]
        for name, value in {"gradient_accumulation_steps": ALL_WORK // ranks, "output_dir": output, **changes}.items():
            words += [f"--{name}", str(value)]
        return words

    def first_generation(self, step):
        """That a run which goes on from this step's checkpoint samples first."""
        return -(-step // self.options.get("num_iterations", 1))


class Run:
    """A run with its starts."""

    def __init__(self, story, name):
        self.story, self.output, self.place = story, story.folder / name, story.folder / f"{name}.events"
        self.forget()

    def forget(self):
        """What was killed before its first checkpoint is begun anew, by another run."""
        shutil.rmtree(self.output, ignore_errors=True)
        self.place.unlink(missing_ok=True)
        # Of each start: places of calls whose results were written before it, and generations that it begins with.
        self.starts, self.done, self.first = 0, [], []

    def events(self, start):
        """(kind, name, number) of a start, as its processes have told them."""
        lines = self.place.read_text().splitlines() if self.place.exists() else []
        return [tuple(words[1:]) for words in map(str.split, lines) if words[0] == str(start)]

    def written(self):
        """Places of calls whose results are on disk: those of batches that lie behind the newest checkpoint, and of the journals."""
        first = self.story.first_generation(max(steps_of(self.output), default=0))
        out = {place for place in self.story.calls if place[0] < first}
        for journal in self.output.glob(".hone-tools-*.jsonl"):
            out |= {tuple(line["call"]) for line in read_lines(journal)}
        return out

    def live(self, changes, ranks, environment, kill=None):
        """One start. `kill`: (events, seconds, which) after which which processes are killed. Returns (exit code, output, whether it was killed)."""
        self.done.append(self.written())
        self.first.append(self.story.first_generation(max(steps_of(self.output), default=0)))
        self.starts += 1
        process = subprocess.Popen(self.story.command(self.output, ranks, changes), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   start_new_session=True, cwd=self.story.folder,
                                   env={**os.environ, "OMP_NUM_THREADS": "1", "NO_COLOR": "1", "TOOL_RUNS_EVENTS": str(self.place),
                                        "TOOL_RUNS_START": str(self.starts), **environment})
        killed = False
        try:
            if kill is not None:
                killed = self.kill(process, ranks, *kill)
            said = process.communicate(timeout=LIMIT_S)[0]
        except subprocess.TimeoutExpired as late:
            kill_all([*ranks_of(process.pid).values(), process.pid])
            process.communicate()
            raise Wrong("it hangs") from late
        return process.returncode, said, killed

    def kill(self, process, ranks, events, seconds, which):
        """Waits for so many events of this start (or until events() says so), or so long; False: it has ended before. `which`: a rank, or "all"."""
        begin = time.monotonic()
        while process.poll() is None and time.monotonic() - begin < LIMIT_S:
            if events() if callable(events) else events is not None and len(self.events(self.starts)) >= events:
                break
            if events is None and time.monotonic() - begin >= seconds:
                break
            time.sleep(0.002)
        if events is not None:
            time.sleep(seconds)
        pids = ranks_of(process.pid) if ranks > 1 else {}
        victims = list(pids.values()) if which == "all" else [pids[which]] if which in pids else []
        if ranks == 1 or which == "all":
            victims.append(process.pid)
        elif not victims:
            return False  # of a busy machine: there is no rank yet
        if process.poll() is not None:
            return False
        kill_all(victims)
        return True

    # ---- what is compared

    def check_calls(self):
        """After the end: each function was called once for each result. Returns how many calls were made again after a kill, which has to
        be those whose results nobody had written. Methods: once in each start."""
        again = 0
        for start in range(1, self.starts + 1):
            before, after, is_last = self.done[start - 1], self.done[start], start == self.starts
            begun, methods = tallied(self.events(start), "function"), tallied(self.events(start), "method")
            missing = called(self.story.calls, FUNCTIONS, lambda place, seen=before: place not in seen)
            answered = called(self.story.calls, FUNCTIONS, lambda place, seen=before, now=after: place in now and place not in seen)
            if wrong := (begun - missing) or (answered - begun) or (is_last and missing - begun):
                raise Wrong(f"start {start} called functions {dict(begun)}, of which were due {dict(missing)}, and wrote {dict(answered)}: "
                            f"{dict(wrong)}")
            if not is_last:
                again += sum((begun - answered).values())
            due = called(self.story.calls, METHODS, lambda place, first=self.first[start - 1]: place[0] >= first)
            if wrong := (methods - due) or (is_last and due - methods):
                raise Wrong(f"start {start} called methods {dict(methods)}, of which were due {dict(due)}: {dict(wrong)}")
        return again

    def check_checkpoints(self):
        for step in steps_of(self.output):
            if wrong := file_difference(self.story.checkpoints[step], checkpoint_of(self.output / f"checkpoint-{step}")):
                raise Wrong(f"checkpoint-{step} is not that of the run that nobody disturbed: {wrong}")

    def check_end(self):
        self.check_checkpoints()
        if wrong := file_difference(self.story.end, end_of(self.output)):
            raise Wrong(f"the end differs: {wrong}")


FUNCTIONS, METHODS = ("add", "later", "risk"), ("put", "drop", "tick")


def tallied(events, kind):
    return collections.Counter((name, int(number)) for one, name, number in events if one == kind)


def kill_all(pids):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def called(calls, names, is_wanted):
    """Of these names, how often each is begun: what is asked of a lost environment is not."""
    return collections.Counter((call["name"], call["arguments"]["a"]) for place, call in calls.items()
                               if call["name"] in names and is_wanted(place)
                               and not call["result"].startswith(("{'error': 'the environment was lost", "{'error': 'Tool ")))


def one_case(stories, seed, index):
    """A run from its start to its end. Returns (kills, calls that were made again)."""
    chance = random.Random(f"{seed}:{index}")
    story = stories[index % len(stories)]
    run, trail, kills = Run(story, f"case_{index}"), [], 0
    wanted = chance.choice((0, 1, 1, 2))
    try:
        while True:
            ranks = chance.choice((1, 1, 2))
            changes = {"threads": chance.randint(1, 3), "tool_workers": chance.randint(1, 4)}
            if chance.random() < 0.6:
                changes["kv_memory"] = f"{chance.choice((180, 250, 400, 800))}KB"
            if run.starts:
                changes["resume_from_checkpoint"] = "true"
            environment = {"TOOL_RUNS_DELAY": str(chance.choice((0, 0.01, 0.05)))}
            kill = None
            if kills < wanted:
                which = chance.choice([*range(ranks), "all"])
                by_event = chance.random() < 0.8
                kill = ((chance.randint(1, story.events), chance.uniform(0, 0.03), which) if by_event else
                        (None, chance.uniform(0.05, story.seconds), which))
            trail.append(f"{ranks} ranks, {changes} {environment}, killed after {kill}")
            code, said, killed = run.live(changes, ranks, environment, kill)
            trail[-1] += f": exit {code}"
            kills += killed
            run.check_checkpoints()
            if code == 0:
                run.done.append(set(story.calls))
                run.check_end()
                return kills, run.check_calls()
            if not killed or code not in (LOST, -signal.SIGKILL):
                raise Wrong(f"exit {code}: {said[-2500:]}")
            if not steps_of(run.output):
                run.forget()
    except Wrong as wrong:
        raise Wrong(f"{story.name}: {wrong}\n    " + "\n    ".join(trail)) from wrong
    finally:
        shutil.rmtree(run.output, ignore_errors=True)


def check_changed_answers(story):
    """Environments that answer otherwise after a kill are told of, and what the run has read stays.

    The second batch gets no rewards until the run is killed, so that one batch was read and one comes after it, however late this watcher is."""
    run = Run(story, "changed")
    written = set()

    def enough():
        first = story.first_generation(max(steps_of(run.output), default=0))
        written.update(place for place in run.written() if first and place[0] >= first and place in story.calls)
        return any(not story.calls[place]["failed"] for place in written)

    code, said, killed = run.live({"threads": 1}, 1, {"TOOL_RUNS_HOLD": str(run.output / "checkpoint-1")}, (enough, 0, "all"))
    if not killed:
        raise Wrong(f"the run ends before a method has answered: exit {code}: {said[-2000:]}")
    first = story.first_generation(max(steps_of(run.output)))
    code, said, _ = run.live({"threads": 1, "resume_from_checkpoint": "true"}, 1, {"TOOL_RUNS_LIE": ", or not"})
    told = ("the tool (put|drop|tick) changed its answer", r"reset\(\) of (Bag|Clock) says")
    if code or not all(re.search(pattern, said) for pattern in told):
        raise Wrong(f"exit {code}, and not a word of the answers that changed: {said[-2500:]}")
    batches = read_lines(run.output / ROLLOUTS)
    calls = places_of(batches)
    if wrong := [place for place in written if calls[place]["result"] != story.calls[place]["result"]]:
        raise Wrong(f"other results than those that were read: {wrong}")
    if batches[first]["prompts"] != story.end[ROLLOUTS][first]["prompts"]:
        raise Wrong("the prompts of the batch are others")
    if not any(", or not" in call["result"] for call in calls.values()):
        raise Wrong("nothing answered otherwise: this check shows nothing")


def check_taken_back(story):
    """Who goes back to an earlier checkpoint has the tools called again: what they answered the first time is not taken."""
    run = Run(story, "back")
    shutil.copytree(story.folder / "whole", run.output)
    code, said, _ = run.live({"threads": 1, "resume_from_checkpoint": run.output / "checkpoint-1"}, 1, {})
    if code:
        raise Wrong(f"exit {code}: {said[-2500:]}")
    begun = tallied(run.events(1), "function")
    due = called(story.calls, FUNCTIONS, lambda place: place[0] >= story.first_generation(1))
    if begun != due:
        raise Wrong(f"called {dict(begun)}, of {dict(due)}")


def tell(name, check, *arguments):
    try:
        check(*arguments)
    except Wrong as wrong:
        print(f"not ok tools: {name}\n  {wrong}", flush=True)
        return False
    print(f"ok tools: {name}", flush=True)
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="of a piece of the runs")
    parser.add_argument("--count", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1e9, help="no run is begun after so many")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int, default=-1)
    parser.add_argument("--hone", type=pathlib.Path, default=SOURCE / "build/hone")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hone-tools-", dir=quick_folder()) as temporary:
        root = pathlib.Path(temporary)
        make_model(root / "model", MODEL)
        make_model(root / "teacher", TEACHER)
        stories = [Story(options.hone.resolve(), root, name) for name in STORIES]
        count = kills = again = problems = 0
        end = time.monotonic() + options.seconds
        for index in range(options.first, options.first + options.count) if options.case < 0 else [options.case]:
            if time.monotonic() > end:
                break
            count += 1
            try:
                of_case = one_case(stories, options.seed, index)
                kills, again = kills + of_case[0], again + of_case[1]
            except Wrong as wrong:
                problems += 1
                print(f"  --seed {options.seed} --case {index}: {wrong}", flush=True)
        print(f"{'not ok' if problems else 'ok'} tools: {count} runs at random with {kills} kills end with the bytes of undisturbed ones; "
              f"{again} calls without a written result were made again", flush=True)
        passed = not problems
        if options.case < 0:
            passed &= tell("environments that answer otherwise after a kill are told of", check_changed_answers, stories[1])
            passed &= tell("a run that is taken back to an earlier checkpoint calls its tools again", check_taken_back, stories[0])
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
