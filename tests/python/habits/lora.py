"""Adapters: by peft_config, made before the trainer, continued, saved and merged."""
import json
import pathlib

from common import CHAT_PAIRS, FEW, MODEL, PAIRS, TEXTS, data, habit, logged, run_of, trained_names


@habit()
def peft_config():
    """peft_config=LoraConfig(): only the adapter is trained, and saved"""
    from peft import LoraConfig
    from trl import SFTConfig, SFTTrainer
    trainer = SFTTrainer(MODEL, args=SFTConfig("out", **FEW), train_dataset=data(TEXTS), peft_config=LoraConfig())
    names = trained_names(trainer.model)
    trainer.train()
    trainer.save_model("adapter")
    files = {path.name for path in pathlib.Path("adapter").iterdir()}
    wanted = {"adapter_model.safetensors", "adapter_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
    return {"names": names, "first loss": logged(trainer, "loss")[0], "steps": trainer.state.global_step,
            "log_history": len(trainer.state.log_history), "files": sorted(files & wanted)}


@habit()
def target_modules():
    """rank, alpha and modules that are chosen stand in the saved adapter's configuration"""
    from peft import LoraConfig
    from trl import SFTConfig, SFTTrainer
    config = LoraConfig(r=4, lora_alpha=16, lora_dropout=0.0, bias="none", task_type="CAUSAL_LM", target_modules=["q_proj", "v_proj"])
    trainer = SFTTrainer(model=MODEL, args=SFTConfig("out", **FEW), train_dataset=data(TEXTS), peft_config=config)
    trainer.train()
    trainer.save_model("adapter")
    saved = json.loads(pathlib.Path("adapter/adapter_config.json").read_text())
    return {"first loss": logged(trainer, "loss")[0], "saved": {name: saved[name] for name in ("r", "lora_alpha", "bias", "task_type", "peft_type")},
            "modules": sorted(saved["target_modules"]), "names": trained_names(trainer.model)}


@habit()
def wrapped_before():
    """get_peft_model before the trainer: every loss is TRL's, since both begin with the same adapter"""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM
    from trl import SFTConfig, SFTTrainer
    torch.manual_seed(0)
    model = get_peft_model(AutoModelForCausalLM.from_pretrained(MODEL), LoraConfig(r=8, lora_alpha=16, task_type="CAUSAL_LM"))
    return run_of(SFTTrainer(model=model, args=SFTConfig("out", **FEW), train_dataset=data(TEXTS)))


@habit()
def continued():
    """an adapter is trained on: AutoPeftModelForCausalLM.from_pretrained(..., is_trainable=True)"""
    from peft import AutoPeftModelForCausalLM
    from trl import SFTConfig, SFTTrainer
    folder = pathlib.Path("begun")
    folder.mkdir()
    for name in ("adapter_model.safetensors", "adapter_config.json"):
        (folder / name).write_bytes((pathlib.Path(MODEL) / "adapter" / name).read_bytes())
    config = json.loads((folder / "adapter_config.json").read_text())
    (folder / "adapter_config.json").write_text(json.dumps({**config, "base_model_name_or_path": MODEL, "lora_dropout": 0.0}))
    model = AutoPeftModelForCausalLM.from_pretrained("begun", is_trainable=True)
    return run_of(SFTTrainer(model=model, args=SFTConfig("out", **FEW), train_dataset=data(TEXTS)))


@habit()
def trainable_parameters():
    """how many parameters are trained, of trainer.model"""
    from peft import LoraConfig
    from trl import SFTConfig, SFTTrainer
    config = LoraConfig(r=2, target_modules="all-linear")
    trainer = SFTTrainer(model=MODEL, args=SFTConfig("out", **FEW), train_dataset=data(TEXTS), peft_config=config)
    trainer.model.print_trainable_parameters()
    return {"numbers": list(trainer.model.get_nb_trainable_parameters()), "of the trainer": trainer.get_num_trainable_parameters()}


@habit()
def saved_and_merged():
    """the saved adapter is opened upon its base by PEFT, merged, and saved as a model"""
    import torch
    from peft import LoraConfig, PeftModel
    from transformers import AutoModelForCausalLM
    from trl import SFTConfig, SFTTrainer
    trainer = SFTTrainer(model=MODEL, args=SFTConfig("out", **FEW), train_dataset=data(TEXTS), peft_config=LoraConfig(r=4))
    trainer.train()
    trainer.save_model("adapter")
    base = AutoModelForCausalLM.from_pretrained(MODEL)
    before = base.model.layers[0].self_attn.q_proj.weight.clone()
    merged = PeftModel.from_pretrained(base, "adapter").merge_and_unload()
    merged.save_pretrained("merged")
    again = AutoModelForCausalLM.from_pretrained("merged")
    return {"class": type(again).__name__, "tensors": len(again.state_dict()),
            "moved": not torch.equal(before, again.model.layers[0].self_attn.q_proj.weight)}


@habit()
def dpo():
    """DPO with an adapter: the reference is the model without it"""
    from peft import LoraConfig
    from trl import DPOConfig, DPOTrainer
    trainer = DPOTrainer(MODEL, args=DPOConfig("out", **FEW), train_dataset=data(CHAT_PAIRS), peft_config=LoraConfig())
    reference = trainer.ref_model
    trainer.train()
    return {"reference": reference, "first loss": logged(trainer, "loss")[0], "first margin": logged(trainer, "rewards/margins")[0],
            "logps": logged(trainer, "logps/chosen")[0], "steps": trainer.state.global_step}


@habit()
def reward():
    """a reward model with an adapter, and its head in modules_to_save"""
    from peft import LoraConfig
    from trl import RewardConfig, RewardTrainer
    trainer = RewardTrainer(MODEL, args=RewardConfig("out", **FEW), train_dataset=data(PAIRS), peft_config=LoraConfig(modules_to_save=["score"]))
    trainer.train()
    trainer.save_model("adapter")
    saved = json.loads(pathlib.Path("adapter/adapter_config.json").read_text())
    return {"steps": trainer.state.global_step, "head": "score" in saved["modules_to_save"], "log_history": len(trainer.state.log_history)}


@habit()
def prompt_tuning():
    """another adapter of PEFT than LoRA: prompt tuning"""
    from peft import PromptTuningConfig, PromptTuningInit, TaskType
    from trl import SFTConfig, SFTTrainer
    config = PromptTuningConfig(task_type=TaskType.CAUSAL_LM, prompt_tuning_init=PromptTuningInit.RANDOM, num_virtual_tokens=4)
    return {"steps": SFTTrainer(MODEL, args=SFTConfig("out", **FEW), train_dataset=data(TEXTS), peft_config=config).train().global_step}
