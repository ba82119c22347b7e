"""trainer.model before, while and after train(): of names and of objects, whole and with adapters, for every method.

usage: live_models.py MODEL REWARD_MODEL OUT
"""
import pathlib
import sys

import hone.trl
import torch
from hone import Refused
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, LlamaForCausalLM

MODEL, SCORES, OUT = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
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


def refused(text, make):
    try:
        make()
    except Refused as error:
        assert text in str(error), error
    else:
        raise AssertionError("taken: " + text)


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
print("all is as it should be")
