"""Models around train(): get_peft_model before the trainer, changed configurations, and what scripts do with trainer.model afterwards.

usage: after_training.py MODEL OUT
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
from hone import Refused
from peft import LoraConfig, PeftModel, get_peft_model, prepare_model_for_kbit_training
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

MODEL, OUT = sys.argv[1], pathlib.Path(sys.argv[2])
TEXTS = [{"text": f"line {n} of the text"} for n in range(8)]
PAIRS = [{"prompt": "say", "chosen": f" yes {n}", "rejected": f" no, never {n}"} for n in range(8)]
QUICK = {"max_steps": 3, "per_device_train_batch_size": 4, "logging_steps": 1, "save_strategy": "no", "bf16": False, "report_to": "none", "learning_rate": 1e-2}


def fresh(**named):
    return AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32, **named)


def wrapped(seed=7, **more):
    torch.manual_seed(seed)
    return get_peft_model(fresh(), LoraConfig(r=4, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM", **more))


def losses(package, model, rows, method="SFT", name="run", **more):
    own = {"skip_doctor": True, "threads": 1} if package is hone.trl else {"use_cpu": True}
    config = getattr(package, f"{method}Config")(output_dir=str(OUT / f"{package.__name__}-{name}"), **QUICK, **own, **more)
    data = rows
    if package is trl:
        from datasets import Dataset
        data = Dataset.from_list(rows)
    trainer = getattr(package, f"{method}Trainer")(model, args=config, train_dataset=data, processing_class=AutoTokenizer.from_pretrained(MODEL))
    trainer.train()
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry], trainer


refused = functools.partial(raises, Refused)


def close(ours, theirs, rounding=2e-5):
    assert len(ours) == len(theirs) == 3 and all(abs(a - b) <= rounding * abs(b) + 1e-6 for a, b in zip(ours, theirs)), (ours, theirs)


# The run begins with the adapter that get_peft_model has drawn, so that its losses are TRL's.
for case, (rows, method) in {"peft": (TEXTS, "SFT"), "pairs": (PAIRS, "DPO")}.items():
    theirs, _ = losses(trl, wrapped(), rows, method, case, train_sampling_strategy="sequential")
    ours, trainer = losses(hone.trl, wrapped(), rows, method, case, train_sampling_strategy="sequential")
    close(ours, theirs)
written = json.loads((OUT / "hone.trl-peft/adapter_config.json").read_text())
assert (written["r"], written["lora_alpha"]) == (4, 16), written
dora, _ = losses(trl, wrapped(use_dora=True), TEXTS, name="dora", train_sampling_strategy="sequential")
close(losses(hone.trl, wrapped(use_dora=True), TEXTS, name="dora", train_sampling_strategy="sequential")[0], dora)
hone.trl.SFTTrainer(get_peft_model(prepare_model_for_kbit_training(fresh()), LoraConfig(r=2, target_modules=["q_proj"])), train_dataset=TEXTS)

refused("one adapter", lambda: hone.trl.SFTTrainer(wrapped(), peft_config=LoraConfig()))
refused("one adapter", lambda: hone.trl.SFTTrainer(wrapped(), hone.trl.SFTConfig("x", adapter_name_or_path="y")))
inside = fresh()
inside.add_adapter(LoraConfig(r=2, target_modules=["q_proj"]))
refused("and peft_config to the trainer", lambda: hone.trl.SFTTrainer(inside))
frozen = PeftModel.from_pretrained(fresh(), str(OUT / "hone.trl-peft"))
refused("is_trainable=True", lambda: hone.trl.SFTTrainer(frozen))

# Configurations: neutral, saved, refused.
model = fresh(use_cache=False)
model.gradient_checkpointing_enable()
model.enable_input_require_grads()
model.config.pad_token_id, model.config.pretraining_tp = 2, 1
model.generation_config.temperature, model.generation_config.do_sample = 0.7, True
_, trainer = losses(hone.trl, model, TEXTS, name="full")
assert json.loads((OUT / "hone.trl-full/generation_config.json").read_text())["temperature"] == 0.7
model = fresh()
model.generation_config.temperature, model.generation_config.do_sample = 0.7, True
hone.trl.GRPOTrainer(model, reward_funcs=len, train_dataset=TEXTS)  # args say how it samples
model.generation_config.no_repeat_ngram_size = 2
refused("no_repeat_ngram_size: 2", lambda: hone.trl.GRPOTrainer(model, reward_funcs=len))
turned = fresh()
turned.config.rope_parameters = {**turned.config.rope_parameters, "rope_theta": 5e5}
refused("rope_parameters", lambda: hone.trl.SFTTrainer(turned))  # its layers have the values of before
aligned = fresh()
aligned.config.eos_token_id = 0
hone.trl.SFTTrainer(aligned, train_dataset=TEXTS)
hone.trl.GRPOTrainer(aligned, reward_funcs=len, train_dataset=TEXTS)  # its end is written with the model (held_models.py)

# After train(): of an adapter, and of a full model.
_, trainer = losses(hone.trl, wrapped(), TEXTS, name="after")
folder, text = OUT / "hone.trl-after", AutoTokenizer.from_pretrained(MODEL)("line 3 of", return_tensors="pt")
read = PeftModel.from_pretrained(fresh(), str(folder))
with torch.no_grad():
    expected = read(**text).logits
    assert torch.equal(trainer.model(**text).logits, expected), "the loaded model is the result"
    merged = copy.deepcopy(trainer.model).merge_and_unload()
    assert torch.allclose(merged(**text).logits, expected, atol=1e-4) and not hasattr(merged, "peft_config")
    assert torch.equal(trainer.accelerator.unwrap_model(trainer.model).eval()(**text).logits, expected)
assert trainer.model.get_nb_trainable_parameters() == read.get_nb_trainable_parameters() or \
    trainer.model.get_nb_trainable_parameters()[0] == sum(value.numel() for name, value in read.named_parameters() if "lora_" in name)
assert trainer.model.generate(**text, max_new_tokens=2, do_sample=False).shape[1] <= text["input_ids"].shape[1] + 2
trainer.model.save_pretrained(OUT / "copy")
assert all(torch.equal(value, load_file(folder / "adapter_model.safetensors")[name])
           for name, value in load_file(OUT / "copy/adapter_model.safetensors").items())
assert trainer.model.peft_config["default"].r == 4 and trainer.model.config.vocab_size == fresh().config.vocab_size
assert trainer.tokenizer.eos_token == "<|im_end|>" and trainer.accelerator.device == torch.device("cpu") == trainer.args.device
assert "lora_A" in str(list(trainer.model.state_dict())) and len(list(trainer.model.parameters())) > 4
_, trainer = losses(hone.trl, MODEL, TEXTS, name="whole")
with torch.no_grad():
    assert torch.equal(trainer.model(**text).logits, AutoModelForCausalLM.from_pretrained(OUT / "hone.trl-whole")(**text).logits)
assert not getattr(trainer.model, "peft_config", None) and type(trainer.model).__name__ == "LlamaForCausalLM"
print("all is as it should be")
