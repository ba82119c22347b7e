"""What trainer.model is: the model that the program trains, as far as this process has to do with it.

Its configuration and its files are here; its tensors are in the program, and after train() in the result's folder. What wants tensors opens
that folder with transformers and PEFT, once, when it is asked.
"""
import json
import math
import os
import pathlib
import shutil
import types

from hone.errors import Refused
from hone.trl import attributes, models, own_files

# Of a result's folder: what belongs to the model, and not to its tokenizer.
FILES = ("adapter_*", "base_adapters.json", "config.json", "generation_config.json", "model*.safetensors", "model.safetensors.index.json", "README.md")

# Arguments of save_pretrained that change nothing here: which process writes, of which state, in files of which size.
OF_SAVING = ("is_main_process", "state_dict", "save_function", "max_shard_size", "variant", "token", "save_peft_format", "selected_adapters",
             "save_embedding_layers", "save_original_format", "repo_id", "private", "commit_message")


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


class TrainedModel:
    """`given`: the object that the trainer was given, or None where it was a name."""

    def __init__(self, trainer, given):
        self._trainer, self._given = trainer, given
        self._kept = {}     # "config", "generation_config": the objects that scripts change
        self._before = {}   # their members when they were asked for
        self._loaded = None
        self._tags = []

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        row = attributes.MODEL.get(name)
        if row is not None and row.value is attributes.CALLED:
            return self._same
        if name in attributes.LOADED:
            return getattr(self._open(name), name)
        return attributes.missing(attributes.MODEL, name, self._where)

    def __setattr__(self, name, value):
        row = attributes.MODEL.get(name)
        if not name.startswith("_") and (row is None or row.use != attributes.NEUTRAL):
            attributes.refuse(name, self._where, attributes.Row(attributes.REFUSED, attributes.SAVED))
        object.__setattr__(self, name, value)

    def __call__(self, *arguments, **named):
        return self._open("__call__")(*arguments, **named)

    def __repr__(self):
        return f"<the model that {type(self._trainer).__name__} trains: {self.name_or_path}>"

    @property
    def _where(self):
        return f"{type(self._trainer).__name__}.model"

    def _same(self, *arguments, **named):
        return self

    # ---- configuration

    def _configuration(self, name, file, loader):
        if name not in self._kept:
            given = models.base_of(self._given) if self._given is not None else None
            found = getattr(given, name, None) if given is not None else read_config(self.name_or_path, file, loader)
            if found is None and name == "generation_config" and "transformers" in type(self.config).__module__:
                from transformers import GenerationConfig
                found = GenerationConfig.from_model_config(self.config)
            self._kept[name], self._before[name] = found, members(found)
        return self._kept[name]

    @property
    def config(self):
        return self._configuration("config", "config.json", "AutoConfig")

    @property
    def generation_config(self):
        return self._configuration("generation_config", "generation_config.json", "GenerationConfig")

    def changed(self):
        """{"config": {name: value}, "generation_config": {...}} of what a script has changed here."""
        out = {}
        for name, config in self._kept.items():
            now, before = members(config), self._before[name]
            out[name] = {key: value for key, value in now.items() if key not in before or before[key] != value}
        return out

    def write_changes(self, folder):
        """Into the configuration files of a full model; an adapter has none."""
        if not (folder / "config.json").is_file() or (folder / "adapter_config.json").is_file():
            return
        if self._trainer._tokenizer.files is not None:
            align(folder, self._trainer._given_tokenizer)
        changes = self.changed()
        if self._given is not None:  # its generation_config may have been changed before the trainer was made
            changes["generation_config"] = {**models.changed_generation(models.base_of(self._given)), **changes.get("generation_config", {})}
        for name, values in changes.items():
            path = folder / f"{name}.json"
            if values:
                write_json(path, {**read_json(path), **values})
        own_files.claim(folder, "config.json", "generation_config.json")

    @property
    def name_or_path(self):
        return self._trainer._settings["model_name_or_path"]

    @property
    def dtype(self):
        import torch
        name = self._trainer._settings.get("dtype") or "float32"
        return getattr(torch, name if name != "auto" else "float32")

    @property
    def device(self):
        return self._trainer.args.device

    @property
    def peft_config(self):
        """{"default": LoraConfig}, as PEFT has it; a model without an adapter has no such attribute."""
        if not self._trainer._settings.get("use_peft"):
            raise AttributeError(f"{self._where} has no attribute 'peft_config': no adapter is trained")
        if self._trainer._peft_config is not None:
            return {"default": self._trainer._peft_config}
        from peft import PeftConfig
        return {"default": PeftConfig.from_pretrained(str(self._trainer._result_folder()))}

    @property
    def model_tags(self):
        return list(self._tags)

    def add_model_tags(self, tags):
        """For the model card, as create_model_card writes it."""
        self._tags += [tags] if isinstance(tags, str) else list(tags)

    # ---- the result

    def _result(self, name):
        try:
            return self._trainer._result_folder()
        except Refused:
            instead = f"call train() first; before it, load {self.name_or_path} with transformers"
            raise Refused(f"{self._where}.{name}", "a model that train() has written", "none yet", instead) from None

    def save_pretrained(self, save_directory, push_to_hub=False, safe_serialization=True, **named):
        """The files of the trained adapter or model, as PEFT and transformers save them: float32, without the tokenizer."""
        unknown = next((name for name in named if name not in OF_SAVING), None)
        if unknown is not None:
            raise TypeError(f"save_pretrained() got an unexpected keyword argument {unknown!r}." + attributes.near(unknown, OF_SAVING))
        if not safe_serialization:
            raise Refused(f"{self._where}.save_pretrained, safe_serialization", "safetensors", "False", "leave it out: hone writes no pickles")
        source, target = self._result("save_pretrained"), pathlib.Path(save_directory)
        if not (target.exists() and target.samefile(source)):
            copy_files(source, target, FILES)
        self.write_changes(target)
        if push_to_hub:
            self._trainer.push_to_hub()

    def push_to_hub(self, repo_id=None, token=None, private=None, revision=None, **ignored):
        self._result("push_to_hub")
        return self._trainer._push(repo_id, token, revision, private)

    def get_nb_trainable_parameters(self):
        """(trained, all) of the result's files and its base's."""
        folder = self._result("get_nb_trainable_parameters")
        if not (folder / "adapter_config.json").is_file():
            count = elements(models.files_of(folder))
            return count, count
        trained = elements([folder / "adapter_model.safetensors"])
        base = models.folder_named(self.name_or_path)
        files = models.files_of(base) if base is not None else []
        if not files:
            raise Refused(f"{self._where}.get_nb_trainable_parameters", "safetensors files of the base", f"none in {self.name_or_path}",
                          "the program's start page has the numbers")
        return trained, trained + elements(files)

    def num_parameters(self, only_trainable=False, exclude_embeddings=False):
        if exclude_embeddings:
            return self._open("num_parameters").num_parameters(only_trainable=only_trainable, exclude_embeddings=True)
        return self.get_nb_trainable_parameters()[0 if only_trainable else 1]

    def print_trainable_parameters(self):
        """PEFT's line; before train() the program says it on its start page."""
        try:
            self._trainer._result_folder()
        except Refused:
            print("trainable params: hone says them when train() begins, after `trained`")
            return
        trained, count = self.get_nb_trainable_parameters()
        print(f"trainable params: {trained:,d} || all params: {count:,d} || trainable%: {100 * trained / count:.4f}")

    def merge_and_unload(self, progressbar=False, safe_merge=False, adapter_names=None):
        """A transformers model with the adapter in its weights, in this process."""
        model = self._fresh("merge_and_unload")
        if not hasattr(model, "merge_and_unload"):
            return model  # all of it was trained
        return model.merge_and_unload(safe_merge=safe_merge)

    def unload(self):
        """The base model without the adapter."""
        model = self._fresh("unload")
        return model.unload() if hasattr(model, "unload") else model

    def merge_adapter(self, *arguments, **named):
        self._open("merge_adapter").merge_adapter(*arguments, **named)

    # ---- a copy of it in this process

    def _open(self, name):
        folder = self._result(name)
        stamp = (folder, max(path.stat().st_mtime_ns for path in folder.iterdir() if path.is_file()))
        if self._loaded is None or self._loaded[0] != stamp:
            self._loaded = (stamp, self._fresh(name))
        return self._loaded[1]

    def _fresh(self, name):
        """The result, opened by transformers and PEFT."""
        folder, settings = self._result(name), self._trainer._settings
        where = f"{self._where}.{name}"
        if self._trainer.is_in_train:
            raise Refused(where, "a model in this process", "a run that goes on: the program has it", "use it after train(); state and logs are there")
        adapter = (folder / "adapter_config.json").is_file()
        odd = "a quantized base" if settings.get("load_in_4bit") or settings.get("load_in_8bit") else \
            "frozen adapters below it" if settings.get("base_adapters") else \
            "a GGUF base" if str(self.name_or_path).endswith(".gguf") else ""
        if adapter and odd:
            raise Refused(where, "an adapter on a plain base", odd, f"merge it: hone merge --adapter_name_or_path {folder} --output MERGED, "
                          "and load MERGED with transformers")
        try:
            import transformers
            if adapter:
                import peft
        except ImportError as error:
            raise Refused(where, "transformers and peft in this Python", str(error), f"install them, or use {os.fspath(folder)} elsewhere") from None
        kind = transformers.AutoModelForSequenceClassification if self._trainer._name == "Reward" else transformers.AutoModelForCausalLM
        named = {"num_labels": 1} if self._trainer._name == "Reward" else {}
        if adapter:
            opened = peft.PeftModel.from_pretrained(kind.from_pretrained(self.name_or_path, dtype=self.dtype, **named), str(folder))
        else:
            opened = kind.from_pretrained(str(folder), **named)
        return opened if str(self.device) == "cpu" else opened.to(self.device)
