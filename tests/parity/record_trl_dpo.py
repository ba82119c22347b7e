"""Runs of TRL's DPOTrainer on CPU in fp32, step by step: FIXTURES/trl_dpo/<case>.json and <case>.safetensors.
usage: record_trl_dpo.py [--only PREFIX] [--out FOLDER]

The model is tiny_llama, of experts_<name> tiny_<name>, with its adapter, whose B is not zero: a run continues it,
and TRL's reference is a copy of it; cases named
new_* begin with an adapter of their own, whose values (B not zero either) the safetensors hold as `before.<PEFT key>`, and TRL's
reference is the base; in cases named other_* it is OTHER, passed as ref_model. Cases named smollm2_* are the first ROWS pairs of gsm8k-preference (its folder is $HONE_DATA/gsm8k-preference;
without it they are left out) on SmolLM2 (models/smollm2-f32 and the deterministic adapter of common.py), every loss type.

<case>.json: versions; model, adapter (the PEFT folder the run starts from, or null), data; ref_model, of other_*; options (what differs from TRL's
defaults, in TRL's names); steps: one an optimizer step, as logged, unrounded, under TRL's names; evals: as logged.
<case>.safetensors: grad.<PEFT key> of the first optimizer step before clipping, and after.<PEFT key>, the adapter after the last
step, of the cases whose names end in KEPT; other_* has none; of smollm2_* the gradients of REAL_TENSORS alone."""
import json
import os
import tempfile
from pathlib import Path

from common import (FIXTURES, SMOLLM2, SMOLLM2_ADAPTER, TOKENS, apply_rule, peft_key, versions, with_head_bias, write_json,
                    write_tensors)
from trl_training import case_options, logged, train_set, trained

import torch
from datasets import Dataset
from peft import LoraConfig, PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import DPOConfig, DPOTrainer

MODEL = FIXTURES / "tiny_llama"
FOLDER = "trl_dpo"
OTHER = FIXTURES / "trl_full/llama3"  # another shape, another family, the same vocabulary
KEPT = ("sigmoid", "aot", "mpo", "everything", "new_base", "clipped")
PAIRS = [("What is 43 + 21?", " 64", " I think it is 63, but I am not sure at all."), ("Add 7 and 12.", " 19", " 20"),
         ("Name a colour.", " Green, like the grass.", " Seven."), ("How many legs has a spider, and how many has an ant?",
          " Eight, and six.", " Six and eight"), ("Is 17 prime?", " Yes.", " No, it is 3 * 5 + 2."),
         ("Spell the word cat backwards.", " tac", " cat"), ("What comes after Tuesday?", " Wednesday", " Monday, I believe"),
         ("2 * 9 =", " 18", " 29"), ("Say something short.", " Hi!", " It is a long way to Tipperary, it is a long way to go."),
         ("Count from three to nine without the even numbers, please.", " 3, 5, 7, 9", " 3, 4, 5"), ("Why?", " Because.", " Why not"),
         ("Half of 64 is", " 32", " 23"), ("The same on both sides:", " nothing to learn", " nothing to learn")]

ROWS = 6
REAL_TENSORS = ("layers.0.self_attn.q_proj", "layers.29.self_attn.v_proj")
REAL = dict(bf16=False, per_device_train_batch_size=2, learning_rate=1e-3, adam_epsilon=1e-4, max_steps=2,
            max_length=160)
# adam_epsilon: with 1e-8 AdamW makes a whole step of a gradient that is only rounding, and later steps differ by 5e-4.
SHARED = dict(bf16=False, per_device_train_batch_size=3, gradient_accumulation_steps=2, learning_rate=5e-3, adam_epsilon=1e-4,
              max_steps=3, beta=0.5)
TYPES = ["sigmoid", "hinge", "ipo", "exo_pair", "nca_pair", "robust", "bco_pair", "sppo_hard", "aot", "aot_unpaired",
         "apo_zero", "apo_down", "discopop", "sft", "sigmoid_norm"]
SMOOTHED = {"exo_pair": 1e-3, "robust": 0.1, "aot": 0.1, "aot_unpaired": 0.1}


def dpo_cases():
    """name -> (data, a new adapter?, options)"""
    cases = {}

    def case(name, data="explicit", new=False, **options):
        cases[name] = (data, new, {**SHARED, **options})

    for one in TYPES:
        smoothing = dict(label_smoothing=SMOOTHED[one]) if one in SMOOTHED else {}
        case(one, loss_type=[one], **smoothing)
    for divergence in ("forward_kl", "js_divergence", "alpha_divergence"):
        case(divergence, f_divergence_type=divergence, loss_type=["ipo"] if divergence == "forward_kl" else ["sigmoid"])
    case("ld_alpha", ld_alpha=0.3)
    case("wpo", use_weighting=True)
    case("mpo", loss_type=["sigmoid", "bco_pair", "sft"], loss_weights=[0.8, 0.2, 1.0])
    case("precomputed", precompute_ref_log_probs=True, precompute_ref_batch_size=4, num_train_epochs=2, max_steps=-1)
    case("cut", max_length=14)
    case("cut_end", max_length=14, truncation_mode="keep_end")
    case("implicit", data="implicit")
    case("chat", data="chat", max_length=70)
    case("epochs", num_train_epochs=2, max_steps=-1, per_device_train_batch_size=4, gradient_accumulation_steps=3)  # short last ones
    case("clipped", max_grad_norm=0.05, per_device_train_batch_size=2, gradient_accumulation_steps=4, weight_decay=0.1,
         lr_scheduler_type="cosine", warmup_steps=1, max_steps=4)
    case("evaluated", eval_strategy="steps", eval_steps=2, per_device_eval_batch_size=4, max_steps=4)
    case("streamed", dataset_streaming=True, per_device_train_batch_size=4, gradient_accumulation_steps=1, max_steps=6)  # passes of 4 steps
    case("new_base", new=True, loss_type=["sigmoid", "ipo"], max_steps=4)
    case("tokens_new_base", new=True, weight_decay=0.1, max_steps=4)  # trainable_token_indices, the head tied
    case("other_model", eval_strategy="steps", eval_steps=2, per_device_eval_batch_size=4)
    case("other_precomputed", loss_type=["ipo"], precompute_ref_log_probs=True, num_train_epochs=2, max_steps=-1)
    # experts_<family>: tiny_<family>, with the load-balancing loss of its routers
    case("experts_qwen3_moe", eval_strategy="steps", eval_steps=2, per_device_eval_batch_size=4)  # its own factor
    case("experts_olmoe", router_aux_loss_coef=0.5, max_length=20)
    case("experts_mixtral", router_aux_loss_coef=0.5, loss_type=["ipo"])
    case("everything", loss_type=["sigmoid", "sppo_hard", "sft", "discopop"], loss_weights=[1.0, 0.1, 0.5, 0.3], ld_alpha=0.5,
         max_length=20, per_device_train_batch_size=2, max_steps=4)
    return cases


def real_cases():
    """name -> (data, a new adapter?, options)"""
    smoothing = lambda one: dict(label_smoothing=SMOOTHED[one]) if one in SMOOTHED else {}
    cases = {f"smollm2_{one}": ("real", False, {**REAL, "loss_type": [one], **smoothing(one)}) for one in TYPES}
    cases["smollm2_wpo_ld"] = ("real", False, {**REAL, "loss_type": ["sigmoid"], "use_weighting": True, "ld_alpha": 0.5})
    return cases if "HONE_DATA" in os.environ else {}


def rows_of(data):
    if data == "real":
        with open(Path(os.environ["HONE_DATA"]) / "gsm8k-preference" / "train.jsonl", encoding="utf-8") as file:
            return [json.loads(line) for line, _ in zip(file, range(ROWS))]
    message = lambda role, content: {"role": role, "content": content}
    if data == "explicit":
        return [{"prompt": p, "chosen": c, "rejected": r} for p, c, r in PAIRS]
    if data == "implicit":
        return [{"chosen": p + c, "rejected": p + r} for p, c, r in PAIRS[:-1]]
    return [{"prompt": [message("user", p)], "chosen": [message("assistant", c)], "rejected": [message("assistant", r)]}
            for p, c, r in PAIRS]


def adapter(model):
    """{PEFT key: parameter}, without the copy that TRL keeps as reference."""
    return {peft_key(name): value for name, value in model.named_parameters()
            if ("lora_" in name and ".default." in name) or f"{TOKENS}.default" in name}


def run(name, out):
    data, new, options = {**dpo_cases(), **real_cases()}[name]
    real = data == "real"
    base = FIXTURES / name.replace("experts_", "tiny_", 1) if name.startswith("experts_") else MODEL
    folder, start = (SMOLLM2, SMOLLM2_ADAPTER) if real else (base, base / "adapter")
    tokenizer = AutoTokenizer.from_pretrained(str(folder))
    model = AutoModelForCausalLM.from_pretrained(str(folder), dtype=torch.float32, attn_implementation="sdpa")
    tensors, given = {}, {}
    if new:
        # TRL makes the reference when it is built: of a peft_config, the base. Its adapter then gets values of its own.
        tokens = [224, 25, 15] if name.startswith("tokens") else None
        given["peft_config"] = LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", task_type="CAUSAL_LM",
                                          trainable_token_indices=tokens)
    else:
        model = PeftModel.from_pretrained(model, str(start), is_trainable=True)
    if name.startswith("other"):
        given["ref_model"] = AutoModelForCausalLM.from_pretrained(str(OTHER), dtype=torch.float32, attn_implementation="sdpa")
    rows = rows_of(data)
    train, config = train_set(rows, options)
    with tempfile.TemporaryDirectory() as folder:
        args = DPOConfig(output_dir=folder, use_cpu=True, report_to="none", logging_steps=1, disable_tqdm=True,
                         save_strategy="no", **config)
        if "eval_strategy" in options:
            given["eval_dataset"] = Dataset.from_list(rows[:7])
        trainer = DPOTrainer(model, args=args, train_dataset=train, processing_class=tokenizer, **given)
        if new:
            apply_rule(with_head_bias(trainer.model))
            tensors |= {f"before.{key}": value.clone() for key, value in adapter(trainer.model).items()}
        gradients = trained(trainer, adapter)
    steps, evals = logged(trainer)
    write_json(out / FOLDER / f"{name}.json", {
        "versions": versions(), "model": str(base if not real else SMOLLM2), "adapter": None if new else str(start),
        "data": str(FIXTURES / FOLDER / f"{data}.jsonl") if not real else ROWS, "options": options, "steps": steps, "evals": evals}
        | ({"tokens": given["peft_config"].trainable_token_indices} if name.startswith("tokens") else {})
        | ({"ref_model": str(OTHER)} if name.startswith("other") else {}))
    kept = lambda key: not real or any(one + "." in key for one in REAL_TENSORS)
    tensors |= {f"grad.{key}": value for key, value in gradients.items() if kept(key)}
    if name.endswith(KEPT) and not real:
        tensors |= {f"after.{key}": value for key, value in adapter(trainer.model).items()}
    if not name.startswith("other"):
        write_tensors(out / FOLDER / f"{name}.safetensors", tensors)
    shown = [f"{key} {[float(f'{step[key]:.3g}') for step in steps]}" for key in
             ("loss", "grad_norm", "rewards/margins", "rewards/accuracies", "logps/chosen", "entropy")]
    print(f"{name}: " + ", ".join(shown), flush=True)


def main():
    arguments = case_options(__doc__, FOLDER)
    out = arguments.out
    for data in ("explicit", "implicit", "chat"):
        lines = [json.dumps(row) for row in rows_of(data)]
        (out / FOLDER / f"{data}.jsonl").write_text("\n".join(lines) + "\n")
    (out / FOLDER / "eval.jsonl").write_text("\n".join(json.dumps(row) for row in rows_of("explicit")[:7]) + "\n")
    for name in {**dpo_cases(), **real_cases()}:
        if arguments.asked(name):
            run(name, out)


main()
