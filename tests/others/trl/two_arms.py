import os
import torch
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

if os.environ.get("SMALL"):
    name, batch = "nowhere/Qwen-0.5B", 16
else:
    name, batch = "nowhere/Qwen-7B", 1
bf16 = torch.cuda.is_bf16_supported()
args = SFTConfig(output_dir=os.getenv("OUT", "out"), per_device_train_batch_size=batch, bf16=bf16,
                 fp16=not bf16, max_steps=100, learning_rate=1e-5)
SFTTrainer(model=name, args=args, train_dataset=load_dataset("json", data_files="rows.jsonl", split="train")).train()
