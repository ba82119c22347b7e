import json

from staging import copy_model

# Byte-level BPE spells the byte 0x1b as U+011B. Each token that a model can pick becomes ESC [2J and its number.
path = copy_model() / "tokenizer.json"
tokenizer = json.loads(path.read_text(encoding="utf-8"))
special = {token["content"] for token in tokenizer["added_tokens"]}
vocabulary = tokenizer["model"]["vocab"]
tokenizer["model"]["vocab"] = {
    text if text in special or text in "Hello" else f"\u011b[2J{id}": id for text, id in vocabulary.items()}
tokenizer["model"]["merges"] = []
path.write_text(json.dumps(tokenizer), encoding="utf-8")
