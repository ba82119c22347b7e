"""A model of this process as what the program opens: its own folder while the model is what that holds, else one that is written into the inputs.

It is looked at when a run begins, as TRL would train it then. What its folder already has on disk is linked there, and not written again.
"""
import copy
import json
import os
import pathlib
import shutil
import tempfile

from hone.errors import Refused
from hone.trl import adapters, machine, models, own_layers
from hone.trl.rows import is_named

FOLDER = "model"
BODY, HEAD = "model-body.safetensors", "model-head.safetensors"
INDEX = "model.safetensors.index.json"


# ---- when the trainer is made

def is_quantized(model):
    return getattr(model, "hf_quantizer", None) is not None or bool(getattr(model, "is_quantized", False))


def refuse_unknown(model, where, wrapped=True, method=""):
    """What cannot be written as a model's folder, however it is."""
    name = getattr(model, "name_or_path", "") or getattr(getattr(model, "config", None), "_name_or_path", "")

    def refuse(change, instead="save it, and its tokenizer, with save_pretrained(FOLDER) and pass model=FOLDER"):
        instead = (f"pass model={name!r} for what its folder has, or " if name and isinstance(name, str) else "") + instead
        raise Refused(where, "a name or a path, or a model of transformers", f"a {type(model).__name__} in this process's memory; {change}", instead)

    if models.is_wrapped(model):
        change = models.change_of_adapter(model, method) if wrapped else "it has an adapter"
        if change:
            refuse(change, "merge it: model.merge_and_unload()" if not wrapped else "pass a model with one LoRA adapter that is trained")
    elif getattr(model, "peft_config", None):
        refuse("it has an adapter of add_adapter()", "pass the model as it was, and peft_config to the trainer; or adapter_name_or_path in args")
    base = models.base_of(model)
    if not hasattr(getattr(base, "config", None), "to_dict") or not hasattr(base, "base_model_prefix") or not hasattr(base, "save_pretrained"):
        refuse("it is no model of transformers")
    own_layers.refuse(base, where)
    if is_quantized(base) and models.folder_of(base) is None:
        refuse("it is quantized, and its folder is not known",
               "pass the name of the model, and quantization_config to the trainer; or model.dequantize()")


def settings_of(model, where):
    """Beside its name: the type of its numbers, the hub's revision, and how it was quantized from a folder that is not."""
    if is_named(model):
        return {}
    base = models.base_of(model)
    out = models.settings_of(model)
    if not is_quantized(base):
        return out
    stored = json.loads((models.folder_of(base) / "config.json").read_text(encoding="utf-8")).get("quantization_config")
    return {**out, **({} if stored else adapters.quantization_settings(getattr(base.config, "quantization_config", None), where))}


def name_of(model, inputs):
    """What the options say until the run begins: the folder's name, or where the model is going to be."""
    if is_named(model):
        return os.fspath(model)
    base = models.base_of(model)
    return base.name_or_path if models.folder_of(base) is not None else os.fspath(pathlib.Path(inputs) / FOLDER)


def is_adapted(model):
    """Whether it is an object with an adapter that changes what it computes."""
    return models.is_model(model) and any(bool((value != 0).any()) for key, value in model.state_dict().items() if ".lora_B." in key)


def is_same_model(model, other, name, method):
    """Whether `other`, a name or an object, computes what the model does as it begins. `name`: what the options call the model."""
    if is_adapted(model) or is_adapted(other):
        return False  # TRL takes a reference as it is
    if is_named(model) or model is None or is_named(other):
        given = os.fspath(other) if is_named(other) else models.base_of(other).name_or_path
        return models.is_same(given, name) and not any(any(differences(one, method)) for one in (model, other) if models.is_model(one))
    import torch
    if models.names_of(models.base_of(model).config) != models.names_of(models.base_of(other).config):
        return False
    own, others = models.base_state(model), models.base_state(other)
    return own.keys() == others.keys() and all(torch.equal(value.cpu(), others[key].cpu().to(value.dtype)) for key, value in own.items())


def rows_of_embedding(model):
    """Of a model in memory; None of a name, whose folder says it."""
    if model is None or is_named(model):
        return None
    made = models.base_of(model).get_input_embeddings()
    return made.weight.shape[0] if made is not None else None


# ---- when a run begins

def tokenizer_of(base, where):
    """The folder that the model's tokenizer is in: the run's own copy of the model has none."""
    folder = models.folder_of(base)
    if folder is None or not any((folder / name).is_file() for name in ("tokenizer.json", "tokenizer_config.json", "tokenizer.model")):
        raise Refused(f"{where}, processing_class", "the tokenizer of a model that has no folder of its own", "none",
                      "pass processing_class=tokenizer")
    return os.fspath(folder)


def is_new_head(key):
    return key.startswith(models.HEADS)


def differences(model, method):
    """(configuration, tensors): what a model has otherwise than its folder, "" where nothing; a head that the folder has not is "head"."""
    base, folder = models.base_of(model), models.folder_of(models.base_of(model))
    files = models.files_of(folder) if folder is not None else []
    if not files:
        return "no files", "no files"
    config = models.changed_config(base, folder, method)
    tensors = models.changed_tensors(model, files, models.HEADS, is_quantized(base))
    if not tensors and any(is_new_head(key) for key in models.base_state(model)) and not has_head(files):
        tensors = "head"
    return config, tensors


def has_head(files):
    from safetensors import safe_open
    for file in files:
        with safe_open(file, "pt") as stored:
            if any(is_new_head(name) for name in stored.keys()):
                return True
    return False


def link(base, folder, files, state):
    """A folder of another configuration, and of a head that is in memory only; the tensors are links to files that there are."""
    config = copy.deepcopy(base.config)
    config.architectures = [type(base).__name__]
    config.save_pretrained(folder)
    if getattr(base, "generation_config", None) is not None:
        base.generation_config.save_pretrained(folder)
    head = {name: tensor.detach().cpu().contiguous() for name, tensor in state.items() if is_new_head(name)}
    head = {} if has_head(files) else head
    # A folder with an index has no model.safetensors, which would be read alone.
    names = {file: BODY if head and file.name == "model.safetensors" else file.name for file in files}
    for file, name in names.items():
        os.symlink(file.resolve(), folder / name)
    if not head:
        index = files[0].parent / INDEX
        if index.is_file():  # also of one shard, whose name is not model.safetensors
            shutil.copy2(index, folder / INDEX)
        return
    from safetensors import safe_open
    from safetensors.torch import save_file
    save_file(head, folder / HEAD, metadata={"format": "pt"})
    places = dict.fromkeys(head, HEAD)
    for file, name in names.items():
        with safe_open(file, "pt") as stored:
            places.update(dict.fromkeys(stored.keys(), name))
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": places}, indent=2) + "\n", encoding="utf-8")


def refuse_own_folder(source, target, where):
    """Before anything is written to `target`: the files that are read would be gone."""
    if source is not None and target.exists() and target.samefile(source):
        raise Refused(where, "a model whose folder is not what this run writes its inputs to", os.fspath(target),
                      "move that folder, or set another output_dir")


def write(model, target, where, links):
    """The model as it is now, into `target`: whole, in the place of an earlier run's. `links`: its tensors are those of its folder."""
    if machine.world_size() > 1:
        raise Refused(where, "a model as its folder has it, in several processes", "one that each process has changed in memory",
                      "save it with save_pretrained(FOLDER) in one process, and pass model=FOLDER")
    base, wrapped = models.base_of(model), models.is_wrapped(model)
    refuse_own_folder(models.folder_of(base), target, where)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = pathlib.Path(tempfile.mkdtemp(prefix=f".{FOLDER}-", dir=target.parent))
    try:
        if links:
            link(base, partial, models.files_of(models.folder_of(base)), models.base_state(model))
        else:
            base.save_pretrained(str(partial), **({"state_dict": models.base_state(model)} if wrapped else {}))
        partial.chmod(0o755)
        shutil.rmtree(target, ignore_errors=True)
        os.replace(partial, target)
    except (ValueError, RuntimeError, NotImplementedError) as error:
        raise Refused(where, "a model whose save_pretrained works", f"{type(error).__name__}: {error}",
                      "see what model.save_pretrained(FOLDER) says") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def plain_members(module):
    """Without what changes no result, and what resize_token_embeddings leaves as it was."""
    silent = ("training", "vocab_size", "gradient_checkpointing", "name_or_path")
    return {name: value for name, value in vars(module).items() if isinstance(value, (bool, int, float, str)) and name[0] != "_" and name not in silent}


def turns_otherwise(module, config):
    """Of rotary positions: their frequencies are numbers of a buffer, which is in no file."""
    import torch
    if getattr(module, "inv_freq", None) is None:
        return False
    try:
        made = type(module)(copy.deepcopy(config)).inv_freq
    except (TypeError, AttributeError):
        return False  # made of something else than the configuration
    return made.shape != module.inv_freq.shape or not torch.allclose(module.inv_freq.cpu(), made)


def differs_inside(base):
    """Modules keep numbers of the configuration that they were made with: the name of one that is not what the configuration says now."""
    import torch
    with torch.device("meta"):
        made = dict(type(base)(copy.deepcopy(base.config)).named_modules())
    for name, module in base.named_modules():
        other = made.get(name)
        if other is None or type(other).__name__ != type(module).__name__:
            continue  # PEFT's module, or the caller's
        own, now = plain_members(module), plain_members(other)
        changed = next((key for key in own.keys() & now.keys() if own[key] != now[key]), None)
        if changed is not None:
            return f"{name}.{changed} is {own[changed]!r} in the model, and its configuration says {now[changed]!r}"
        if turns_otherwise(module, base.config):
            return f"{name}.inv_freq is not what its configuration says"
    return ""


def refuse_inside(base, where, method):
    folder = models.folder_of(base)
    change = models.changed_config(base, folder, method) if folder is not None else ""
    inside = differs_inside(base) if change else ""
    if inside:
        raise Refused(where, "a configuration with which the model was made", f"{change}; {inside}",
                      "set it when the model is made: from_pretrained(NAME, OPTION=VALUE), or save the model, load it again, and pass that")


def written(model, inputs, method, where):
    """The options that name the model as it is now: none where its folder has it."""
    base = models.base_of(model)
    config, tensors = differences(model, method)
    if not config and not tensors:
        return {}
    if is_quantized(base):
        raise Refused(f"{where}, model", "a quantized model that is otherwise what its folder holds", config or tensors,
                      "pass model.dequantize(), which is trained as it is, or the name of the model and quantization_config")
    refuse_inside(base, f"{where}, model", method)
    target = pathlib.Path(inputs) / FOLDER
    write(model, target, f"{where}, model", links=tensors in ("", "head"))
    return {"model_name_or_path": os.fspath(target), "dtype": str(base.dtype).removeprefix("torch."), "model_revision": None}
