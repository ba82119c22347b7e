"""optimizers= of PyTorch as options: the program's steps are those of TRL with the same objects.

usage: optimizers.py MODEL OUT
"""
import functools
import sys
import warnings

import hone.trl
import torch
import trl
from checks import raises
from datasets import Dataset
from hone import Refused
from transformers import AutoModelForCausalLM, get_scheduler

MODEL, OUT = sys.argv[1:]
ROWS = Dataset.from_list([{"text": f"the number {n} comes before the number {n + 1}"} for n in range(8)])
QUICK = {"max_steps": 4, "per_device_train_batch_size": 2, "logging_steps": 1, "bf16": False, "report_to": "none", "save_strategy": "no",
         "learning_rate": 0.5}  # of args, which nothing reads
AdamW, SGD, RMSprop, Adagrad = (getattr(torch.optim, name) for name in ("AdamW", "SGD", "RMSprop", "Adagrad"))


def groups(model):
    """As transformers has them: no weight decay of norms."""
    named = list(model.named_parameters())
    return [{"params": [value for name, value in named if "norm" not in name], "weight_decay": 0.1},
            {"params": [value for name, value in named if "norm" in name], "weight_decay": 0.0}]


def with_schedule(name, *steps):
    def made(model):
        optimizer = AdamW(model.parameters(), lr=1e-3, weight_decay=0.0)
        return optimizer, get_scheduler(name, optimizer, *steps)

    return made


CASES = {
    "sgd": lambda model: (SGD(model.parameters(), lr=1e-2, momentum=0.9, nesterov=True), None),
    "adamw": lambda model: (AdamW(groups(model), lr=1e-3, betas=(0.8, 0.95), eps=1e-6), None),
    "rmsprop": lambda model: (RMSprop(model.parameters(), lr=1e-3, momentum=0.5), None),
    "adagrad": lambda model: (Adagrad(model.parameters(), lr=1e-2), None),
    "cosine": with_schedule("cosine", 1, 4),
    "constant": with_schedule("constant"),
}


def trainer_of(package, name, **more):
    model = AutoModelForCausalLM.from_pretrained(MODEL)
    args = package.SFTConfig(f"{OUT}/{package.__name__}-{name}", **QUICK)
    own = {key: value(model) if callable(value) else value for key, value in more.items()}
    return package.SFTTrainer(model, args=args, train_dataset=ROWS, **own)


def steps_of(package, name, **more):
    trainer = trainer_of(package, name, **more)
    trainer.train()
    return [(entry["loss"], entry["learning_rate"]) for entry in trainer.state.log_history if "loss" in entry]


for name, case in CASES.items():
    theirs, ours = steps_of(trl, name, optimizers=case), steps_of(hone.trl, name, optimizers=case)
    assert len(ours) == len(theirs) == 4 and theirs[0] != theirs[3], name
    for one, other in zip(ours, theirs):
        assert abs(one[0] - other[0]) <= 1e-4 * other[0] and abs(one[1] - other[1]) <= 1e-9, (name, ours, theirs)
named = {"optimizer_cls_and_kwargs": (SGD, {"lr": 1e-2, "momentum": 0.5})}
theirs, ours = steps_of(trl, "class", **named), steps_of(hone.trl, "class", **named)
assert all(abs(one[0] - other[0]) <= 1e-4 * other[0] for one, other in zip(ours, theirs)), (ours, theirs)

refused = functools.partial(raises, Refused)
made = functools.partial(trainer_of, hone.trl, "refused")
refused("one of torch.optim's", lambda: made(optimizers=lambda model: (torch.optim.Rprop(model.parameters()), None)))
refused("amsgrad=True", lambda: made(optimizers=lambda model: (AdamW(model.parameters(), amsgrad=True), None)))
refused("the parameters that the run trains", lambda: made(optimizers=lambda model: (AdamW(model.lm_head.parameters()), None)))
refused("num_training_steps=9", lambda: made(optimizers=with_schedule("linear", 0, 9)))
refused("a StepLR", lambda: made(optimizers=lambda model: ((one := SGD(model.parameters(), lr=1.0)), torch.optim.lr_scheduler.StepLR(one, 2))))


def stepped(model):
    optimizer = AdamW(model.parameters())
    model(torch.tensor([[1, 2, 3]]), labels=torch.tensor([[1, 2, 3]])).loss.backward()
    optimizer.step()
    return optimizer, None


refused("the state of one that has", lambda: made(optimizers=stepped))
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    made(optimizers=lambda model: (AdamW(model.parameters(), weight_decay=0.01), None))
assert any("not of norms and biases" in str(one.message) for one in said), [str(one.message) for one in said]
print("all is as it should be")
