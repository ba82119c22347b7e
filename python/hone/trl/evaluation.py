"""evaluate(): a run of the program in a folder of its own, which is ended when it has said its metrics.

Before train(), and of methods without a reference, it begins from the model and evaluates before step 1. Metrics that compare with the reference
need the run itself: then it continues the last checkpoint, and what that state says is due is its evaluation, so that no step is done.
"""
import json
import os
import pathlib
import tempfile

from hone import program
from hone.errors import HoneError, Refused
from hone.trl import child, models, options, own_files, own_metrics, plan, streams
from hone.trl.rows import is_splits

# Methods whose metrics compare with a reference: a continued adapter would be its own.
WITH_REFERENCE = ("DPO", "KTO", "OnlineDPO")
STATE = "hone_state.json"  # src/train/saves/checkpoint_check.cpp
# Options that are of the run itself, and not of an evaluation beside it.
OF_RUNS = ("eval_", "sample_p", "sample_s", "save_", "push_", "hub_", "load_best", "overwrite_", "resume_")


def is_evaluation(entry):
    return any(name.startswith("eval_") for name in entry)


def compares(trainer):
    """Whether the metrics of the trained policy need the reference that it had."""
    return trainer._name in WITH_REFERENCE or (options.METHODS[trainer._name] in ("grpo", "rloo") and bool(trainer.args.beta))


def with_evaluation_due(checkpoint, folder):
    """A copy of a checkpoint, whose state says that its evaluation is still to come; the large files are links."""
    target = pathlib.Path(folder) / "from" / checkpoint.name
    target.mkdir(parents=True)
    for path in checkpoint.iterdir():
        if path.name != STATE:
            os.symlink(path.resolve(), target / path.name)
    state = json.loads((checkpoint / STATE).read_text(encoding="utf-8"))
    state["run"]["evaluation_due"] = True
    state.pop("crc32c")
    body = json.dumps(state, indent=1)
    body = body[:body.rindex("\n}")]
    (target / STATE).write_text(f'{body},\n "crc32c": {own_files.crc32c(body.encode())}\n}}\n', encoding="utf-8")
    return target


def last_checkpoint(trainer):
    """The one that has what train() returned with."""
    where = f"{type(trainer).__name__}.evaluate"
    best = trainer.args.load_best_model_at_end and trainer.state.best_model_checkpoint
    folder = pathlib.Path(best or trainer._stopped_in or trainer._folder / f"checkpoint-{trainer.state.global_step}")
    if not (folder / STATE).is_file():
        raise Refused(where, "the checkpoint of the last step, which knows the reference", f"none in {folder}",
                      "leave save_strategy at its default, or set eval_strategy='steps' or 'epoch': the last evaluation is returned")
    return folder


def refuse_unseen(trainer, given):
    """TRL's own error: with precompute_ref_log_probs a full training has no reference for rows that it meets afterwards."""
    if trainer.state.global_step > 0 and getattr(trainer.args, "precompute_ref_log_probs", False) and not trainer._settings.get("use_peft") and \
            given is not None and not isinstance(given, str) and trainer._given_reference is None:
        raise Refused(f"{type(trainer).__name__}.evaluate, eval_dataset",
                      "the trainer's own data set, with precompute_ref_log_probs in full training", "another one: Cannot compute reference log-probs for a dataset passed to `evaluate()` after training has started",
                      "pass it to the trainer as eval_dataset, or leave precompute_ref_log_probs out")


def settings_for(trainer, folder, data):
    """Options of the run that evaluates."""
    of_data = {name: value for name, value in trainer._settings.items() if name.startswith("eval_reward_")}
    own = {"output_dir": folder, "report_to": "none", "skip_doctor": True, "eval_strategy": "steps"}
    if trainer.state.global_step > 0 and compares(trainer):
        # The reference is named by the options that the run had, so that nothing is written anew.
        settings = {name: value for name, value in trainer._ran.items() if not name.startswith(OF_RUNS)}
        own |= {"resume_from_checkpoint": os.fspath(with_evaluation_due(last_checkpoint(trainer), folder)), "eval_steps": 1,
                "output_dir": os.path.join(folder, "run")}
        return {**settings, **of_data, **own, **plan.data_settings(folder, None, data, trainer._row_function(), type(trainer).__name__)}
    settings = {name: value for name, value in trainer._settings.items() if not name.startswith(OF_RUNS)}
    settings.update(trainer._objects_in(folder) if trainer._ran is None else trainer._of_last_run())
    if trainer.state.global_step > 0:
        settings.update(trainer._trained_model())
    settings.update(own, eval_on_start=True, eval_steps=1, save_strategy="no", max_steps=1, learning_rate=0.0, warmup_steps=0)
    train = trainer._train_rows if trainer._train_rows is not None else data
    if is_splits(train):
        train = next(iter(train.values()))
    enough = streams.enough(train, trainer)
    return {**settings, **of_data, **plan.data_settings(folder, train, data, trainer._row_function(), type(trainer).__name__, enough)}


def evaluated_one_by_one(trainer, data):
    """Several data sets of a method that samples: the program evaluates one set of prompts."""
    out = {}
    for name, one in data.items():
        found = evaluated(trainer, one)
        out |= {f"eval_{name}_{key.removeprefix('eval_')}" if key.startswith("eval_") else key: value for key, value in found.items()}
    return out


def evaluated(trainer, data):
    """The metrics of `data`, of the model as it is now."""
    program.require()
    if isinstance(data, dict) and trainer._name in models.SAMPLERS:
        return evaluated_one_by_one(trainer, data)
    found, wanted = [], len(data) if isinstance(data, dict) else 1

    def answer(message):
        if "event" not in message:
            return trainer._answer(message)
        if message["event"] == "log" and is_evaluation(message["record"]):
            found.append({name: value for name, value in message["record"].items() if name != "performance"})
            if len(found) == wanted:
                run.process.kill()  # its folder is not kept
        return {"stop": False}

    with tempfile.TemporaryDirectory(prefix="hone-evaluation-") as folder:
        path = plan.write(folder, settings_for(trainer, folder, data))
        run = trainer._program = child.Child([options.METHODS[trainer._name], "--config", path], answer)
        trainer._functions.failure = None
        try:
            code = run.run()
        finally:
            trainer._functions.close()
    if trainer._functions.failure is not None:
        raise trainer._functions.failure
    if len(found) < wanted:
        raise HoneError(run.error_text() or f"the evaluation ended with code {code}", code)
    found = [own_metrics.added(trainer._own_metrics, entry, type(trainer).__name__) for entry in found]
    return {**{name: value for entry in found for name, value in entry.items()}, "step": trainer.state.global_step, "epoch": trainer.state.epoch}
