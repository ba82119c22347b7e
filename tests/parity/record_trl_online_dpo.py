"""Runs of TRL's OnlineDPOTrainer on CPU in fp32, for hone to replay: FIXTURES/trl_online_dpo/<case>.json, <case>.jsonl and
<case>.safetensors. usage: record_trl_online_dpo.py [--only PREFIX] [--out FOLDER]

TRL samples, scores and trains by itself; what it made is read off on the way (Recorder). Model and adapter are tiny_llama's, whose B
is not zero: a run continues it, and TRL's reference is a copy of the whole; cases named new_* begin with an adapter of their own (its
values, B not zero either, are `before.<PEFT key>`), and TRL's reference is the base. So that completions end at different places,
every eighth token ends one.

TRL's own defects are mended here, by name, where a case is to be compared past them (`mended` of the case; hone copies none):
  padding        objective/kl, entropy, non_score_reward and rlhf_reward count what stands behind a completion: `_forward` gives 0 there
  accumulation   gradients are sums over micro-batches: divided by their number before the backward
  betas          a list is indexed by an epoch that is no whole number: by its whole part
  remainder      objective/rlhf_reward of an epoch's short last micro-batch is that of the first completions alone: of both
Cases as_trl_* are TRL's as it is. A loss is logged in four digits: here it is the mean of what training_step returned, unrounded, over
the step's own micro-batches (TRL divides by gradient_accumulation_steps, also where an epoch's last step has fewer).

<case>.jsonl: a line a step, in hone's form of rollouts (src/train/batches/rollout_batch.h): the prompts of its micro-batches one after
another, the two completions of each beside each other, `slices` the micro-batches.
<case>.json: versions; model, adapter, data; options (what differs from TRL's defaults, in TRL's names); mended; padded (completions
of a micro-batch differ in length); reward_names; steps.
<case>.safetensors: grad.<PEFT key> of the first step before clipping; after.<PEFT key> of the cases whose names end in KEPT."""
import json
import math
import tempfile

from common import FIXTURES, apply_rule, peft_key, versions, write_json, write_tensors
from trl_training import case_options

import torch
from datasets import Dataset
from peft import LoraConfig, PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback
from trl.experimental.online_dpo import OnlineDPOConfig, OnlineDPOTrainer

MODEL = FIXTURES / "tiny_llama"
ADAPTER = MODEL / "adapter"
FOLDER = "trl_online_dpo"
ENDS = list(range(2, 384, 8))  # 48 of 384 tokens end a completion
KEPT = ("sigmoid", "ipo", "new_base", "betas", "penalty", "epochs")
UNLOGGED = {"total_flos", "train_loss", "train_runtime", "train_samples_per_second", "train_steps_per_second"}
PROMPTS = ["What is 43 + 21?", "Add 7 and 12.", "Name a colour.", "How many legs has a spider, and how many has an ant?",
           "Is 17 prime?", "Spell the word cat backwards.", "What comes after Tuesday?", "2 * 9 =", "Say something short.",
           "Count from three to nine without the even numbers, please.", "Why?", "Half of 64 is"]
# adam_epsilon: with 1e-8 AdamW makes a whole step of a gradient that is only rounding, and later steps differ by 5e-4.
SHARED = dict(bf16=False, per_device_train_batch_size=3, max_new_tokens=12, learning_rate=5e-3, adam_epsilon=1e-4, max_steps=4,
              beta=[0.5])
ALL = ("padding", "accumulation", "betas", "remainder")


def first(completion_ids, **_):
    """Eighths: exact in fp32, so that ties are ties."""
    return [(7 * sum(ids) + len(ids)) % 13 / 8 - 0.5 for ids in completion_ids]


def often_equal(completion_ids, **_):
    return [float(sum(ids) % 2) for ids in completion_ids]


def some_none(completion_ids, **_):
    return [None if sum(ids) % 3 == 0 else len(ids) / 8 for ids in completion_ids]


def online_cases():
    """name -> (options, reward functions, mended, ends, a new adapter?)"""
    cases = {}

    def case(name, rewards=(first,), mended=("padding",), ends=ENDS, new=False, chat=False, **options):
        cases[name] = ({**SHARED, **options}, rewards, mended, ends, new, chat)

    case("sigmoid")
    case("ipo", loss_type="ipo")
    case("at_temperature_one", temperature=1.0, top_k=40)
    case("accumulated", mended=ALL, gradient_accumulation_steps=2, per_device_train_batch_size=2)
    case("accumulated_ipo", mended=ALL, gradient_accumulation_steps=3, per_device_train_batch_size=2, loss_type="ipo",
         max_grad_norm=0.05, weight_decay=0.1, lr_scheduler_type="cosine", warmup_steps=1)
    case("penalty", missing_eos_penalty=0.75)
    case("ties", rewards=(often_equal,), per_device_train_batch_size=4)
    case("two_rewards", rewards=(first, some_none), reward_weights=[1.0, 0.5])
    case("betas", mended=ALL, beta=[0.5, 0.2, 0.1], per_device_train_batch_size=4, num_train_epochs=4, max_steps=-1)
    case("epochs", mended=ALL, per_device_train_batch_size=5, gradient_accumulation_steps=2, num_train_epochs=2, max_steps=-1)
    case("cut", per_device_train_batch_size=1, max_length=20, max_steps=5)
    case("chat", chat=True)
    case("new_base", new=True)
    case("new_ipo", new=True, loss_type="ipo", mended=ALL, gradient_accumulation_steps=2)
    case("as_trl_padded", mended=())
    case("as_trl_unended", mended=(), ends=[383])  # all completions are as long as they may be: nothing is padded
    case("as_trl_accumulated", mended=("padding",), gradient_accumulation_steps=4, per_device_train_batch_size=1, max_grad_norm=0.0,
         max_steps=1)
    return cases


def rows_of(chat):
    return [{"prompt": [{"role": "user", "content": prompt}] if chat else prompt, "row": row} for row, prompt in enumerate(PROMPTS)]


def digits9(values):
    """fp32 numbers in the 9 digits that hold them."""
    return [float(f"{x:.9g}") for x in values]


def adapter(model):
    """{PEFT key: parameter} of what trains."""
    return {peft_key(name): value for name, value in model.named_parameters() if "lora_" in name and ".default." in name}


class Trainer(OnlineDPOTrainer):
    """Reads micro-batches, losses and first gradients off on the way, and mends what `mended` names."""
    mended, gradients = (), None

    @property
    def beta(self):
        if isinstance(self._beta, list) and "betas" in self.mended:
            epoch = int(self.state.epoch or 0)
            return self._beta[epoch] if epoch < len(self._beta) else self._beta[-1]
        return OnlineDPOTrainer.beta.fget(self)

    def watch(self, mended):
        self.mended, self.gradients, self.batches, self.losses = mended, {}, [], []
        backward, clip = self.accelerator.backward, self.accelerator.clip_grad_norm_

        def divided(loss, **kwargs):
            self.now["loss"] = loss.item()
            return backward(loss / self.current_gradient_accumulation_steps if "accumulation" in self.mended else loss, **kwargs)

        def clipped(*args, **kwargs):
            self.keep_gradients()
            return clip(*args, **kwargs)

        self.accelerator.backward, self.accelerator.clip_grad_norm_ = divided, clipped
        if "remainder" in mended:  # gather_for_metrics cuts to as many rows as the last batch has prompts
            self.accelerator.gather_for_metrics = self.accelerator.gather

    def keep_gradients(self):
        if not self.gradients:
            self.gradients = {key: value.grad.clone() for key, value in adapter(self.model).items()}

    def _generate(self, model, prompts, images=None):
        out = super()._generate(model, prompts, images)
        prompt_ids, prompt_mask, ids, mask, _ = out
        self.now = {"mask": mask, "prompts": [row[keep.bool()].tolist() for row, keep in zip(prompt_ids, prompt_mask)],
                    "ids": [row[keep.bool()].tolist() for row, keep in zip(ids, mask)]}
        return out

    def _forward(self, model, prompt_ids, prompt_mask, completion_ids, completion_mask, vision_inputs=None):
        out = super()._forward(model, prompt_ids, prompt_mask, completion_ids, completion_mask, vision_inputs)
        return out * completion_mask if "padding" in self.mended else out

    def training_step(self, model, inputs, num_items_in_batch=None):
        # Functions and their values, one by one: TRL keeps the sum alone.
        plain, self.columns = list(self.reward_funcs), []

        def seen(function):
            def wrapped(**kwargs):
                self.columns.append(function(**kwargs))
                return self.columns[-1]
            return wrapped

        self.reward_funcs = [seen(one) for one in plain]
        out = super().training_step(model, inputs, num_items_in_batch)
        self.reward_funcs = plain
        self.now |= {"rows": list(inputs["row"]), "rewards": list(zip(*self.columns))}
        self.pending = getattr(self, "pending", []) + [self.now]
        if self.accelerator.sync_gradients:
            self.batches.append(self.packed(self.pending))
            self.losses.append(sum(one["loss"] for one in self.pending) / len(self.pending))
            if self.args.max_grad_norm == 0:
                self.keep_gradients()
            self.pending = []
        return out

    def packed(self, micro_batches):
        prompts, samples, slices = [], [], []
        for one in micro_batches:
            slices.append([])
            count = len(one["rows"])
            for at in range(count):
                assert one["prompts"][at] == one["prompts"][count + at]
                prompts.append({"row": one["rows"][at], "ids": one["prompts"][at]})
                for which in (at, count + at):
                    ids = one["ids"][which]
                    slices[-1].append(len(samples))
                    samples.append({"prompt": len(prompts) - 1, "ids": ids, "truncated": ids[-1] not in self.eos_token_ids,
                                    "rewards": [None if value is None else digits9([value])[0] for value in one["rewards"][which]]})
        return {"format": "hone-rollouts-1", "generation": len(self.batches), "reward_names": self.reward_func_names,
                "prompts": prompts, "samples": samples, "slices": slices}


def run(name, out):
    options, rewards, mended, ends, new, chat = online_cases()[name]
    tokenizer = AutoTokenizer.from_pretrained(str(MODEL))
    model = AutoModelForCausalLM.from_pretrained(str(MODEL), dtype=torch.float32, attn_implementation="sdpa")
    model.generation_config.eos_token_id = ends
    tensors, given = {}, {}
    if new:
        given["peft_config"] = LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", task_type="CAUSAL_LM")
    else:
        model = PeftModel.from_pretrained(model, str(ADAPTER), is_trainable=True)
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(model, reward_funcs=list(rewards), train_dataset=Dataset.from_list(rows_of(chat)), processing_class=tokenizer,
                          args=OnlineDPOConfig(output_dir=folder, use_cpu=True, report_to="none", logging_steps=1, disable_tqdm=True,
                                               save_strategy="no", **options), **given)
        if new:
            apply_rule(trainer.model)
            tensors |= {f"before.{key}": value.clone() for key, value in adapter(trainer.model).items()}
        trainer.watch(mended)
        trainer.pop_callback(PrinterCallback)
        trainer.train()
    steps = [{key: value for key, value in entry.items() if key not in UNLOGGED}
             for entry in trainer.state.log_history if "loss" in entry]
    assert len(steps) == len(trainer.losses) == len(trainer.batches)
    for step, loss in zip(steps, trainer.losses):
        step["loss"] = loss
    samples = [one for batch in trainer.batches for one in batch["samples"]]
    cut = sum(one["truncated"] for one in samples) / len(samples)
    assert ends != ENDS or (0.05 < cut < 0.6 and len({len(one["ids"]) for one in samples}) > min(5, len(samples) // 4)), f"{name}: {cut} are cut"
    write_json(out / FOLDER / f"{name}.json", {
        "versions": versions(), "model": str(MODEL), "adapter": None if new else str(ADAPTER),
        "data": str(FIXTURES / FOLDER / ("messages.jsonl" if chat else "prompts.jsonl")), "options": options, "mended": list(mended),
        "padded": any(len({len(batch["samples"][i]["ids"]) for i in part}) > 1 for batch in trainer.batches for part in batch["slices"]),
        "reward_names": trainer.reward_func_names, "steps": steps})
    (out / FOLDER / f"{name}.jsonl").write_text("\n".join(json.dumps(batch, separators=(",", ":")) for batch in trainer.batches) + "\n")
    tensors |= {f"grad.{key}": value for key, value in trainer.gradients.items()}
    if name.endswith(KEPT):
        tensors |= {f"after.{key}": value for key, value in adapter(trainer.model).items()}
    write_tensors(out / FOLDER / f"{name}.safetensors", tensors)
    shown = [f"{key} {[float(f'{step[key]:.3g}') for step in steps]}" for key in
             ("loss", "grad_norm", "objective/kl", "objective/scores", "rewards/margins", "rewards/accuracies", "beta") if key in steps[0]]
    print(f"{name}: cut {cut:.2f}, " + ", ".join(shown), flush=True)
    assert all(math.isfinite(value) for step in steps for value in step.values())


def main():
    arguments = case_options(__doc__, FOLDER)
    out = arguments.out
    for chat in (False, True):
        lines = [json.dumps(row) for row in rows_of(chat)]
        (out / FOLDER / ("messages.jsonl" if chat else "prompts.jsonl")).write_text("\n".join(lines) + "\n")
    for name in online_cases():
        if arguments.asked(name):
            run(name, out)


main()
