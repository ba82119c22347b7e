import yaml
from datasets import load_dataset
from peft import LoraConfig
from trl import SFTConfig, SFTTrainer

with open("beside/settings.yaml") as f:
    cfg = yaml.safe_load(f)
lora = LoraConfig(**cfg["lora"])
args = SFTConfig(**cfg["training"], max_length=cfg.get("max_length", 1024))
trainer = SFTTrainer(cfg["model"], args=args, peft_config=lora,
                     train_dataset=load_dataset(cfg["data"], split="train").shuffle(seed=1).select(range(500)))
trainer.train()
