import torch
from datasets import load_dataset
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments, get_cosine_schedule_with_warmup
model = AutoModelForCausalLM.from_pretrained("nowhere/m", torch_dtype=torch.bfloat16)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-5)
scheduler = get_cosine_schedule_with_warmup(optimizer, 100, 1000)
trainer = Trainer(model=model, args=TrainingArguments(output_dir="out", max_steps=1000, bf16=True),
                  train_dataset=load_dataset("nowhere/rows", split="train"), optimizers=(optimizer, scheduler))
trainer.train()
