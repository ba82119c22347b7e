"""Defaults of other classes than TRL's configs: those of `hone check` for the same trainers (src/config/others/script.cpp), which a test compares."""
import functools

from hone.errors import Refused
from hone.recorded import record
from hone.trl import options
from hone.trl.config import config_class, make_class

TRANSFORMERS = {"learning_rate": 5e-5, "bf16": False, "gradient_checkpointing": False, "logging_steps": 500}
UNSLOTH = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2, "num_train_epochs": 3, "learning_rate": 5e-5,
           "lr_scheduler_type": "linear", "warmup_steps": 0.1, "weight_decay": 0.001, "optim": "adamw_8bit", "max_grad_norm": 1.0, "seed": 3407,
           "bf16": True}
UNSLOTH_GROUPS = {"num_generations": 8}


def kept(method, values):
    """Those that are options of the method, and not its own default."""
    rows = options.rows(method)
    return {name: value for name, value in values.items() if name in rows and options.default_of(rows[name]) != value}


# Of vLLM's SamplingParams, which Unsloth's config takes: options of the trainers that sample.
SAMPLING = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")


class OfUnsloth:
    """Arguments that only Unsloth's configs have."""

    def __init__(self, output_dir=None, vllm_sampling_params=None, unsloth_num_chunks=None, embedding_learning_rate=None, **settings):
        if embedding_learning_rate is not None:
            raise Refused(f"{type(self).__name__}, embedding_learning_rate", "one learning rate", f"{embedding_learning_rate} for embeddings",
                          "leave it out: the whole adapter has learning_rate")
        rows = options.rows(self._method)
        for name in SAMPLING:
            value = getattr(vllm_sampling_params, name, None)
            if value is not None and name in rows and name not in settings:
                settings[name] = 0 if name == "top_k" and value < 0 else value
        if self._method == "grpo":
            settings = self._of_groups(settings)
        super().__init__(output_dir, **settings)

    def _of_groups(self, settings):
        """What Unsloth's GRPOConfig sets by itself, and what it overrides for two of the losses."""
        out = {"loss_type": "bnpo", "beta": 0.001, **settings}
        loss = str(out["loss_type"]).lower()
        if loss == "dr_grpo" and out.get("scale_rewards") is True:
            out["scale_rewards"] = False
        if loss == "dapo":
            out |= {"mask_truncated_completions": True, "epsilon_high": 0.28}
        changed = [name for name in settings if out[name] != settings[name]]
        if changed:
            record.note("GRPOConfig", f"with loss_type {loss} Unsloth sets {', '.join(f'{name}={out[name]}' for name in changed)}")
        return out


@functools.lru_cache(maxsize=None)
def unsloth_config(name):
    """Of "SFT": SFTConfig with the defaults that Unsloth gives it."""
    method = options.METHODS[name]
    more = UNSLOTH_GROUPS if method in ("grpo", "rloo") else {}
    own = {**options.LOSSES.get(name, {}), **kept(method, {**UNSLOTH, **more})}
    return make_class(f"{name}Config", method, own, passes=True, bases=(OfUnsloth, config_class(name)))


@functools.lru_cache(maxsize=None)
def training_arguments():
    """transformers.TrainingArguments, with the options of hone sft."""
    return make_class("TrainingArguments", "sft", kept("sft", TRANSFORMERS), passes=True, bases=(config_class("SFT"),))
