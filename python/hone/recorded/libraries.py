"""What is changed in transformers, torch and huggingface_hub when a script has imported them, and the modules in the place of others."""
import sys
import types

from hone.errors import Refused
from hone.recorded import defaults, held, marked_rows, nothing, peft, record, trainers
from hone.trl import options

GB = 1 << 30


# ---- trl

def trl_name(name):
    """A name of TRL: the recorded trainer, its config, or what hone.trl has."""
    import hone.trl
    for method in options.METHODS:
        if name == f"{method}Trainer":
            return trainers.recorded_class(method)
        if name == f"{method}Config":
            return trainers.config_of(method)
    if name == "DataCollatorForCompletionOnlyLM":
        return marked_rows.CompletionOnly
    if name.startswith("__"):
        raise AttributeError(name)
    if not hasattr(hone.trl, name):
        raise Refused(f"trl.{name}", "a name of TRL that hone has", "one that it has not", "leave it out of what is run before train(), or write hone's own file")
    return getattr(hone.trl, name)


def make_trl(name):
    """`trl`, or a module in it."""
    module = types.ModuleType(name)
    if name == "trl.rewards" or name.startswith("trl.rewards."):
        from hone.trl import rewards
        module.__getattr__ = lambda wanted: getattr(rewards, wanted)
    else:
        module.__getattr__ = trl_name
    module.__version__ = "1.16.0"
    return module


# ---- transformers

class BitsAndBytesConfig(nothing.Kept):
    """The fields that were given."""

    def __init__(self, load_in_8bit=False, load_in_4bit=False, **given):
        super().__init__(load_in_8bit=load_in_8bit, load_in_4bit=load_in_4bit, **given)


def pipeline(*_, **__):
    raise Refused("transformers.pipeline", "a script that trains first", "pipeline() before train(), which needs a model's weights",
                  "leave it out of what is run before train()")


class Seq2SeqTrainer:
    def __init__(self, *_, **__):
        raise Refused("Seq2SeqTrainer", "a trainer of models that only decode", "one of models with an encoder", "hone trains decoders: Trainer, SFTTrainer")


def transformers_name(name):
    """A stand-in by its name; None where transformers' own is used."""
    if name == "Trainer":
        return trainers.Trainer
    if name in ("TrainingArguments", "Seq2SeqTrainingArguments"):
        return defaults.training_arguments()
    return {"BitsAndBytesConfig": BitsAndBytesConfig, "pipeline": pipeline, "Seq2SeqTrainer": Seq2SeqTrainer}.get(name) or held.class_for(name)


def change_transformers(module):
    """Classes of models, the trainer and its arguments, in `transformers` and where they are defined."""
    own = type(module)

    class Changed(own):
        def __getattribute__(self, name):
            made = None if name.startswith("_") else transformers_name(name)
            return made if made is not None else super().__getattribute__(name)

    module.__class__ = Changed


def change_trainer(module):
    module.Trainer = trainers.Trainer


def change_arguments(module):
    module.TrainingArguments = defaults.training_arguments()


def change_hub(module):
    """A login asks the user, or the hub."""
    def login(*_, **__):
        record.note("login", "no login is made")

    for name in ("login", "notebook_login", "interpreter_login", "create_repo", "upload_folder", "upload_file"):
        setattr(module, name, login)


# ---- torch

def change_torch(module):
    """A GPU of today answers; tensors stay where they are."""
    cuda = module.cuda
    props = types.SimpleNamespace(name="NVIDIA H100 80GB HBM3", total_memory=80 * GB, major=9, minor=0, multi_processor_count=132)

    def answer(value, told=True):
        def asked(*_, **__):
            if told and record.is_own(sys._getframe(1).f_code.co_filename):
                record.tell_gpu("torch.cuda")
            return value

        return asked

    for name, value in {"is_available": True, "is_bf16_supported": True, "device_count": 1, "current_device": 0,
                        "get_device_capability": (9, 0), "get_device_name": props.name, "get_device_properties": props,
                        "mem_get_info": (79 * GB, 80 * GB)}.items():
        setattr(cuda, name, answer(value))
    for name, value in {"set_device": None, "empty_cache": None, "synchronize": None, "memory_allocated": 0, "memory_reserved": 0,
                        "max_memory_allocated": 0, "max_memory_reserved": 0, "reset_peak_memory_stats": None, "ipc_collect": None,
                        "manual_seed": None, "manual_seed_all": None}.items():
        setattr(cuda, name, answer(value, told=False))
    tensor_to = module.Tensor.to

    def to(self, *arguments, **named):
        def is_gpu(one):
            return isinstance(one, int) and not isinstance(one, bool) or str(one).startswith("cuda")

        if is_gpu(named.get("device", "")):
            named["device"] = "cpu"
        return tensor_to(self, *("cpu" if is_gpu(one) else one for one in arguments), **named)

    module.Tensor.to = to
    module.Tensor.cuda = lambda self, *_, **__: self


# ---- all of them

def made():
    """{first part of a module's name: what makes it}."""
    from hone.recorded import unsloth
    return {"trl": make_trl, "peft": peft.make, "unsloth": unsloth.make, "unsloth_zoo": unsloth.make,
            **dict.fromkeys(("bitsandbytes", "vllm", "wandb"), nothing.module)}


CHANGED = {"transformers": change_transformers, "transformers.trainer": change_trainer, "transformers.training_args": change_arguments,
           "huggingface_hub": change_hub, "torch": change_torch}

