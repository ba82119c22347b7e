"""Models that the caller has loaded: what they are, and in what they differ from what their folder holds.

TRL's scripts load a model and pass the object. The program opens a folder, so that every tensor is compared with the file (states.py).
"""
import json
import os
import pathlib
import re

from hone.errors import Refused
from hone.trl import machine, options
from hone.trl.rows import is_named

# Of a configuration: what a loaded model has otherwise than its file, and what computes nothing, with the reason.
NEUTRAL = {
    "_name_or_path": "where it is from", "architectures": "the class that opens it", "attn_implementation": "hone has its own attention",
    "dtype": "args and the model's own dtype say it", "torch_dtype": "args and the model's own dtype say it",
    "id2label": "names of classes", "label2id": "names of classes", "num_labels": "a reward model has one",
    "problem_type": "a reward model's loss is its method's", "pad_token_id": "hone never pads", "use_cache": "of generation",
    "transformers_version": "who wrote the file", "_from_model_config": "where it is from", "pretraining_tp": "of slices with the same result",
    "output_attentions": "of what a call returns", "output_hidden_states": "of what a call returns", "return_dict": "of what a call returns",
    "use_return_dict": "of what a call returns", "task_specific_params": "of pipelines", "keys_to_ignore_at_inference": "of evaluation loops",
    "gradient_checkpointing": "hone's own option is recompute", "unsloth_version": "who wrote the file", "auto_map": "the class that opens it",
    "is_decoder": "hone's models are decoders", "finetuning_task": "a name", "tokenizer_class": "of AutoTokenizer", "prefix": "of pipelines",
    "quantization_config": "options say it", "chunk_size_feed_forward": "of slices with the same result", "torchscript": "of exports",
    "experts_implementation": "hone has its own",
}
# Of a configuration too: a trainer of transformers sets them to the tokenizer's.
OF_TOKENIZER = ("bos_token_id", "eos_token_id", "pad_token_id")
# Of a generation_config: what the trainers that sample set themselves, of their args.
OF_ARGS = ("do_sample", "temperature", "top_p", "top_k", "repetition_penalty", "max_new_tokens", "max_length")
# Methods whose completions the model's generation_config would change.
SAMPLERS = tuple(name for name, command in options.METHODS.items() if command in ("grpo", "rloo", "online-dpo", "distill"))
HEADS = ("score.", "classifier.")  # made by from_pretrained where the file has none: a reward model's, at its beginning


def is_model(one):
    return hasattr(one, "forward") and hasattr(one, "parameters")


def names_of(config):
    return {name: value for name, value in config.to_dict().items() if name not in NEUTRAL and not name.startswith(("_attn", "_experts"))}


def uncompiled(model):
    """Of torch.compile(model) the model, with which it shares its parameters; else what is given."""
    return getattr(model, "_orig_mod", model)


def base_of(model):
    """Of a PeftModel the model in it, else the model."""
    model = uncompiled(model)
    return model.get_base_model() if hasattr(model, "get_base_model") else model


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


def folder_named(name):
    """Of a folder, or of a name whose files are in the hub's cache; else None."""
    if os.path.isdir(name):
        return pathlib.Path(name)
    try:
        from transformers.utils import cached_file
        found = cached_file(str(name), "config.json", local_files_only=True)
    except (ImportError, OSError, ValueError):
        return None
    return pathlib.Path(found).parent if found else None


def difference(what, before, now):
    other = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
    return f"{what} has another {other[0]}: {now.get(other[0])!r}, in the folder {before.get(other[0])!r}" if other else ""


def own_generation(model, folder):
    """The generation_config that the folder gives."""
    try:
        return type(model.generation_config).from_pretrained(folder)
    except OSError:
        return type(model.generation_config).from_model_config(type(model.config).from_pretrained(folder))


def changed_generation(model):
    """{name: value} of what a model's generation_config has otherwise than its folder."""
    folder = folder_of(model) if getattr(model, "generation_config", None) is not None else None
    if folder is None:
        return {}
    before, now = own_generation(model, folder).to_dict(), model.generation_config.to_dict()
    return {name: value for name, value in now.items() if before.get(name) != value and name not in ("transformers_version", "_from_model_config")}


def changed_config(model, folder, method):
    """The trainers that sample read the model's special tokens, of both configurations."""
    samples = method in SAMPLERS
    stored = type(model.config).from_pretrained(folder)
    silent = () if samples else OF_TOKENIZER
    before, now = ({name: value for name, value in names_of(config).items() if name not in silent} for config in (stored, model.config))
    change = difference("its config", before, now)
    if change or not samples or getattr(model, "generation_config", None) is None:
        return change
    before, now = ({name: config.to_dict().get(name) for name in OF_TOKENIZER} for config in (own_generation(model, folder), model.generation_config))
    return difference("its generation_config", before, now)


def refuse_sampling(model, where, method):
    """Of a generation_config: what args do not say, and the program would not do."""
    folder = folder_of(model)
    if method not in SAMPLERS or getattr(model, "generation_config", None) is None:
        return
    before = own_generation(model, folder) if folder is not None else type(model.generation_config)()
    change = difference("its generation_config", *({name: value for name, value in names_of(config).items() if name not in (*OF_ARGS, *OF_TOKENIZER)}
                                                   for config in (before, model.generation_config)))
    if change:
        raise Refused(where, "a model that samples as args say", change, "sampling options go into args: generation_kwargs and others")


def base_state(model):
    """Tensors by the names that the model had before PEFT wrapped its modules, without the adapter's own."""
    out = {}
    for name, tensor in base_of(model).state_dict().items():
        if ".lora_" in name or ".modules_to_save." in name or "trainable_tokens_" in name:
            continue
        out[re.sub(r"\.(base_layer|original_module|token_adapter)(?=\.)", "", name)] = tensor
    return out


def as_in_files(model, state):
    """By the names that save_pretrained would give: of experts, transformers has other tensors in memory."""
    try:
        from transformers.core_model_loading import revert_weight_conversion
        return revert_weight_conversion(base_of(model), state)
    except Exception:
        return state  # another version of transformers: names that differ are a difference


def changed_tensors(model, files, new, quantized=False):
    """`quantized`: numbers of 4 and 8 bits are not compared, since only their library can."""
    import torch
    from safetensors import safe_open
    state, same = as_in_files(model, base_state(model)), set()
    packed = {name.rpartition(".")[0] for name, tensor in state.items() if quantized and not tensor.is_floating_point()}
    for file in files:
        with safe_open(file, "pt") as stored:
            for name in stored.keys():
                key = place_in(state, name, model.base_model_prefix)
                if key is None:
                    if name.startswith("lm_head."):
                        continue  # a classifier has none
                    return f"it has no {name}, which its file has"
                own = state[key]
                if key.rpartition(".")[0] in packed:
                    continue
                shape = stored.get_slice(name).get_shape()
                if own.is_meta or list(own.shape) != shape or not torch.equal(own.detach().cpu(), stored.get_tensor(name).to(own.dtype)):
                    return f"its {key} is not what its file has"
                same.add(own.data_ptr())
    for key, own in state.items():
        if own.data_ptr() not in same and not key.startswith(new) and key.rpartition(".")[0] not in packed:
            return f"it has {key}, which its file has not"
    return ""


def is_wrapped(model):
    """Whether it is a PeftModel; add_adapter of transformers leaves the model's own class."""
    return bool(getattr(model, "peft_config", None)) and hasattr(model, "get_base_model")


def adapter_of(model):
    """The name of the one that is trained."""
    active = model.active_adapter
    return active if isinstance(active, str) else active[0] if len(active) == 1 else ""


def change_of_adapter(model, method=""):
    """Why a run cannot go on with the adapter of a PeftModel; "" where it can, fresh or trained."""
    name = adapter_of(model)
    if not name:
        return f"several of its adapters are active: {', '.join(model.active_adapter)}"
    config = model.peft_config[name]
    kind = getattr(config.peft_type, "value", config.peft_type)
    if kind != "LORA":
        return f"its adapter is of type {kind}: use peft.LoraConfig"
    if method == "Reward" and not any(f"score.modules_to_save.{name}." in key for key in model.state_dict()):
        return f"its adapter {name} has no head, which the program trains: LoraConfig(task_type='SEQ_CLS') makes one"
    if config.inference_mode:
        return f"its adapter {name} is frozen: load it with is_trainable=True, or pass peft_config to the trainer"
    return ""


def trained_parameters(model, where):
    """The option unfrozen_parameters of a model that a script has frozen in part; nothing where all of it is trained."""
    trained = [name for name, value in model.named_parameters() if value.requires_grad]
    frozen = [name for name, value in model.named_parameters() if not value.requires_grad]
    if not frozen:
        return {}
    files = as_in_files(model, base_state(model)) if trained else {}
    if not trained or any(name not in files for name in trained + frozen):
        raise Refused(f"{where}, model", "a model some of whose tensors are trained, by the names of its files",
                      f"{len(frozen)} with requires_grad=False: {', '.join(frozen[:3])}{', ...' if len(frozen) > 3 else ''}",
                      "set unfrozen_parameters in args, names of what is trained, or pass a peft_config")
    return {"unfrozen_parameters": [f"{re.escape(name)}$" for name in trained]}


def settings_of(model):
    """Beside its name: the type of its numbers, and the hub's revision."""
    if is_named(model):
        return {}
    model = base_of(model)
    revision = None if os.path.isdir(model.name_or_path) else getattr(model.config, "_commit_hash", None)
    return {"dtype": str(model.dtype).removeprefix("torch."), **({"model_revision": revision} if revision else {})}


def write_adapter(model, folder):
    """The adapter of a PeftModel, from which the run begins."""
    if machine.world_size() > 1:
        raise Refused("a PeftModel in several processes", "one adapter for all", "one that each process has drawn", "pass the model and peft_config to "
                      "the trainer, or set adapter_name_or_path")
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    name = adapter_of(model)
    model.save_pretrained(str(folder), save_embedding_layers=False, selected_adapters=[name])
    for file in (folder / name).glob("adapter_*"):  # PEFT gives every adapter but the default one a folder of its own
        os.replace(file, folder / file.name)


def last_name(model):
    """As TRL names a reward model: the end of its name."""
    return str(model.config._name_or_path).rpartition("/")[2]


def is_same(one, other):
    return one == other or (os.path.exists(one) and os.path.exists(other) and os.path.samefile(one, other))
