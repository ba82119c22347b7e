#!/usr/bin/env python3
"""hone.trl: what TRL's constructors refuse is refused there, as a ValueError with TRL's words; a verdict of the doctor says how to go on.

usage: tests/python/contradictions_test.py [--hone PROGRAM]
"""
import argparse
import contextlib
import io
import json
import os
import pathlib
import shutil
import sys
import tempfile
import types
import warnings

sys.dont_write_bytecode = True
from checks import MARKED, PAIRS, PROMPTS, QUICK, TEXTS, TINY, Tests, holds, raises, same


class Stream:
    """Rows without a length, as datasets' IterableDataset."""

    def __init__(self, data):
        self.data = data

    def __iter__(self):
        return iter(self.data)


class Table(list):
    """Rows with the names of their columns, as datasets.Dataset."""

    @property
    def column_names(self):
        return list(self[0])


def config(kind, folder, **more):
    from hone import trl
    return getattr(trl, f"{kind}Config")(output_dir=str(folder / "out"), **{**QUICK, "max_steps": 1, **more})


def test_absent_rows(folder):
    """a trainer without rows, and one without a reward, are ValueErrors in TRL's words; rows for an evaluation are enough"""
    from hone import trl
    for kind, arguments in (("SFT", ()), ("DPO", ()), ("KTO", ()), ("Reward", ()), ("GRPO", (print,)), ("RLOO", (print,))):
        raises(ValueError, "`train_dataset` is required",
               lambda kind=kind, arguments=arguments: getattr(trl, f"{kind}Trainer")(TINY, *arguments, args=config(kind, folder)))
    for kind in ("GRPO", "RLOO"):
        raises(ValueError, "No reward source provided", lambda kind=kind: getattr(trl, f"{kind}Trainer")(TINY, args=config(kind, folder), train_dataset=PROMPTS))
    trl.SFTTrainer(TINY, config("SFT", folder), eval_dataset=TEXTS)
    same(list(folder.iterdir()), [], "files")


def test_streams_of_references(folder):
    """log-probabilities of a reference that are made before the run want rows that can be counted"""
    from hone import trl
    for kind, data in (("DPO", PAIRS), ("KTO", MARKED)):
        make = getattr(trl, f"{kind}Trainer")
        for train, evaluation in ((Stream(data), None), (data, Stream(data)), (data, {"one": data, "two": Stream(data)})):
            raises(ValueError, "`precompute_ref_log_probs=True` is not supported with IterableDataset",
                   lambda make=make, kind=kind, train=train, evaluation=evaluation:
                   make(TINY, args=config(kind, folder, precompute_ref_log_probs=True), train_dataset=train, eval_dataset=evaluation))
        make(TINY, args=config(kind, folder, precompute_ref_log_probs=True), train_dataset=data, eval_dataset={"one": data})


def test_sft(folder):
    """padding_free without packing, and masks that nothing would read, are TRL's ValueErrors"""
    from hone import trl
    raises(ValueError, "`max_length` is not enforced", lambda: trl.SFTTrainer(TINY, config("SFT", folder, padding_free=True, max_length=16), train_dataset=TEXTS))
    trl.SFTTrainer(TINY, config("SFT", folder, padding_free=True, max_length=None), train_dataset=TEXTS)
    trl.SFTTrainer(TINY, config("SFT", folder, padding_free=True, packing=True), train_dataset=TEXTS)
    masked = Table([{"input_ids": [1, 2, 3], "assistant_masks": [0, 1, 1]}] * 2)
    skipped = {"dataset_kwargs": {"skip_prepare_dataset": True}}
    raises(ValueError, "Add a 'labels' column", lambda: trl.SFTTrainer(TINY, config("SFT", folder, **skipped), train_dataset=masked))
    trl.SFTTrainer(TINY, config("SFT", folder, **skipped), train_dataset=Table([{**row, "labels": [-100, 2, 3]} for row in masked]))


def test_labels(folder):
    """a classifier of several classes is no reward model"""
    from hone.trl import contradictions
    kind = types.SimpleNamespace
    raises(ValueError, "reward models require `num_labels=1`", lambda: contradictions.refuse_labels(kind(config=kind(num_labels=2)), "RewardTrainer"))
    contradictions.refuse_labels(kind(config=kind(num_labels=1)), "RewardTrainer")
    contradictions.refuse_labels(TINY, "RewardTrainer")


def test_former_names(folder):
    """a reward model's rows with TRL's names of before are taken, with TRL's warning"""
    from hone import trl
    rows = {"chosen_input_ids": [1, 2], "rejected_input_ids": [1, 3]}
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        trl.RewardTrainer(TINY, config("Reward", folder), train_dataset=Table([rows] * 2))
        trl.RewardTrainer(TINY, config("Reward", folder), train_dataset=Table([{"chosen_ids": [1, 2], "rejected_ids": [1, 3]}] * 2))
    same([one.category for one in seen if "will not be supported in v1" in str(one.message)], [FutureWarning], "warnings")


def test_custom_code(folder):
    """a model that brings its own classes is refused in the constructor, with TRL's words; an auto_map without them is none"""
    from hone import trl
    model = folder / "model"
    shutil.copytree(TINY, model)
    known = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**known, "auto_map": {"AutoConfig": "configuration_own.OwnConfig"}}))
    trl.SFTTrainer(str(model), config("SFT", folder), train_dataset=TEXTS)
    (model / "configuration_own.py").write_text("")
    raises(ValueError, "custom code", lambda: trl.SFTTrainer(str(model), config("SFT", folder), train_dataset=TEXTS))


def test_names_of_classes(folder):
    """a method of TRL's class, asked of the class, is refused with what to do, and hasattr() says that it is not there"""
    from hone import Refused, trl
    for name in ("compute_loss", "get_high_entropy_mask"):
        raises(Refused, f"GRPOTrainer.{name}", lambda name=name: getattr(trl.GRPOTrainer, name))
        holds(not hasattr(trl.GRPOTrainer, name), name)
    error = raises(AttributeError, "GRPOTrainer has no attribute 'nothing'", lambda: trl.GRPOTrainer.nothing)
    holds(not isinstance(error, Refused), error)


def test_verdict(folder):
    """a constant reward pauses the run; the error's first line says how to go on in Python, and that goes on"""
    from hone import HoneError, trl
    args = config("GRPO", folder, max_steps=24, num_generations=4, per_device_train_batch_size=16, max_completion_length=4, probe_rewards=False)
    trainer = trl.GRPOTrainer(TINY, lambda completions, **_: [0.5] * len(completions), args, train_dataset=PROMPTS)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        error = raises(HoneError, "", trainer.train)
        first = str(error).splitlines()[0]
        holds("trainer.args.on_fault = 'warn', then train(resume_from_checkpoint=True)" in first and "RL-" in first, str(error))
        holds("--" not in str(error), f"advice is Python's: {error}")
        paused = trainer.state.global_step
        holds(0 < paused < 24, paused)
        trainer.args.on_fault = "warn"
        trainer.train(resume_from_checkpoint=True)
    same(trainer.state.global_step, 24, "steps")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hone")
    given = parser.parse_args()
    if given.hone:
        os.environ["HONE_PROGRAM"] = str(pathlib.Path(given.hone).resolve())
    tests = Tests()
    for name, function in list(globals().items()):
        if name.startswith("test_"):
            with tempfile.TemporaryDirectory() as folder:
                tests.run([function], pathlib.Path(folder))
    return 1 if tests.failed else 0


sys.exit(main())
