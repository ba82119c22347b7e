from unsloth import FastLanguageModel
from datasets import load_dataset
from trl import SFTTrainer
from transformers import TrainingArguments
model, tokenizer = FastLanguageModel.from_pretrained("nowhere/m", max_seq_length=512, load_in_4bit=False)
model = FastLanguageModel.get_peft_model(model, r=8, lora_alpha=8, target_modules=["q_proj"])
rows = load_dataset("nowhere/rows")
SFTTrainer(model=model, tokenizer=tokenizer, train_dataset=rows["train"], eval_dataset=rows["validation"],
           args=TrainingArguments("out", num_epochs=2, evaluation_strategy="steps", eval_steps=10,
                                  learning_rate=1e-4, per_device_train_batch_size=2)).train()
