from datasets import load_dataset
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
model = AutoModelForCausalLM.from_pretrained("nowhere/m")
for parameter in model.model.layers[:10].parameters():
    parameter.requires_grad = False
Trainer(model=model, args=TrainingArguments(output_dir="out", num_train_epochs=1, learning_rate=1e-5),
        train_dataset=load_dataset("nowhere/rows", split="train")).train()
