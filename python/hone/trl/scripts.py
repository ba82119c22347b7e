"""What TRL's example scripts import beside trainers: ModelConfig, ScriptArguments, TrlParser, get_peft_config, ..."""
import dataclasses
import json
import os
import sys
import types
import typing

from hone.errors import HoneError, Refused
from hone.trl import adapters, options
from hone.trl.config import Config, fields_of, public_dataclass


def _any_choice(fields):
    for name, _, field in fields:
        values = options.rows("reward").get(name, {}).get("values")  # the one that has others: SEQ_CLS
        if values:
            field.metadata = types.MappingProxyType({**field.metadata, "choices": values})
    return fields


def _of_table(name):
    """A dataclass of the options that are this class's in TRL. The methods share it, so that a choice is any method's: the program knows which."""
    namespace = {}
    if name == "ModelConfig":  # what scripts for older releases of TRL read
        namespace |= {"torch_dtype": property(lambda self: self.dtype, lambda self, value: setattr(self, "dtype", value)), "trust_remote_code": False}
    return public_dataclass(name, _any_choice(fields_of("sft", lambda row: row["from"] == name)), namespace=namespace)


def __getattr__(name):
    if name not in options.OF_SCRIPTS:
        raise AttributeError(name)
    globals()[name] = _of_table(name)
    return globals()[name]


@dataclasses.dataclass
class DatasetConfig:
    """One data set of a mixture."""
    path: str
    name: str = None
    data_dir: str = None
    data_files: typing.Any = None
    split: str = "train"
    columns: list = None


def get_peft_config(model_args):
    """LoRA's fields of a ModelConfig, as an object with the names of peft.LoraConfig; None without use_peft."""
    if not model_args.use_peft:
        return None
    fields = {field: getattr(model_args, option) for field, option in adapters.LORA.items() if hasattr(model_args, option)}
    targets = fields.get("target_modules")
    if isinstance(targets, (list, tuple)) and len(targets) == 1:
        fields["target_modules"] = targets[0]  # as TRL: one value is all-linear or a regular expression
    return types.SimpleNamespace(**fields)


def get_quantization_config(model_args):
    """The fields of a BitsAndBytesConfig; None without quantization."""
    if not (model_args.load_in_4bit or model_args.load_in_8bit):
        return None
    return types.SimpleNamespace(load_in_4bit=model_args.load_in_4bit, load_in_8bit=model_args.load_in_8bit,
                                 bnb_4bit_quant_type=model_args.bnb_4bit_quant_type, bnb_4bit_use_double_quant=model_args.use_bnb_nested_quant)


def setup_chat_format(model, tokenizer, format="chatml", resize_to_multiple_of=None):
    """ChatML for a tokenizer that has no template, as TRL had it until 0.19: where the model already has its two tokens."""
    if format != "chatml":
        raise Refused("setup_chat_format, format", "chatml", repr(format))
    if tokenizer.chat_template is not None:
        raise ValueError("Chat template is already added to the tokenizer. If you want to overwrite it, please set it to None")
    known = tokenizer.get_vocab()
    missing = [token for token in ("<|im_start|>", "<|im_end|>") if token not in known]
    if missing:
        raise Refused("setup_chat_format", "a tokenizer that has <|im_start|> and <|im_end|>", f"none for {' and '.join(missing)}",
                      "set chat_template to one that uses the model's own tokens; or add them and resize the model, save both with "
                      "save_pretrained(FOLDER), and use FOLDER")
    tokenizer.eos_token = tokenizer.pad_token = "<|im_end|>"
    tokenizer.bos_token = "<|im_start|>"
    tokenizer.chat_template = CHATML
    return model, tokenizer


CHATML = ("{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
          "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")


class LogCompletionsCallback:
    """TRL's samples for a logger. hone samples by itself, so that no callback can."""

    def __init__(self, *arguments, **named):
        raise Refused("LogCompletionsCallback", "samples that the program makes", "a callback that samples from a model in this process",
                      "set log_completions=True (GRPO, RLOO, Online DPO) or sample_prompts and sample_steps (SFT, DPO)")


def get_kbit_device_map():
    return None


def get_dataset(mixture):
    """The data sets of a mixture, one after another, as {"train": ..., "test": ...}; needs the package datasets."""
    import datasets
    parts = []
    for one in mixture.datasets:
        get = one.get if isinstance(one, dict) else lambda name, default=None, of=one: getattr(of, name, default)
        part = datasets.load_dataset(path=get("path"), name=get("name"), data_dir=get("data_dir"), data_files=get("data_files"),
                                     split=get("split") or "train")
        parts.append(part.select_columns(get("columns")) if get("columns") else part)
    if not parts:
        raise ValueError("No datasets were loaded from the mixture")
    whole = datasets.concatenate_datasets(parts)
    if mixture.test_split_size is not None:
        return whole.train_test_split(test_size=mixture.test_split_size)
    return {"train": whole}


class TrlParser:
    """Reads a command line and a YAML file into dataclasses: `parse_args_and_config()`, as TRL's.

    The program judges the values when it runs; here they only become numbers, lists and booleans.
    """

    def __init__(self, dataclass_types=None, prog=None, **ignored):
        one = dataclass_types is not None and not isinstance(dataclass_types, (list, tuple))
        self.dataclass_types = [dataclass_types] if one else list(dataclass_types or ())
        self.prog = prog
        self.fields, self.kinds, self.renamed = {}, {}, {}
        for each in self.dataclass_types:
            hints = typing.get_type_hints(each)
            for field in dataclasses.fields(each):
                if field.init or issubclass(each, Config):
                    self.fields.setdefault(field.name, []).append(each)
                    self.kinds.setdefault(field.name, _kind(hints.get(field.name, str)))
        self._add_former_names()

    def _add_former_names(self):
        """Names that options had: a Config takes them itself, of other classes they are today's."""
        configs = [each for each in self.dataclass_types if issubclass(each, Config)]
        for each in configs:
            for name, row in options.former_rows(each._method).items():
                if name in self.fields:
                    continue  # of the script's own class
                owners = self.fields.get(row["option"], ())
                if owners and each not in owners:
                    self.renamed[name] = row["option"]
                    continue
                self.fields[name] = [each]
                self.kinds[name] = self.kinds.get(row["option"], options.Value)

    def parse_args_and_config(self, args=None, return_remaining_strings=False, fail_with_unknown_args=True):
        words = list(sys.argv[1:] if args is None else args)
        given, unknown = {}, []
        if "--config" in words:
            at = words.index("--config")
            if at + 1 == len(words):
                raise HoneError("[--config] expected the path of a YAML file\n  found:  nothing after it", 2)
            given, unknown = self._of_file(words[at + 1], fail_with_unknown_args)
            del words[at:at + 2]
        unknown += self._of_words(words, given)
        if unknown and fail_with_unknown_args and not return_remaining_strings:
            raise ValueError(f"Some specified arguments are not used: {unknown}." + options.near(unknown[0].lstrip("-"), list(self.fields)))
        made = tuple(each(**{name: value for name, value in given.items() if each in self.fields[name]}) for each in self.dataclass_types)
        return (*made, unknown) if return_remaining_strings else made

    parse_args_into_dataclasses = parse_args_and_config

    def _of_file(self, path, strict):
        try:
            import yaml
        except ImportError:
            raise HoneError("[--config] expected the package pyyaml, which reads it\n  found:  none\n  do:     pip install pyyaml", 2) from None
        with open(path, encoding="utf-8") as file:
            values = {self.renamed.get(name, name): value for name, value in (yaml.safe_load(file) or {}).items()}
        for name, value in (values.pop("env", None) or {}).items():
            os.environ[str(name)] = str(value)
        unknown = [name for name in values if name not in self.fields]
        if unknown and strict:
            raise ValueError(f"Unknown arguments in config file: {', '.join(unknown)}")
        return {name: _number(value, self.kinds[name]) for name, value in values.items() if name in self.fields}, \
            [f"--{name}" for name in unknown]

    def _of_words(self, words, given):
        unknown, at = [], 0
        while at < len(words):
            word = words[at]
            at += 1
            name, mark, value = word.lstrip("-").partition("=")
            name = name.replace("-", "_")
            name = self.renamed.get(name, name)
            end = at
            while end < len(words) and not _is_option(words[end]):
                end += 1
            values = [value] if mark else words[at:end]
            at = at if mark else end
            if word.startswith("--") and name in self.fields:
                given[name] = self._value(name, values)
            elif name.startswith("no_") and name[3:] in self.fields and not values:
                given[name[3:]] = False
            else:
                unknown += [word, *(() if mark else values)]
        return unknown

    def _value(self, name, values):
        kind = self.kinds[name]
        if kind is list:
            return [_word(value) for value in values]
        if not values:
            if kind is bool:
                return True
            raise ValueError(f"--{name}: expected a value")
        if len(values) > 1:
            raise ValueError(f"--{name}: expected one value, found {' '.join(values)}")
        return _converted(values[0], kind, name)


def _is_option(word):
    return word.startswith("--") and len(word) > 2


def _kind(hint):
    """bool, int, float, list, dict or str of an annotation; of a union the first that is one."""
    origin = typing.get_origin(hint)
    if origin in (list, tuple, dict):
        return list if origin is tuple else origin
    if hint in (bool, int, float, list, dict, str, options.Value):
        return hint
    for part in typing.get_args(hint):
        kind = _kind(part)
        if kind is not None and part is not type(None):
            return kind
    return str


def _word(text):
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, (int, float, dict, list)) else text


def _converted(text, kind, name):
    if text in ("None", "null") and kind is not str:
        return None
    try:
        if kind is bool:
            return {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}[text.lower()]
        if kind is int:
            return int(text)
        if kind is float:
            return float(text)
        if kind is dict:
            return json.loads(text)
        if kind is options.Value:
            return options.Value(text)
    except (KeyError, ValueError):
        raise ValueError(f"--{name}: expected {kind.__name__}, found {text!r}") from None
    return text


def _number(value, kind):
    """YAML 1.1 reads 1e-5 as text."""
    if kind is float and isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            pass
    return value
