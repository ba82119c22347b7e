from datasets import load_dataset
from trl import DPOConfig, DPOTrainer
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained("nowhere/Qwen2-0.5B-Instruct")
tokenizer = AutoTokenizer.from_pretrained("nowhere/Qwen2-0.5B-Instruct")
train_dataset = load_dataset("nowhere/ultrafeedback", split="train")
training_args = DPOConfig(output_dir="Qwen2-DPO", logging_steps=10, beta=0.05, loss_type=["sigmoid"],
                          learning_rate=5e-7, max_length=1024, gradient_accumulation_steps=8)
trainer = DPOTrainer(model=model, args=training_args, processing_class=tokenizer, train_dataset=train_dataset)
trainer.train()
