"""Records what TRL's DPOTrainer makes of small JSONL files of pairs: ids and completion masks after preparation and collator.

usage: python tests/parity/record_pairs.py
Writes tests/fixtures/data/pairs/*.jsonl and tests/fixtures/data/pairs.json: each case's file and options, and of each pair that is
kept [ids, completion mask] of chosen and of rejected. The tokenizer and its chat template are tests/fixtures/text/tiny
(make_tiny_tokenizer.py), so record again when those change."""

import json
import pathlib
import tempfile
from types import SimpleNamespace

import datasets
import transformers
import trl
from transformers import AutoTokenizer
from trl import DPOTrainer
from trl.trainer.dpo_trainer import DataCollatorForPreference

FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "fixtures"
ROWS = FIXTURES / "data" / "pairs"
TINY = FIXTURES / "text" / "tiny"
datasets.disable_progress_bars()


def user(content):
    return {"role": "user", "content": content}


def assistant(content):
    return {"role": "assistant", "content": content}


SYSTEM = {"role": "system", "content": "You are a helpful assistant."}
TOOL = {"type": "function", "function": {"name": "add", "parameters": {"x": "number"}}}
OFF, ON = {"enable_thinking": False}, {"enable_thinking": True}
FILES = {
    "explicit": [
        {"prompt": "What is 12 plus 30?", "chosen": " 42", "rejected": " The answer is 41, or so"},
        {"prompt": "tokens meet: answ", "chosen": "er it.<|im_end|>", "rejected": "ered"},
        {"prompt": "", "chosen": "no prompt", "rejected": "none at all"},
        {"prompt": "a prompt that alone is longer than what is kept of this row", "chosen": "never seen", "rejected": "nor this"},
        {"prompt": "nothing follows", "chosen": "", "rejected": "something"},
        {"prompt": "the same", "chosen": " twice", "rejected": " twice"},
    ],
    "implicit": [
        {"chosen": "What is 12 plus 30? 42", "rejected": "What is 12 plus 30? 41"},
        {"chosen": "The answer is ready", "rejected": "The answer is read"},
        {"chosen": "über Äpfel 这是", "rejected": "über Äpfel 这不"},
        {"chosen": "the same words", "rejected": "the same words"},
        {"chosen": "a", "rejected": "b, from the first character on"},
    ],
    "chat": [
        {"prompt": [SYSTEM, user("a")], "chosen": [assistant("b")], "rejected": [assistant("a long answer, and wrong")],
         "chat_template_kwargs": OFF, "tools": None},
        {"prompt": [user("12 plus 30?")], "chosen": [assistant(" 42 ")], "rejected": [assistant("41")],
         "chat_template_kwargs": ON, "tools": [TOOL]},
        {"prompt": [user("q"), assistant("w"), user("r")], "chosen": [assistant("t"), user("y"), assistant("z")],
         "rejected": [assistant("u")], "chat_template_kwargs": ON, "tools": None},
    ],
    "chat_implicit": [
        {"chosen": [user("a question"), assistant("an answer")], "rejected": [user("a question"), assistant("another")]},
        {"chosen": [SYSTEM, user("q"), assistant("w"), user("e"), assistant("r")],
         "rejected": [SYSTEM, user("q"), assistant("w"), user("f"), assistant("t")]},
        {"chosen": [user("the same"), assistant("one"), user("more")], "rejected": [user("the same"), assistant("one")]},
    ],
}  # fmt: skip
CASES = [
    ("explicit", {}),
    ("explicit", {"max_length": 14}),
    ("explicit", {"max_length": 14, "truncation_mode": "keep_end"}),
    ("explicit", {"max_length": 5, "truncation_mode": "keep_end"}),
    ("explicit", {"max_length": None}),
    ("implicit", {}),
    ("implicit", {"max_length": 9}),
    ("chat", {}),
    ("chat", {"max_length": 40}),
    ("chat_implicit", {}),
    ("chat_implicit", {"max_length": 20, "truncation_mode": "keep_end"}),
]


def prepare(name, options):
    tokenizer = AutoTokenizer.from_pretrained(TINY)
    options = {"max_length": 1024, "truncation_mode": "keep_start", **options}
    args = SimpleNamespace(dataset_num_proc=None, **options)
    with tempfile.TemporaryDirectory() as folder:
        rows = datasets.load_dataset("json", data_files=str(ROWS / f"{name}.jsonl"), split="train", cache_dir=folder)
        # row numbers travel along, so that dropped rows are known
        rows = rows.add_column("row", list(range(len(rows))))
        rows = DPOTrainer._prepare_dataset(SimpleNamespace(_tokenizer=tokenizer), rows, tokenizer, args, "train")
        rows = [dict(row) for row in rows]
    collator = DataCollatorForPreference(pad_token_id=0, **options)
    out = []
    for row in rows:
        batch = collator([row])
        lengths = batch["attention_mask"].sum(1).tolist()
        sides = [[batch[key][side, :lengths[side]].tolist() for key in ("input_ids", "completion_mask")] for side in (0, 1)]
        out.append({"row": row["row"], "chosen": sides[0], "rejected": sides[1]})
    return out


def main():
    ROWS.mkdir(parents=True, exist_ok=True)
    for name, rows in FILES.items():
        (ROWS / f"{name}.jsonl").write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    cases = [{"file": f"{name}.jsonl", "options": options, "pairs": prepare(name, options)} for name, options in CASES]
    versions = {"trl": trl.__version__, "transformers": transformers.__version__, "datasets": datasets.__version__}
    text = json.dumps({"versions": versions, "cases": cases}, separators=(",", ":"))
    (FIXTURES / "data" / "pairs.json").write_text(text + "\n")
    print(f"pairs: {len(cases)} cases")


if __name__ == "__main__":
    main()
