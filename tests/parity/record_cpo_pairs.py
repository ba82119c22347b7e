"""Records what TRL's CPOTrainer makes of small JSONL files of pairs: ids and labels of tokenize_row.

usage: python tests/parity/record_cpo_pairs.py
Writes tests/fixtures/data/cpo_pairs/*.jsonl and tests/fixtures/data/cpo_pairs.json: each case's file, tokenizer and options, and of
each pair [ids, 1 for each token of the completion] of chosen and of rejected. ORPOTrainer.tokenize_row is run beside it and must give
the same. Tokenizers are tests/fixtures/text/tiny (make_tiny_tokenizer.py), which has a BOS, and the same without one (`no_bos`)."""

import json
from types import MethodType, SimpleNamespace

import transformers
import trl
from accelerate import PartialState
from record_pairs import FILES, SYSTEM, TINY, FIXTURES, assistant, user
from transformers import AutoTokenizer
from trl.data_utils import maybe_apply_chat_template, maybe_extract_prompt
from trl.experimental.cpo import CPOTrainer
from trl.experimental.orpo import ORPOTrainer

ROWS = FIXTURES / "data" / "cpo_pairs"
OWN = {
    # The prompt repeats the conversations' first message (maybe_extract_prompt); a prompt that ends with the assistant's words.
    "mixed": [
        {"prompt": "a question", "chosen": [user("a question"), assistant("an answer")],
         "rejected": [user("a question"), assistant("another")]},
        {"prompt": "q", "chosen": [SYSTEM, user("q"), assistant("w"), user("e"), assistant("r")],
         "rejected": [SYSTEM, user("q"), assistant("w"), user("e"), assistant("t, and more")]},
    ],
    "continued": [
        {"prompt": [user("12 plus 30?"), assistant("The sum is")], "chosen": [assistant("42")], "rejected": [assistant("41, or so")]},
        {"prompt": [user("q"), assistant("w ")], "chosen": [user("y"), assistant("z")], "rejected": [assistant("u")]},
    ],
}  # fmt: skip
CASES = [
    ("explicit", "tiny", {}),
    ("explicit", "no_bos", {}),
    ("explicit", "no_bos", {"max_length": 18}),
    ("implicit", "tiny", {}),
    ("implicit", "no_bos", {"max_length": 12}),
    ("chat_implicit", "tiny", {}),
    ("chat", "tiny", {"max_length": 60}),
    ("chat", "no_bos", {}),
    ("mixed", "tiny", {}),
    ("continued", "tiny", {}),
]


def tokenizer_of(name):
    tokenizer = AutoTokenizer.from_pretrained(TINY)
    if name == "no_bos":
        tokenizer.bos_token = None
    return tokenizer


def prepare(file, name, options):
    rows = [json.loads(line) for line in (ROWS / f"{file}.jsonl").read_text().splitlines()]
    sides = []
    for trainer in (CPOTrainer, ORPOTrainer):
        tokenizer = tokenizer_of(name)
        this = SimpleNamespace(processing_class=tokenizer, is_encoder_decoder=False, max_length=options.get("max_length", 1024))
        this.build_tokenized_answer = MethodType(trainer.build_tokenized_answer, this)
        pairs = []
        for row in rows:
            tokens = trainer.tokenize_row(this, maybe_apply_chat_template({**row, **maybe_extract_prompt(row)}, tokenizer))
            pairs.append({side: [tokens[f"{side}_input_ids"], [int(label != -100) for label in tokens[f"{side}_labels"]]]
                          for side in ("chosen", "rejected")})
        sides.append(pairs)
    assert sides[0] == sides[1]
    return sides[0]


def main():
    PartialState(cpu=True)  # TRL's logger wants one
    ROWS.mkdir(parents=True, exist_ok=True)
    chat = [{key: value for key, value in row.items() if key != "tools"} for row in FILES["chat"]]
    for name, rows in {**FILES, "chat": chat, **OWN}.items():
        (ROWS / f"{name}.jsonl").write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    cases = [{"file": f"{file}.jsonl", "tokenizer": name, "options": options, "pairs": prepare(file, name, options)}
             for file, name, options in CASES]
    versions = {"trl": trl.__version__, "transformers": transformers.__version__}
    text = json.dumps({"versions": versions, "cases": cases}, separators=(",", ":"))
    (FIXTURES / "data" / "cpo_pairs.json").write_text(text + "\n")
    print(f"cpo_pairs: {len(cases)} cases")


if __name__ == "__main__":
    main()
