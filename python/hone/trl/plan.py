"""What the program is given: a YAML file of options in output_dir/inputs, beside the rows of this process's data sets."""
import enum
import json
import os
import pathlib

from hone.errors import Refused
from hone.trl import adapters, options, rows, streams

FOLDER = "inputs"


def value_of(value, where):
    """As JSON, which YAML reads: enums by their values, paths and dtypes as text."""
    if isinstance(value, enum.Enum):
        return value_of(value.value, where)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, dict):
        return {str(key): value_of(item, f"{where}[{key!r}]") for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [value_of(item, where) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted(value_of(item, where) for item in value)
    if type(value).__module__ == "torch" and type(value).__name__ in ("dtype", "device"):
        return str(value).removeprefix("torch.")
    if hasattr(type(value), "tolist"):
        return value_of(value.tolist(), where)
    raise Refused(where, "a value that YAML can hold", f"a {type(value).__name__}")


def yaml_of(settings):
    return "".join(f"{name}: {json.dumps(value_of(value, name), ensure_ascii=False)}\n" for name, value in settings.items())


def take(settings, more, whose):
    """Adds `more`; Refused where both name an option differently."""
    for name, value in more.items():
        if name in settings and settings[name] is not None and settings[name] != value:
            raise Refused(f"{whose}, {name}", "one value", f"{settings[name]!r} in args, {value!r} here", "set it in one place")
        settings[name] = value


def init_kwargs(settings, trainer):
    """quantization_config in model_init_kwargs may be an object."""
    kwargs = settings.get("model_init_kwargs")
    if isinstance(kwargs, dict):
        kept = {name: value for name, value in kwargs.items() if name != "quantization_config" and value is not None}
        take(settings, adapters.quantization_settings(kwargs.get("quantization_config"), trainer), "model_init_kwargs")
        settings["model_init_kwargs"] = kept
        if not kept:
            del settings["model_init_kwargs"]


def data_settings(folder, train, evaluation, function, trainer, enough=None):
    """Options of the data sets; rows that this process has are written to `folder`: of a stream to train on, until they are `enough`."""
    out = streams.settings(train)

    def named(data, file, argument, enough=None):
        if rows.is_named(data):
            if function is not None:
                raise Refused(f"{trainer}, formatting_func", "rows of this process", f"{argument}={os.fspath(data)!r}",
                              "load the rows and pass them, or write text_template: '{column} ...'")
            return os.fspath(data)
        path = pathlib.Path(folder) / FOLDER / file
        rows.write(data, path, f"{trainer}, {argument}", function, enough)
        return str(path)

    if train is not None:
        out["dataset_name"] = named(train, "train.jsonl", "train_dataset", enough)
    if rows.is_splits(evaluation):
        out["eval_datasets"] = {name: named(data, f"eval-{file_name(name)}.jsonl", f"eval_dataset[{name!r}]")
                                for name, data in evaluation.items()}
    elif evaluation is not None:
        out["eval_dataset"] = named(evaluation, "eval.jsonl", "eval_dataset")
    return out


def file_name(name):
    return "".join(c if c.isalnum() or c in "-_" else "_" for c in name)


def write(folder, settings, name="run.yaml"):
    """The YAML file; its path."""
    path = pathlib.Path(folder) / FOLDER / name
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{name}.{os.getpid()}")
    partial.write_text("# Made by hone.trl of a trainer's arguments.\n" + yaml_of(settings), encoding="utf-8")
    os.replace(partial, path)
    return str(path)


def known(settings, method):
    """Without options that this method does not have and that only say what its default is."""
    return {name: value for name, value in settings.items() if name in options.rows(method) or name in options.former_names(method)
            or value not in (None, False, {}, [])}
