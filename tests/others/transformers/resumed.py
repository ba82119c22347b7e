from datasets import load_dataset
from transformers import AutoModelForCausalLM, EarlyStoppingCallback, Trainer, TrainingArguments
rows = load_dataset("nowhere/rows")
args = TrainingArguments(
    output_dir="out", eval_strategy="steps", eval_steps=100, save_steps=150, load_best_model_at_end=True,
    metric_for_best_model="eval_loss", per_device_train_batch_size=8, num_train_epochs=10, seed=3)
trainer = Trainer(model=AutoModelForCausalLM.from_pretrained("nowhere/m"), args=args,
                  train_dataset=rows["train"], eval_dataset=rows["validation"],
                  callbacks=[EarlyStoppingCallback(early_stopping_patience=3)])
trainer.train(resume_from_checkpoint=True)
