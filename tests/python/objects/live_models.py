"""trainer.model before, while and after train(): of names and of objects, whole and with adapters, for every method.

usage: live_models.py MODEL OUT
"""
import functools
import pathlib
import sys

import hone.trl
import torch
from checks import raises
from hone import Refused
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, LlamaForCausalLM

MODEL, OUT = sys.argv[1], pathlib.Path(sys.argv[2])
TEXTS = [{"text": f"line {n} of the text"} for n in range(8)]
PAIRS = [{"prompt": "say", "chosen": f" yes {n}", "rejected": f" no, never {n}"} for n in range(8)]
MARKED = [{"prompt": "say", "completion": f" word {n}", "label": n % 2 == 0} for n in range(8)]
PROMPTS = [{"prompt": f"count {n}"} for n in range(8)]
ROWS = {"SFT": TEXTS, "DPO": PAIRS, "KTO": MARKED, "Reward": PAIRS, "CPO": PAIRS, "ORPO": PAIRS, "GRPO": PROMPTS, "RLOO": PROMPTS, "OnlineDPO": PROMPTS}
QUICK = {"max_steps": 3, "per_device_train_batch_size": 4, "logging_steps": 1, "bf16": False, "report_to": "none", "learning_rate": 0.01,
         "skip_doctor": True, "threads": 1, "lr_scheduler_type": "constant"}
SAMPLING = {"GRPO": {"max_completion_length": 6, "num_generations": 4}, "RLOO": {"max_completion_length": 6, "num_generations": 4},
            "OnlineDPO": {"max_new_tokens": 6}}


def reward(completions, **columns):
    return [float(len(set(text))) + 0.1 * len(text) for text in completions]


def trainer_of(method, model, name, eval_rows=None, peft_config=None, callbacks=None, **more):
    args = getattr(hone.trl, f"{method}Config")(output_dir=str(OUT / name), **{**QUICK, **SAMPLING.get(method, {}), **more})
    own = {"reward_funcs": reward} if method in SAMPLING else {}
    return getattr(hone.trl, f"{method}Trainer")(model=model, args=args, train_dataset=ROWS[method], eval_dataset=eval_rows, peft_config=peft_config,
                                                 callbacks=callbacks, **own)


def opened(method):
    kind, more = (AutoModelForSequenceClassification, {"num_labels": 1}) if method == "Reward" else (AutoModelForCausalLM, {})
    return kind.from_pretrained(MODEL, dtype=torch.float32, **more)


def lora(method):
    return LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="SEQ_CLS" if method == "Reward" else "CAUSAL_LM")


refused = functools.partial(raises, Refused)


def is_result(model, folder):
    """The parameters are those of the files, and not of anything else."""
    if (folder / "adapter_config.json").is_file():
        stored = load_file(folder / "adapter_model.safetensors")
        names = {name: name.replace(".lora_A.weight", ".lora_A.default.weight").replace(".lora_B.weight", ".lora_B.default.weight")
                 .replace("model.score.weight", "model.score.modules_to_save.default.weight") for name in stored}
    else:
        stored = load_file(folder / "model.safetensors")
        names = {name: name for name in stored}
    found = dict(model.named_parameters())
    for name, value in stored.items():
        assert torch.equal(found[names[name]], value.to(found[names[name]].dtype)), name
    return len(stored)


def one(method, given, adapted):
    name = f"{method}-{'object' if given else 'name'}-{'lora' if adapted else 'full'}"
    model = opened(method) if given else MODEL
    base = {f"base_model.model.{key}" for key, _ in (model if given else opened(method)).named_parameters()}
    trainer = trainer_of(method, model, name, peft_config=lora(method) if adapted else None)
    assert isinstance(trainer.model, PeftModel if adapted else torch.nn.Module), name
    previous = {key: value.clone() for key, value in trainer.model.named_parameters()}
    before = trainer.model
    assert trainer.train().global_step == 3
    assert trainer.model is before and (adapted or not given or trainer.model is model), name
    for key, value in previous.items():
        now = trainer.model.get_parameter(key)
        frozen = adapted and (key in base or "base_layer" in key or "original_module" in key)
        assert torch.equal(value, now) == bool(frozen), (name, key)
    assert is_result(trainer.model, OUT / name) > 2
    assert all(tag in trainer.model.model_tags for tag in ("trl", "sft" if method == "SFT" else "trl"))
    print("ok", name, flush=True)
    return trainer


for method in ROWS:
    for given in (False, True):
        for adapted in (True, False):
            one(method, given, adapted)

# A PeftModel: as it is. What begins the run is its adapter.
torch.manual_seed(5)
model = get_peft_model(opened("SFT"), lora("SFT"))
drawn = model.get_parameter("base_model.model.model.layers.0.self_attn.q_proj.lora_A.default.weight").clone()
trainer = trainer_of("SFT", model, "wrapped")
trainer.train()
assert trainer.model is model and is_result(model, OUT / "wrapped") and trainer.accelerator.unwrap_model(model) is model
begun = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
assert torch.equal(load_file(OUT / "wrapped/inputs/adapter/adapter_model.safetensors")[begun], drawn)

# Nothing is opened for what needs no tensors; the numbers are PEFT's.
for adapted in (True, False):
    trainer = trainer_of("SFT", MODEL, f"unasked-{adapted}", peft_config=lora("SFT") if adapted else None)
    assert isinstance(trainer.model, PeftModel if adapted else LlamaForCausalLM) and isinstance(trainer.model, torch.nn.Module)
    assert not isinstance(trainer.model, LlamaForCausalLM if adapted else PeftModel)
    counts = trainer.model.get_nb_trainable_parameters()
    trainer.model.print_trainable_parameters()
    assert trainer._trained._live is None and trainer.model is trainer.model
    whole = get_peft_model(opened("SFT"), lora("SFT")).get_nb_trainable_parameters() if adapted else (opened("SFT").num_parameters(),) * 2
    assert counts == whole, (counts, whole)
    trainer.train()
    assert trainer._trained._live is None and not (OUT / f"unasked-{adapted}/inputs/adapter").exists()
    assert is_result(trainer.model, OUT / f"unasked-{adapted}") and trainer._trained._live is not None

# While the program trains, the tensors here are those of before, and are not shown.
class Looks:
    def on_step_end(self, args, state, control, model=None, **kwargs):
        assert model.config.vocab_size and isinstance(model, torch.nn.Module)
        refused("a run that goes on", lambda: model.get_parameter("model.norm.weight"))
        refused("a run that goes on", lambda: trainer.model.state_dict())

    def on_train_end(self, args, state, control, model=None, **kwargs):
        assert model is trainer.model and is_result(model, OUT / "looks")


trainer = trainer_of("SFT", opened("SFT"), "looks", callbacks=[Looks()])
trainer.train()

# train() twice goes on in place.
model = opened("SFT")
trainer = trainer_of("SFT", model, "twice", eval_rows=TEXTS, learning_rate=0.003)
losses = [trainer.evaluate()["eval_loss"]]
for _ in range(2):
    trainer.train()
    losses.append(trainer.evaluate()["eval_loss"])
    assert is_result(model, OUT / "twice")
assert losses[0] > losses[1] > losses[2], losses

# What a script does to the object meanwhile counts.
model = opened("SFT")
trainer = trainer_of("SFT", model, "written")
with torch.no_grad():
    model.model.norm.weight.mul_(2)
written = model.model.norm.weight.clone()
trainer.train()
assert torch.equal(load_file(OUT / "written/inputs/model/model.safetensors")["model.norm.weight"], written)
trainer = trainer_of("SFT", MODEL, "frozen")
trainer.model.model.norm.weight.requires_grad_(False)
before = {key: value.clone() for key, value in trainer.model.named_parameters()}
trainer.train()
assert [key for key, value in trainer.model.named_parameters() if torch.equal(value, before[key])] == ["model.norm.weight"]
trainer = trainer_of("SFT", opened("SFT"), "configured")
trainer.model.config.rms_norm_eps = 1e-3
refused("rms_norm_eps", trainer.train)

# Adapters of other kinds: the object computes what the result computes.
for case, named in {"pissa": {"init_lora_weights": "pissa"}, "dora": {"use_dora": True}, "head": {"modules_to_save": ["lm_head"]},
                    "tokens": {"trainable_token_indices": [3, 5]}, "drawn": {"init_lora_weights": False}}.items():
    trainer = trainer_of("SFT", opened("SFT"), case, peft_config=LoraConfig(r=4, target_modules=["q_proj"], **named))
    text = torch.tensor([[3, 5, 7, 9]])
    with torch.no_grad():
        before = trainer.model(text).logits
        trainer.train()
        after, read = trainer.model(text).logits, PeftModel.from_pretrained(opened("SFT"), str(OUT / case))(text).logits
    assert torch.allclose(after, read, atol=1e-5) and not torch.allclose(after, before, atol=1e-4), case

# The reference.
trainer = trainer_of("DPO", MODEL, "reference")
previous = {key: value.clone() for key, value in trainer.model.named_parameters()}
assert trainer.ref_model is trainer.ref_model is not None
trainer.train()
assert all(torch.equal(value, trainer.ref_model.get_parameter(key)) for key, value in previous.items())
assert trainer_of("DPO", MODEL, "none", peft_config=lora("DPO")).ref_model is None and trainer_of("GRPO", MODEL, "none").ref_model is None
assert not hasattr(trainer_of("SFT", MODEL, "none"), "ref_model")
print("all is as it should be")
