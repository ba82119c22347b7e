"""The files of a model's folder that this process reads and writes itself: configurations, and copies of a result."""
import json
import math
import pathlib
import shutil
import types

from hone.trl import own_files

# Of a result's folder: what belongs to the model, and not to its tokenizer.
FILES = ("adapter_*", "base_adapters.json", "config.json", "generation_config.json", "model*.safetensors", "model.safetensors.index.json", "README.md")


# Trainers of TRL's that give a tokenizer without a token for padding one.
NAMES_PADDING = ("SFT", "DPO", "KTO", "Reward", "GRPO", "GMPO", "RLOO", "CPO")


class Values(types.SimpleNamespace):
    """A configuration where transformers is not installed: the members of its JSON file."""

    def to_dict(self):
        return dict(vars(self))

    def to_json_string(self, use_diff=True):
        return json.dumps(vars(self), indent=2, sort_keys=True) + "\n"

    def get_text_config(self, decoder=False):
        return self

    def save_pretrained(self, save_directory, **ignored):
        folder = pathlib.Path(save_directory)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / self._file).write_text(json.dumps({k: v for k, v in vars(self).items() if k != "_file"}, indent=2) + "\n", encoding="utf-8")
        own_files.claim(folder, self._file)


def read_config(folder, file, loader):
    """Of a folder or a name of the hub: transformers' object where it is installed. None where there is no such file."""
    try:
        import transformers
    except ImportError:
        path = pathlib.Path(folder) / file
        return Values(**json.loads(path.read_text(encoding="utf-8")), _file=file) if path.is_file() else None
    try:
        return getattr(transformers, loader).from_pretrained(folder)
    except (OSError, ValueError):
        return None


def members(config):
    return {} if config is None else {name: value for name, value in config.to_dict().items() if name != "_file"}


def copy_files(source, target, patterns):
    """Files of `source` that match, to `target`; folders of templates too."""
    target.mkdir(parents=True, exist_ok=True)
    for pattern in patterns:
        for path in sorted(source.glob(pattern)):
            if path.is_file():
                if (target / path.name).is_symlink():
                    (target / path.name).unlink()  # inputs/model has links: their files are the base's
                shutil.copy2(path, target / path.name)
            elif path.is_dir():
                shutil.copytree(path, target / path.name, dirs_exist_ok=True)


def elements(files):
    """Numbers in safetensors files, by their headers."""
    count = 0
    for file in files:
        with open(file, "rb") as opened:
            header = json.loads(opened.read(int.from_bytes(opened.read(8), "little")))
        count += sum(math.prod(entry["shape"]) for name, entry in header.items() if name != "__metadata__")
    return count


def read_json(path):
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def write_json(path, values):
    path.write_text(json.dumps(values, indent=2, sort_keys=True, default=str) + "\n", encoding="utf-8")


def text_of(token):
    """Of a special token in a tokenizer's files: the text, or a mapping with it."""
    return token.get("content") if isinstance(token, dict) else token


def name_padding(folder, args):
    """A tokenizer without a token for padding is saved with one, as TRL's trainers give it one: that of args, or the end of the sequence."""
    config = read_json(folder / "tokenizer_config.json")
    if not config or config.get("pad_token") is not None:
        return
    end = config.get("eos_token") or read_json(folder / "special_tokens_map.json").get("eos_token")
    pad = getattr(args, "pad_token", None) or getattr(args, "eos_token", None) or text_of(end)
    if pad is None:
        return
    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        path = folder / name
        if path.is_file():
            path.write_text(json.dumps({**read_json(path), "pad_token": pad}, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    own_files.claim(folder, "tokenizer_config.json", "special_tokens_map.json")


def align(folder, tokenizer):
    """The special tokens of a tokenizer that is not the model's own become the configuration's, as transformers' trainer aligns them:
    an end of the sequence is added, the others are replaced."""
    config, generation = read_json(folder / "config.json"), read_json(folder / "generation_config.json")
    text = config["text_config"] if isinstance(config.get("text_config"), dict) else config
    before = json.dumps([config, generation])
    for name in ("eos_token_id", "bos_token_id", "pad_token_id"):
        number = getattr(tokenizer, name, None)
        stored, stops = text.get(name), generation.get(name)
        several = stops if isinstance(stops, list) else [] if stops is None else [stops]
        if number is None or (number in (stored if isinstance(stored, list) else [stored]) and number in several):
            continue
        is_end = name == "eos_token_id"
        text[name] = [number, *(one for one in stored if one != number)] if is_end and isinstance(stored, list) else number
        generation[name] = [number, *(one for one in several if one != number)] if is_end else number
    if json.dumps([config, generation]) != before:
        write_json(folder / "config.json", config)
        write_json(folder / "generation_config.json", generation)
