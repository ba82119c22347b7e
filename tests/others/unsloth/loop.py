from unsloth import FastLanguageModel
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer
for rank in (8, 16):
    model, tokenizer = FastLanguageModel.from_pretrained("nowhere/m", max_seq_length=1024)
    model = FastLanguageModel.get_peft_model(model, r=rank, lora_alpha=rank * 2, target_modules=["q_proj", "o_proj"])
    trainer = SFTTrainer(model=model, args=SFTConfig(output_dir=f"out-{rank}", max_steps=20, learning_rate=1e-4),
                         train_dataset=load_dataset("nowhere/rows", split="train"))
    trainer.train()
