"""Runs of TRL's CPOTrainer on CPU in fp32, step by step: FIXTURES/trl_cpo/<case>.json and <case>.safetensors.
usage: record_trl_cpo.py [--only PREFIX] [--out FOLDER]

The model is tiny_llama, of balanced_<name> tiny_balanced_<name>, with its adapter, whose B is not zero; cases named new_* begin with an adapter of their own, whose values (B
not zero either) the safetensors hold as `before.<PEFT key>`.

<case>.json: versions; model, adapter (the PEFT folder the run starts from, or null), data; options (what differs from TRL's
defaults, in TRL's names); steps: one an optimizer step, as logged, unrounded, under TRL's names; evals: as logged. Only logits/* are
not TRL's, whose mean has every position of the padded batch: here they are the mean over the positions that predict a completion's
token, from the same logits.
<case>.safetensors: grad.<PEFT key> of the first optimizer step before clipping, and after.<PEFT key>, the adapter after the last
step, of the cases whose names end in KEPT. Of balanced_<name> the gradients of one layer are kept.

record_trl_orpo.py uses the same functions."""
import json
import tempfile

from common import FIXTURES, TOKENS, apply_rule, peft_key, versions, with_head_bias, write_json, write_tensors
from trl_training import case_options, logged, trained

import torch
from datasets import Dataset
from peft import LoraConfig, PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl.experimental.cpo import CPOConfig, CPOTrainer

MODEL = FIXTURES / "tiny_llama"
KEPT = ("sigmoid", "simpo", "or", "clipped", "tokens")
PAIRS = [("What is 43 + 21?", " 64", " I think it is 63, but I am not sure at all."), ("Add 7 and 12.", " 19", " 20"),
         ("Name a color.", " Green, like the grass.", " Seven."), ("How many legs has a spider, and how many has an ant?",
          " Eight, and six.", " Six and eight"), ("Is 17 prime?", " Yes.", " No, it is 3 * 5 + 2."),
         ("Spell the word cat backwards.", " tac", " cat"), ("What comes after Tuesday?", " Wednesday", " Monday, I believe"),
         ("2 * 9 = ", "18", "29"), ("Say something short.", " Hi!", " It is a long way to Tipperary, it is a long way to go."),
         ("Count from three to nine.", " 3, 4, 5, 6, 7, 8, 9", " 3, 4, 5"), ("Why?", " Because.", ""), ("Half of 64 is", " 32", " 23"),
         ("", "no prompt", "none at all"), ("The same on both sides:", " nothing to learn", " nothing to learn")]
# adam_epsilon: with 1e-8 AdamW makes a whole step of a gradient that is only rounding, and later steps differ by 5e-4.
SHARED = dict(bf16=False, per_device_train_batch_size=3, gradient_accumulation_steps=2, learning_rate=5e-3, adam_epsilon=1e-4,
              max_steps=3)


def shared_cases(case):
    """What does not depend on the loss."""
    case("cut", max_length=40)
    case("implicit", data="implicit")
    case("chat", data="chat")
    case("mixed", data="mixed", max_length=70)
    case("epochs", num_train_epochs=2, max_steps=-1, per_device_train_batch_size=4, gradient_accumulation_steps=3)  # short last ones
    case("clipped", max_grad_norm=0.05, per_device_train_batch_size=2, gradient_accumulation_steps=4, weight_decay=0.1,
         lr_scheduler_type="cosine", warmup_steps=1, max_steps=4)
    case("evaluated", eval_strategy="steps", eval_steps=2, per_device_eval_batch_size=4, max_steps=4)
    case("new_tokens", new=True, weight_decay=0.1, max_steps=4)  # trainable_token_indices, the head tied
    case("balanced_mixtral", max_length=60)  # whose config.json wants the load-balancing loss of its routers


def cpo_cases():
    """name -> (data, a new adapter?, options)"""
    cases = {}

    def case(name, data="explicit", new=False, **options):
        cases[name] = (data, new, {**SHARED, "beta": 0.5, **options})

    for one in ("sigmoid", "hinge", "ipo", "simpo"):
        case(one, loss_type=one)
    case("alphapo", loss_type="alphapo", alpha=0.25, beta=2.5)
    case("alpha_ipo", loss_type="ipo", alpha=-0.5, cpo_alpha=0.25)
    case("simpo_recipe", loss_type="simpo", beta=10.0, simpo_gamma=3.0, cpo_alpha=0.0)
    case("smoothed", loss_type="sigmoid", label_smoothing=0.1, cpo_alpha=0.5)
    case("smoothed_simpo", loss_type="simpo", label_smoothing=0.2)
    shared_cases(case)
    return cases


def rows_of(data):
    message = lambda role, content: {"role": role, "content": content}
    if data == "explicit":
        return [{"prompt": p, "chosen": c, "rejected": r} for p, c, r in PAIRS]
    if data == "implicit":
        return [{"chosen": p + c, "rejected": p + r} for p, c, r in PAIRS[:-1]]
    if data == "mixed":  # as UltraFeedback: the prompt repeats the conversations' first message
        return [{"prompt": p, "chosen": [message("user", p), message("assistant", c)],
                 "rejected": [message("user", p), message("assistant", r)]} for p, c, r in PAIRS]
    return [{"prompt": [message("user", p)], "chosen": [message("assistant", c)], "rejected": [message("assistant", r)]}
            for p, c, r in PAIRS]


def with_own_logits(base):
    """The trainer, with logits/* of the completions' tokens."""

    class Recorded(base):
        def get_batch_loss_metrics(self, model, batch, train_eval="train"):
            seen = []

            def keep(*args, **kwargs):
                out = model(*args, **kwargs)
                seen.append(out.logits.detach().mean(-1))
                return out

            loss, metrics = super().get_batch_loss_metrics(keep, batch, train_eval)
            half = len(seen[0]) // 2
            for side, rows in (("chosen", seen[0][:half]), ("rejected", seen[0][half:])):
                predicts = batch[f"{side}_labels"][:, 1:] != -100
                name = f"{'eval_' if train_eval == 'eval' else ''}logits/{side}"
                metrics[name] = rows[:, : predicts.shape[1]][predicts].double().mean().item()
            return loss, metrics

    return Recorded


def adapter(model):
    """{PEFT key: parameter}"""
    return {peft_key(name): value for name, value in model.named_parameters()
            if ("lora_" in name and ".default." in name) or f"{TOKENS}.default" in name}


def run(name, case, make_config, make_trainer, folder, out):
    data, new, options = case
    base = FIXTURES / f"tiny_{name}" if name.startswith("balanced_") else MODEL
    tokenizer = AutoTokenizer.from_pretrained(str(base))
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token  # TRL refuses a tokenizer without one
    model = AutoModelForCausalLM.from_pretrained(str(base), dtype=torch.float32, attn_implementation="sdpa")
    tensors, given = {}, {}
    if new:
        given["peft_config"] = LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", task_type="CAUSAL_LM",
                                          trainable_token_indices=[224, 25, 15])
    else:
        model = PeftModel.from_pretrained(model, str(base / "adapter"), is_trainable=True)
    rows = rows_of(data)
    with tempfile.TemporaryDirectory() as scratch:
        args = make_config(output_dir=scratch, use_cpu=True, report_to="none", logging_steps=1, disable_tqdm=True,
                           save_strategy="no", remove_unused_columns=False, **options)
        if "eval_strategy" in options:
            given["eval_dataset"] = Dataset.from_list(rows[:7])
        trainer = with_own_logits(make_trainer)(model, args=args, train_dataset=Dataset.from_list(rows), processing_class=tokenizer,
                                                **given)
        if new:
            apply_rule(with_head_bias(trainer.model))
            tensors |= {f"before.{key}": value.clone() for key, value in adapter(trainer.model).items()}
        gradients = trained(trainer, adapter)
    steps, evals = logged(trainer)
    write_json(out / folder / f"{name}.json", {
        "versions": versions(), "model": str(base), "adapter": None if new else str(base / "adapter"),
        "data": str(FIXTURES / folder / f"{data}.jsonl"), "options": options, "steps": steps, "evals": evals}
        | ({"tokens": given["peft_config"].trainable_token_indices} if new else {}))
    small = name.startswith("balanced_")  # of one layer only
    tensors |= {f"grad.{key}": value for key, value in gradients.items() if not small or "layers.1.self_attn.v_proj" in key}
    if name.endswith(KEPT):
        tensors |= {f"after.{key}": value for key, value in adapter(trainer.model).items()}
    write_tensors(out / folder / f"{name}.safetensors", tensors)
    shown = [f"{key} {[float(f'{step[key]:.3g}') for step in steps]}" for key in
             ("loss", "grad_norm", "rewards/margins", "rewards/accuracies", "logps/chosen", "nll_loss")]
    print(f"{name}: " + ", ".join(shown), flush=True)


def main(cases, make_config, make_trainer, folder, description):
    arguments = case_options(description, folder)
    out = arguments.out
    for data in ("explicit", "implicit", "chat", "mixed"):
        lines = [json.dumps(row) for row in rows_of(data)]
        (out / folder / f"{data}.jsonl").write_text("\n".join(lines) + "\n")
    (out / folder / "eval.jsonl").write_text("\n".join(json.dumps(row) for row in rows_of("explicit")[:7]) + "\n")
    for name, case in cases.items():
        if arguments.asked(name):
            run(name, case, make_config, make_trainer, folder, out)


if __name__ == "__main__":
    main(cpo_cases(), CPOConfig, CPOTrainer, "trl_cpo", __doc__)
