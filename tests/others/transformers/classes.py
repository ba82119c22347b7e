from datasets import load_dataset
from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments
model = AutoModelForSequenceClassification.from_pretrained("nowhere/bert", num_labels=5)
Trainer(model=model, args=TrainingArguments(output_dir="out", num_train_epochs=3),
        train_dataset=load_dataset("nowhere/reviews", split="train")).train()
