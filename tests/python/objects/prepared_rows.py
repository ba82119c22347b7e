"""trainer.train_dataset and eval_dataset after the constructor: hone.trl's and TRL's have the same columns and the same rows.

usage: prepared_rows.py MODEL OUT [CASE...]
"""
import sys

import hone.trl
import trl
import trl.experimental.cpo
import trl.experimental.orpo
from datasets import Dataset, IterableDataset
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer

MODEL, OUT = sys.argv[1], sys.argv[2]
TEMPLATE = ("{% for m in messages %}{% if m.role == 'assistant' %}a {% generation %}{{ m.content }} .{% endgeneration %}{% else %}u {{ m.content }} ."
            "{% endif %}{% endfor %}{% if add_generation_prompt %}a {% endif %}")


def turn(role, text):
    return [{"role": role, "content": text}]


def rows(*each):
    return Dataset.from_list([one(n) for n in range(6) for one in each])


TEXTS = rows(lambda n: {"text": "one two three " * (n + 1), "source": n})
PROMPTED = rows(lambda n: {"prompt": f"say {n} " * (n + 1), "completion": f"word {n}"})
CHATS = rows(lambda n: {"messages": turn("user", f"ask {n}") + turn("assistant", f"get number {n} " * (n + 1))})
SHARED = rows(lambda n: {"conversations": [{"from": "user", "value": f"ask {n}"}, {"from": "assistant", "value": "yes"}]})
TURNS = rows(lambda n: {"prompt": turn("user", f"ask {n}"), "completion": turn("assistant", "get it " * (n + 1))})
TOKENS = rows(lambda n: {"input_ids": [1, 2, 3, 4 + n]})
MASKED = rows(lambda n: {"input_ids": [1, 2, 3, 4 + n], "completion_mask": [0, 0, 1, 1]})
PAIRS = rows(lambda n: {"prompt": f"say {n} " * (n + 1), "chosen": f" yes {n}", "rejected": f" no, never {n}"})
WHOLE = rows(lambda n: {"chosen": f"say {n} yes", "rejected": f"say {n} no"})
CHOICES = rows(lambda n: {"prompt": turn("user", f"ask {n}"), "chosen": turn("assistant", "yes"), "rejected": turn("assistant", f"no {n}")})
TOLD = rows(lambda n: {"chosen": turn("user", f"ask {n}") + turn("assistant", "yes"), "rejected": turn("user", f"ask {n}") + turn("assistant", "no")})
MARKED = rows(lambda n: {"prompt": f"say {n} ", "completion": f"word {n}", "label": n % 2 == 0})
SCORED = rows(lambda n: {"chosen_ids": [1, 2, 3 + n], "rejected_ids": [1, 2]})
CASES = {  # (method, rows, args)
    "texts": ("SFT", TEXTS, {}), "short texts": ("SFT", TEXTS, {"max_length": 7}), "their ends": ("SFT", TEXTS, {"max_length": 7, "truncation_mode": "keep_end"}),
    "prompts": ("SFT", PROMPTED, {}), "short prompts": ("SFT", PROMPTED, {"max_length": 8}), "whole prompts": ("SFT", PROMPTED, {"completion_only_loss": False}),
    "chats": ("SFT", CHATS, {}), "assistant": ("SFT", CHATS, {"assistant_only_loss": True}), "turns": ("SFT", TURNS, {}),
    "assistant of turns": ("SFT", TURNS, {"assistant_only_loss": True}), "ShareGPT": ("SFT", SHARED, {}), "tokens": ("SFT", TOKENS, {}),
    "masks": ("SFT", MASKED, {}), "masks that count": ("SFT", MASKED, {"completion_only_loss": True}),
    "bfd": ("SFT", CHATS, {"packing": True, "max_length": 32}), "split": ("SFT", TEXTS, {"packing": True, "packing_strategy": "bfd_split", "max_length": 16}),
    "wrapped": ("SFT", TEXTS, {"packing": True, "packing_strategy": "wrapped", "max_length": 16}),
    "packed to train": ("SFT", TEXTS, {"packing": True, "eval_packing": False, "max_length": 32}),
    "shuffled": ("SFT", TEXTS, {"shuffle_dataset": True}), "shuffled and packed": ("SFT", TEXTS, {"shuffle_dataset": True, "packing": True, "max_length": 32}),
    "another end": ("SFT", TEXTS, {"eos_token": "<|endoftext|>"}), "skipped": ("SFT", TOKENS, {"dataset_kwargs": {"skip_prepare_dataset": True}}),
    "pairs": ("DPO", PAIRS, {}), "short pairs": ("DPO", PAIRS, {"max_length": 12}), "whole pairs": ("DPO", WHOLE, {}), "choices": ("DPO", CHOICES, {}),
    "told": ("DPO", TOLD, {}), "marked": ("KTO", MARKED, {"per_device_train_batch_size": 4}), "short marked": ("KTO", MARKED, {"max_length": 5}),
    "marked without a KL": ("KTO", MARKED, {"loss_type": "apo_zero_unpaired"}), "unpaired": ("KTO", PAIRS, {}), "unpaired turns": ("KTO", TOLD, {}),
    "scored": ("Reward", PAIRS, {}), "scored turns": ("Reward", TOLD, {}), "scored choices": ("Reward", CHOICES, {}), "short scored": ("Reward", PAIRS, {"max_length": 12}),
    "joined": ("CPO", PAIRS, {}), "short joined": ("CPO", PAIRS, {"max_length": 9}), "joined whole": ("ORPO", WHOLE, {}),
    "joined turns": ("ORPO", TOLD, {}), "joined choices": ("CPO", CHOICES, {}), "scored tokens": ("Reward", SCORED, {}), "prompts alone": ("GRPO", rows(lambda n: {"prompt": f"say {n}"}), {}),
}


def one(package, method, data, evaluation, args):
    kind, more = (AutoModelForSequenceClassification, {"num_labels": 1}) if method == "Reward" else (AutoModelForCausalLM, {})
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    tokenizer.chat_template = TEMPLATE
    own = {"reward_funcs": lambda completions, **columns: [0.0] * len(completions)} if method == "GRPO" else {}
    size = {"num_generations": 4} if method == "GRPO" else {}
    if package is trl and method in ("CPO", "ORPO"):
        package = getattr(trl.experimental, method.lower())
    args = getattr(package, f"{method}Config")(output_dir=OUT, report_to="none", bf16=False, **{"per_device_train_batch_size": 4, **size, **args})
    return getattr(package, f"{method}Trainer")(model=kind.from_pretrained(MODEL, **more), args=args, train_dataset=data, eval_dataset=evaluation,
                                                processing_class=tokenizer, **own)


def same(name, theirs, ours):
    assert list(theirs.column_names or next(iter(theirs))) == list(ours.column_names or next(iter(ours))), (name, theirs.column_names, ours.column_names)
    for number, (one, other) in enumerate(zip(theirs, ours, strict=True)):
        assert one == other, (name, number, one, other)


for name, (method, data, args) in CASES.items():
    if len(sys.argv) > 3 and name not in sys.argv[3:]:
        continue
    evaluation = data.select(range(4))
    theirs, ours = (one(package, method, data, evaluation, args) for package in (trl, hone.trl))
    same(name, theirs.train_dataset, ours.train_dataset)
    same(f"{name}, evaluation", theirs.eval_dataset, ours.eval_dataset)
    assert method == "ORPO" or theirs.processing_class.pad_token == ours.processing_class.pad_token, name  # TRL's ORPO sets none
    assert theirs.processing_class.eos_token == ours.processing_class.eos_token
    assert ours.train_dataset is ours.train_dataset and ours._train_rows is data, name
    print("ok", name, flush=True)
for method, data in (("SFT", CHATS), ("DPO", PAIRS), ("KTO", MARKED), ("Reward", PAIRS)):
    streams = [one(package, method, data.to_iterable_dataset(), {"one": data, "two": data.to_iterable_dataset()}, {"max_steps": 1}) for package in (trl, hone.trl)]
    same(method, *(stream.train_dataset for stream in streams))
    for part in ("one", "two"):
        same(method, *(stream.eval_dataset[part] for stream in streams))
    assert isinstance(streams[1].train_dataset, IterableDataset)
    print("ok a stream for", method, flush=True)
print("all is as it should be")
