"""PEFT's LoraConfig and transformers' BitsAndBytesConfig as hone's options. Neither package is imported: any object with their fields does."""
import dataclasses
import re

from hone.errors import Refused

# Fields of LoraConfig to options.
LORA = {"r": "lora_r", "lora_alpha": "lora_alpha", "lora_dropout": "lora_dropout", "target_modules": "lora_target_modules",
        "exclude_modules": "lora_exclude_modules", "modules_to_save": "lora_modules_to_save", "target_parameters": "lora_target_parameters",
        "bias": "bias", "use_rslora": "use_rslora", "use_dora": "use_dora", "init_lora_weights": "init_lora_weights",
        "rank_pattern": "rank_pattern", "alpha_pattern": "alpha_pattern", "layers_to_transform": "layers_to_transform",
        "layers_pattern": "layers_pattern", "trainable_token_indices": "trainable_token_indices", "task_type": "lora_task_type"}
# Fields that say nothing of the adapter's arithmetic.
SILENT = ("peft_type", "auto_mapping", "peft_version", "base_model_name_or_path", "revision", "inference_mode", "runtime_config",
          "ephemeral_gpu_offload")


def word(value):
    """An enum's value, a bool as hone writes it."""
    value = getattr(value, "value", value)
    return str(value).lower() if isinstance(value, bool) else value


def module_names(value):
    """PEFT's list of names; one name alone would be read as a regular expression."""
    if isinstance(value, str) or not value:
        return value or None
    names = sorted(value) if isinstance(value, (set, frozenset)) else list(value)
    if len(names) == 1 and names[0] != "all-linear":
        return [rf"(.*\.)?{re.escape(names[0])}"]
    return names


def default_of(field):
    if field.default is not dataclasses.MISSING:
        return field.default
    return field.default_factory() if field.default_factory is not dataclasses.MISSING else None


def lora_settings(config, trainer):
    """The options of a LoraConfig; Refused for other kinds of adapters, and for fields that hone does not have."""
    if config is None:
        return {}
    where = f"{trainer}, peft_config"
    kind = word(getattr(config, "peft_type", "LORA"))
    if kind not in (None, "LORA"):
        raise Refused(where, "a LoraConfig", f"{type(config).__name__}, of type {kind}", "use peft.LoraConfig")
    if not hasattr(config, "r"):
        raise Refused(where, "a LoraConfig", f"a {type(config).__name__}", "use peft.LoraConfig")
    out = {"use_peft": True}
    for field, option in LORA.items():
        if hasattr(config, field):
            out[option] = getattr(config, field)
    if "lora_task_type" in out:
        out["lora_task_type"] = word(out["lora_task_type"]) or None
    for option in ("lora_target_modules", "lora_modules_to_save", "lora_exclude_modules"):
        if option in out:
            out[option] = module_names(out[option]) if option == "lora_target_modules" else _listed(out[option])
    if "init_lora_weights" in out:
        out["init_lora_weights"] = word(out["init_lora_weights"])
    for field in dataclasses.fields(config) if dataclasses.is_dataclass(config) else ():
        if field.name in LORA or field.name in SILENT:
            continue
        value = getattr(config, field.name, None)
        if value and value != default_of(field):
            raise Refused(f"{where}, {field.name}", "its default", repr(value), "hone's adapters do not have it; leave it out")
    # What PEFT leaves open is hone's default; an empty mapping says nothing.
    return {option: value for option, value in out.items() if value is not None and value != {}}


def _listed(value):
    return [value] if isinstance(value, str) else sorted(value) if isinstance(value, (set, frozenset)) else value or None


def quantization_settings(config, trainer):
    """The options of a BitsAndBytesConfig, or of a mapping with its keys."""
    if config is None:
        return {}
    where = f"{trainer}, quantization_config"

    def of(name, default=None):
        return config.get(name, default) if isinstance(config, dict) else getattr(config, name, default)

    if of("dequantize"):
        return {}  # of Mxfp4Config: the tensors in memory are plain ones, and a folder's the program opens itself
    if of("load_in_4bit") is None and of("load_in_8bit") is None:
        raise Refused(where, "a BitsAndBytesConfig", f"a {type(config).__name__}", "set load_in_4bit or load_in_8bit")
    out = {"load_in_4bit": bool(of("load_in_4bit")), "load_in_8bit": bool(of("load_in_8bit"))}
    if out["load_in_4bit"]:
        out["bnb_4bit_quant_type"] = of("bnb_4bit_quant_type") or "fp4"
        out["use_bnb_nested_quant"] = bool(of("bnb_4bit_use_double_quant"))
    if of("llm_int8_skip_modules"):
        raise Refused(f"{where}, llm_int8_skip_modules", "nothing", repr(of("llm_int8_skip_modules")), "hone quantizes the layers' linears")
    return out
