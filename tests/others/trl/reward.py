from datasets import load_dataset
from transformers import AutoModelForSequenceClassification, AutoTokenizer
from trl import RewardConfig, RewardTrainer

name = "nowhere/Qwen2.5-0.5B"
model = AutoModelForSequenceClassification.from_pretrained(name, num_labels=1)
tokenizer = AutoTokenizer.from_pretrained(name)
args = RewardConfig(output_dir="rm", per_device_train_batch_size=2, max_length=512, max_steps=400)
RewardTrainer(model=model, processing_class=tokenizer, args=args,
              train_dataset=load_dataset("nowhere/pairs", split="train")).train()
