from unsloth import FastLanguageModel, PatchDPOTrainer
PatchDPOTrainer()
from datasets import load_dataset
from trl import DPOConfig, DPOTrainer
model, tokenizer = FastLanguageModel.from_pretrained("nowhere/zephyr-sft", max_seq_length=4096, load_in_4bit=True)
model = FastLanguageModel.get_peft_model(model, r=64, lora_alpha=64, lora_dropout=0)
trainer = DPOTrainer(
    model=model, ref_model=None, processing_class=tokenizer, beta=0.1, max_length=1024,
    args=DPOConfig(per_device_train_batch_size=2, gradient_accumulation_steps=4, warmup_ratio=0.1,
                   num_train_epochs=3, learning_rate=5e-6, optim="adamw_8bit", output_dir="outputs"),
    train_dataset=load_dataset("json", data_files={"train": "pairs.jsonl"})["train"])
trainer.train()
