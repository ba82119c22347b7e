"""Models that the caller has loaded: taken by their name where they still hold what their folder holds, else refused.

TRL's scripts load a model and pass the object. The program opens the folder itself, so that every tensor is compared with the file.
"""
import json
import os
import pathlib

from hone.errors import Refused
from hone.trl.rows import is_named

# Of a config: what a loaded model has otherwise than its file, and what computes nothing.
SILENT = ("_name_or_path", "architectures", "attn_implementation", "dtype", "id2label", "label2id", "num_labels", "pad_token_id",
          "problem_type", "torch_dtype", "transformers_version", "use_cache", "_from_model_config")
HEADS = ("score.", "classifier.")  # made by from_pretrained where the file has none: a reward model's, at its beginning


def is_model(one):
    return hasattr(one, "forward") and hasattr(one, "parameters")


def names_of(config):
    return {name: value for name, value in config.to_dict().items() if name not in SILENT and not name.startswith("_attn")}


def folder_of(model):
    """Where its files are: its own folder, or the hub's cache. None where neither is there."""
    name = getattr(model, "name_or_path", "") or ""
    if os.path.isdir(name):
        return pathlib.Path(name)
    from transformers.utils import cached_file
    try:
        found = cached_file(name, "config.json", local_files_only=True, revision=getattr(model.config, "_commit_hash", None))
    except (OSError, ValueError):
        return None
    return pathlib.Path(found).parent if found else None


def files_of(folder):
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        return sorted({folder / name for name in json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()})
    one = folder / "model.safetensors"
    return [one] if one.is_file() else []


def place_in(state, name, prefix):
    """A tensor of the file in the model: a bare model's file has no prefix, and one with a head has it."""
    short = name.removeprefix(f"{prefix}.")
    return next((key for key in (name, f"{prefix}.{name}", short) if key in state), None)


def changed_config(model, folder):
    stored = type(model.config).from_pretrained(folder)
    pairs = [("its config", names_of(stored), names_of(model.config))]
    generation = getattr(model, "generation_config", None)
    if generation is not None:
        try:
            own = type(generation).from_pretrained(folder)
        except OSError:
            own = type(generation).from_model_config(stored)
        pairs.append(("its generation_config", names_of(own), names_of(generation)))
    for what, before, now in pairs:
        other = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
        if other:
            return f"{what} has another {other[0]}: {now.get(other[0])!r}, in the folder {before.get(other[0])!r}"
    return ""


def changed_tensors(model, files, new):
    import torch
    from safetensors import safe_open
    state, same = model.state_dict(), set()
    for file in files:
        with safe_open(file, "pt") as stored:
            for name in stored.keys():
                key = place_in(state, name, model.base_model_prefix)
                if key is None:
                    if name.startswith("lm_head."):
                        continue  # a classifier has none
                    return f"it has no {name}, which its file has"
                own = state[key]
                if own.is_meta or not torch.equal(own.detach().cpu(), stored.get_tensor(name).to(own.dtype)):
                    return f"its {key} is not what its file has"
                same.add(own.data_ptr())
    for key, own in state.items():
        if own.data_ptr() not in same and not key.startswith(new):
            return f"it has {key}, which its file has not"
    return ""


def change_of(model, new):
    """In what a model is not what its folder holds; "" where it is. `new`: beginnings of tensors that the folder need not have."""
    if getattr(model, "peft_config", None):
        return "it has an adapter: pass peft_config to the trainer, or adapter_name_or_path in args"
    if getattr(model, "hf_quantizer", None) is not None or getattr(model, "is_quantized", False):
        return "it is quantized: pass quantization_config to the trainer"
    if not hasattr(getattr(model, "config", None), "to_dict") or not hasattr(model, "base_model_prefix"):
        return "it is no model of transformers"
    folder = folder_of(model)
    files = files_of(folder) if folder else []
    if not files:
        return "its safetensors files are not on this machine"
    return changed_config(model, folder) or changed_tensors(model, files, new)


def name_of(model, where, new=()):
    """The name or path that the program opens."""
    if is_named(model):
        return os.fspath(model)
    change = change_of(model, tuple(new))
    if change:
        name = getattr(model, "name_or_path", "") or getattr(getattr(model, "config", None), "_name_or_path", "")
        raise Refused(where, "a name or a path, or a model as its folder has it", f"a {type(model).__name__} in this process's memory; {change}",
                      (f"pass model={name!r}" if name and isinstance(name, str) else "save it with save_pretrained(FOLDER) and pass model=FOLDER") +
                      "; settings of from_pretrained go into model_init_kwargs, a changed model into a folder of its own")
    return model.name_or_path


def settings_of(model):
    """Beside its name: the type of its numbers, and the hub's revision."""
    if is_named(model):
        return {}
    revision = None if os.path.isdir(model.name_or_path) else getattr(model.config, "_commit_hash", None)
    return {"dtype": str(model.dtype).removeprefix("torch."), **({"model_revision": revision} if revision else {})}


def is_same(one, other):
    return one == other or (os.path.exists(one) and os.path.exists(other) and os.path.samefile(one, other))
