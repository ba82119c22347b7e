from datasets import load_from_disk
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments, default_data_collator
model = AutoModelForCausalLM.from_pretrained("models/llama", torch_dtype="auto")
args = TrainingArguments("out", fp16=True, num_train_epochs=5, per_device_train_batch_size=4, save_total_limit=1,
                         evaluation_strategy="no", lr_scheduler_type="cosine", warmup_ratio=0.05)
Trainer(model, args, train_dataset=load_from_disk("data/tokens"), data_collator=default_data_collator).train()
