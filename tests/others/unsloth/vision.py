from unsloth import FastVisionModel
from unsloth.trainer import UnslothVisionDataCollator
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer
model, tokenizer = FastVisionModel.from_pretrained("unsloth/Llama-3.2-11B-Vision", load_in_4bit=True)
model = FastVisionModel.get_peft_model(model, finetune_vision_layers=True, finetune_language_layers=True,
                                       finetune_attention_modules=True, finetune_mlp_modules=True, r=16, lora_alpha=16)
rows = [{"messages": r} for r in load_dataset("nowhere/latex", split="train")]
FastVisionModel.for_training(model)
SFTTrainer(model=model, tokenizer=tokenizer, data_collator=UnslothVisionDataCollator(model, tokenizer),
           train_dataset=rows, args=SFTConfig(max_steps=30, learning_rate=2e-4, output_dir="out")).train()
