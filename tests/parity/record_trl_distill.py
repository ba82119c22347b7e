"""Runs of TRL's DistillationTrainer on CPU in fp32, for hone to replay: FIXTURES/trl_distill/<case>.json, <case>.jsonl and
<case>.safetensors. usage: record_trl_distill.py [--only PREFIX] [--out FOLDER]

TRL samples, scores and trains by itself; the micro-batches that its loss sees are read off on the way. The student continues the
model's own adapter, whose B is not zero; the teacher is another tiny model with the same vocabulary, or the student's base. Of the
models gemma2 caps its logits and granite scales them. So that completions end at different places, every eighth token ends one.

Cases beyond TRL's own runs: `masked` hides every third token of a completion, as TRL's tool_mask does; `evaluated` evaluates with
the first weights, twelve prompts in batches of five.

A loss is logged in four digits: here it is the sum of what the micro-batches' losses returned, unrounded.
<case>.jsonl: a line a step, in hone's form of rollouts (src/train/batches/rollout_batch.h); `slices` are the micro-batches.
<case>.json: versions; model, teacher, data; options (what differs from TRL's defaults, in TRL's names); steps; of an
evaluation its metrics and its completions.
<case>.safetensors: grad.<PEFT key> of the first step before clipping, of the tensors in KEPT."""
import json
import math
import tempfile

from common import FIXTURES, adapter_parameters, attention_of, versions, write_json, write_tensors
from trl_training import UNLOGGED, case_options, trained

import torch
from datasets import Dataset
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import DistillationConfig, DistillationTrainer

FOLDER = "trl_distill"
ENDS = list(range(2, 384, 8))  # 48 of 384 tokens end a completion
KEPT = ("layers.0.self_attn.q_proj.lora_A", "layers.1.mlp.down_proj.lora_B")
PROMPTS = ["What is 43 + 21?", "Add 7 and 12.", "Name a colour.", "How many legs has a spider, and how many has an ant?",
           "Is 17 prime?", "Spell the word cat backwards.", "What comes after Tuesday?", "2 * 9 =", "Say something short.",
           "Count from three to nine without the even numbers, please.", "Why?", "Half of 64 is"]
# adam_epsilon: with 1e-8 AdamW makes a whole step of a gradient that is only rounding, and later steps differ by 5e-4.
SHARED = dict(bf16=False, per_device_train_batch_size=3, max_completion_length=12, learning_rate=5e-3, adam_epsilon=1e-4, max_steps=3)


def cases():
    """name -> (student, teacher, options)"""
    out = {}

    def case(name, student="llama", teacher="gemma2", **options):
        out[name] = (FIXTURES / f"tiny_{student}", FIXTURES / f"tiny_{teacher}", {**SHARED, **options})

    case("reverse")
    case("forward", teacher="granite", beta=0.0, temperature=0.7)
    case("mixture", beta=0.5)
    case("quarter", teacher="granite", beta=0.25, temperature=0.7)
    case("accumulated", gradient_accumulation_steps=2, per_device_train_batch_size=2, max_grad_norm=0.05)
    case("capped_student", student="gemma2", teacher="llama", beta=0.5, temperature=0.7)
    case("scaled_student", student="granite", teacher="llama", beta=0.0)
    case("own_base", teacher="llama")
    # what is left of beta 0, 0.25, 0.5, 1 times temperature 1, 0.7: two steps each
    case("reverse_cooler", max_steps=2, temperature=0.7)
    case("forward_plain", max_steps=2, beta=0.0)
    case("quarter_plain", max_steps=2, beta=0.25)
    case("mixture_cooler", max_steps=2, beta=0.5, temperature=0.7)
    case("cut", max_steps=2, max_completion_length=2)  # most completions end without an end token
    case("masked", max_steps=2, gradient_accumulation_steps=2, per_device_train_batch_size=2)
    case("evaluated", max_steps=2, beta=0.25, temperature=0.7, per_device_eval_batch_size=5)
    return out


class Trainer(DistillationTrainer):
    """Keeps what the loss of each micro-batch sees and returns, by optimizer step."""

    def watch(self, masks=False):
        self.seen, self.steps_seen, self.masks = [], [], masks

    def _generate_and_score_completions(self, inputs):
        out = super()._generate_and_score_completions(inputs)
        if self.masks:
            places = torch.arange(out["completion_ids"].size(1)).expand_as(out["completion_ids"])
            out["tool_mask"] = (places % 3 != 1).int()
            out["num_items_in_batch"] = (out["completion_mask"] * out["tool_mask"]).sum()
        return out

    def _compute_loss(self, student, inputs, num_items_in_batch):
        out = super()._compute_loss(student, inputs, num_items_in_batch)
        rows = lambda kind: [ids[mask.bool()].tolist() for ids, mask in zip(inputs[f"{kind}_ids"], inputs[f"{kind}_mask"])]
        self.seen.append({"prompts": rows("prompt"), "ids": rows("completion"), "loss": out[0].item()})
        if self.masks:
            self.seen[-1]["given"] = [[[i, i + 1] for i in range(1, len(ids), 3)] for ids in self.seen[-1]["ids"]]
        return out

    def training_step(self, *args, **kwargs):
        out = super().training_step(*args, **kwargs)
        if len(self.seen) == self.args.gradient_accumulation_steps:
            self.steps_seen.append(self.seen)
            self.seen = []
        return out


def packed(micro_batches, generation, row_of, ends):
    prompts, samples, slices = [], [], []
    given = any("given" in one for one in micro_batches)
    for one in micro_batches:
        slices.append([])
        for prompt, ids in zip(one["prompts"], one["ids"]):
            slices[-1].append(len(samples))
            samples.append({"prompt": len(prompts), "ids": ids, "truncated": ids[-1] not in ends, "rewards": []})
            if given:
                samples[-1]["given"] = one["given"][len(slices[-1]) - 1]
            prompts.append({"row": row_of[tuple(prompt)], "ids": prompt})
    return {"format": f"hone-rollouts-{2 if given else 1}", "generation": generation, "reward_names": [],
            **({"tools": False} if given else {}), "prompts": prompts, "samples": samples, "slices": slices}


def evaluated(trainer):
    """With the loss that evaluate() makes of its batches, unrounded."""
    found = trainer.evaluate()
    seen, trainer.seen = trainer.seen, []
    return {"metrics": {key: value for key, value in found.items() if key not in UNLOGGED and key != "epoch"}, "batch": seen}


def load(folder):
    return AutoModelForCausalLM.from_pretrained(str(folder), dtype=torch.float32, attn_implementation=attention_of(folder))


def run(name, out):
    student, teacher, options = cases()[name]
    tokenizer = AutoTokenizer.from_pretrained(str(student))
    model = load(student)
    model.generation_config.eos_token_id = ENDS
    model = PeftModel.from_pretrained(model, str(student / "adapter"), is_trainable=True)
    with tempfile.TemporaryDirectory() as folder:
        args = DistillationConfig(output_dir=folder, use_cpu=True, report_to="none", logging_steps=1, disable_tqdm=True,
                                  save_strategy="no", **options)
        rows = Dataset.from_list([{"prompt": prompt} for prompt in PROMPTS])
        trainer = Trainer(model, teacher_model=load(teacher), args=args, processing_class=tokenizer, train_dataset=rows,
                          eval_dataset=rows if name == "evaluated" else None)
        trainer.watch(masks=name == "masked")
        evaluation = evaluated(trainer) if name == "evaluated" else None
        gradients = trained(trainer, adapter_parameters)
    dropped = UNLOGGED | {"step_time"}
    steps = [{key: value for key, value in entry.items() if key not in dropped}
             for entry in trainer.state.log_history if "loss" in entry]
    if name == "masked":  # TRL counted lengths and tokens before the mask came
        steps = [{key: value for key, value in one.items() if not key.startswith(("completions/", "num_tokens"))} for one in steps]
    row_of = {tuple(tokenizer(prompt)["input_ids"]): row for row, prompt in enumerate(PROMPTS)}
    if evaluation is not None:
        evaluation["batch"] = packed(evaluation["batch"], 0, row_of, trainer.eos_token_ids)
    assert len(steps) == len(trainer.steps_seen) == options["max_steps"]
    for step, seen in zip(steps, trainer.steps_seen):
        step["loss"] = sum(one["loss"] for one in seen)
    batches = [packed(seen, i, row_of, trainer.eos_token_ids) for i, seen in enumerate(trainer.steps_seen)]
    lengths = {len(one["ids"]) for batch in batches for one in batch["samples"]}
    assert len(lengths) > (0 if name == "cut" else 2), f"{name}: {lengths}"
    write_json(out / FOLDER / f"{name}.json", {
        "versions": versions(), "model": str(student), "teacher": str(teacher), "data": str(FIXTURES / "trl_online_dpo/prompts.jsonl"),
        "options": options, "steps": steps, **({"evaluation": evaluation} if evaluation is not None else {})})
    (out / FOLDER / f"{name}.jsonl").write_text("\n".join(json.dumps(batch, separators=(",", ":")) for batch in batches) + "\n")
    write_tensors(out / FOLDER / f"{name}.safetensors",
                  {f"grad.{key}": value for key, value in gradients.items() if any(part in key for part in KEPT)})
    print(f"{name}: " + ", ".join(f"{key} {[float(f'{step[key]:.4g}') for step in steps]}" for key in ("loss", "grad_norm", "entropy")),
          flush=True)
    assert all(math.isfinite(value) for step in steps for value in step.values())


def main():
    arguments = case_options(__doc__, FOLDER)
    for name in cases():
        if arguments.asked(name):
            run(name, arguments.out)


if __name__ == "__main__":
    main()
