"""The module `peft` of a script that is recorded: configurations, and adapters around models that were not loaded."""
import dataclasses
import types
import typing

from hone.errors import Refused
from hone.recorded import held, nothing

TaskType = types.SimpleNamespace(CAUSAL_LM="CAUSAL_LM", SEQ_CLS="SEQ_CLS", SEQ_2_SEQ_LM="SEQ_2_SEQ_LM", TOKEN_CLS="TOKEN_CLS",
                                 QUESTION_ANS="QUESTION_ANS", FEATURE_EXTRACTION="FEATURE_EXTRACTION")


@dataclasses.dataclass
class LoraConfig:
    """PEFT's fields with PEFT's defaults."""
    task_type: typing.Any = None
    peft_type: str = "LORA"
    auto_mapping: typing.Any = None
    peft_version: typing.Any = None
    base_model_name_or_path: typing.Any = None
    revision: typing.Any = None
    inference_mode: bool = False
    r: int = 8
    target_modules: typing.Any = None
    exclude_modules: typing.Any = None
    lora_alpha: int = 8
    lora_dropout: float = 0.0
    fan_in_fan_out: bool = False
    bias: str = "none"
    use_rslora: bool = False
    modules_to_save: typing.Any = None
    init_lora_weights: typing.Any = True
    layers_to_transform: typing.Any = None
    layers_pattern: typing.Any = None
    rank_pattern: dict = dataclasses.field(default_factory=dict)
    alpha_pattern: dict = dataclasses.field(default_factory=dict)
    megatron_config: typing.Any = None
    megatron_core: typing.Any = "megatron.core"
    trainable_token_indices: typing.Any = None
    loftq_config: dict = dataclasses.field(default_factory=dict)
    eva_config: typing.Any = None
    corda_config: typing.Any = None
    use_dora: bool = False
    use_qalora: bool = False
    qalora_group_size: int = 16
    layer_replication: typing.Any = None
    runtime_config: typing.Any = None
    lora_bias: bool = False
    target_parameters: typing.Any = None

    def to_dict(self):
        return dataclasses.asdict(self)


def adapted(model, config):
    if not isinstance(model, held.Held):
        raise Refused("get_peft_model", "a model of from_pretrained", f"a {type(model).__name__}", "load it with AutoModelForCausalLM.from_pretrained")
    if model.adapter is not None:
        raise Refused("get_peft_model", "one adapter", "a model that has one already", "leave one of them out")
    model.__dict__["adapter"] = config
    return model


def get_peft_model(model, peft_config, *_, **__):
    return adapted(model, peft_config)


def prepare_model_for_kbit_training(model, *_, **__):
    return model


class PeftModel:
    """PeftModel.from_pretrained(model, FOLDER, is_trainable=True): the run goes on with that adapter."""

    @classmethod
    def from_pretrained(cls, model, model_id, *_, is_trainable=False, **__):
        if not is_trainable:
            raise Refused("PeftModel.from_pretrained", "is_trainable=True", f"an adapter of {model_id} that is frozen",
                          "give is_trainable=True; or merge it before, save the model with save_pretrained(FOLDER), and use FOLDER")
        model.settings.update(use_peft=True, adapter_name_or_path=str(model_id))
        return model


class AutoPeftModelForCausalLM:
    @classmethod
    def from_pretrained(cls, name, *_, **__):
        raise Refused("AutoPeftModelForCausalLM.from_pretrained", "the base and its adapter, each by its name", f"{name}",
                      "PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(BASE), ADAPTER, is_trainable=True)")


MODULE = {one.__name__: one for one in (LoraConfig, get_peft_model, prepare_model_for_kbit_training, PeftModel, AutoPeftModelForCausalLM)}
MODULE |= {"TaskType": TaskType, "PeftModelForCausalLM": PeftModel, "prepare_model_for_int8_training": prepare_model_for_kbit_training}


def make(name):
    """`peft`, or a module in it. Other kinds of adapters keep their fields and their names, by which the trainer refuses them."""
    module = nothing.module(name)
    vars(module).update(MODULE)
    others = module.__getattr__

    def found(attribute):
        if not attribute.endswith("Config"):
            return others(attribute)
        return type(attribute, (nothing.Kept,), {"__module__": name, "peft_type": attribute.removesuffix("Config").upper()})

    module.__getattr__ = found
    return module
