"""The object behind trainer.model: the caller's own, or one that transformers opened because somebody asked for tensors.

The program trains in its own memory. What it has written is copied into the object when train() returns, so that a script finds the trained
parameters where TRL leaves them. Nothing here is imported, and nothing is opened, for a run whose model nobody asks for.
"""
import copy
import dataclasses
import importlib
import os
import sys

from hone.errors import HoneError, Refused
from hone.trl import adapters, models, options

# Of model_init_kwargs: what says which files are opened, and of which type the numbers are. The rest is the program's to judge.
OF_OPENING = ("dtype", "torch_dtype", "revision", "trust_remote_code", "subfolder", "cache_dir", "token")
# Adapters that begin as the base itself, so that a reference without adapter, and one with it, are the same function.
BEGIN_AS_BASE = ("true", "gaussian")
CHANGES_BASE = ("pissa", "olora", "loftq", "corda")  # PEFT's init would take a part out of the base; hone saves the adapter of the whole base


def needed(where, *names):
    """transformers, and peft where an adapter is trained."""
    try:
        return [importlib.import_module(name) for name in names]
    except ImportError as error:
        instead = "install them; save_model() and the files of output_dir need neither"
        raise Refused(where, f"{' and '.join(names)} in this Python", str(error), instead) from None


def kind_of(config, method):
    """The class that TRL opens: the one that config.json names, or the task's."""
    import transformers
    if method == "Reward":
        return transformers.AutoModelForSequenceClassification
    name = (getattr(config, "architectures", None) or [""])[0]
    known = getattr(transformers, name, None) if name.endswith(("ForCausalLM", "ForConditionalGeneration")) else None
    return known or transformers.AutoModelForCausalLM


def is_at_hand():
    """Whether this process has imported what an opened model takes: else nobody can ask for its class."""
    return all(sys.modules.get(name) is not None for name in ("torch", "transformers"))


def class_of(trained):
    """The class that the opened model would have; trained_model's own where that is not known."""
    method, settings = trained._trainer._name, trained._trainer._settings
    if settings.get("use_peft") and sys.modules.get("peft") is not None:
        import peft
        given = trained._trainer._peft_config
        task = getattr(given, "task_type", None) if given is not None else settings.get("lora_task_type", "CAUSAL_LM")
        return peft.MODEL_TYPE_TO_PEFT_MODEL_MAPPING.get(adapters.word(task), peft.PeftModel)
    import transformers
    name = (getattr(trained.config, "architectures", None) or [""])[0]
    found = getattr(transformers, name.replace("ForCausalLM", "ForSequenceClassification") if method == "Reward" else name, None)
    return found if isinstance(found, type) else type(trained)


def opening(settings, method):
    """Arguments of from_pretrained, of the run's options: TRL's own default is float32."""
    given = {name: value for name, value in (settings.get("model_init_kwargs") or {}).items() if name in OF_OPENING and value is not None}
    out = {"dtype": settings.get("dtype") or given.pop("torch_dtype", None) or given.pop("dtype", None) or "float32", **given}
    for option, name in (("model_revision", "revision"), ("trust_remote_code", "trust_remote_code")):
        if settings.get(option):
            out[name] = settings[option]
    return {**out, **({"num_labels": 1} if method == "Reward" else {})}


def refuse_odd(settings, name, where):
    """Bases that the program makes, and transformers would not."""
    odd = "a quantized base" if settings.get("load_in_4bit") or settings.get("load_in_8bit") else \
        "frozen adapters below it" if settings.get("base_adapters") else "a GGUF base" if str(name).endswith(".gguf") else ""
    if odd:
        raise Refused(where, "a plain base, which transformers opens", odd, "after train(): hone merge --adapter_name_or_path OUTPUT_DIR --output "
                      "MERGED, and load MERGED with transformers")


def open_base(settings, method, config, where):
    """The model that the run begins with, without an adapter."""
    needed(where, "transformers")
    name = settings["model_name_or_path"]
    refuse_odd(settings, name, where)
    return kind_of(config, method).from_pretrained(name, **opening(settings, method))


# ---- adapters

def lora_config(given, settings, method):
    """The LoraConfig of PEFT that says what the options say: the caller's own, or one that is made of them."""
    import peft
    if isinstance(given, peft.LoraConfig):
        changes = {}
        if str(adapters.word(getattr(given, "init_lora_weights", True))).startswith(CHANGES_BASE):
            changes["init_lora_weights"] = True
        if method == "Reward":
            changes["task_type"] = "SEQ_CLS"  # PEFT makes no other of a model with a score, and scripts leave ModelConfig's CAUSAL_LM
            if "score" not in (given.modules_to_save or ()):
                changes["modules_to_save"] = [*(given.modules_to_save or ()), "score"]
        return dataclasses.replace(given, **changes) if changes else given
    rows, fields = options.rows(options.METHODS[method]), {}
    for field, option in adapters.LORA.items():
        value = settings.get(option, options.default_of(rows[option]) if option in rows else None)
        if value is not None:
            fields[field] = value
    fields["init_lora_weights"] = "gaussian" if fields.get("init_lora_weights") == "gaussian" else True
    if method == "Reward":
        fields["task_type"] = "SEQ_CLS"
        fields["modules_to_save"] = [*(name for name in fields.get("modules_to_save") or () if name != "score"), "score"]
    targets = fields.get("target_modules")
    if isinstance(targets, (list, tuple)) and len(targets) == 1 and (targets[0] == "all-linear" or not targets[0].isidentifier()):
        fields["target_modules"] = targets[0]  # PEFT reads its word, and a pattern, only as a text
    return peft.LoraConfig(**fields)


def wrapped(model, given, settings, method, where):
    """The PeftModel that TRL would make: of a new adapter, or of the one that the run continues."""
    peft, = needed(where, "peft")
    if settings.get("adapter_name_or_path"):
        return peft.PeftModel.from_pretrained(model, os.fspath(settings["adapter_name_or_path"]), is_trainable=True)
    return peft.get_peft_model(model, lora_config(given, settings, method))


def begins_with_it(settings):
    """Whether a run can begin with PEFT's new adapter without being another run: with one that is the base's function, as its reference is."""
    return str(adapters.word(settings.get("init_lora_weights", True))).lower() in BEGIN_AS_BASE


def counted(config, given, settings, method, where):
    """(trained, all) numbers of the model that the options say, on PyTorch's device `meta`, which keeps none of them."""
    torch, _ = needed(where, "torch", "transformers")
    refuse_odd(settings, settings["model_name_or_path"], where)
    if settings.get("adapter_name_or_path") or settings.get("unfrozen_parameters"):
        raise Refused(where, "a new adapter, or a whole model", "adapter_name_or_path or unfrozen_parameters",
                      "the program's start page has the numbers")
    if method == "Reward":
        config = copy.deepcopy(config)
        config.num_labels = 1
    with torch.device("meta"):
        model = kind_of(config, method).from_config(config) if hasattr(kind_of(config, method), "from_config") else kind_of(config, method)(config)
        if settings.get("use_peft"):
            return wrapped(model, given, settings, method, where).get_nb_trainable_parameters()
    return (model.num_parameters(),) * 2


# ---- the result, into the object

def copy_tensors(pairs):
    """(tensor of the object, tensor of the file): values only, where they are, in the type that they have."""
    import torch
    with torch.no_grad():
        for own, value in pairs:
            if own.shape != value.shape:
                raise HoneError(f"expected a tensor of shape {list(own.shape)}\n  found:  {list(value.shape)} in the result")
            own.copy_(value)


def take_full(folder, model, method):
    """All tensors of a model's folder; those whose names are the file's own one by one, so that there is no second copy in memory."""
    from safetensors import safe_open
    state, places = model.state_dict(), []
    for file in models.files_of(folder):
        with safe_open(file, "pt") as stored:
            places += [(file, name, models.place_in(state, name, model.base_model_prefix)) for name in stored.keys()]
    reached = {state[key].data_ptr() for _, _, key in places if key is not None}
    direct = all(key is not None or name.startswith("lm_head.") for _, name, key in places)
    if direct and all(value.data_ptr() in reached for value in model.parameters()):
        for file in models.files_of(folder):
            with safe_open(file, "pt") as stored:
                copy_tensors((state[key], stored.get_tensor(name)) for at, name, key in places if at == file and key is not None)
        return
    # transformers has other names in memory than in files, such as those of experts: it opens them itself.
    named = {"dtype": model.dtype, **({"num_labels": 1} if method == "Reward" else {})}
    read = kind_of(model.config, method).from_pretrained(str(folder), **named).state_dict()
    copy_tensors((own, read[name]) for name, own in state.items() if name in read)


def take_adapter(folder, model):
    """Of a PeftModel: A and B, whole modules, token rows."""
    from peft import PeftConfig, set_peft_model_state_dict
    from safetensors.torch import load_file
    name = model.active_adapter if isinstance(model.active_adapter, str) else next(iter(model.peft_config))
    if PeftConfig.from_pretrained(str(folder)).r != model.peft_config[name].r:  # PiSSA is saved as a LoRA of twice the rank
        model.delete_adapter(name)
        model.load_adapter(str(folder), adapter_name=name, is_trainable=True)
        model.set_adapter(name)
        return
    found = set_peft_model_state_dict(model, load_file(str(folder / "adapter_model.safetensors")), adapter_name=name)
    if found.unexpected_keys:
        raise HoneError(f"[{folder}] expected the adapter of trainer.model\n  found:  {found.unexpected_keys[0]}, which it has not")


def take(folder, model, method):
    """What a run has written, into the object of this process, in place."""
    if (folder / "adapter_config.json").is_file():
        take_adapter(folder, model)
    else:
        take_full(folder, model, method)
