"""lm-eval of the user's Python, which asks a server of hone (commands/serving/lm_eval.h): the words of lm-eval are its arguments.

lm-eval's remote tokenizer puts no token before a text, and no prompt into a chat template (0.4.13). The server does both here, so that
prompts have the tokens that they have in lm-eval's transformers model.
"""
import sys

sys.path[:] = [folder for folder in sys.path if folder not in ("", ".")]  # a file of the working folder is never imported

import json  # noqa: E402
import urllib.error  # noqa: E402
import urllib.request  # noqa: E402

from lm_eval.__main__ import cli_evaluate  # noqa: E402
from lm_eval.models.api_models import TemplateAPI  # noqa: E402


def ask(model, path, **fields):
    url = model.base_url.removesuffix("/v1/completions") + path
    body = json.dumps(fields).encode() if fields else None
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, {"Content-Type": "application/json"})) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        raise RuntimeError(f"{path}: {error.read().decode()}") from error


def tok_encode(self, string, left_truncate_len=None, add_special_tokens=None, truncation=False, **_):
    """The ids of a text, or of each of several. The tokenizer's first token is not put before a text that begins with it."""
    if not isinstance(string, str):
        return [self.tok_encode(one, left_truncate_len, add_special_tokens) for one in string]
    first = self.tokenizer.bos_token
    adds = self.add_bos_token if add_special_tokens is None else add_special_tokens
    adds = bool(adds) and not (first and string.startswith(first))
    ids = ask(self, "/tokenize", prompt=string, add_special_tokens=adds)["tokens"]
    return ids[-left_truncate_len:] if left_truncate_len else ids


def apply_chat_template(self, chat_history, add_generation_prompt=True):
    """The messages as a text. Without a generation prompt the last one is to be continued."""
    fields = {"add_generation_prompt": add_generation_prompt}
    if not add_generation_prompt:
        fields["continue_final_message"] = True
    ids = ask(self, "/tokenize", messages=chat_history, **fields)["tokens"]
    return ask(self, "/detokenize", tokens=ids)["prompt"]


def chat_template(self, chat_template=False):
    """What lm-eval writes into its results."""
    return ask(self, "/tokenizer_info")["chat_template"] if chat_template else None


TemplateAPI.tok_encode = tok_encode
TemplateAPI.apply_chat_template = apply_chat_template
TemplateAPI.chat_template = chat_template

if __name__ == "__main__":
    cli_evaluate()
