"""Runs of TRL's KTOTrainer on CPU in fp32, step by step: FIXTURES/trl_kto/<case>.json and <case>.safetensors.
usage: record_trl_kto.py [--only PREFIX] [--out FOLDER]

The model is tiny_llama, of experts_<name> tiny_<name>, with its adapter, whose B is not zero: a run continues it,
and TRL's reference is a copy of it; cases named
new_* begin with an adapter of their own, whose values (B not zero either) the safetensors hold as `before.<PEFT key>`, and TRL's
reference is the base; in cases named other_* it is OTHER, passed as ref_model. Cases named smollm2_* are the first ROWS pairs of gsm8k-preference (its folder is $HONE_DATA/gsm8k-preference;
without it they are left out), unpaired by TRL and then, for cases named *_mixed, one of each in turn, on SmolLM2
(models/smollm2-f32 and the deterministic adapter of common.py).

<case>.json: versions; model, adapter (the PEFT folder the run starts from, or null), data; ref_model, of other_*; options (what differs from TRL's
defaults, in TRL's names); steps: one an optimizer step, as logged, unrounded, under TRL's names; evals: as logged.
<case>.safetensors: grad.<PEFT key> of the first optimizer step before clipping, and after.<PEFT key>, the adapter after the last
step, of the cases whose names end in KEPT; other_* has none; of smollm2_* the gradients of REAL_TENSORS alone."""
import json
import os
import tempfile
from pathlib import Path

from common import FIXTURES, SMOLLM2, SMOLLM2_ADAPTER, apply_rule, peft_key, versions, write_json, write_tensors
from trl_training import case_options, logged, train_set, trained

import torch
from datasets import Dataset
from peft import LoraConfig, PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import KTOConfig, KTOTrainer

MODEL = FIXTURES / "tiny_llama"
FOLDER = "trl_kto"
OTHER = FIXTURES / "trl_full/llama3"  # another shape, another family, the same vocabulary
KEPT = ("kto", "apo", "weights", "new_base", "clipped")
ROWS_OF_TEXT = [
    ("What is 43 + 21?", " 64", True), ("Add 7 and 12.", " 20", False), ("Name a colour.", " Green, like the grass.", True),
    ("How many legs has a spider, and how many has an ant?", " Six and eight", False), ("Is 17 prime?", " Yes.", True),
    ("Spell the word cat backwards.", " cat", False), ("What comes after Tuesday?", " Wednesday", True), ("2 * 9 =", " 18", True),
    ("Say something short.", " It is a long way to Tipperary, it is a long way to go.", False),
    ("Count from three to nine without the even numbers, please.", " 3, 5, 7, 9", True), ("Why?", " Why not", False),
    ("Half of 64 is", " 32", True), ("The last one,", " alone in its batch", False)]
ROWS = 4
REAL_TENSORS = ("layers.0.self_attn.q_proj", "layers.29.self_attn.v_proj")
REAL = dict(bf16=False, per_device_train_batch_size=4, learning_rate=1e-3, adam_epsilon=1e-4, max_steps=2, max_length=160)
# adam_epsilon: with 1e-8 AdamW makes a whole step of a gradient that is only rounding, and later steps differ by 5e-4.
SHARED = dict(bf16=False, per_device_train_batch_size=3, gradient_accumulation_steps=2, learning_rate=5e-3, adam_epsilon=1e-4,
              max_steps=4, beta=0.5)


def kto_cases():
    """name -> (data, a new adapter?, options)"""
    cases = {}

    def case(name, data="rows", new=False, **options):
        cases[name] = (data, new, {**SHARED, **options})

    case("kto")
    case("apo", loss_type="apo_zero_unpaired")
    case("apo_shuffled", loss_type="apo_zero_unpaired", train_sampling_strategy="random", per_device_train_batch_size=1)
    case("weights", desirable_weight=1.3, undesirable_weight=0.6)
    case("precomputed", precompute_ref_log_probs=True, precompute_ref_batch_size=4, num_train_epochs=2, max_steps=-1)
    case("apo_precomputed", loss_type="apo_zero_unpaired", precompute_ref_log_probs=True)
    case("cut", max_length=14)
    case("paired", data="pairs")
    case("paired_implicit", data="pairs_implicit")
    case("chat", data="chat", max_length=60)
    case("epochs", num_train_epochs=2, max_steps=-1, per_device_train_batch_size=4, gradient_accumulation_steps=3)  # short last ones
    case("clipped", max_grad_norm=0.05, per_device_train_batch_size=2, gradient_accumulation_steps=4, weight_decay=0.1,
         lr_scheduler_type="cosine", warmup_steps=1, max_steps=4)
    case("evaluated", eval_strategy="steps", eval_steps=2, per_device_eval_batch_size=4)
    case("streamed", dataset_streaming=True, per_device_train_batch_size=4, gradient_accumulation_steps=1, max_steps=6)  # passes of 4 steps
    case("evaluated_precomputed", eval_strategy="steps", eval_steps=2, per_device_eval_batch_size=2, precompute_ref_log_probs=True)
    case("other_model", eval_strategy="steps", eval_steps=2, per_device_eval_batch_size=4)
    # experts_<family>: tiny_<family>, with the load-balancing loss of its routers
    case("experts_qwen3_moe", eval_strategy="steps", eval_steps=2, per_device_eval_batch_size=4)  # its own factor
    case("experts_olmoe", router_aux_loss_coef=0.5, max_length=14)
    case("experts_mixtral", router_aux_loss_coef=0.5, loss_type="apo_zero_unpaired")
    case("new_base", new=True)
    case("new_apo", new=True, loss_type="apo_zero_unpaired", beta=0.1)
    return cases


def real_cases():
    """name -> (data, a new adapter?, options)"""
    cases = {"smollm2_kto_mixed": ("real_mixed", False, REAL), "smollm2_kto": ("real", False, REAL),
             "smollm2_apo": ("real", False, {**REAL, "loss_type": "apo_zero_unpaired"})}
    return cases if "HONE_DATA" in os.environ else {}


def rows_of(data):
    message = lambda role, content: {"role": role, "content": content}
    if data.startswith("real"):
        with open(Path(os.environ["HONE_DATA"]) / "gsm8k-preference" / "train.jsonl", encoding="utf-8") as file:
            pairs = [json.loads(line) for line, _ in zip(file, range(ROWS))]
        if data == "real":
            return pairs
        return [{"prompt": one["prompt"], "completion": one[side], "label": side == "chosen"}
                for one in pairs for side in ("chosen", "rejected")]
    if data == "rows":
        return [{"prompt": p, "completion": c, "label": label} for p, c, label in ROWS_OF_TEXT]
    if data == "chat":
        return [{"prompt": [message("user", p)], "completion": [message("assistant", c)], "label": label}
                for p, c, label in ROWS_OF_TEXT]
    pairs = [(p, c, " a wrong answer" + str(i)) for i, (p, c, _) in enumerate(ROWS_OF_TEXT[:7])]
    if data == "pairs":
        return [{"prompt": p, "chosen": c, "rejected": r} for p, c, r in pairs]
    return [{"chosen": p + c, "rejected": p + r} for p, c, r in pairs]


def adapter(model):
    """{PEFT key: parameter}, without the copy that TRL keeps as reference."""
    return {peft_key(name): value for name, value in model.named_parameters() if "lora_" in name and ".default." in name}


def run(name, out):
    data, new, options = {**kto_cases(), **real_cases()}[name]
    real = data.startswith("real")
    base = FIXTURES / name.replace("experts_", "tiny_", 1) if name.startswith("experts_") else MODEL
    folder, start = (SMOLLM2, SMOLLM2_ADAPTER) if real else (base, base / "adapter")
    tokenizer = AutoTokenizer.from_pretrained(str(folder))
    model = AutoModelForCausalLM.from_pretrained(str(folder), dtype=torch.float32, attn_implementation="sdpa")
    tensors, given = {}, {}
    if new:
        # TRL makes the reference when it is built: of a peft_config, the base. Its adapter then gets values of its own.
        given["peft_config"] = LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", task_type="CAUSAL_LM")
    else:
        model = PeftModel.from_pretrained(model, str(start), is_trainable=True)
    if name.startswith("other"):
        given["ref_model"] = AutoModelForCausalLM.from_pretrained(str(OTHER), dtype=torch.float32, attn_implementation="sdpa")
    rows = rows_of(data)
    train, config = train_set(rows, options)
    with tempfile.TemporaryDirectory() as folder:
        args = KTOConfig(output_dir=folder, use_cpu=True, report_to="none", logging_steps=1, disable_tqdm=True,
                         save_strategy="no", **config)
        if "eval_strategy" in options:
            given["eval_dataset"] = Dataset.from_list(rows[:7])
        trainer = KTOTrainer(model, args=args, train_dataset=train, processing_class=tokenizer, **given)
        if new:
            apply_rule(trainer.model)
            tensors |= {f"before.{key}": value.clone() for key, value in adapter(trainer.model).items()}
        gradients = trained(trainer, adapter)
    steps, evals = logged(trainer)
    write_json(out / FOLDER / f"{name}.json", {
        "versions": versions(), "model": str(base if not real else SMOLLM2), "adapter": None if new else str(start),
        "data": str(FIXTURES / FOLDER / f"{data}.jsonl") if not real else {"rows": ROWS, "mixed": data == "real_mixed"},
        "options": options, "steps": steps, "evals": evals}
        | ({"ref_model": str(OTHER)} if name.startswith("other") else {}))
    kept = lambda key: not real or any(one + "." in key for one in REAL_TENSORS)
    tensors |= {f"grad.{key}": value for key, value in gradients.items() if kept(key)}
    if name.endswith(KEPT) and not real:
        tensors |= {f"after.{key}": value for key, value in adapter(trainer.model).items()}
    if not name.startswith("other"):
        write_tensors(out / FOLDER / f"{name}.safetensors", tensors)
    shown = [f"{key} {[float(f'{step[key]:.3g}') for step in steps if key in step]}" for key in
             ("loss", "grad_norm", "kl", "rewards/margins", "logps/chosen", "logps/rejected", "entropy")]
    print(f"{name}: " + ", ".join(shown), flush=True)


def main():
    arguments = case_options(__doc__, FOLDER)
    out = arguments.out
    for data in ("rows", "pairs", "pairs_implicit", "chat"):
        lines = [json.dumps(row) for row in rows_of(data)]
        (out / FOLDER / f"{data}.jsonl").write_text("\n".join(lines) + "\n")
    (out / FOLDER / "eval.jsonl").write_text("\n".join(json.dumps(row) for row in rows_of("rows")[:7]) + "\n")
    for name in {**kto_cases(), **real_cases()}:
        if arguments.asked(name):
            run(name, out)


main()
