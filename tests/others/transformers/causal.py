from datasets import load_dataset
from transformers import (AutoModelForCausalLM, AutoTokenizer, DataCollatorForLanguageModeling, Trainer,
                          TrainingArguments)
model = AutoModelForCausalLM.from_pretrained("nowhere/gpt")
tokenizer = AutoTokenizer.from_pretrained("nowhere/gpt")
tokenizer.pad_token = tokenizer.eos_token
data = load_dataset("nowhere/eli5", split="train[:5000]").train_test_split(test_size=0.2)
data = data.map(lambda rows: tokenizer(rows["text"]), batched=True)
args = TrainingArguments(output_dir="gpt-out", eval_strategy="epoch", learning_rate=2e-5, weight_decay=0.01,
                         push_to_hub=False)
trainer = Trainer(model=model, args=args, train_dataset=data["train"], eval_dataset=data["test"],
                  data_collator=DataCollatorForLanguageModeling(tokenizer=tokenizer, mlm=False))
trainer.train()
