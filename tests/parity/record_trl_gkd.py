"""Runs of TRL's GKDTrainer on CPU in fp32, for hone to replay: FIXTURES/trl_gkd/<case>.json, <case>.jsonl and <case>.safetensors.
usage: record_trl_gkd.py [--only PREFIX] [--out FOLDER]

The student continues the model's own adapter; the teacher is another tiny model with the same vocabulary. TRL samples, and draws which
micro-batches are sampled: lmbda is 0 or 1 here. What the loss of each micro-batch sees is read off.

TRL counts the tokens of a step in the labels of the data, before it samples; a sampled batch has others, by which `fixed` divides here.
The files are those of record_trl_distill.py; `options` have the names of GKDConfig."""
import random
import tempfile

from common import FIXTURES, adapter_parameters, versions, write_json, write_tensors
from record_trl_distill import ENDS, KEPT, load, packed
from trl_training import UNLOGGED, case_options, trained

import json

from datasets import Dataset
from peft import PeftModel
from transformers import AutoTokenizer
from trl.experimental.gkd import GKDConfig, GKDTrainer

FOLDER = "trl_gkd"
STUDENT, TEACHER = FIXTURES / "tiny_llama", FIXTURES / "tiny_gemma2"
DATA, ROWS = FIXTURES / "sft/messages.jsonl", 12
SHARED = dict(bf16=False, max_new_tokens=10, max_length=96, learning_rate=5e-3, adam_epsilon=1e-4, max_steps=2)


def cases():
    """name -> options; whether the number of tokens is fixed"""
    out = {}

    def case(name, fixed=True, **options):
        out[name] = (fixed, {**SHARED, **options})

    case("given", fixed=False, lmbda=0.0, gradient_accumulation_steps=2, per_device_train_batch_size=2)
    case("given_forward", fixed=False, lmbda=0.0, beta=0.0, per_device_train_batch_size=3)
    case("sampled", lmbda=1.0, per_device_train_batch_size=3)
    case("of_teacher", lmbda=0.0, seq_kd=True, beta=1.0, per_device_train_batch_size=3)
    return out


class Trainer(GKDTrainer):
    """Keeps what the loss of each micro-batch sees and returns, by optimizer step."""

    def watch(self, fixed):
        self.seen, self.steps_seen, self.fixed = [], [], fixed

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        scored, read = inputs["labels"] != -100, inputs["attention_mask"].bool()
        if self.fixed:
            num_items_in_batch = scored[:, 1:].sum()
        out = super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        rows = lambda which: [ids[mask].tolist() for ids, mask in zip(inputs["input_ids"], which)]
        self.seen.append({"prompts": rows(read & ~scored), "ids": rows(scored), "loss": out.item()})
        return out

    def training_step(self, *args, **kwargs):
        out = super().training_step(*args, **kwargs)
        if len(self.seen) == self.args.gradient_accumulation_steps:
            self.steps_seen.append(self.seen)
            self.seen = []
        return out


def run(name, out):
    fixed, options = cases()[name]
    random.seed(7)
    tokenizer = AutoTokenizer.from_pretrained(str(STUDENT))
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token  # the collator asks for one; attention masks hide it
    model = load(STUDENT)
    model.generation_config.eos_token_id = ENDS
    model = PeftModel.from_pretrained(model, str(STUDENT / "adapter"), is_trainable=True)
    rows = [json.loads(line) for line in DATA.read_text().splitlines()[:ROWS]]
    with tempfile.TemporaryDirectory() as folder:
        args = GKDConfig(output_dir=folder, use_cpu=True, report_to="none", logging_steps=1, disable_tqdm=True, save_strategy="no",
                         gradient_checkpointing=False, **options)
        trainer = Trainer(model, teacher_model=load(TEACHER), args=args, processing_class=tokenizer, train_dataset=Dataset.from_list(rows))
        trainer.watch(fixed)
        gradients = trained(trainer, adapter_parameters)
    steps = [{key: value for key, value in entry.items() if key not in UNLOGGED} for entry in trainer.state.log_history if "loss" in entry]
    assert len(steps) == len(trainer.steps_seen) == options["max_steps"]
    for step, seen in zip(steps, trainer.steps_seen):
        step["loss"] = sum(one["loss"] for one in seen)
    row_of = {tuple(trainer.data_collator([row])["prompts"][0].tolist()): i for i, row in enumerate(rows)}
    batches = [packed(seen, i, row_of, ENDS) for i, seen in enumerate(trainer.steps_seen)]
    write_json(out / FOLDER / f"{name}.json", {
        "versions": versions(), "model": str(STUDENT), "teacher": str(TEACHER), "data": str(DATA), "rows": ROWS, "options": options,
        "steps": steps})
    (out / FOLDER / f"{name}.jsonl").write_text("\n".join(json.dumps(batch, separators=(",", ":")) for batch in batches) + "\n")
    write_tensors(out / FOLDER / f"{name}.safetensors",
                  {f"grad.{key}": value for key, value in gradients.items() if any(part in key for part in KEPT)})
    print(f"{name}: " + ", ".join(f"{key} {[float(f'{step[key]:.4g}') for step in steps]}" for key in ("loss", "grad_norm")), flush=True)


def main():
    arguments = case_options(__doc__, FOLDER)
    for name in cases():
        if arguments.asked(name):
            run(name, arguments.out)


if __name__ == "__main__":
    main()
