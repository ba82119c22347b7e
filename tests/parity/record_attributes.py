"""The public names of the objects around TRL's trainers: FIXTURES/attributes.json, {kind: {class: [names]}}.
usage: record_attributes.py [--out FOLDER]

A kind is a table of python/hone/trl/attributes.py. Names are those that a class has, and those that its methods and its bases' set on self.
Of models: the names of transformers' PreTrainedModel, torch's Module and PEFT's PeftModelForCausalLM."""
import ast
import dataclasses
import inspect
from pathlib import Path

import accelerate
import peft
import torch
import transformers
import trl
from common import options, versions, write_json
from trl.experimental.cpo import CPOTrainer
from trl.experimental.online_dpo import OnlineDPOTrainer
from trl.experimental.orpo import ORPOTrainer

KINDS = {
    "trainer": [transformers.Trainer, trl.SFTTrainer, trl.DPOTrainer, trl.KTOTrainer, trl.RewardTrainer, trl.GRPOTrainer, trl.RLOOTrainer,
                CPOTrainer, ORPOTrainer, OnlineDPOTrainer],
    "arguments": [transformers.TrainingArguments],
    "state": [transformers.TrainerState],
    "accelerator": [accelerate.Accelerator],
    "model": [transformers.PreTrainedModel, torch.nn.Module, peft.PeftModelForCausalLM],
}
PACKAGES = ("trl", "transformers", "accelerate", "peft")


def set_on_self(owner):
    """Names that the class's own text assigns to attributes of self."""
    body = ast.parse(Path(inspect.getsourcefile(owner)).read_text(encoding="utf-8"))
    found = next((node for node in ast.walk(body) if isinstance(node, ast.ClassDef) and node.name == owner.__name__), None)
    return {node.attr for node in ast.walk(found) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and
            isinstance(node.value, ast.Name) and node.value.id == "self"} if found is not None else set()


def names_of(kind, one):
    names = set(dir(one))
    for owner in one.__mro__:
        if owner.__module__.split(".")[0] in PACKAGES:
            names |= set_on_self(owner)
    if kind == "arguments":  # its fields are options: record_options.py has them
        names -= {field.name for field in dataclasses.fields(one)}
    return sorted(name for name in names if not name.startswith("_"))


def main():
    arguments = options(__doc__)
    recorded = {kind: {one.__name__: names_of(kind, one) for one in classes} for kind, classes in KINDS.items()}
    # A class of one kind has its base's names too: each name once.
    for classes in recorded.values():
        first, *others = classes
        for other in others:
            classes[other] = [name for name in classes[other] if name not in classes[first]]
    write_json(arguments.out / "attributes.json", {"versions": {**versions(), "accelerate": accelerate.__version__}, **recorded})


main()
