"""What the recorders of trainers' masks share: the model's folder, the file of a trainer, and how a row is written down."""
import contextlib
import importlib.abc
import importlib.machinery
import json
import os
import sys
import types
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "tests/fixtures/config/trainer_masks"
# Marks of the trainers' templates that the small tokenizer lacks: without them they would be spelled in letters.
TOKENS = ["<s>", "</s>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|eom_id|>", "<start_of_turn>", "<end_of_turn>",
          "<|system|>", "<|user|>", "<|assistant|>", "<|end|>", "[INST]", "[/INST]",
          "<|begin_of_text|>", "<bos>"]


def make_model(folder, tokens=TOKENS):
    """A model's folder with the small tokenizer and `tokens` behind its own, as the C++ test makes it."""
    source = ROOT / "tests/fixtures/parity/tiny_llama"
    folder.mkdir()
    tokenizer = json.loads((source / "tokenizer.json").read_text(encoding="utf-8"))
    first = max(one["id"] for one in tokenizer["added_tokens"]) + 1
    for number, token in enumerate(tokens):
        tokenizer["added_tokens"].append({"id": first + number, "content": token, "single_word": False, "lstrip": False, "rstrip": False,
                                          "normalized": False, "special": True})
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    for name in ("tokenizer_config.json", "config.json"):
        (folder / name).write_bytes((source / name).read_bytes())
    return folder


def row_of(ids, labels):
    """Ids, and the ranges of those that are trained: never the first, which nothing predicts."""
    ids, ranges, at = list(ids), [], 0
    while at < len(ids):
        end = at
        while end < len(ids) and (labels[end] == -100) == (labels[at] == -100):
            assert labels[end] in (-100, ids[end]), "a label that is another token than the row's"
            end += 1
        if labels[at] != -100 and end > 1:
            ranges.append([max(at, 1), end])
        at = end
    return {"ids": ids, "trained": ranges}


class _Stub(types.ModuleType):
    """A module whose every name is an empty class."""
    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {"__init__": lambda self, *a, **k: None, "__class_getitem__": classmethod(lambda cls, item: cls)})


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, names):
        self.names = names

    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name.split(".")[0] in self.names else None

    def create_module(self, spec):
        return _Stub(spec.name)

    def exec_module(self, module):
        pass


def stub(*names):
    """Empty modules in the place of packages that no token depends on."""
    sys.meta_path.insert(0, _Finder(names))


def write_or_compare(name, version, cases, check):
    """One file a trainer: {trainer, version, tokens, cases: {name: {files, rows, told}}}."""
    lines = [f"{json.dumps(case)}: {json.dumps(one, ensure_ascii=False, separators=(',', ':'))}" for case, one in cases.items()]
    text = json.dumps({"trainer": name, "version": version, "tokens": TOKENS}, separators=(",", ":"))[:-1]
    text += ',"cases":{\n' + ",\n".join(lines) + "\n}}\n"
    file = FOLDER / f"{name}.json"
    if check:
        assert text == file.read_text(encoding="utf-8"), f"{name} makes other tokens or masks than {file.name} has: run this without --check"
        print(f"{len(cases)} runs of {name} {version}: tokens and masks are the recorded ones")
    else:
        FOLDER.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")


@contextlib.contextmanager
def working_in(folder):
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
