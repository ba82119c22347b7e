"""Data sets of the calling process as files that the program reads: JSON Lines, one row a line."""
import base64
import collections.abc
import datetime
import decimal
import enum
import json
import math
import os
import pathlib

from hone.errors import Refused, RefusedType

RAW = "_hone_rows"  # of a data set that prepared_rows.py has made: the rows that it was made of, which the program reads
TEXT = "text, numbers, lists and mappings (docs/data.md)"


def is_named(data):
    """Whether `data` is a path, or a name of the hub: the program reads it itself."""
    return isinstance(data, (str, os.PathLike))


def raw_of(data):
    """Its own rows where a script has filtered or copied it since: copies have the attribute too, and are other objects."""
    made, rows = getattr(data, RAW, (None, None))
    return rows if made == id(data) else data


def plain(value, where):
    """As hone reads Parquet: times in ISO form, decimals as text, binary as base64; NaN as null."""
    if value is None or isinstance(value, (bool, int)):
        return value.value if isinstance(value, enum.Enum) else value
    if isinstance(value, str):
        return str(value.value) if isinstance(value, enum.Enum) else value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): plain(item, where) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item, where) for item in value]
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    if hasattr(type(value), "tolist"):  # numpy's and torch's
        return plain(value.tolist(), where)
    module = type(value).__module__.split(".")[0]
    raise Refused(where, f"rows of {TEXT}", f"a {type(value).__name__} of {module}" if module != "builtins" else f"a {type(value).__name__}",
                  "hone trains on text: remove this column" if module == "PIL" else "remove the column, or make text or numbers of it")


def refuse_features(data, argument):
    """Pictures, sounds and videos of a datasets.Dataset, by the column's name."""
    for name, feature in (getattr(data, "features", None) or {}).items():
        while isinstance(feature, list) and feature:
            feature = feature[0]
        feature = getattr(feature, "feature", feature)
        if type(feature).__name__ in ("Image", "Audio", "Video", "Pdf"):
            raise Refused(f"{argument}, column {name}", f"columns of {TEXT}", f"{type(feature).__name__} data",
                          f"hone trains on text: data.remove_columns({name!r})")


def refuse_transform(data, argument):
    """TRL's error in SFT: rows that a function makes each time they are read are not the same rows twice."""
    form = getattr(data, "format", None)
    if isinstance(form, dict) and form.get("type") == "custom":
        raise Refused(argument, "rows that are the same each time", "a data set that uses `Dataset.with_transform()` or set_transform(); TRL takes it with "
                      "skip_prepare_dataset=True where the rows are trainer-ready", "make the rows with data.map(function), or pass list(data)")


def is_splits(data):
    """A DatasetDict, or a mapping like one: names to data sets."""
    return isinstance(data, dict) and all(isinstance(name, str) for name in data)


def refuse_splits(data, argument):
    if is_splits(data):
        raise RefusedType(argument, "one split: it must be a `Dataset` or `IterableDataset`",
                          f"a `{type(data).__name__}` of {', '.join(data) or 'nothing'}", f"pass one of them: data[{next(iter(data), 'train')!r}]")


def refuse_several(data, samples, argument):
    """The evaluations of a run that samples are of one set of prompts."""
    if samples and is_splits(data):
        raise Refused(argument, "one set of prompts, beside eval_strategy", f"a mapping of {', '.join(data)}",
                      "pass one of them, or leave eval_strategy out: evaluate(datasets) takes them one by one")


def refuse_once(data, argument):
    if isinstance(data, collections.abc.Iterator):
        raise Refused(argument, "rows that can be read again", f"a {type(data).__name__}, which gives its rows once",
                      "pass list(rows), or datasets.IterableDataset.from_generator(function)")


def rows_of(data, argument):
    """An iterator of dicts; Refused for what is none."""
    data = raw_of(data)
    refuse_splits(data, argument)
    refuse_once(data, argument)
    kind = type(data).__name__
    if not hasattr(data, "__iter__"):
        raise Refused(argument, "a datasets.Dataset, a list of dicts, or a path", f"a {kind}")
    refuse_features(data, argument)
    return iter(data)


def write(data, path, argument, function=None, enough=None):
    """Writes the rows of `data`, each changed by `function`, to `path`, until `enough(row, bytes)`; the file is complete or absent. Returns their
    number."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    count = 0
    try:
        with open(partial, "w", encoding="utf-8") as file:
            for count, row in enumerate(rows_of(data, argument), 1):
                where = f"{argument}, row {count - 1}"
                if not isinstance(row, dict):
                    raise Refused(where, "a dict of columns", f"a {type(row).__name__}")
                changed = {name: plain(value, f"{where}, column {name}") for name, value in (function(row, where) if function else row).items()}
                file.write(json.dumps(changed, ensure_ascii=False, allow_nan=False) + "\n")
                if enough is not None and enough(row, file.tell() if count % 64 == 0 else 0):
                    break
        if count == 0:
            raise Refused(argument, "rows", "none")
        os.replace(partial, path)
    except UnicodeEncodeError as error:
        raise Refused(f"{argument}, row {count - 1}", "text that UTF-8 can write", f"half a surrogate pair: {error.reason}") from None
    finally:
        partial.unlink(missing_ok=True)
    return count
