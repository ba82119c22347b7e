from datasets import load_dataset
from trl.experimental.distillation import DistillationConfig, DistillationTrainer

config = DistillationConfig(
    output_dir="out/distilled", learning_rate=1e-5, per_device_train_batch_size=4,
    gradient_accumulation_steps=2, max_completion_length=256, temperature=0.9, beta=0.5,
    num_train_epochs=1, lr_scheduler_type="cosine", warmup_steps=20, bf16=True)
trainer = DistillationTrainer(
    model="nowhere/Qwen2.5-0.5B-Instruct", teacher_model="nowhere/Qwen2.5-1.5B-Instruct", args=config,
    train_dataset=load_dataset("nowhere/prompts", split="train"))
trainer.train()
