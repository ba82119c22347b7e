import json
import pathlib

from staging import TINY

talk = pathlib.Path("talk")
talk.mkdir()
tokenizer = json.loads((TINY / "tokenizer.json").read_text())
known = [one["id"] for one in tokenizer["added_tokens"]] + list(tokenizer["model"]["vocab"].values())
flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
for number, token in enumerate(("<|turn|>", "<|turn_end|>"), max(known) + 1):
    tokenizer["added_tokens"].append({"id": number, "content": token, **flags})
(talk / "tokenizer.json").write_text(json.dumps(tokenizer))
template = "{% for m in messages %}<|turn|>{{ m.role }} {{ m.content }}<|turn_end|>{% endfor %}{% if add_generation_prompt %}<|turn|>assistant {% endif %}"
(talk / "tokenizer_config.json").write_text(json.dumps({"chat_template": template, "eos_token": "<|turn_end|>"}))
