"""Runs of TRL's RewardTrainer on CPU in fp32, step by step: FIXTURES/trl_reward/<case>.json and <case>.safetensors.
usage: record_trl_reward.py [--only PREFIX] [--out FOLDER]

The base is tiny_llama, a language model without a score head, or (cases named folder_*) rewards/tiny_reward, which has one; the
adapter is new, with common.py's rule for its values (B is not zero) and score_rule() for the head, which the safetensors hold as
`before.<PEFT key>`. Cases named smollm2_* are the first ROWS pairs of gsm8k-preference (its folder is $HONE_DATA/gsm8k-preference;
without it they are left out) on SmolLM2 (models/smollm2-f32), of which only the head is held.

<case>.json: versions; model, data; options (what differs from TRL's defaults, in TRL's names); steps: one an optimizer step, as
logged, unrounded, under TRL's names; evals: as logged.
<case>.safetensors: besides, grad.<PEFT key> of the first optimizer step before clipping, and after.<PEFT key>, the adapter after the
last step, of the cases whose names end in KEPT; of smollm2_* the gradients of REAL_TENSORS alone.
adapter/: what TRL saved after case `bt`, and scores.json: what it then gives TEXTS (PEFT on AutoModelForSequenceClassification)."""
import json
import os
import tempfile
from pathlib import Path

from common import FIXTURES, SMOLLM2, apply_rule, peft_key, save_adapter, versions, write_json, write_tensors
from trl_training import case_options, logged, train_set, trained

import torch
from datasets import Dataset
from peft import LoraConfig, PeftModel
from transformers import AutoModelForSequenceClassification, AutoTokenizer
from trl import RewardConfig, RewardTrainer

MODEL = FIXTURES / "tiny_llama"
HEADED = FIXTURES / "rewards" / "tiny_reward"
FOLDER = "trl_reward"
KEPT = ("bt", "centred", "clipped", "everything")
PAIRS = [("What is 43 + 21?", " 64", " I think it is 63, but I am not sure at all.", 1.0), ("Add 7 and 12.", " 19", " 20", 0.5),
         ("Name a colour.", " Green, like the grass.", " Seven.", 2.0), ("How many legs has a spider, and how many has an ant?",
          " Eight, and six.", " Six and eight", 0.0), ("Is 17 prime?", " Yes.", " No, it is 3 * 5 + 2.", 0.25),
         ("Spell the word cat backwards.", " tac", " cat", -0.5), ("What comes after Tuesday?", " Wednesday", " Monday, I believe", 1.5),
         ("2 * 9 =", " 18", " 29", 3.0), ("Say something short.", " Hi!", " It is a long way to Tipperary, it is a long way to go.", 0.1),
         ("Count from three to nine without the even numbers, please.", " 3, 5, 7, 9", " 3, 4, 5", 1.0), ("Why?", " Because.", " Why not", 0.0),
         ("Half of 64 is", " 32", " 23", 1.0), ("The same on both sides:", " nothing to learn", " nothing to learn", 0.3)]
TEXTS = ["What is 2 + 3? 5", "What is 2 + 3? I do not know.", "Half of 64 is 32", "a"]
ROWS = 6
REAL_TENSORS = ("layers.0.self_attn.q_proj", "layers.29.self_attn.v_proj", "score")
REAL = dict(bf16=False, per_device_train_batch_size=2, learning_rate=1e-3, adam_epsilon=1e-4, max_steps=2, max_length=400)
# adam_epsilon: with 1e-8 AdamW makes a whole step of a gradient that is only rounding, and later steps differ by 5e-4.
SHARED = dict(bf16=False, per_device_train_batch_size=3, gradient_accumulation_steps=2, learning_rate=5e-3, adam_epsilon=1e-4,
              max_steps=3)


def reward_cases():
    """name -> (model, data, options)"""
    cases = {}

    def case(name, data="explicit", model=MODEL, **options):
        cases[name] = (model, data, {**SHARED, **options})

    case("bt")
    case("margin", data="margin")
    case("centred", center_rewards_coefficient=0.1)
    case("implicit", data="implicit")
    case("chat", data="chat")
    case("chat_implicit", data="chat_implicit")
    case("tokens", data="tokens")
    case("filtered", max_length=24)
    case("pad_token", data="padded", pad_token="!", max_length=None)
    case("epochs", num_train_epochs=2, max_steps=-1, per_device_train_batch_size=4, gradient_accumulation_steps=3)  # short last ones
    case("clipped", max_grad_norm=0.05, per_device_train_batch_size=2, gradient_accumulation_steps=4, weight_decay=0.1,
         lr_scheduler_type="cosine", warmup_steps=1, max_steps=4)
    case("evaluated", data="margin", eval_strategy="steps", eval_steps=2, per_device_eval_batch_size=4, max_steps=4)
    case("streamed", data="margin", dataset_streaming=True, per_device_train_batch_size=4, gradient_accumulation_steps=1, max_steps=6)  # passes of 4 steps
    case("folder_headed", data="chat", model=HEADED)
    case("everything", data="margin", center_rewards_coefficient=0.01, per_device_train_batch_size=2, max_length=40, max_steps=4)
    return cases


def real_cases():
    cases = {"smollm2_bt": (SMOLLM2, "real", REAL),
             "smollm2_centred": (SMOLLM2, "real", {**REAL, "center_rewards_coefficient": 0.01})}
    return cases if "HONE_DATA" in os.environ else {}


def rows_of(data, tokenizer=None):
    if data == "real":
        with open(Path(os.environ["HONE_DATA"]) / "gsm8k-preference" / "train.jsonl", encoding="utf-8") as file:
            return [json.loads(line) for line, _ in zip(file, range(ROWS))]
    message = lambda role, content: {"role": role, "content": content}
    user, assistant = lambda text: [message("user", text)], lambda text: [message("assistant", text)]
    if data == "explicit":
        return [{"prompt": p, "chosen": c, "rejected": r} for p, c, r, _ in PAIRS]
    if data == "margin":
        return [{"prompt": p, "chosen": c, "rejected": r, "margin": m} for p, c, r, m in PAIRS]
    if data == "implicit":
        return [{"chosen": p + c, "rejected": p + r} for p, c, r, _ in PAIRS]
    if data == "padded":  # sequences that end with a pad token before their EOS, and one that begins alike
        return [{"chosen": p + c + "!" * (i % 3), "rejected": p + r} for i, (p, c, r, _) in enumerate(PAIRS)]
    if data == "chat":
        return [{"prompt": user(p), "chosen": assistant(c), "rejected": assistant(r)} for p, c, r, _ in PAIRS]
    if data == "chat_implicit":
        return [{"chosen": user(p) + assistant(c), "rejected": user(p + "?" * (i % 2)) + assistant(r)}
                for i, (p, c, r, _) in enumerate(PAIRS)]
    tokens = AutoTokenizer.from_pretrained(str(MODEL))
    return [{"chosen_ids": tokens(p + c)["input_ids"], "rejected_ids": tokens(p + r)["input_ids"]} for p, c, r, _ in PAIRS]


def score_rule(size):
    """The head: 0.3 sin(0.7 j + 0.2), float64, then float32."""
    return torch.sin(0.7 * torch.arange(size, dtype=torch.float64) + 0.2).mul(0.3).float()[None]


def adapter(model):
    """{PEFT key: parameter} of all that is trained."""
    plain = lambda name: peft_key(name).replace(".modules_to_save", "")
    return {plain(name): value for name, value in model.named_parameters() if value.requires_grad}


def record_scores(out, tokenizer):
    """The adapter that was saved, as its users read it: transformers' model, then PEFT."""
    folder = out / FOLDER / "adapter"
    model = AutoModelForSequenceClassification.from_pretrained(str(MODEL), num_labels=1, dtype=torch.float32)
    model.config.get_text_config().pad_token_id = tokenizer.pad_token_id
    model = PeftModel.from_pretrained(model, str(folder)).eval()
    with torch.no_grad():
        scores = [model(**tokenizer(text, return_tensors="pt", add_special_tokens=False)).logits[0, 0].item() for text in TEXTS]
    write_json(folder / "scores.json", {"texts": TEXTS, "scores": scores})


def run(name, out):
    base, data, options = {**reward_cases(), **real_cases()}[name]
    real = data == "real"
    tokenizer = AutoTokenizer.from_pretrained(str(base))
    model = AutoModelForSequenceClassification.from_pretrained(str(base), num_labels=1, dtype=torch.float32, attn_implementation="sdpa")
    lora = LoraConfig(r=8 if real else 4, lora_alpha=16 if real else 8, target_modules="all-linear", task_type="SEQ_CLS")
    rows, given = rows_of(data), {}
    train, config = train_set(rows, options)
    with tempfile.TemporaryDirectory() as folder:
        args = RewardConfig(output_dir=folder, use_cpu=True, report_to="none", logging_steps=1, disable_tqdm=True,
                            save_strategy="no", **config)
        if "eval_strategy" in options:
            given["eval_dataset"] = Dataset.from_list(rows[:7])
        trainer = RewardTrainer(model, args=args, train_dataset=train, processing_class=tokenizer, peft_config=lora,
                                **given)
        parameters = adapter(trainer.model)
        head = parameters["base_model.model.score.weight"]
        begins = head.detach().clone() if base == HEADED else score_rule(head.shape[1])
        apply_rule(trainer.model)  # which also writes the head
        with torch.no_grad():
            head.copy_(begins)
        tensors = {f"before.{key}": value.clone() for key, value in parameters.items() if not real or "score" in key}
        gradients = trained(trainer, adapter)
    steps, evals = logged(trainer)
    write_json(out / FOLDER / f"{name}.json", {
        "versions": versions(), "model": str(base), "data": str(FIXTURES / FOLDER / f"{data}.jsonl") if not real else ROWS,
        "options": options, "steps": steps, "evals": evals})
    kept = lambda key: not real or any(one + "." in key for one in REAL_TENSORS)
    tensors |= {f"grad.{key}": value for key, value in gradients.items() if kept(key)}
    if name.endswith(KEPT) and not real:
        tensors |= {f"after.{key}": value for key, value in adapter(trainer.model).items()}
    write_tensors(out / FOLDER / f"{name}.safetensors", tensors)
    if name == "bt":
        save_adapter(trainer.model, out / FOLDER / "adapter")
        record_scores(out, tokenizer)
    shown = [f"{key} {[float(f'{step[key]:.3g}') for step in steps]}" for key in
             ("loss", "grad_norm", "accuracy", "margin", "mean_reward", "num_tokens")]
    print(f"{name}: " + ", ".join(shown), flush=True)


def main():
    arguments = case_options(__doc__, FOLDER)
    out = arguments.out
    for data in ("explicit", "margin", "implicit", "padded", "chat", "chat_implicit", "tokens"):
        lines = [json.dumps(row) for row in rows_of(data)]
        (out / FOLDER / f"{data}.jsonl").write_text("\n".join(lines) + "\n")
    (out / FOLDER / "eval.jsonl").write_text("\n".join(json.dumps(row) for row in rows_of("margin")[:7]) + "\n")
    for name in {**reward_cases(), **real_cases()}:
        if arguments.asked(name):
            run(name, out)


main()
