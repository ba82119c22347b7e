#!/usr/bin/env python3
"""report_to and `hone log` as a user calls them, with a stand-in `wandb`. tests/report/loggers_test.cpp has what a package may do wrong,
tests/parity/check_loggers.py the real packages. Nothing here opens a connection.

usage: loggers.py [--hone PROGRAM]
"""
import argparse
import json
import pathlib
import signal
import sys
import tempfile
import time

from stand_in import SOURCE, StandIn

WANDB = '''
import json, os
def said(*words):
    with open(os.environ["STAND_IN_LOG"], "a") as log:
        log.write(json.dumps(words) + "\\n")
print("a line that some package prints")
class Settings:
    def __init__(self, **given): pass
class Run: summary = {}
def init(project, name, config, settings, id=None, resume=None):
    if os.environ.get("STAND_IN_DOES") == "raises": raise ConnectionError("no route to the logger")
    Run.url, Run.name, Run.id = "https://logger/run", name, id or "id0"
    said("init", project, name, id, config, os.environ.get("WANDB_RUN_GROUP"))
    return Run
def define_metric(*words, **given): pass
def log(values): said("log", values)
def finish(exit_code): said("finish", exit_code, Run.summary)
'''
RECIPE = ("--report_to", "wandb", "--run_name", "first", "--wandb_project", "mine", "--wandb_run_group", "group")


def rewritten(record):
    values = {name: value for name, value in record.items() if name not in ("step", "performance") and value is not None}
    return {("eval/" + name[5:] if name.startswith("eval_") else "train/" + name): value for name, value in values.items()}


def lines_of(out):
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def whole_run(runs):
    out = runs.folder / "out"
    code, said = runs.train(out, 4, *RECIPE, "--eval_strategy", "steps", "--eval_steps", 2, "--eval_dataset",
                            SOURCE / "tests/fixtures/parity/sft/text.jsonl", "--hub_token", "hf_secret")
    runs.check("the run names its place", code == 0 and "logger    wandb: first (https://logger/run)" in said, said)
    runs.check("what packages print is not the run's", "some package prints" not in said, said)
    begun = runs.calls("init")
    runs.check("project, name and group are the recipe's", len(begun) == 1 and begun[0][:3] == ["mine", "first", None]
               and begun[0][4] == "group", begun)
    config = begun[0][3] if begun else {}
    runs.check("the resolved options are the run's config, without secrets", config.get("lora_r") == 4 and config.get("bf16") is False
               and config.get("warmup_steps") == 0 and "hf_secret" not in json.dumps(config), config)
    expected = [rewritten(record) | {"train/global_step": record["step"]} for record in lines_of(out)[:-1]]
    logged = [call[0] for call in runs.calls("log")]
    runs.check("every line of metrics.jsonl was sent, under transformers' names", len(expected) == 6 and logged == expected,
               (logged, expected))
    ended = runs.calls("finish")
    runs.check("the end has its single values", len(ended) == 1 and ended[0][0] == 0 and "train_runtime" in ended[0][1], ended)
    runs.forget()
    code, said = runs.run("log", out, "--to", "wandb")
    runs.check("hone log finds nothing that is missing", code == 0 and "sent      0 lines of metrics; it had 7" in said
               and not runs.calls("init"), said)


def killed_run(runs):
    runs.forget()
    out = runs.folder / "killed"
    more = (*RECIPE, "--save_steps", 3, "--lr_scheduler_type", "constant")
    process = runs.start(*runs.words(out, 100000, *more))
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not ((out / "checkpoint-3").exists() and len(runs.calls("log")) > 4):
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    time.sleep(3)  # the logger's process sees that hone is gone, sends what is there, and ends
    ended = runs.calls("finish")
    runs.check("the logger of a run that was killed ends by itself", len(ended) == 1 and ended[0][0] == 1, ended)
    code, said = runs.train(out, lines_of(out)[-1]["step"] + 2, *more, "--resume_from_checkpoint", "true")
    runs.check("the run is resumed", code == 0, said)


def resumed_run(runs):
    runs.forget()
    out = runs.folder / "resumed"
    more = (*RECIPE, "--save_steps", 3, "--lr_scheduler_type", "constant")
    runs.train(out, 5, *more)
    code, said = runs.train(out, 7, *more, "--resume_from_checkpoint", out / "checkpoint-3")
    begun = runs.calls("init")
    runs.check("a resumed run goes on in the same run", code == 0 and [call[2] for call in begun] == [None, "id0"], (said, begun))
    steps = [call[0]["train/global_step"] for call in runs.calls("log")]
    runs.check("and repeats nothing", steps == [1, 2, 3, 4, 5, 6, 7], steps)


def without_the_package(runs):
    runs.forget()
    out = runs.folder / "without"
    code, said = runs.train(out, 2, *RECIPE, STAND_IN_DOES="raises")
    runs.check("a logger that fails is one note, and the run goes on", code == 0 and said.count("report_to: wandb") == 1
               and "ConnectionError: no route to the logger; the run goes on" in said and "done      adapter in" in said, said)
    code, said = runs.run("log", out, "--to", "wandb", STAND_IN_DOES="raises")
    runs.check("hone log says so too", code == 2 and "ConnectionError: no route" in said, said)
    code, said = runs.run("log", out, "--to", "wandb")
    runs.check("and sends it later", code == 0 and "sent      3 lines of metrics" in said and len(runs.calls("log")) == 2
               and runs.calls("init")[-1][0] == "mine", said)
    code, said = runs.train(runs.folder / "mute", 2, *RECIPE, "--python", "python-of-nobody")
    runs.check("a Python that is not there is one note", code == 0 and "'python-of-nobody' does not start" in said, said)


def nothing_unasked(runs):
    """A run that asks for nothing starts no Python at all."""
    folder = runs.folder / "programs"
    folder.mkdir()
    (folder / "python3").write_text(f"#!/bin/sh\ntouch {runs.folder}/started\n")
    (folder / "python3").chmod(0o755)
    code, said = runs.train(runs.folder / "quiet", 1, PATH=f"{folder}:{runs.environment['PATH']}")
    runs.check("a run that asks for nothing starts no Python", code == 0 and not (runs.folder / "started").exists(), said)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hone", type=pathlib.Path, default=SOURCE / "build/hone")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hone-loggers-") as folder:
        runs = StandIn(arguments.hone.resolve(), pathlib.Path(folder), "wandb", WANDB, "loggers")
        for checks in (whole_run, killed_run, resumed_run, without_the_package, nothing_unasked):
            checks(runs)
    sys.exit(1 if runs.failed else 0)


main()
