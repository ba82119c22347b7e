import torch
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments

class Collator:
    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
    def __call__(self, rows):
        out = self.tokenizer([r["text"] for r in rows], return_tensors="pt", padding=True)
        out["labels"] = out["input_ids"].clone()
        return out

tokenizer = AutoTokenizer.from_pretrained("nowhere/m")
Trainer(model=AutoModelForCausalLM.from_pretrained("nowhere/m"), data_collator=Collator(tokenizer),
        args=TrainingArguments(output_dir="out", remove_unused_columns=False, max_steps=50, learning_rate=1e-4),
        train_dataset=load_dataset("nowhere/rows", split="train")).train()
