"""What from_pretrained() gives while a script is recorded: a name with options, and no weights."""
import functools
import re
import types

from hone.errors import Refused, RefusedName
from hone.recorded import record, tensors
from hone.trl import adapters, model_files, models

# Methods that change nothing of what is trained: they give the model back.
SAME = ("cuda", "cpu", "train", "eval", "requires_grad_for_inputs", "gradient_checkpointing_enable",
        "gradient_checkpointing_disable", "enable_input_require_grads", "disable_input_require_grads", "tie_weights", "print_trainable_parameters",
        "config_class", "set_adapter", "for_training", "for_inference", "compile", "save_pretrained", "push_to_hub", "zero_grad",
        "enable_adapter_layers", "set_attn_implementation")
CASTS = {"half": "float16", "float": "float32", "bfloat16": "bfloat16"}  # methods, and the types that they give the weights
TYPES = ("float16", "float32", "bfloat16")
# Modules that models have at the top.
PARTS = ("model", "lm_head", "transformer", "score", "backbone")
# Attributes that scripts set, and that change no step.
SILENT = ("is_parallelizable", "model_parallel", "use_cache", "hf_device_map", "supports_gradient_checkpointing", "is_loaded_in_4bit",
          "is_loaded_in_8bit", "name_or_path", "warnings_issued", "generation_config", "config", "max_seq_length", "padding_side")


def word(value):
    """Of torch.bfloat16 "bfloat16"."""
    return str(value).removeprefix("torch.") if value is not None else None


class Held:
    """A model of a script: `name`, `settings` (options of hone), `adapter` (PEFT's configuration), `unsloth`."""

    def __init__(self, name, settings, kind="causal", unsloth=False, limit=None):
        self.__dict__.update(name_or_path=str(name), settings=dict(settings), kind=kind, unsloth=unsloth, max_seq_length=limit, adapter=None,
                             place=record.place(), known={})

    # ---- what scripts ask of it

    @property
    def config(self):
        if "config" not in self.known:
            self.known["config"] = self.own_config() or types.SimpleNamespace(_name_or_path=self.name_or_path)
        return self.known["config"]

    def own_config(self):
        """What its files say; None where they are not here."""
        return model_files.read_config(self.name_or_path, "config.json", "AutoConfig")

    @property
    def generation_config(self):
        return self.known.setdefault("generation_config", types.SimpleNamespace())

    @property
    def dtype(self):
        import torch
        return getattr(torch, str(self.settings.get("dtype")), torch.bfloat16)

    @property
    def device(self):
        import torch
        return torch.device("cuda:0")

    @property
    def peft_config(self):
        if self.adapter is None:
            raise AttributeError("peft_config")
        return {"default": self.adapter}

    @property
    def is_quantized(self):
        return bool(self.settings.get("load_in_4bit") or self.settings.get("load_in_8bit"))

    def __getattr__(self, name):
        if name in SAME:
            return lambda *_, **__: self
        if name in CASTS:
            return lambda *_, **__: self.to(CASTS[name])
        if name.startswith("_") or name in ("get_base_model", "hf_quantizer", "quantization_method", "active_adapter"):
            raise AttributeError(name)
        if name in PARTS:
            return tensors.part_of([one for _, one in self.named_parameters()], [name])
        raise RefusedName(f"model.{name}", "what --run knows of a model: its name, its options and the shapes of its parameters",
                          "a method or a part that needs its weights", "leave it out of what is run before train(), or write hone's own file")

    def __setattr__(self, name, value):
        if name not in SILENT:
            raise Refused(f"model.{name}", "the model as its files have it", f"a {type(value).__name__} in the place of its own",
                          "hone computes by itself: take it away, or write hone's own file")
        if name in ("config", "generation_config"):
            self.known[name] = value
        else:
            self.__dict__[name] = value

    def to(self, *arguments, dtype=None, **_):
        """Places change nothing; a type is that of the weights."""
        named = [word(one) for one in (*arguments, dtype) if str(one).removeprefix("torch.") in TYPES]
        if named and not self.is_quantized:
            self.settings.update(settings_of({"dtype": named[-1]}))
        return self

    def __call__(self, *_, **__):
        return getattr(self, "forward")

    def parameters(self, *_):
        return [one for _, one in self.named_parameters()]

    def named_parameters(self, *_, **__):
        if "parameters" not in self.known:
            found = tensors.parameters_of(self.name_or_path)
            if found is None:
                raise Refused("model.parameters()", "the model's files here, whose headers name its parameters", f"none of {self.name_or_path}",
                              "fetch it with `hf download`")
            self.known["parameters"] = found
        return [(one.name, one) for one in self.known["parameters"]]

    def requires_grad_(self, trained=True):
        for one in self.parameters():
            one.requires_grad_(trained)
        return self

    def num_parameters(self, only_trainable=False, **_):
        return sum(one.numel() for one in self.parameters() if one.requires_grad or not only_trainable)

    def get_memory_footprint(self, *_):
        return sum(one.numel() * one.element_size() for one in self.parameters())

    def get_nb_trainable_parameters(self):
        return self.num_parameters(True), self.num_parameters()

    def get_base_model_name(self):
        return self.name_or_path

    def resize_token_embeddings(self, size=None, *_, **__):
        """A size that the files have changes nothing; another is a change of the weights."""
        have = getattr(self.config, "vocab_size", None)
        if size is not None and have is not None and size > have:
            raise Refused("model.resize_token_embeddings", f"at most the {have} tokens that the model's files have rows for", f"{size}",
                          "save the resized model and its tokenizer with save_pretrained(FOLDER), and use FOLDER")
        if size is not None and have is not None and size < have:
            record.note("resize_token_embeddings", f"{size} tokens of {have}: the model is taken with all its rows")
        return self

    def generate(self, inputs=None, *_, **named):
        """Before train(): a script that looks at what the model says."""
        record.note("model.generate", "no weights are loaded: it gives its input back; rows that are made of it are not those of the run")
        return named.get("input_ids", inputs)

    def add_adapter(self, config, *_, **__):
        self.__dict__["adapter"] = config

    # ---- what becomes of it

    def refuse_changed(self, where):
        """A configuration that the script has changed: its values are of another model than that of the files."""
        now, own = self.known.get("config"), None
        if now is not None and hasattr(now, "to_dict"):
            own = self.own_config()
        if own is None or not hasattr(own, "to_dict"):
            return
        change = models.difference("its configuration", *({name: value for name, value in models.names_of(one).items() if name not in models.OF_TOKENIZER}
                                                          for one in (own, now)))
        if change:
            raise Refused(f"{where}, model.config", "what the model's folder has", change, "save the model with this configuration, and use that folder")

    def frozen(self):
        """unfrozen_parameters, where a script has frozen some parameters and made no adapter."""
        found = self.known.get("parameters")
        if found is None or self.adapter is not None or all(one.requires_grad for one in found):
            return {}
        trained = [one.name for one in found if one.requires_grad]
        if not trained:
            return {"unfrozen_parameters": []}
        return {"unfrozen_parameters": [f"{re.escape(name)}$" for name in trained]}


def settings_of(given):
    """Options of the arguments of from_pretrained: type, quantization, revision."""
    out = {}
    dtype = word(given.get("dtype", given.get("torch_dtype")))
    if dtype == "float16":
        raise Refused("from_pretrained, dtype", "bfloat16 or float32", "float16: it overflows in training, and needs scaling of the loss (NUM-03)",
                      "load it in bfloat16")
    out["dtype"] = dtype or "auto"
    out |= adapters.quantization_settings(given.get("quantization_config"), "from_pretrained")
    for name in ("load_in_4bit", "load_in_8bit"):
        if given.get(name):
            out[name] = True
    if given.get("revision"):
        out["model_revision"] = given["revision"]
    return out


@functools.lru_cache(maxsize=None)
def auto_class(name, kind):
    """AutoModelForCausalLM and its like."""
    class Auto:
        def __init__(self, *_, **__):
            raise Refused(name, f"{name}.from_pretrained(NAME)", "a model made in memory", "save it with save_pretrained(FOLDER), and use FOLDER")

        @classmethod
        def from_pretrained(cls, pretrained_model_name_or_path, *_, **given):
            if kind not in ("causal", "scores"):
                raise Refused(f"{name}.from_pretrained", "a model that writes text, or a reward model", f"{name}", "hone trains on text")
            made = Held(pretrained_model_name_or_path, settings_of(given), kind)
            if given.get("config") is not None:
                made.config = given["config"]
            return made

        @classmethod
        def from_config(cls, *_, **__):
            raise Refused(f"{name}.from_config", f"{name}.from_pretrained(NAME)", "a model with new weights, which no file has",
                          "save it with save_pretrained(FOLDER), and use FOLDER")

    Auto.__name__ = Auto.__qualname__ = name
    return Auto


def class_for(name):
    """A stand-in for a class of models of transformers, by its name; None where it is no such class."""
    if name in ("AutoModelForCausalLM",) or (name.endswith(("ForCausalLM", "LMHeadModel")) and not name.startswith("TF")):
        return auto_class(name, "causal")
    if name == "AutoModelForSequenceClassification" or name.endswith("ForSequenceClassification"):
        return auto_class(name, "scores")
    if name.startswith("AutoModel") or name.endswith(("ForConditionalGeneration", "ForTokenClassification", "ForQuestionAnswering", "ForMaskedLM")):
        return auto_class(name, "other")
    return None
