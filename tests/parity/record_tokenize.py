"""Records what TRL's SFTTrainer makes of small JSONL files: ids, labels and packed lengths after preparation.

usage: python tests/parity/record_tokenize.py
Writes tests/fixtures/data/rows/*.jsonl and tests/fixtures/data/tokenise.json. The tokenizer and its chat template
are tests/fixtures/text/tiny (make_tiny_tokenizer.py), so record again when those change.
"""

import json
import pathlib
import tempfile

import datasets
import transformers
import trl
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM
from trl import SFTConfig, SFTTrainer

FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "fixtures"
ROWS = FIXTURES / "data" / "rows"
TINY = FIXTURES / "text" / "tiny"
datasets.disable_progress_bars()


def user(content):
    return {"role": "user", "content": content}


def assistant(content):
    return {"role": "assistant", "content": content}


SYSTEM = {"role": "system", "content": "You are a helpful assistant."}
TOOL = {"type": "function", "function": {"name": "add", "parameters": {"x": "number"}}}
FILES = {
    "text": [
        {"text": "The quick brown fox jumps over the lazy dog."},
        {"text": "already ended<|im_end|>"},
        {"text": ""},
        {"text": "über Äpfel 这是 🤖, and a longer text that is surely cut when twelve tokens are kept"},
        {"text": "ends twice<|im_end|><|im_end|>"},
    ],
    "pairs": [
        {"prompt": "What is 12 plus 30?", "completion": " 42"},
        {"prompt": "The answer is ", "completion": "ready"},
        {"prompt": "tokens meet: answ", "completion": "er it.<|im_end|>"},
        {"prompt": "", "completion": "no prompt"},
        {"prompt": "a prompt that alone is longer than what is kept of this row", "completion": "never seen"},
        {"prompt": "no completion", "completion": ""},
    ],
    "chat_pairs": [
        {"prompt": [SYSTEM, user("a")], "completion": [assistant("b")], "chat_template_kwargs": {"enable_thinking": False}},
        {"prompt": [user("12 plus 30?")], "completion": [assistant(" 42 ")], "chat_template_kwargs": {"enable_thinking": True}},
        {"prompt": [user("q"), assistant("w"), user("r")], "completion": [assistant("t"), user("y"), assistant("z")],
         "chat_template_kwargs": {"enable_thinking": True}},
        {"prompt": [user("the completion is not an assistant's")], "completion": [user("so the tokens differ"), assistant("k")],
         "chat_template_kwargs": {"enable_thinking": True}},
    ],
    "messages": [
        {"messages": [SYSTEM, user("a question about numbers"), assistant("the answer is 42.")], "tools": [TOOL]},
        {"messages": [user("hi"), assistant("hello world"), user("and then?"), assistant("silence, and rest, so it is")], "tools": None},
        {"messages": [user("The quick brown fox jumps over the lazy dog. " * 2), assistant("ok")], "tools": None},
    ],
    "tools_text": [{"messages": [user("use it"), assistant("ok")], "tools": json.dumps([TOOL])}],
    "conversations": [
        {"conversations": [{"from": "user", "value": "hello"}, {"from": "assistant", "value": "world"}]},
        {"conversations": [{"from": "system", "value": "short"}, {"from": "user", "value": "x"}, {"from": "assistant", "value": "y"}]},
    ],
}  # fmt: skip
CASES = [
    ("text", {}),
    ("text", {"max_length": 12}),
    ("text", {"max_length": None}),
    ("text", {"max_length": 20, "packing": True}),
    ("pairs", {}),
    ("pairs", {"max_length": 14}),
    ("pairs", {"max_length": 14, "packing": True}),
    ("pairs", {"completion_only_loss": False}),
    ("chat_pairs", {}),
    ("chat_pairs", {"assistant_only_loss": True}),
    ("chat_pairs", {"assistant_only_loss": True, "completion_only_loss": False, "max_length": 30}),
    ("messages", {}),
    ("messages", {"assistant_only_loss": True}),
    ("messages", {"assistant_only_loss": True, "max_length": 60}),
    ("messages", {"max_length": 60, "packing": True}),
    ("tools_text", {}),
    ("conversations", {}),
]


def prepare(name, options):
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=400, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1, num_key_value_heads=1))
    with tempfile.TemporaryDirectory() as folder:
        rows = datasets.load_dataset("json", data_files=str(ROWS / f"{name}.jsonl"), split="train", cache_dir=folder)
        args = SFTConfig(folder, report_to="none", use_cpu=True, bf16=False, **options)
        trainer = SFTTrainer(model, args, train_dataset=rows, processing_class=AutoTokenizer.from_pretrained(TINY))
        out = [dict(row) for row in trainer.train_dataset]
    return [{k: row[k] for k in ("input_ids", "labels", "seq_lengths") if k in row} for row in out]


def main():
    ROWS.mkdir(parents=True, exist_ok=True)
    for name, rows in FILES.items():
        (ROWS / f"{name}.jsonl").write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    cases = [{"file": f"{name}.jsonl", "options": options, "rows": prepare(name, options)} for name, options in CASES]
    versions = {"trl": trl.__version__, "transformers": transformers.__version__, "datasets": datasets.__version__}
    text = json.dumps({"versions": versions, "cases": cases}, separators=(",", ":"))
    (FIXTURES / "data" / "tokenise.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
