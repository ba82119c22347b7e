"""Whether the program has the family of a model, asked when a trainer is made: TRL, too, opens the model in its constructor."""
import functools
import json
import os
import re
import sys
import tempfile

from hone.errors import HoneError, Refused
from hone.trl import models, options

# Families of which the program need not be asked; the list of all is its own.
ASKED_OFTEN = ("llama", "qwen2", "qwen3", "mistral", "gemma3_text")


@functools.lru_cache(maxsize=None)
def known():
    """The values of model_type that the program opens, as its error about an unknown one lists them; empty where it says something else."""
    with tempfile.TemporaryDirectory(prefix="hone-families-") as folder:
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
            json.dump({"model_type": "?"}, file)
        try:
            options.printed("convert", "--input", folder, "--output", os.path.join(folder, "out"))
        except HoneError as error:
            found = re.search(r"model_type to be one of (.*)", str(error))
            return tuple(found[1].split(", ")) if found else ()
    return ()


def config_of(model, settings):
    """The members of a model's configuration: of an object, or of config.json. None where neither can be looked at without the hub."""
    if model is not None and not models.is_named(model):
        config = getattr(models.base_of(model), "config", None)
        return config.to_dict() if hasattr(config, "to_dict") else None
    name = settings.get("model_name_or_path")
    # A name of the hub is looked at where transformers, which knows the cache, has been imported already.
    folder = models.folder_named(name) if name and (os.path.isdir(name) or "transformers" in sys.modules) else None
    path = folder / "config.json" if folder is not None else None
    try:
        config = json.loads(path.read_text(encoding="utf-8")) if path is not None and path.is_file() else None
    except ValueError:
        return None  # the program says what is wrong with the file
    return config if isinstance(config, dict) else None


def refuse(model, settings, where):
    config = config_of(model, settings)
    kind = (config or {}).get("model_type")
    if not kind or kind in ASKED_OFTEN:
        return
    families = known()
    if families and kind not in families:
        raise Refused(f"{where}, model", f"a model of a family that hone has: {', '.join(families)}",
                      f"{settings.get('model_name_or_path')}, of type {kind!r}", "docs/comparison.md has the families; take a model of one of them")
