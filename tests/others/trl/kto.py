import argparse
from datasets import load_dataset
from peft import LoraConfig
from trl import KTOConfig, KTOTrainer

p = argparse.ArgumentParser()
p.add_argument("--model", default="nowhere/Qwen2-0.5B")
p.add_argument("--lr", type=float, default=1e-6)
p.add_argument("--epochs", type=int, required=True)
a = p.parse_args()
trainer = KTOTrainer(
    a.model, args=KTOConfig(output_dir="kto", learning_rate=a.lr, num_train_epochs=a.epochs,
                            desirable_weight=1.0, undesirable_weight=1.33),
    train_dataset=load_dataset("nowhere/kto-mix", split="train[:90%]"),
    eval_dataset=load_dataset("nowhere/kto-mix", split="test"),
    peft_config=LoraConfig(r=16, lora_alpha=32, target_modules=["q_proj", "v_proj"]))
trainer.train()
