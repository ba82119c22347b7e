#!/usr/bin/env python3
"""hone.trl: TRL's classes, whose runs are the program's. Everything runs on a tiny model, without torch in this process.

usage: tests/python/trainers_test.py [--hone PROGRAM]
"""
import argparse
import asyncio
import contextlib
import datetime
import decimal
import json
import math
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time

sys.dont_write_bytecode = True
import checks
from checks import MARKED, PAIRS, PARITY, PROMPTS, QUICK, SOURCE, TEXTS, TINY, LoraConfig, Tests, holds, raises, same

LORA = {"use_peft": True, "lora_r": 2}


def sft(folder, rows=None, callbacks=None, trainer=None, **more):
    from hone import trl
    args = trl.SFTConfig(output_dir=str(folder), **{**QUICK, "max_steps": 3, **LORA, **more})
    return (trainer or trl.SFTTrainer)(TINY, args, train_dataset=rows or TEXTS, callbacks=callbacks)


def grpo(folder, reward, name="GRPO", **more):
    from hone import trl
    sampling = {"max_new_tokens": 4} if name == "OnlineDPO" else {"max_completion_length": 4, "num_generations": 2}
    args = getattr(trl, f"{name}Config")(output_dir=str(folder), **{**QUICK, **sampling, "max_steps": 2, "probe_rewards": False, **LORA, **more})
    return getattr(trl, f"{name}Trainer")(model=TINY, reward_funcs=reward, args=args, train_dataset=PROMPTS)


def metrics(folder):
    lines = (pathlib.Path(folder) / "metrics.jsonl").read_text().splitlines()
    return [{name: value for name, value in json.loads(line).items() if name != "performance"} for line in lines]


class Recorder:
    def __init__(self, stop_at=None):
        self.events, self.stop_at = [], stop_at

    def on_train_begin(self, args, state, control, **kwargs):
        self.events.append(("begin", state.max_steps))

    def on_step_end(self, args, state, control, **kwargs):
        self.events.append(("step", state.global_step))
        if state.global_step == self.stop_at:
            control.should_training_stop = True

    def on_log(self, args, state, control, logs=None, **kwargs):
        self.events.append(("log", state.global_step, "loss" in logs))

    def on_evaluate(self, args, state, control, metrics=None, **kwargs):
        self.events.append(("evaluate", state.global_step, "eval_loss" in metrics))

    def on_save(self, args, state, control, **kwargs):
        self.events.append(("save", state.global_step))

    def on_train_end(self, args, state, control, **kwargs):
        self.events.append(("end", state.global_step))


# ---- classes

def test_options(folder):
    """the Config classes have the program's options, defaults and nothing else"""
    import dataclasses
    from hone import trl
    from hone.trl import options
    for name, method in options.METHODS.items():
        made = getattr(trl, f"{name}Config")()
        rows = json.loads(subprocess.run([os.environ["HONE_PROGRAM"], "options", method, "--json"], capture_output=True, check=True).stdout)
        own = options.LOSSES.get(name, {})
        wanted = {row["name"]: own.get(row["name"], options.default_of(row)) for row in rows if not options.is_script_option(row)}
        same({field.name: getattr(made, field.name) for field in dataclasses.fields(made)}, wanted, name)
        same(made.settings(), {key: own[key] for key in own if key == "loss_type" or name in options.PASSED}, f"settings of an untouched {name}Config")


def test_loss_of_a_class(folder):
    """GMPOConfig is GRPO's with another loss_type, and the epsilon that the program has with it"""
    import dataclasses
    from hone import Refused, trl
    from hone.trl.experimental.gmpo import GMPOConfig, GMPOTrainer
    config = GMPOConfig(output_dir=str(folder / "out"), epsilon=0.2)  # the default of other losses
    same(config.settings(), {"loss_type": "gmpo", "output_dir": str(folder / "out"), "epsilon": 0.2}, "settings")
    every = {field.name: getattr(GMPOConfig(), field.name) for field in dataclasses.fields(GMPOConfig)}  # as HfArgumentParser passes them
    same(GMPOConfig(**{**every, "output_dir": "out"}).settings(), {"loss_type": "gmpo", "output_dir": "out"}, "every field at its default")
    raises(Refused, "take the Config of that loss", lambda: GMPOConfig(loss_type="dapo"))
    raises(Refused, "a GMPOConfig", lambda: GMPOTrainer(TINY, print, trl.GRPOConfig(output_dir=str(folder / "out"))))
    grpo(folder / "out", lambda completions, **_: [len(one) % 5 / 4 for one in completions], "GMPO").train()
    written = (folder / "out/plan.yaml").read_text(encoding="utf-8")
    holds("loss_type: gmpo\n" in written and "epsilon: 0.4\n" in written and "epsilon_high: 0.4\n" in written, "plan.yaml")


def test_unknown_names(folder):
    """an unknown option is a TypeError with a neighbor, a former name of TRL's is passed on"""
    from hone import trl
    raises(TypeError, "Did you mean 'learning_rate'?", lambda: trl.SFTConfig(learning_rat=1))
    same(trl.SFTConfig("out", max_seq_length=8).settings(), {"output_dir": "out", "max_seq_length": 8}, "former name")
    raises(ImportError, "Did you mean 'GRPOTrainer'?", lambda: trl.GROPTrainer)


def test_same_run(folder):
    """a trainer's run is the program's run of the same options, bit for bit"""
    trainer = sft(folder / "python", learning_rate=1e-3)
    result = trainer.train()
    rows = folder / "rows.jsonl"
    rows.write_text("".join(json.dumps(row) + "\n" for row in TEXTS))
    words = [word for name, value in {**QUICK, **LORA, "max_steps": 3, "learning_rate": 1e-3}.items() for word in (f"--{name}", json.dumps(value).strip('"'))]
    subprocess.run([os.environ["HONE_PROGRAM"], "sft", "--model_name_or_path", TINY, "--dataset_name", str(rows), "--output_dir",
                    str(folder / "program"), *words], check=True, capture_output=True)
    steps = [entry for entry in metrics(folder / "program") if "loss" in entry]
    same([entry for entry in trainer.state.log_history if "loss" in entry], steps, "log_history")
    same(len(steps), 3, "steps")
    same((folder / "python/adapter_model.safetensors").read_bytes(), (folder / "program/adapter_model.safetensors").read_bytes(), "adapter")
    same(result.global_step, 3, "global_step")
    holds(math.isfinite(result.training_loss), "training_loss")


def test_callbacks(folder):
    """callbacks are called at each moment, in order, and a base class's empty methods are no refusal"""
    from hone import trl
    recorder = Recorder()
    trainer = trl.SFTTrainer(model=TINY, train_dataset=TEXTS, eval_dataset=TEXTS[:2], callbacks=[recorder, trl.TrainerCallback],
                             args=trl.SFTConfig(output_dir=str(folder / "out"), **{**QUICK, **LORA, "max_steps": 2, "save_strategy": "steps",
                                                                                   "save_steps": 2, "eval_strategy": "steps", "eval_steps": 2}))
    trainer.train()
    same(recorder.events, [("begin", 2), ("step", 1), ("log", 1, True), ("step", 2), ("log", 2, True), ("log", 2, False), ("evaluate", 2, True),
                           ("save", 2), ("log", 2, False), ("end", 2)], "events")
    same(trainer.state.log_history, metrics(folder / "out"), "log_history")
    evaluated = trainer.evaluate()
    same(evaluated["eval_loss"], next(entry["eval_loss"] for entry in trainer.state.log_history if "eval_loss" in entry), "evaluate()")


def test_moments_of_a_step(folder):
    """callbacks of a step's parts are called once a step, in transformers' order, with the step's number of before"""
    from hone import trl
    seen = []
    moments = ("on_step_begin", "on_substep_end", "on_pre_optimizer_step", "on_optimizer_step", "on_step_end", "on_prediction_step", "on_evaluate")
    kind = type("Moments", (), {name: lambda self, args, state, control, name=name, **kwargs: seen.append((name, state.global_step)) for name in moments})
    args = trl.SFTConfig(output_dir=str(folder / "out"), gradient_accumulation_steps=2, eval_strategy="steps", eval_steps=2, **{**QUICK, **LORA, "max_steps": 2})
    trl.SFTTrainer(TINY, args, train_dataset=TEXTS, eval_dataset=TEXTS[:2], callbacks=[kind]).train()
    step = lambda number: [(name, number - 1) for name in moments[:4]] + [("on_step_end", number)]
    same(seen, step(1) + step(2) + [("on_prediction_step", 2), ("on_evaluate", 2)], "moments")


def test_stop(folder):
    """control.should_training_stop ends the run after that step, saved, and it can be resumed"""
    recorder = Recorder(stop_at=2)
    trainer = sft(folder / "out", callbacks=[recorder], max_steps=5)
    same(trainer.train().global_step, 2, "global_step")
    same(recorder.events[-1], ("end", 2), "last event")
    trainer.save_model(folder / "saved")
    holds((folder / "saved/adapter_model.safetensors").is_file(), "save_model after a stop")
    again = sft(folder / "out", max_steps=5)
    same(again.train(resume_from_checkpoint=True).global_step, 5, "global_step after the resume")
    same([entry["step"] for entry in again.state.log_history if "loss" in entry], [1, 2, 3, 4, 5], "log_history of both")
    whole = sft(folder / "whole", max_steps=5)
    whole.train()
    same([e["loss"] for e in again.state.log_history if "loss" in e], [e["loss"] for e in whole.state.log_history if "loss" in e], "losses")


def test_evaluate(folder):
    """evaluate() before and after training is a pass over the data, and changes nothing"""
    from hone import trl
    args = trl.SFTConfig(output_dir=str(folder / "out"), learning_rate=1e-2, **{**QUICK, **LORA, "max_steps": 4})
    trainer = trl.SFTTrainer(model=TINY, args=args, train_dataset=TEXTS, eval_dataset=TEXTS)
    before = trainer.evaluate()["eval_loss"]
    trainer.train()
    files = {path.name: path.read_bytes() for path in (folder / "out").glob("adapter*")}
    after = trainer.evaluate(metric_key_prefix="test")["test_loss"]
    holds(after < before - 1e-4, f"{after} < {before}")
    same({path.name: path.read_bytes() for path in (folder / "out").glob("adapter*")}, files, "files")


def test_evaluate_with_a_reference(folder):
    """after train() a policy is compared with the reference that its run had: the numbers are the run's own"""
    from hone import Refused, trl
    other = [{**row, "chosen": row["chosen"] + " indeed"} for row in PAIRS]
    for method, rows in (("DPO", PAIRS), ("KTO", MARKED)):
        for peft in (True, False):
            output = folder / f"{method}-{peft}"
            more = {**QUICK, **LORA, "use_peft": peft, "max_steps": 4, "learning_rate": 1e-2, "save_strategy": "steps", "eval_strategy": "steps", "eval_steps": 4}
            trainer = getattr(trl, f"{method}Trainer")(TINY, args=getattr(trl, f"{method}Config")(output_dir=str(output), **more), train_dataset=rows,
                                                       eval_dataset=rows)
            trainer.train()
            of_run = {name: value for name, value in trainer.evaluate().items() if "runtime" not in name and "per_second" not in name}
            files = {path.name: path.read_bytes() for path in output.glob("*.safetensors")}
            again = trainer.evaluate(rows)
            same({name: again[name] for name in of_run}, of_run, f"{method} {peft}")
            holds(of_run["eval_rewards/margins" if method == "DPO" else "eval_loss"] != 0, of_run)
            same({path.name: path.read_bytes() for path in output.glob("*.safetensors")}, files, "files")
            if method == "DPO":
                holds(trainer.evaluate({"one": other, "two": rows})["eval_two_loss"] == of_run["eval_loss"], "several")
    alone = trl.DPOTrainer(TINY, args=trl.DPOConfig(output_dir=str(folder / "alone"), **{**QUICK, **LORA, "max_steps": 1}), train_dataset=PAIRS, eval_dataset=PAIRS)
    alone.evaluate()
    alone.train()
    raises(Refused, "save_strategy", alone.evaluate)
    alone.args.precompute_ref_log_probs = True
    alone._settings["use_peft"] = False
    raises(ValueError, "Cannot compute reference log-probs for a dataset passed to", lambda: alone.evaluate(PAIRS))


def test_train_twice(folder):
    """train() again goes on from the trained parameters, and a policy with a reference is refused"""
    from hone import Refused, trl
    for peft in (True, False):
        trainer = sft(folder / f"out-{peft}", use_peft=peft, learning_rate=1e-2, lr_scheduler_type="constant", max_steps=4)
        trainer.train()
        first = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
        trainer.train()
        second = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
        same((len(second), trainer.state.global_step), (4, 4), "the second run begins at step 0")
        holds(second[0] < first[0] - 1e-4, f"{second} after {first}")
        trainer.train()
        holds([entry["loss"] for entry in trainer.state.log_history if "loss" in entry][0] < second[0], "three times")
    pairs = trl.DPOTrainer(TINY, args=trl.DPOConfig(output_dir=str(folder / "dpo"), **{**QUICK, **LORA, "max_steps": 1}), train_dataset=PAIRS)
    pairs.train()
    raises(Refused, "make a new trainer", pairs.train)


def test_loaders(folder):
    """loaders give rows, and know how many batches TRL's would be"""
    from hone import Refused
    trainer = sft(folder / "out")
    same([len(trainer.get_train_dataloader()), [row["text"] for batch in trainer.get_train_dataloader() for row in batch]], [2, [row["text"] for row in TEXTS]],
         "rows")
    same((trainer.num_examples(trainer.get_train_dataloader()), len(trainer.get_eval_dataloader(TEXTS[:3]))), (4, 1), "numbers")
    raises(Refused, "eval", trainer.get_eval_dataloader)
    raises(Refused, "load_dataset", lambda: trainer.get_test_dataloader("rows.jsonl"))


# ---- rewards

def test_rewards_of_evaluations(folder):
    """eval_reward_funcs of args are called in this process, by evaluations and by evaluate(); sample_prompts are sampled"""
    from hone import trl
    seen = []

    def length(prompts, completions, **columns):
        seen.append(list(columns["completion"]))
        return [float(len(text)) for text in completions]

    rows = [{"prompt": "say", "completion": f" word {n}"} for n in range(4)]
    args = trl.SFTConfig(output_dir=str(folder / "out"), eval_strategy="steps", eval_steps=2, sample_prompts=["say", "count"], sample_max_new_tokens=4,
                         eval_reward_funcs=[length, "exact_match(column=completion)"], **{**QUICK, **LORA, "max_steps": 2})
    trainer = trl.SFTTrainer(TINY, args, train_dataset=rows, eval_dataset=rows)
    trainer.train()
    same(seen, [[f" word {n}" for n in range(4)]], "one call, with the rows' column")
    found = [entry for entry in trainer.state.log_history if "eval_loss" in entry][-1]
    holds(found["eval_rewards/length/ci_low"] <= found["eval_rewards/length/mean"] <= found["eval_rewards/length/ci_high"], found)
    holds(0 <= found["eval_rewards/exact_match/mean"] <= found["eval_rewards/exact_match/ci_high"] <= 1, found)
    samples = [json.loads(line) for line in (folder / "out/samples.jsonl").read_text().splitlines()]
    same([(one["step"], one["prompt"]) for one in samples], [(step, prompt) for step in (0, 2) for prompt in ("say", "count")], "samples")
    again = trainer.evaluate(rows[:2])
    same((len(seen), seen[-1]), (2, [" word 0", " word 1"]), "calls with evaluate()")
    holds("eval_rewards/length/mean" in again, again)


def test_closures(folder):
    """reward functions are called in this process, in the thread of train(), with columns, state and log functions"""
    seen, thread = [], threading.current_thread()

    def longest(prompts, completions, completion_ids, answer, trainer_state, log_extra, log_metric, **kwargs):
        seen.append((threading.current_thread() is thread, list(answer), trainer_state.max_steps, kwargs))
        log_extra("answer", answer)
        log_metric("calls", len(seen))
        return [float(len(ids)) if n % 2 == 0 else None for n, ids in enumerate(completion_ids)]

    class Short:
        def __call__(self, completions, **kwargs):
            return iter([0.5] * len(completions))

    async def asked(completions, **kwargs):
        await asyncio.sleep(0)
        return [1] * len(completions)

    trainer = grpo(folder / "out", [longest, Short(), asked, lambda completions, **_: [0.25] * len(completions), "exact_match(column=answer)"],
                   reward_weights=[1.0, 1.0, 1.0, 1.0, 1.0])
    trainer.train()
    same(len(seen), 2, "calls")
    same([(own, steps, more) for own, _, steps, more in seen], [(True, 2, {})] * 2, "thread, max_steps, other columns")
    holds(all(pair[0] == pair[1] for _, pair, _, _ in seen), f"a group has one row: {seen}")
    last = [entry for entry in trainer.state.log_history if "reward" in entry][-1]
    same([last[f"rewards/{name}/mean"] for name in ("Short", "asked", "lambda")], [0.5, 1.0, 0.25], "means")
    same(last["calls"], 2.0, "log_metric")
    holds("rewards/exact_match/mean" in last and "rewards/longest/mean" in last, sorted(last))
    same(checks.children(), [], "children")


def test_distillation(folder):
    """DistillationTrainer takes a teacher by name, and asks for one"""
    from hone import HoneError, Refused, trl
    from hone.trl.experimental.distillation import DistillationTrainer
    options = {**QUICK, **LORA, "max_steps": 2, "max_completion_length": 4}
    teacher = str(PARITY / "tiny_gemma2")
    args = trl.DistillationConfig(output_dir=str(folder / "out"), beta=0.5, **options)
    trainer = DistillationTrainer(TINY, teacher, args, PROMPTS)
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    holds(losses and all(loss > 0 for loss in losses), losses)
    holds("teacher_model_name_or_path" in (folder / "out/plan.yaml").read_text(), "plan.yaml")
    other = trl.DistillationConfig(output_dir=str(folder / "other"), teacher_model_name_or_path=TINY, **options)
    raises(Refused, "set it in one place", lambda: DistillationTrainer(TINY, teacher, other, PROMPTS))
    alone = trl.DistillationTrainer(TINY, args=trl.DistillationConfig(output_dir=str(folder / "alone"), **options), train_dataset=PROMPTS)
    raises(HoneError, "teacher_model_name_or_path", alone.train)


def test_gkd(folder):
    """GKDTrainer has TRL's defaults, reads conversations, and passes lmbda and seq_kd on"""
    from hone import trl
    from hone.trl.experimental.gkd import GKDConfig, GKDTrainer
    options = {**QUICK, **LORA, "max_steps": 2}
    rows = [{"messages": [{"role": "user", "content": f"What is {n} + 1?"}, {"role": "assistant", "content": str(n + 1)}]} for n in range(16)]
    same([getattr(GKDConfig(), name) for name in ("lmbda", "beta", "temperature", "seq_kd", "disable_dropout", "learning_rate")],
         [0.5, 0.5, 0.9, False, True, 2e-5], "defaults")
    trainer = GKDTrainer(TINY, str(PARITY / "tiny_gemma2"), GKDConfig(output_dir=str(folder / "out"), lmbda=0.0, max_new_tokens=4, **options),
                         train_dataset=rows)
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    holds(losses and all(loss > 0 for loss in losses), losses)
    plan = (folder / "out/plan.yaml").read_text()
    for line in ("lmbda: 0", "beta: 0.5", "temperature: 0.9", "loss_temperature: 1", "max_completion_length: 4", "disable_dropout: true"):
        holds(f"\n{line}" in plan, f"{line} in plan.yaml")
    holds(trl.GKDTrainer is GKDTrainer, "the same class")


def test_other_samplers(folder):
    """RLOO and Online DPO call functions too, and Online DPO a judge"""
    for name in ("RLOO", "OnlineDPO"):
        calls = []

        def reward(completions, **kwargs):
            calls.append(len(completions))
            return [float(n) for n in range(len(completions))]

        trainer = grpo(folder / name, reward, name=name, max_steps=1)
        trainer.train()
        holds(calls, name)
        same(trainer.state.global_step, 1, name)
    from hone import trl
    judged = []

    def judge(prompts, completions):
        judged.extend(completions)
        return [0] * len(prompts)

    args = trl.OnlineDPOConfig(output_dir=str(folder / "judge"), **{**QUICK, **LORA, "max_steps": 1, "max_new_tokens": 4, "probe_rewards": False})
    trl.OnlineDPOTrainer(TINY, args=args, train_dataset=PROMPTS, judge=judge).train()
    holds(judged and all(len(pair) == 2 for pair in judged), judged)


def test_reward_raises(folder):
    """what a reward function raises, train() raises, with its traceback; nothing is left running"""
    class Mine(Exception):
        pass

    def fails(completions, **kwargs):
        raise Mine("no such ruler")

    error = raises(Mine, "no such ruler", grpo(folder / "out", fails).train)
    frames = []
    while error.__traceback__ is not None:
        frames.append(error.__traceback__.tb_frame.f_code.co_name)
        error.__traceback__ = error.__traceback__.tb_next
    same(frames[-1], "fails", "the last frame")
    same(checks.children(), [], "children")


def test_bad_scores(folder):
    """an answer that is no list of scores is hone's error, in its own text"""
    from hone import HoneError
    raises(HoneError, "returned None", grpo(folder / "none", lambda completions, **_: None, max_steps=8).train)
    raises(HoneError, "a list of", grpo(folder / "short", lambda completions, **_: [1.0], max_steps=8).train)
    raises(HoneError, "kwargs", grpo(folder / "names", lambda completions: [1.0] * len(completions)).train)


def test_without_caller(folder):
    """a plan with functions of a process that is gone says so, and so does a socket that nobody listens at"""
    trainer = grpo(folder / "out", lambda completions, **_: [1.0] * len(completions), max_steps=1)
    trainer.train()
    plan = (folder / "out/inputs/run.yaml").read_text().replace(str(folder / "out"), str(folder / "again"), 1)
    (folder / "run.yaml").write_text(plan)
    clean = {name: value for name, value in os.environ.items() if name != "HONE_CALLER"} | {"PYTHONPATH": str(SOURCE / "python")}
    for variables, text in (({}, "no program has called hone"), ({"HONE_CALLER": str(folder / "gone")}, "[HONE_CALLER]")):
        ended = subprocess.run([os.environ["HONE_PROGRAM"], "grpo", "--config", str(folder / "run.yaml")], env=clean | variables,
                               capture_output=True, text=True)
        holds(ended.returncode == 2 and text in ended.stderr, ended.stderr)


def test_callback_raises(folder):
    """what a callback raises ends the run, saved, and train() raises it"""
    class Fails(Recorder):
        def on_log(self, *args, **kwargs):
            raise KeyError("a callback's")

    raises(KeyError, "a callback's", sft(folder / "out", callbacks=[Fails()], max_steps=5).train)
    holds((folder / "out/checkpoint-1").is_dir(), "a checkpoint of the step")
    same(checks.children(), [], "children")


# ---- the other methods, adapters, data

def test_methods(folder):
    """DPO, KTO, CPO, ORPO and reward models train"""
    from hone import trl
    for name, rows in (("DPO", PAIRS), ("KTO", MARKED), ("CPO", PAIRS), ("ORPO", PAIRS), ("Reward", PAIRS)):
        args = getattr(trl, f"{name}Config")(str(folder / name), **{**QUICK, **LORA, "max_steps": 1})
        trainer = getattr(trl, f"{name}Trainer")(model=TINY, args=args, train_dataset=rows)
        same(trainer.train().global_step, 1, name)
        holds((folder / name / "adapter_config.json").is_file(), name)


def test_lora_config(folder):
    """a LoraConfig's fields become the adapter's, and others are refused by name"""
    from hone import trl
    args = trl.SFTConfig(str(folder / "out"), **{**QUICK, "max_steps": 1})
    config = LoraConfig(r=4, lora_alpha=12, target_modules={"q_proj"}, rank_pattern={"layers.0.self_attn.q_proj": 2})
    trl.SFTTrainer(TINY, args, train_dataset=TEXTS, peft_config=config).train()
    written = json.loads((folder / "out/adapter_config.json").read_text())
    same((written["r"], written["lora_alpha"], written["lora_dropout"], written["rank_pattern"]), (4, 12, 0.0, config.rank_pattern), "adapter_config")
    for refused, text in ((LoraConfig(fan_in_fan_out=True), "fan_in_fan_out"), (LoraConfig(peft_type="IA3"), "IA3")):
        raises(trl.Refused, text, lambda: trl.SFTTrainer(TINY, args, train_dataset=TEXTS, peft_config=refused))


def test_rows(folder):
    """rows of Python become rows of the file; what has no form there is named by row and column"""
    from hone import Refused
    from hone.trl import rows
    day = datetime.datetime(2026, 1, 2, 3, 4, 5)
    path = folder / "rows.jsonl"
    rows.write([{"a": day, "b": decimal.Decimal("1.50"), "c": b"\0\1", "d": (1, [None, float("nan")]), "e": {"k": True}}], path, "train_dataset")
    same(json.loads(path.read_text()), {"a": "2026-01-02T03:04:05", "b": "1.50", "c": "AAE=", "d": [1, [None, None]], "e": {"k": True}}, "row")

    for data, text in (([{"text": "a"}, {"text": object()}], "row 1, column text"), ([], "found:  none"), (["a"], "row 0"), (3, "a int"),
                       ({"train": TEXTS, "test": TEXTS}, "data['train']"), (iter([{"text": "x"}]), "gives its rows once"), ([{"text": "\ud800"}], "surrogate")):
        raises(Refused, text, lambda: rows.write(data, folder / "bad.jsonl", "train_dataset"))
        same([entry.name for entry in folder.iterdir()], ["rows.jsonl"], "nothing half written")


def test_formatting(folder):
    """formatting_func makes the text of each row"""
    from hone import trl
    args = trl.SFTConfig(str(folder / "out"), **{**QUICK, **LORA, "max_steps": 1})
    rows = [{"q": "one", "a": "two"}] * 4
    trl.SFTTrainer(TINY, args, train_dataset=rows, formatting_func=lambda row: f"{row['q']} {row['a']}").train()
    same((folder / "out/inputs/train.jsonl").read_text().splitlines()[0], '{"text": "one two"}', "row")


def test_push(folder):
    """push_to_hub() uploads the adapter with the names and the token of the config, and its failures are HoneErrors"""
    sys.path.insert(0, str(SOURCE / "tests/runs"))
    import stand_in
    runs = stand_in.StandIn("", folder, "huggingface_hub", stand_in.HUB, "")
    before = dict(os.environ)
    os.environ.update({name: value for name, value in runs.environment.items() if name.startswith(("PYTHONPATH", "STAND_IN"))})
    try:
        trainer = sft(folder / "out", max_steps=1, hub_model_id="me/other", hub_private_repo=True, hub_token="hf_config")
        from hone import HoneError, Refused
        raises(Refused, "call train() first", trainer.push_to_hub)
        trainer.train()
        same(runs.calls("commit"), [], "train() itself pushes nothing")
        same(trainer.push_to_hub(dataset_name="rows"), "pushed    https://hub/me/other/commit/1", "what it returns")
        same(runs.calls("create"), [["me/other", True, "hf_config"]], "repository, private, token")
        files = set(runs.calls("commit")[0][3])
        holds({"adapter_config.json", "adapter_model.safetensors", "README.md"} <= files and not files & {"inputs/run.yaml", "plan.yaml"}, files)
        same((folder / "server/adapter_model.safetensors").read_bytes(), (folder / "out/adapter_model.safetensors").read_bytes(), "the adapter")
        runs.forget()
        trainer.push_to_hub(token="hf_call", revision="v1")
        same((runs.calls("create")[0][2], runs.calls("branch"), runs.calls("commit")[0][2]), ("hf_call", [["me/other", "v1"]], "v1"), "the call's own")
        os.environ["STAND_IN_DOES"] = "raises"
        error = raises(HoneError, "401", trainer.push_to_hub)
        holds("hf_config" not in str(error), "the token is not shown")
        os.environ["PYTHONPATH"] = str(folder / "none")
        raises(HoneError, "huggingface_hub", trainer.push_to_hub)
    finally:
        os.environ.clear()
        os.environ.update(before)


def test_refusals(folder):
    """what cannot be carried is refused by name, before anything is written"""
    from hone import Refused, trl

    class Model:
        name_or_path = "some/model"

    class Tokenizer:
        name_or_path = "another/model"

    class Overrides(trl.SFTTrainer):
        def compute_loss(self, *args):
            return 0

    args = trl.SFTConfig(str(folder / "out"))
    cases = [("a name or a path", lambda: trl.SFTTrainer(Model())), ("pass model='some/model'", lambda: trl.SFTTrainer(Model())),
             ("GRPOConfig of hone.trl", lambda: trl.GRPOTrainer(TINY, print, args)), ("Overrides.compute_loss", lambda: Overrides(TINY)),
             ("TrainerCallback", lambda: trl.SFTTrainer(TINY, args, callbacks=[object()])),
             ("save the tokenizer", lambda: trl.SFTTrainer(TINY, args, processing_class=Tokenizer())),
             ("optim", lambda: trl.SFTTrainer(TINY, args, optimizers=(object(), None))),
             ("text_template", lambda: trl.SFTTrainer(TINY, args, train_dataset="rows.jsonl", formatting_func=str).train())]
    for name in ("data_collator", "compute_loss_func", "preprocess_logits_for_metrics"):
        cases.append((name, lambda name=name: trl.SFTTrainer(TINY, args, **{name: print})))
    for name in ("tools", "rollout_func", "environment_factory"):
        cases.append((name, lambda name=name: trl.GRPOTrainer(TINY, **{name: [print]})))
    cases.append(("ref_model", lambda: trl.DPOTrainer(TINY, Model())))
    cases.append(("a Model in this process's memory", lambda: trl.GRPOTrainer(TINY, type("Model", (), {"forward": 1, "parameters": 2})())))
    for text, call in cases:
        raises(Refused, text, call)
    same(trl.SFTTrainer(TINY, args, train_dataset=TEXTS, optimizers=(None, None))._settings["output_dir"], str(folder / "out"), "TRL's default is no refusal")
    same(list(folder.iterdir()), [], "files")


def test_errors(folder):
    """the program's errors are HoneErrors with its sentences"""
    from hone import HoneError
    error = raises(HoneError, "max_steps", sft(folder / "out", max_steps="many").train)
    same(error.code, 2, "code")
    raises(HoneError, "absent.jsonl", sft(folder / "data", rows=str(folder / "absent.jsonl")).train)


def test_notebook(folder):
    """in Jupyter a progress bar goes on, and the program's lines are the cell's output"""
    import types
    shown = []

    class Handle:
        def update(self, html):
            shown.append(html)

    display = types.ModuleType("IPython.display")
    display.HTML, display.display = str, lambda html, display_id: shown.append(html) or Handle()
    shell = types.ModuleType("IPython")
    shell.get_ipython = type("ZMQInteractiveShell", (), {})
    sys.modules.update({"IPython": shell, "IPython.display": display})
    try:
        sft(folder / "out", max_steps=2).train()
    finally:
        del sys.modules["IPython"], sys.modules["IPython.display"]
    holds('value="0" max="2"' in shown[0] and "2/2 [" in shown[-1] and "loss" in shown[-1], shown)


def test_output(folder):
    """what the program prints is printed by this process, where its output is somewhere else"""
    import io
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        sft(folder / "out", max_steps=1).train()
    holds("done      adapter in" in said.getvalue(), said.getvalue()[-500:])


# ---- ends

SCRIPT = """
import sys, time
sys.path.insert(0, sys.argv[1])
from hone import trl
class Tell(trl.TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        print("step", state.global_step, flush=True)
args = trl.SFTConfig(sys.argv[3], max_steps=100000, use_peft=True, lora_r=2, per_device_train_batch_size=2, threads=1, skip_doctor=True,
                     bf16=False, logging_steps=1000, save_strategy="no")
try:
    trl.SFTTrainer(sys.argv[2], args, train_dataset=[{"text": "one two three"}] * 4, callbacks=[Tell()]).train()
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def started(folder):
    """The script above, after its first steps, and the program that it runs."""
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(SCRIPT), str(SOURCE / "python"), TINY, str(folder / "out")],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for line in process.stdout:
        if line.startswith("step 2"):
            break
    hone = [int(pid) for pid in pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
    same(len(hone), 1, "programs")
    return process, hone[0]


def ended(pid, seconds=30):
    """Whether it is gone: reaped by its parent, or a zombie of this machine's init."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False


def test_interrupt(folder):
    """Ctrl-C finishes the step, saves, and is a KeyboardInterrupt in train()"""
    process, hone = started(folder)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[0]
    holds("interrupted" in said and "nothing lost" in said, said[-2000:])
    same(process.returncode, 0, "exit code")
    holds(list((folder / "out").glob("checkpoint-*")), "a checkpoint")
    holds(not pathlib.Path(f"/proc/{hone}").exists(), "the program is gone")


def test_killed(folder):
    """a caller that is killed takes its program with it, saved"""
    process, hone = started(folder)
    process.kill()
    process.communicate()
    holds(ended(hone), "the program has ended")
    holds(list((folder / "out").glob("checkpoint-*")), "a checkpoint")


# ---- scripts

def test_parser(folder):
    """TrlParser reads command lines and files as TRL's, and get_peft_config gives the adapter"""
    from hone import trl
    from hone.trl import adapters
    parser = trl.TrlParser((trl.ScriptArguments, trl.GRPOConfig, trl.ModelConfig))
    words = "--model_name_or_path m --use_peft --lora_r 4 --output_dir=o --learning_rate 1e-5 --dataset_name d --lora_target_modules all-linear " \
            "--reward_weights 1.0 2 --no_bf16 --max_steps -1"
    script, training, model = parser.parse_args_and_config(words.split())
    same(training.settings(), {"output_dir": "o", "learning_rate": 1e-5, "reward_weights": [1.0, 2], "bf16": False, "max_steps": -1}, "settings")
    same(script.dataset_name, "d", "dataset_name")
    settings = adapters.lora_settings(trl.get_peft_config(model), "GRPOTrainer")
    same((settings["lora_r"], settings["lora_target_modules"], settings["lora_dropout"]), (4, "all-linear", 0.05), "adapter")
    raises(ValueError, "Did you mean 'learning_rate'?", lambda: parser.parse_args_and_config(["--learning_rat", "1"]))
    raises(ValueError, "expected int", lambda: parser.parse_args_and_config(["--max_steps", "few"]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hone")
    parser.add_argument("only", nargs="*", help="names of tests, without test_")
    given = parser.parse_args()
    if given.hone:
        os.environ["HONE_PROGRAM"] = str(pathlib.Path(given.hone).resolve())
    tests = Tests()
    for name, function in list(globals().items()):
        if name.startswith("test_") and (not given.only or name[5:] in given.only):
            with tempfile.TemporaryDirectory() as folder:
                tests.run([function], pathlib.Path(folder))
    return 1 if tests.failed else 0


sys.exit(main())
