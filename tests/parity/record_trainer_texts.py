"""What LLaMA-Factory's own code writes and trains of conversations -> tests/fixtures/config/trainer_texts.json.

usage: record_trainer_texts.py PACKAGE [--check]     PACKAGE: a folder with `llamafactory`, as `pip install --no-deps --target` makes it

Each text is the row as its tokens decode, with its trained parts in [[ ]]. torchaudio, which only sounds need, is left out.
"""
import importlib.machinery
import json
import os
import sys
import types
from pathlib import Path

sys.path.insert(0, sys.argv[1])
os.environ.update(DISABLE_VERSION_CHECK="1", LLAMAFACTORY_VERBOSITY="ERROR")
for name in ("torchaudio",):
    sys.modules.setdefault(name, types.ModuleType(name)).__spec__ = importlib.machinery.ModuleSpec(name, None)

from llamafactory.data.processor.supervised import SupervisedDatasetProcessor
from llamafactory.data.template import TEMPLATES, get_template_and_fix_tokenizer
from transformers import AutoTokenizer

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "tests/fixtures/config/trainer_texts.json"
NAMES = ("chatml", "qwen", "qwen3", "qwen3_nothink", "llama3", "gemma", "mistral", "phi", "alpaca")
TALKS = {
    "one": [{"role": "user", "content": " Hi\n"}, {"role": "assistant", "content": "Yes "}],
    "system": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes"}],
    "several": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"},
                {"role": "assistant", "content": "<think>\nd\n</think>\n\ne"}],
}


def row(name, talk):
    tokenizer = AutoTokenizer.from_pretrained(ROOT / "tests/fixtures/parity/tiny_llama")
    tokenizer.add_special_tokens({"bos_token": "<s>", "eos_token": "</s>"})
    options = types.SimpleNamespace(template=name, cutoff_len=4096, train_on_prompt=False, mask_history=False, tool_format=None, default_system=None,
                                    enable_thinking=True, preserve_thinking=False)  # DataArguments, with its defaults
    template = get_template_and_fix_tokenizer(tokenizer, options)
    system = talk[0]["content"] if talk[0]["role"] == "system" else ""
    turns = talk[1:] if system else talk
    processor = SupervisedDatasetProcessor(template=template, tokenizer=tokenizer, processor=None, data_args=options)
    ids, labels = processor._encode_data_example(turns[:-1], turns[-1:], system, "", [], [], [])
    out, at = "", 0
    while at < len(ids):
        end = at
        while end < len(ids) and (labels[end] == -100) == (labels[at] == -100):
            assert labels[end] in (-100, ids[end])
            end += 1
        text = tokenizer.decode(ids[at:end], skip_special_tokens=False, clean_up_tokenization_spaces=False)
        out += text if labels[at] == -100 else f"[[{text}]]"
        at = end
    # a template that replaces the end token: {eos} is what the tokenizer has then
    return out.replace("</s>", tokenizer.eos_token)


def main():
    assert all(name in TEMPLATES for name in NAMES)
    found = {name: {key: row(name, talk) for key, talk in TALKS.items()} for name in NAMES}
    text = json.dumps({"llamafactory": found, "talks": TALKS}, ensure_ascii=False, separators=(",", ":")).replace('"},', '"},\n') + "\n"
    if "--check" in sys.argv:
        assert text == FILE.read_text(encoding="utf-8"), "LLaMA-Factory writes other texts than the recorded ones: run this without --check"
        print(f"{len(NAMES) * len(TALKS)} rows of LLaMA-Factory's own code are the recorded ones")
    else:
        FILE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
