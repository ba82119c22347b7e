"""The reference model that a script passes: the model itself, a name, or an object that is written to a folder when a run begins."""
import os
import pathlib

from hone.errors import Refused, RefusedMissing
from hone.trl import adapters, live, models, own_layers, states
from hone.trl.rows import is_named

FOLDER = "ref_model"
FILE = "reference.safetensors"  # of a reference that moves, beside the result
QUANTIZED = ("load_in_4bit", "load_in_8bit")


def take(given, model, name, inputs, trainer, method):
    """Takes ref_model away: (the object of another model, or None; the options that name it). `name`: what the options call the model."""
    reference = models.uncompiled(given.get("ref_model"))
    if reference is None:
        return None, {}
    if reference is model and not is_named(model):
        raise Refused(f"{trainer}, ref_model", "a copy of the model, or nothing", "the object of `model` itself: `model` and `ref_model` cannot be the "
                      "same object", "leave ref_model out: the reference is the model as it begins")
    del given["ref_model"]
    if models.is_model(reference):
        own_layers.refuse(models.base_of(reference), f"{trainer}, ref_model")  # of a copy of the model too
    if (is_named(reference) or models.is_model(reference)) and states.is_same_model(model, reference, name, method):
        return None, {}
    if is_named(reference):
        return None, {"ref_model": os.fspath(reference)}
    states.refuse_unknown(reference, f"{trainer}, ref_model", wrapped=False)
    states.refuse_inside(reference, f"{trainer}, ref_model", method)
    return reference, {"ref_model": place_of(reference, inputs), "ref_model_dtype": dtype_of(reference)}


def take_teacher(given, settings, trainer, method):
    """Takes teacher_model away: the options that name it. An object has to be what its folder holds, which the program opens."""
    if method not in ("Distillation", "GKD") or given.get("teacher_model") is None:
        return {}
    teacher = models.uncompiled(given.pop("teacher_model"))
    if is_named(teacher):
        return {"teacher_model_name_or_path": os.fspath(teacher)}
    where = f"{trainer}, teacher_model"
    if settings.get("teacher_model_init_kwargs"):
        raise Refused(where, "a name, with args.teacher_model_init_kwargs", "an object, which is made already", "leave one of them out")
    states.refuse_unknown(teacher, where, wrapped=False)
    states.refuse_inside(teacher, where, method)
    if states.is_quantized(teacher):
        raise Refused(where, "a model that is not quantized", "one with quantization_config", "pass its name, with args.teacher_quantization")
    folder, changed = models.folder_of(teacher), states.differences(teacher, method)
    if folder is None or any(changed):
        raise Refused(where, "a model that is what its folder holds", next(filter(None, changed), "a model without a folder"),
                      "save it with save_pretrained(FOLDER), and pass teacher_model=FOLDER")
    return {"teacher_model_name_or_path": os.fspath(folder), "teacher_model_init_kwargs": {"dtype": dtype_of(teacher)}}


def place_of(reference, inputs):
    """Where it is read from: its own folder, or where it is going to be."""
    return os.fspath(models.folder_of(reference) or pathlib.Path(inputs) / FOLDER)


def dtype_of(reference):
    return "float32" if str(reference.dtype) == "torch.float32" else "bfloat16"


def refuse_quantized(reference, settings, trainer):
    """The program opens both models in the same way."""
    own = {name: bool(settings.get(name)) for name in QUANTIZED}
    found = dict.fromkeys(QUANTIZED, False)
    if states.is_quantized(reference):
        found |= {name: True for name in adapters.quantization_settings(reference.config.quantization_config, trainer) if name in QUANTIZED}
    if own != found:
        words = [next((name for name in QUANTIZED if which[name]), "no quantization") for which in (own, found)]
        raise Refused(f"{trainer}, ref_model", f"a model with {words[0]}, as the model has", f"one with {words[1]}",
                      "load both in the same way, or pass the name of the reference")


def written(reference, inputs, method, where):
    """The options that name the object as it is when a run begins: its folder, where that has it."""
    config, tensors = states.differences(reference, method)
    if not config and not tensors:
        return {"ref_model": os.fspath(models.folder_of(reference))}
    if states.is_quantized(reference):
        raise Refused(f"{where}, ref_model", "a quantized model that is what its folder holds", config or tensors,
                      "save it with save_pretrained(FOLDER) before it is quantized, and pass ref_model=FOLDER")
    target = pathlib.Path(inputs) / FOLDER
    states.write(reference, target, f"{where}, ref_model", links=tensors == "")
    return {"ref_model": os.fspath(target)}


def refuse_moving(method, settings, where):
    """What TRL's constructors refuse of sync_ref_model."""
    if not settings.get("sync_ref_model"):
        return
    if method in ("GRPO", "GMPO", "RLOO") and not settings.get("beta", 0.05 if method == "RLOO" else 0.0):
        raise RefusedMissing(f"{where}, args.sync_ref_model", "a reference that is used", "`sync_ref_model=True` while `beta=0.0`: there is no "
                             "`ref_model`, and nothing to synchronize", "set sync_ref_model=False, or beta to a non-zero value")
    if settings.get("use_peft"):
        raise RefusedMissing(f"{where}, args.sync_ref_model", "all weights trained", "`sync_ref_model=True` while using a PEFT model, which is "
                             "currently not supported, as in TRL: the reference is the model without its adapter, and no other model is there "
                             "that could move", "set sync_ref_model=False, or train all weights")
    if settings.get("precompute_ref_log_probs"):
        raise Refused(f"{where}, args.sync_ref_model", "a reference that stays, for log-probabilities that are computed once",
                      "`sync_ref_model=True` together with `precompute_ref_log_probs=True`", "set one of them to False")


def take_moved(folder, reference):
    """The values of a reference that moved in a run, into the object, in place."""
    file = pathlib.Path(folder) / FILE
    if not file.is_file():
        return
    from safetensors import safe_open
    state = reference.state_dict()
    with safe_open(file, "pt") as stored:
        places = [(name, models.place_in(state, name, reference.base_model_prefix)) for name in stored.keys()]
        missing = next((name for name, key in places if key is None), None)
        if missing is not None:
            raise Refused("trainer.ref_model", "a model whose tensors have the names of its files", f"no {missing} in a {type(reference).__name__}",
                          f"read {file}")
        live.copy_tensors((state[key], stored.get_tensor(name)) for name, key in places)
