"""Models that are otherwise than their folder: changed weights, configurations, embeddings, adapters, heads. hone.trl's first losses are TRL's.

usage: held_models.py MODEL OUT
"""
import copy
import functools
import json
import pathlib
import sys

import hone.trl
import torch
import trl
from checks import raises
from datasets import Dataset
from hone import Refused
from hone.trl import states
from hone.trl.rows import raw_of
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer, BitsAndBytesConfig

MODEL, OUT = sys.argv[1], pathlib.Path(sys.argv[2])
TEXTS = [{"text": f"line {n} of the text"} for n in range(8)]
PAIRS = [{"prompt": "say", "chosen": f" yes {n}", "rejected": f" no, never {n}"} for n in range(8)]
QUICK = {"max_steps": 3, "per_device_train_batch_size": 4, "logging_steps": 1, "save_strategy": "no", "bf16": False, "report_to": "none",
         "learning_rate": 1e-2, "train_sampling_strategy": "sequential"}


def fresh(**named):
    return AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32, **named)


def trainer_of(package, model, name, method="SFT", rows=TEXTS, tokenizer=None, **more):
    own = {"skip_doctor": True, "threads": 1} if package is hone.trl else {"use_cpu": True}
    args = getattr(package, f"{method}Config")(output_dir=str(OUT / f"{package.__name__}-{name}"), **{**QUICK, **own, **more})
    named = {"processing_class": tokenizer} if tokenizer is not None else {}
    return getattr(package, f"{method}Trainer")(model, args=args, train_dataset=Dataset.from_list(rows), **named)


def losses(package, model, name, *rest, **more):
    trainer = trainer_of(package, model, name, *rest, **more)
    trainer.train()
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry], trainer


refused = functools.partial(raises, Refused)


def settings_of(name):
    lines = (OUT / f"hone.trl-{name}/inputs/run.yaml").read_text().splitlines()[1:]
    return {key: json.loads(value) for key, value in (line.split(": ", 1) for line in lines)}


def same_as_theirs(make, name, method="SFT", rows=TEXTS, saved=True, make_tokenizer=None, rounding=2e-5, **more):
    """`saved`: the run opens a folder of its inputs."""
    both = [losses(package, make(), name, method, rows, make_tokenizer() if make_tokenizer else None, **more) for package in (trl, hone.trl)]
    (theirs, _), (ours, trainer) = both
    assert len(ours) == len(theirs) == 3, (name, ours, theirs)
    assert all(abs(a - b) <= rounding * abs(b) + 1e-6 for a, b in zip(ours, theirs)), (name, ours, theirs)
    assert settings_of(name)["model_name_or_path"] == (str(OUT / f"hone.trl-{name}/inputs/model") if saved else MODEL), name
    print("ok", name, flush=True)
    return trainer


def nudged():
    model = fresh()
    with torch.no_grad():
        for value in model.parameters():
            value.mul_(1.25)
    return model


def turned():
    return fresh(rms_norm_eps=0.5)


def drawn():
    torch.manual_seed(3)
    return AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(MODEL), dtype=torch.float32)


def with_word():
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    tokenizer.add_tokens(["line", "text"])
    return tokenizer


def widened():
    model = fresh()
    torch.manual_seed(5)
    model.resize_token_embeddings(len(with_word()) + 6)
    return model


def wrapped(base=fresh, **more):
    torch.manual_seed(7)
    return get_peft_model(base(), LoraConfig(r=4, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM", **more))


def moved(base=fresh):
    model = wrapped(base)
    torch.manual_seed(9)
    with torch.no_grad():
        for name, value in model.named_parameters():
            if "lora_B" in name:
                value.normal_(0.0, 0.1)
    return model


def second_of_two():
    model = moved()
    model.add_adapter("other", LoraConfig(r=2, target_modules=["q_proj"], task_type="CAUSAL_LM"))
    model.set_adapter("other")
    return model


JUDGE = AutoModelForSequenceClassification.from_pretrained(MODEL, num_labels=1, dtype=torch.float32)  # with a head that no file has


# The same first steps as TRL's, of the model as it is when train() begins.
same_as_theirs(fresh, "plain", saved=False)
trainer = same_as_theirs(nudged, "weights")
assert trainer.model.config.name_or_path == MODEL
same_as_theirs(turned, "configuration")
assert (OUT / "hone.trl-configuration/inputs/model/model.safetensors").is_symlink(), "tensors that are in a file are linked"
same_as_theirs(drawn, "from_config")
same_as_theirs(widened, "wider", make_tokenizer=with_word)
assert load_file(OUT / "hone.trl-wider/model.safetensors")["model.embed_tokens.weight"].shape[0] == len(with_word()) + 6
same_as_theirs(lambda: wrapped(nudged), "adapter of other weights")
assert "model_name_or_path" in settings_of("adapter of other weights") and settings_of("adapter of other weights")["use_peft"]
same_as_theirs(moved, "trained adapter", saved=False)
same_as_theirs(moved, "trained adapter, pairs", "DPO", PAIRS, saved=False)
same_as_theirs(lambda: moved(nudged), "trained adapter of other weights")
same_as_theirs(second_of_two, "second adapter", saved=False)
same_as_theirs(lambda: copy.deepcopy(JUDGE), "head", "Reward", PAIRS, saved=True)
both = set(json.loads((OUT / "hone.trl-head/inputs/model/model.safetensors.index.json").read_text())["weight_map"].values())
assert both == {"model-body.safetensors", "model-head.safetensors"}, both

# What is done to the object until train() counts, and a second train() goes on with it.
model = fresh()
trainer = trainer_of(hone.trl, model, "late")
with torch.no_grad():
    model.model.norm.weight.mul_(1.5)
first = model.model.norm.weight.clone()
trainer.train()
assert torch.equal(load_file(OUT / "hone.trl-late/inputs/model/model.safetensors")["model.norm.weight"], first)
again = copy.deepcopy(model.state_dict())
before = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
trainer.train()
assert torch.equal(load_file(OUT / "hone.trl-late/inputs/model/model.safetensors")["model.norm.weight"], again["model.norm.weight"])
assert [entry["loss"] for entry in trainer.state.log_history if "loss" in entry][0] < before[0]

# A base of its own is what the adapter is merged into.
_, trainer = losses(hone.trl, wrapped(nudged), "merged")
text = AutoTokenizer.from_pretrained(MODEL)("line 3 of", return_tensors="pt")
with torch.no_grad():
    expected = PeftModel.from_pretrained(nudged(), str(OUT / "hone.trl-merged"))(**text).logits
    assert torch.allclose(trainer.model.merge_and_unload()(**text).logits, expected, atol=1e-4)

# References: a copy of what the model is, however it is, is no second model.
for trainer in (hone.trl.DPOTrainer(nudged(), nudged(), train_dataset=TEXTS), hone.trl.DPOTrainer(wrapped(nudged), nudged(), train_dataset=TEXTS)):
    assert "ref_model" not in trainer._settings
refused("merge_and_unload()", lambda: hone.trl.DPOTrainer(fresh(), moved()))


def compared(package, make, reference, name, method="DPO", **more):
    own = {"skip_doctor": True, "threads": 1} if package is hone.trl else {"use_cpu": True}
    args = getattr(package, f"{method}Config")(output_dir=str(OUT / f"{package.__name__}-{name}"), **{**QUICK, **own, **more})
    rows = PAIRS if method == "DPO" else [{"prompt": "say", "completion": f" word {n}", "label": n % 2 == 0} for n in range(8)]
    named = {} if reference is None else {"ref_model": reference()}
    trainer = getattr(package, f"{method}Trainer")(make(), args=args, train_dataset=Dataset.from_list(rows), **named)
    began = None if trainer.ref_model is None else copy.deepcopy(trainer.ref_model.state_dict())
    trainer.train()
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry], trainer, began, named.get("ref_model")


def compared_as_theirs(make, reference, name, *rest, **more):
    (theirs, their, _, _), (ours, trainer, began, given) = (compared(package, make, reference, name, *rest, **more) for package in (trl, hone.trl))
    assert len(ours) == len(theirs) == 3 and all(abs(a - b) <= 2e-5 * abs(b) + 1e-5 for a, b in zip(ours, theirs)), (name, ours, theirs)
    assert given is None or trainer.ref_model is given, name
    print("ok", name, flush=True)
    return their, trainer, began


# Another model: of its folder's numbers, changed in memory, beside an adapter, of an adapter that goes on.
compared_as_theirs(nudged, fresh, "reference of the folder")
assert settings_of("reference of the folder")["ref_model"] == MODEL
compared_as_theirs(fresh, nudged, "reference in memory", "KTO")
assert settings_of("reference in memory")["ref_model"] == str(OUT / "hone.trl-reference in memory/inputs/ref_model")
compared_as_theirs(wrapped, nudged, "reference beside an adapter")
compared_as_theirs(moved, fresh, "reference without the adapter")

# One that moves has the numbers of TRL's at the end, in the object that is there.
for reference, name in ((None, "moving"), (nudged, "moving from another")):
    their, trainer, began = compared_as_theirs(fresh, reference, name, sync_ref_model=True, ref_model_sync_steps=2, adam_epsilon=1e-4)
    theirs = their.ref_model.state_dict()
    for key, value in trainer.ref_model.state_dict().items():
        assert not torch.equal(value, began[key]), (name, key)
        assert torch.allclose(value, theirs[key], atol=1e-4), (name, key, (value - theirs[key]).abs().max())
refused("`model` and `ref_model` cannot be the same object", lambda: hone.trl.DPOTrainer(model, model))

# In 4 bits: the folder's, quantized by the program. Without bitsandbytes the object here has numbers that nobody can read.
packed = fresh()
packed.hf_quantizer, packed.is_quantized = object(), True
packed.config.quantization_config = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4")
for layer in packed.model.layers:
    layer.mlp.up_proj.weight = torch.nn.Parameter(torch.zeros(8, 1, dtype=torch.uint8), requires_grad=False)
trainer = trainer_of(hone.trl, get_peft_model(packed, LoraConfig(r=2, target_modules=["q_proj"], task_type="CAUSAL_LM")), "4 bits")
assert trainer._settings["load_in_4bit"] and trainer._settings["bnb_4bit_quant_type"] == "nf4", trainer._settings
assert states.written(trainer.model, OUT, "SFT", "here") == {}
with torch.no_grad():
    packed.model.norm.weight.mul_(2)
refused("model.dequantize()", lambda: states.written(packed, OUT, "SFT", "here"))

# What cannot be taken.
inside = fresh()
inside.add_adapter(LoraConfig(r=2, target_modules=["q_proj"]))
refused("add_adapter()", lambda: hone.trl.SFTTrainer(inside))
frozen = PeftModel.from_pretrained(fresh(), str(OUT / "hone.trl-trained adapter"))
refused("is_trainable=True", lambda: hone.trl.SFTTrainer(frozen))
refused("one adapter", lambda: hone.trl.SFTTrainer(wrapped(), peft_config=LoraConfig()))
repeating = fresh()
repeating.generation_config.no_repeat_ngram_size = 2
refused("no_repeat_ngram_size", lambda: hone.trl.GRPOTrainer(repeating, reward_funcs=len))
late = fresh()
late.config.rms_norm_eps = 0.5
refused("variance_epsilon is 1e-06 in the model, and its configuration says 0.5", lambda: hone.trl.SFTTrainer(late))
late = fresh()
late.config.rope_parameters = {**late.config.rope_parameters, "rope_theta": 5e5}
refused("inv_freq is not what its configuration says", lambda: hone.trl.SFTTrainer(late))
nameless = drawn()
nameless.name_or_path = nameless.config._name_or_path = ""
refused("processing_class", trainer_of(hone.trl, nameless, "nameless").train)

# What TRL would call in each pass: layers, functions and hooks of the script's own.
class Own(torch.nn.Module):
    def __init__(self, made):
        super().__init__()
        self.__dict__.update(vars(made))

    def forward(self, values):
        return self.down_proj(self.act_fn(self.gate_proj(values))) * 2


own = fresh()
own.model.layers[1].mlp = Own(own.model.layers[1].mlp)
refused("SFTTrainer, model.model.layers.1.mlp", lambda: hone.trl.SFTTrainer(own))
own = fresh()
taken = own.model.norm.register_forward_hook(lambda module, given, made: made * 2)
refused("a forward hook", lambda: hone.trl.DPOTrainer(fresh(), own, train_dataset=PAIRS))
taken.remove()
trainer = trainer_of(hone.trl, own, "hooked")
own.forward = lambda *given, **named: None
refused("another function in the place of its forward", trainer.train)
compiled = torch.compile(fresh())
plain, _ = losses(hone.trl, fresh(), "not compiled")
began = compiled.model.norm.weight.clone()
assert losses(hone.trl, compiled, "compiled")[0] == plain
assert not torch.equal(compiled.model.norm.weight, began)
asked = wrapped()
asked.enable_input_require_grads()
asked.gradient_checkpointing_enable({"use_reentrant": True})
losses(hone.trl, asked, "asked for gradients")

# The files that are read are never written over.
own = OUT / "own/inputs/model"
fresh().save_pretrained(own)
for again in (AutoModelForCausalLM.from_pretrained(own, rms_norm_eps=0.5), AutoModelForCausalLM.from_pretrained(own)):
    with torch.no_grad():
        again.model.norm.weight.mul_(2 if again.config.rms_norm_eps != 0.5 else 1)
    refused("another output_dir", lambda again=again: states.written(again, OUT / "own/inputs", "SFT", "here"))
assert load_file(own / "model.safetensors").keys() == load_file(pathlib.Path(MODEL) / "model.safetensors").keys()

# One shard with an index, of which only the configuration is another.
shard = OUT / "shard"
fresh().save_pretrained(shard)
keys = load_file(shard / "model.safetensors").keys()
(shard / "model.safetensors").rename(shard / "model-00001-of-00001.safetensors")
places = {"metadata": {}, "weight_map": dict.fromkeys(keys, "model-00001-of-00001.safetensors")}
(shard / "model.safetensors.index.json").write_text(json.dumps(places))
states.written(AutoModelForCausalLM.from_pretrained(shard, rms_norm_eps=0.5), OUT / "shard/inputs", "SFT", "here")
assert AutoModelForCausalLM.from_pretrained(OUT / "shard/inputs/model").config.rms_norm_eps == 0.5

# Rows that a script has filtered are its own, and not those that they were made of.
made = trainer_of(hone.trl, fresh(), "filtered").train_dataset
some = made.filter(lambda row, at: at < 3, with_indices=True)
assert len(raw_of(made)) == 8 and raw_of(some) is some and len(some) == 3

# After full training of an object its result is evaluated: the object is not written once more.
trainer = trainer_of(hone.trl, nudged(), "evaluated")
trainer.train()
states.write, write = None, states.write
assert trainer.evaluate(Dataset.from_list(TEXTS))["eval_loss"] > 0
states.write = write
print("all is as it should be")
