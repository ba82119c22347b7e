"""Other objects as arguments: transformers' TrainingArguments, reward models and their tokenizers, streams, subclasses of Configs.

usage: arguments.py MODEL REWARD_MODEL OUT
"""
import dataclasses
import json
import pathlib
import sys

import hone.trl
import torch
import trl
from checks import raises
from datasets import Dataset, DatasetDict, IterableDataset
from hone import Refused
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification, AutoTokenizer, TrainingArguments

MODEL, SCORES, OUT = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
QUICK = {"per_device_train_batch_size": 4, "logging_steps": 1, "report_to": "none", "max_steps": 2}
PROMPTS = [{"prompt": f"count {n}"} for n in range(12)]
SAMPLING = {"num_generations": 4, "max_completion_length": 4, "skip_doctor": True, "threads": 1, "bf16": False}


def settings_of(name):
    lines = (OUT / name / "inputs/run.yaml").read_text().splitlines()[1:]
    return {key: json.loads(value) for key, value in (line.split(": ", 1) for line in lines)}


def refused(kind, text, make):
    error = raises(Refused, text, make)
    assert isinstance(error, kind), error


# ---- transformers.TrainingArguments, as TRL converts them

rows = Dataset.from_list([{"text": f"line {n} of the text"} for n in range(8)])
named = {"learning_rate": 1e-3, "gradient_checkpointing": True, "lr_scheduler_type": "cosine", "warmup_steps": 1, "hub_token": "secret", **QUICK}
theirs, ours = (package.SFTTrainer(MODEL, TrainingArguments(str(OUT / package.__name__), **named), train_dataset=rows).args for package in (trl, hone.trl))
for field in dataclasses.fields(TrainingArguments):
    one, other = getattr(theirs, field.name), getattr(ours, field.name, None)
    if field.name in {one.name for one in dataclasses.fields(ours)} - {"accelerator_config", "output_dir", "report_to", "debug", "include_for_metrics"}:
        assert getattr(one, "value", one) == getattr(other, "value", other) or (not one and not other), (field.name, one, other)
assert ours.hub_token == "secret" and "secret" not in repr(ours)
trained = hone.trl.SFTTrainer(MODEL, TrainingArguments(str(OUT / "plain arguments"), use_cpu=True, **QUICK), train_dataset=rows)
assert trained.train().global_step == 2 and settings_of("plain arguments")["learning_rate"] == 5e-5, "transformers' default, and not SFTConfig's"
refused(Refused, "GRPOConfig of hone.trl", lambda: hone.trl.GRPOTrainer(MODEL, print, hone.trl.SFTConfig("x")))


@dataclasses.dataclass
class Own(hone.trl.SFTConfig):
    note: str = "mine"
    max_steps: int = 1


own = Own(output_dir=str(OUT / "own"), per_device_train_batch_size=4, bf16=False, threads=1)
more = dataclasses.replace(own, note="other", learning_rate=1e-3)
assert (more.note, more.learning_rate, own.note) == ("other", 1e-3, "mine") and dataclasses.asdict(more)["note"] == "other" == more.to_dict()["note"]
assert hone.trl.SFTTrainer(MODEL, more, train_dataset=rows).train().global_step == 1 and "note" not in settings_of("own")

# ---- reward models

judge = AutoModelForSequenceClassification.from_pretrained(SCORES, num_labels=1)
doubled = AutoModelForSequenceClassification.from_pretrained(SCORES, num_labels=1)
with torch.no_grad():
    doubled.score.weight.mul_(2)
tokenizer = AutoTokenizer.from_pretrained(SCORES)
tokenizer.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}"


def sampled(name, functions, classes=None, **more):
    trainer = hone.trl.GRPOTrainer(MODEL, functions, hone.trl.GRPOConfig(str(OUT / name), **QUICK, **SAMPLING, **more), Dataset.from_list(PROMPTS),
                                   reward_processing_classes=classes)
    trainer.train()
    return trainer, [[entry[key] for key in sorted(entry) if key.startswith("rewards/") and key.endswith("mean")] for entry in trainer.state.log_history
                     if "reward" in entry]


_, by_name = sampled("named judge", SCORES)
trainer, by_object = sampled("judge", judge)
assert by_name == by_object and settings_of("judge")["reward_funcs"] == [SCORES], (by_name, by_object)
assert len(trainer.reward_processing_classes) == 1 and trainer.reward_processing_classes[0].name_or_path == SCORES
_, twice = sampled("judges", [judge, doubled], [None, tokenizer], learning_rate=0.0)
assert settings_of("judges")["reward_funcs"] == [SCORES, str(OUT / "judges/inputs/reward_models/1")]
folder = OUT / "judges/inputs/reward_models/1"
assert torch.equal(load_file(folder / "model.safetensors")["score.weight"], doubled.score.weight)
assert AutoTokenizer.from_pretrained(folder).chat_template == tokenizer.chat_template
assert all(abs(one) > 1e-6 and abs(two - 2 * one) < 1e-4 * abs(one) for one, two in (sorted(pair, key=abs) for pair in twice)), twice
refused(ValueError, "number of reward processing classes (1) must match the number of reward functions (2)",
        lambda: hone.trl.GRPOTrainer(MODEL, [judge, doubled], reward_processing_classes=[tokenizer]))

# ---- streams


def endless():
    number = 0
    while True:
        yield {"text": f"line {number} of the text"}
        number += 1


stream = IterableDataset.from_generator(endless)
args = hone.trl.SFTConfig(str(OUT / "stream"), gradient_accumulation_steps=2, bf16=False, threads=1, **QUICK)
trainer = hone.trl.SFTTrainer(MODEL, args, train_dataset=stream, eval_dataset={"few": rows, "some": rows.to_iterable_dataset()})
assert trainer.args.accelerator_config.dispatch_batches is False
assert "eval_some_loss" in trainer.evaluate()
trainer.train()
written = (OUT / "stream/inputs/train.jsonl").read_text().splitlines()
assert 16 <= len(written) < 32 and json.loads(written[15]) == {"text": "line 15 of the text"} and settings_of("stream")["dataset_streaming"], len(written)
refused(ValueError, "max_steps has to be specified", lambda: hone.trl.SFTTrainer(MODEL, train_dataset=stream))
refused(ValueError, "gives its rows once", lambda: hone.trl.SFTTrainer(MODEL, args, train_dataset=endless()))
refused(TypeError, "data['train']", lambda: hone.trl.SFTTrainer(MODEL, args, train_dataset=DatasetDict(train=rows, test=rows)))
prompts = Dataset.from_list(PROMPTS).to_iterable_dataset()
args = hone.trl.GRPOConfig(str(OUT / "sampled stream"), dataloader_num_workers=2, **QUICK, **SAMPLING)
trainer = hone.trl.GRPOTrainer(MODEL, SCORES, args, prompts, eval_dataset={"one": prompts, "two": prompts})
assert trainer.args.dataloader_num_workers == 0
assert {"eval_one_reward", "eval_two_reward"} <= trainer.evaluate().keys() and trainer.train().global_step == 2
refused(ValueError, "evaluate(datasets) takes them one by one",
        lambda: hone.trl.GRPOTrainer(MODEL, SCORES, hone.trl.GRPOConfig("x", eval_strategy="steps"), rows, eval_dataset={"one": prompts}))
refused(ValueError, "Iterable datasets require `dispatch_batches=False`",
        lambda: hone.trl.GRPOTrainer(MODEL, SCORES, hone.trl.GRPOConfig("x", max_steps=1, accelerator_config={"dispatch_batches": True}), prompts))
print("all is as it should be")
