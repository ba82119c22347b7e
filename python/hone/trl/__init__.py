"""TRL's classes, run by hone: `from hone.trl import GRPOTrainer, GRPOConfig` (docs/python.md)."""
from hone import program
from hone.errors import HoneError, Refused
from hone.trl.callbacks import TrainerCallback, TrainerControl, TrainerState

if program.other_package():
    raise ImportError(program.other_package())

_METHODS = ("SFT", "DPO", "KTO", "Reward", "GRPO", "RLOO", "OnlineDPO", "CPO", "ORPO", "GMPO", "Distillation", "GKD")
_SCRIPTS = ("ModelConfig", "ScriptArguments", "DatasetMixtureConfig", "DatasetConfig", "TrlParser", "get_dataset", "get_peft_config",
            "get_quantization_config", "get_kbit_device_map", "LogCompletionsCallback", "setup_chat_format")
_DATA = ("is_conversational", "is_conversational_from_value", "maybe_convert_to_chatml", "apply_chat_template", "maybe_apply_chat_template",
         "extract_prompt", "maybe_extract_prompt", "unpair_preference_dataset", "maybe_unpair_preference_dataset", "pack_dataset",
         "truncate_dataset")

__all__ = [*(f"{name}Trainer" for name in _METHODS), *(f"{name}Config" for name in _METHODS), *_SCRIPTS, *_DATA,
           "clone_chat_template", "generate_rollout_completions", "HoneError", "Refused",
           "TrainerCallback", "TrainerControl", "TrainerState"]


def __getattr__(name):
    """Classes are made when they are asked for: of the program's own option table."""
    for method in _METHODS:
        if name == f"{method}Trainer":
            from hone.trl.trainer import trainer_class
            return trainer_class(method)
        if name == f"{method}Config":
            from hone.trl.config import config_class
            return config_class(method)
    if name in _SCRIPTS:
        from hone.trl import scripts
        return getattr(scripts, name)
    if name == "clone_chat_template":
        from hone.trl import templates
        return templates.clone_chat_template
    if name == "generate_rollout_completions":
        from hone.trl import rollout
        return rollout.generate_rollout_completions
    if name in _DATA:
        from hone.trl import data_helpers
        return getattr(data_helpers, name)
    if name.startswith("__"):
        raise AttributeError(name)
    import difflib
    near = difflib.get_close_matches(name, __all__, 1, 0.6)
    # `from hone.trl import NAME` shows an ImportError's text, and not an AttributeError's.
    kind = ImportError if name.endswith(("Trainer", "Config")) else AttributeError
    raise kind(f"hone.trl has no {name!r}." + (f" Did you mean {near[0]!r}?" if near else "") + f" It has {', '.join(__all__)}.")


def __dir__():
    return sorted({*globals(), *__all__})
