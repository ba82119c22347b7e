import sys
from unsloth import FastLanguageModel
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer
length = int(sys.argv[1])
model, tokenizer = FastLanguageModel.from_pretrained("nowhere/m", max_seq_length=length)
model = FastLanguageModel.get_peft_model(model)
SFTTrainer(model=model, args=SFTConfig(output_dir="out", max_steps=length // 10),
           train_dataset=load_dataset("nowhere/rows", split="train")).train()
