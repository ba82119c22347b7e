"""What scripts of the test use of the package `transformers`, where that is not installed: a tokenizer of bytes."""
import json
import types

EOS, PAD, FIRST = 2, 0, 4


class Tokenizer:
    eos_token, bos_token, pad_token, eos_token_id, bos_token_id, pad_token_id = "<eos>", None, "<pad>", EOS, None, PAD
    chat_template = None

    def __init__(self, name):
        self.name_or_path = name

    def __call__(self, text=None, add_special_tokens=True, **_):
        parts = text.split(self.eos_token)
        ids = [FIRST + byte for byte in parts[0].encode()]
        for part in parts[1:]:
            ids += [EOS, *(FIRST + byte for byte in part.encode())]
        return {"input_ids": ids, "attention_mask": [1] * len(ids)}

    def decode(self, ids, **_):
        return b"".join(self.eos_token.encode() if one == EOS else bytes([one - FIRST]) for one in ids).decode()

    def apply_chat_template(self, messages, tokenize=False, **_):
        return "".join(f"<{one['role']}>\n{one['content']}\n" for one in messages) + self.eos_token


class AutoConfig:
    @staticmethod
    def from_pretrained(name, **_):
        with open(f"{name}/config.json", encoding="utf-8") as file:
            return types.SimpleNamespace(**json.load(file))


class AutoTokenizer:
    @staticmethod
    def from_pretrained(name, **_):
        return Tokenizer(name)


class DataCollatorForLanguageModeling:
    def __init__(self, tokenizer, mlm=True):
        self.tokenizer, self.mlm = tokenizer, mlm


class DataCollatorForSeq2Seq:
    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
