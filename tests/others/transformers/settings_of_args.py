import argparse
from datasets import load_dataset
from peft import LoraConfig, TaskType, get_peft_model
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments, set_seed

def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--model_name", type=str, required=True)
    p.add_argument("--lr", type=float, default=3e-4)
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--micro", type=int, default=2)
    p.add_argument("--rank", type=int, default=8)
    return p.parse_args()

args = parse()
set_seed(1)
model = get_peft_model(
    AutoModelForCausalLM.from_pretrained(args.model_name),
    LoraConfig(task_type=TaskType.CAUSAL_LM, r=args.rank, lora_alpha=2 * args.rank, target_modules=["q_proj"]))
Trainer(model=model, train_dataset=load_dataset("nowhere/rows", split="train"),
        args=TrainingArguments(output_dir="out", per_device_train_batch_size=args.micro,
                               gradient_accumulation_steps=args.batch // args.micro, learning_rate=args.lr,
                               num_train_epochs=3, save_strategy="steps", save_steps=200, save_total_limit=3,
                               group_by_length=True)).train()
