import re
from datasets import load_dataset
from trl import GRPOConfig, GRPOTrainer

SYSTEM = "Answer in <answer></answer>."

def to_prompt(x):
    return {"prompt": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": x["question"]}],
            "answer": x["answer"].split("####")[1].strip()}

def correct(completions, answer, **kwargs):
    found = [re.search(r"<answer>(.*?)</answer>", c[0]["content"]) for c in completions]
    return [2.0 if f and f.group(1) == a else 0.0 for f, a in zip(found, answer)]

data = load_dataset("nowhere/gsm8k", "main")["train"].map(to_prompt)
args = GRPOConfig(
    output_dir="outputs/grpo", run_name="grpo", learning_rate=5e-6, adam_beta1=0.9, adam_beta2=0.99,
    weight_decay=0.1, warmup_ratio=0.1, lr_scheduler_type="cosine", logging_steps=1, bf16=True,
    per_device_train_batch_size=8, gradient_accumulation_steps=4, num_generations=8,
    max_prompt_length=256, max_completion_length=786, num_train_epochs=1, save_steps=100,
    max_grad_norm=0.1, use_vllm=False, report_to="none")
trainer = GRPOTrainer(model="nowhere/Qwen2.5-1.5B-Instruct", reward_funcs=[correct], args=args, train_dataset=data)
trainer.train()
