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
    for name in ("compute_loss", "get_gamma_weights"):
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


def test_families(folder):
    """a family that the program lacks, and an option that it refuses, are found when the trainer is made"""
    from hone import trl
    own = folder / "other"
    own.mkdir()
    (own / "config.json").write_text('{"model_type": "gpt_oss"}')
    raises(ValueError, "of type 'gpt_oss'", lambda: trl.SFTTrainer(str(own), config("SFT", folder), train_dataset=TEXTS))
    for kind in ("llama", "olmoe"):  # one that is not asked about, and one that is
        (own / "config.json").write_text(json.dumps({"model_type": kind}))
        trl.SFTTrainer(str(own), config("SFT", folder), train_dataset=TEXTS)
    raises(ValueError, "float16", lambda: trl.KTOTrainer(TINY, args=config("KTO", folder, fp16=True), train_dataset=MARKED))
    raises(ValueError, "encoder-decoder", lambda: trl.CPOTrainer(TINY, config("CPO", folder, is_encoder_decoder=True), train_dataset=PAIRS))
    trl.DPOTrainer(TINY, args=config("DPO", folder, sync_ref_model=False, fp16=False), train_dataset=PAIRS)


def test_moving_references(folder):
    """sync_ref_model goes with all weights, log-probabilities of each step, and a reference; TRL raises the same"""
    from hone import trl

    def made(kind, rows, *arguments, **options):
        return getattr(trl, f"{kind}Trainer")(TINY, *arguments, args=config(kind, folder, sync_ref_model=True, **options), train_dataset=rows)

    for kind in (NotImplementedError, ValueError):
        raises(kind, "`sync_ref_model=True` while using a PEFT model", lambda: made("DPO", PAIRS, use_peft=True))
    raises(ValueError, "`precompute_ref_log_probs=True`", lambda: made("KTO", MARKED, precompute_ref_log_probs=True))
    raises(NotImplementedError, "`beta=0.0`", lambda: made("GRPO", PROMPTS, len))
    same(made("DPO", PAIRS, ref_model_sync_steps=3)._settings["ref_model_sync_steps"], 3, "an option")
    made("GRPO", PROMPTS, len, beta=0.1)
    made("RLOO", PROMPTS, len)
    raises(ValueError, "make a trainer of the other model", lambda: setattr(made("DPO", PAIRS), "ref_model", TINY))


def test_heads(folder):
    """a reward model's adapter that would leave the head untrained in TRL is told when it is made, and not trained; with the head it is taken"""
    from checks import LoraConfig
    from hone import trl

    def make(**more):
        return trl.RewardTrainer(TINY, config("Reward", folder), train_dataset=PAIRS, peft_config=LoraConfig(**more))

    for more in ({}, {"task_type": None}, {"modules_to_save": ["embed_tokens"]}):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            trainer = make(**more)
        holds(any("train() will refuse" in str(one.message) for one in said), said)
        same(trainer.model.model_tags, ["trl", "reward-trainer"], "what scripts look at")
        raises(ValueError, "as it was drawn", trainer.train)
    make(task_type="SEQ_CLS")
    make(task_type=None, modules_to_save=["score"])
    of_script = trl.get_peft_config(trl.ModelConfig(use_peft=True))
    trl.RewardTrainer(TINY, config("Reward", folder), train_dataset=PAIRS, peft_config=of_script)


def test_sampling(folder):
    """trainers that sample have TRL's weights, coefficient and table of completions; an objective that weights lengths is told by a logger"""
    import logging
    from hone import trl
    said = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())
    logging.getLogger("hone.trl").addHandler(handler)

    def scores(completions, log_extra, **_):
        log_extra("length", [len(text) for text in completions])
        return [float(len(text)) for text in completions]

    def make(kind="GRPO", **more):
        args = config(kind, folder, **{"num_generations": 2, "max_completion_length": 4, "save_strategy": "steps", "max_steps": 3, "reward_weights": [0.5], **more})
        return getattr(trl, f"{kind}Trainer")(TINY, scores, args, train_dataset=PROMPTS)

    try:
        for loss, count in (("dapo", 1), ("grpo", 0)):
            said.clear()
            make(importance_sampling_level="sequence", loss_type=loss)
            same(len([text for text in said if "by its completion length" in text]), count, loss)
    finally:
        logging.getLogger("hone.trl").removeHandler(handler)
    raises(ValueError, "search no beams", lambda: make(generation_kwargs={"num_beams": 2}))
    make(generation_kwargs={"num_beams": 1})
    trainer = make(entropy_coef=0.01, use_adaptive_entropy=True, entropy_target=15.0, entropy_coef_delta=0.005)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        trainer.train()
    holds(abs(trainer.entropy_coef - 0.025) < 1e-9, f"one step of the coefficient in each of 3: {trainer.entropy_coef}")
    same((list(trainer.reward_weights), sorted(trainer._logs["rewards"])), ([0.5], ["scores"]), "weights and rewards")
    same(len(trainer._logs["extra"]["length"]), len(trainer._logs["completion"]), "a column of the table")
    for name in ("llm", "vllm_client", "_generate"):
        holds(not hasattr(trainer, name), name)
        raises(ValueError, "do:", lambda name=name: getattr(trainer, name))
    raises(ValueError, "weights (2) must match the number of reward functions (1)", lambda: make(reward_weights=[1.0, 2.0]))
    raises(ValueError, "make a trainer", lambda: setattr(trainer, "reward_funcs", [scores]))
    raises(AttributeError, "reward_weights", lambda: trl.SFTTrainer(TINY, config("SFT", folder), train_dataset=TEXTS).reward_weights)


def test_own_metrics(folder):
    """compute_metrics gets the numbers of each evaluation, and what it returns is logged; one that reads logits is refused"""
    from hone import trl
    seen = []

    def words(evaluated):
        seen.append(evaluated.metrics)
        return {"half": evaluated.metrics["loss"] / 2}

    def unpacks(evaluated):
        logits, labels = evaluated
        return {"equal": float(logits == labels)}

    def late(evaluated):
        return {"first": evaluated[0]}

    def make(function, **more):
        args = config("DPO", folder, **{"eval_strategy": "steps", "eval_steps": 1, "save_strategy": "steps", "save_steps": 1, "use_peft": True, "lora_r": 2, **more})
        return trl.DPOTrainer(TINY, args=args, train_dataset=PAIRS, eval_dataset={"one": PAIRS, "two": PAIRS}, compute_metrics=function)

    for function, text in ((unpacks, "predictions and labels"), (lambda evaluated: {"n": len(evaluated.predictions)}, "predictions"), (3, "a function")):
        raises(ValueError, text, lambda function=function: make(function))
    raises(ValueError, "one call", lambda: make(words, batch_eval_metrics=True))
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        raises(ValueError, "predictions and labels", make(late).train)
        shutil.rmtree(folder / "out")
        trainer = make(words)
        trainer.train()
        logs = trainer.state.log_history
        for name in ("one", "two"):
            entry = next(entry for entry in logs if f"eval_{name}_half" in entry)
            same(entry[f"eval_{name}_half"], entry[f"eval_{name}_loss"] / 2, name)
        found = trainer.evaluate(PAIRS)
    same(found["eval_half"], found["eval_loss"] / 2, "evaluate()")
    same(len(seen), 3, "calls")
    holds(trainer.compute_metrics is words and "rewards/margins" in seen[0], seen[0])


def test_padding(folder):
    """a tokenizer without a token for padding is saved with the end of the sequence, as TRL's trainers save it"""
    from hone import trl
    own = folder / "base"
    shutil.copytree(TINY, own)
    before = json.loads((own / "tokenizer_config.json").read_text())
    before.pop("pad_token", None)
    end = before["eos_token"]["content"]
    (own / "tokenizer_config.json").write_text(json.dumps(before))
    (own / "special_tokens_map.json").unlink(missing_ok=True)
    trainer = trl.SFTTrainer(str(own), config("SFT", folder, use_peft=True, lora_r=2), train_dataset=TEXTS)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        trainer.train()
        trainer.save_model(str(folder / "copy"))
    for target in ("out", "copy"):
        same(json.loads((folder / target / "tokenizer_config.json").read_text()).get("pad_token"), end, target)
    same(json.loads((own / "tokenizer_config.json").read_text()).get("pad_token"), None, "the base's own")


def test_reward_folders(folder):
    """of several processes one writes a reward model's folder, and the others wait for it"""
    import threading
    from hone.trl import machine, reward_models
    target, rank = folder / "inputs/reward_models/0", threading.local()
    target.mkdir(parents=True)
    (target / "tokenizer.json").write_text("of an earlier run")
    kept = machine.ranks
    machine.ranks = lambda: (rank.value, 2, rank.value)
    done = []

    def one(value):
        rank.value = value
        partial = pathlib.Path(tempfile.mkdtemp(dir=target.parent))
        os.symlink("/base/model.safetensors", partial / "model.safetensors")
        (partial / "tokenizer.json").write_text("of this run")
        reward_models.put_whole(partial, target)
        done.append((value, (target / "tokenizer.json").read_text()))

    try:
        second = threading.Thread(target=one, args=(1,))
        second.start()
        second.join(0.3)
        same(done, [], "the second waits")
        one(0)
        second.join(30)
    finally:
        machine.ranks = kept
    same(sorted(done), [(0, "of this run"), (1, "of this run")], "what they see")


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
