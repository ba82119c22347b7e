import torch
import transformers
from datasets import load_dataset
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
quant = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.bfloat16)
model = AutoModelForCausalLM.from_pretrained("nowhere/gpt-neox-20b", quantization_config=quant, device_map={"": 0})
model.gradient_checkpointing_enable()
model = prepare_model_for_kbit_training(model)
model = get_peft_model(model, LoraConfig(r=8, lora_alpha=32, target_modules=["query_key_value"], lora_dropout=0.05,
                                         bias="none", task_type="CAUSAL_LM"))
trainer = transformers.Trainer(
    model=model, train_dataset=load_dataset("nowhere/quotes", split="train"),
    args=transformers.TrainingArguments(
        per_device_train_batch_size=1, gradient_accumulation_steps=4, warmup_steps=2, max_steps=10,
        learning_rate=2e-4, bf16=True, logging_steps=1, output_dir="outputs", optim="paged_adamw_8bit"),
    data_collator=transformers.DataCollatorForLanguageModeling(None, mlm=False))
trainer.train()
