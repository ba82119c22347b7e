from unsloth import FastLanguageModel
from datasets import load_dataset
from trl import GRPOConfig, GRPOTrainer
LENGTH, RANK = 1024, 32
model, tokenizer = FastLanguageModel.from_pretrained(
    model_name="nowhere/Llama-3.1-8B-Instruct", max_seq_length=LENGTH, load_in_4bit=True, fast_inference=True,
    max_lora_rank=RANK, gpu_memory_utilization=0.6)
model = FastLanguageModel.get_peft_model(model, r=RANK, target_modules=["q_proj", "v_proj"], lora_alpha=RANK)
def xmlcount(completions, **kwargs):
    return [c.count("<answer>") * 0.5 for c in completions]
max_prompt_length = 256
args = GRPOConfig(
    learning_rate=5e-6, weight_decay=0.1, warmup_ratio=0.1, lr_scheduler_type="cosine", optim="paged_adamw_8bit",
    per_device_train_batch_size=1, gradient_accumulation_steps=1, num_generations=6,
    max_prompt_length=max_prompt_length, max_completion_length=LENGTH - max_prompt_length, max_steps=250,
    output_dir="outputs")
trainer = GRPOTrainer(model=model, processing_class=tokenizer, reward_funcs=[xmlcount], args=args,
                      train_dataset=load_dataset("nowhere/gsm8k", "main", split="train"))
trainer.train()
model.save_lora("grpo_saved_lora")
