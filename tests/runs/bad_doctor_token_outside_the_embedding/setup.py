import json

from staging import copy_model, edit_json

model = copy_model()
tokens = json.loads((model / "tokenizer.json").read_text(encoding="utf-8"))["added_tokens"]
edit_json(model / "tokenizer.json", added_tokens=[*tokens, {**tokens[0], "id": 384, "content": "<|new|>"}])
