from unsloth import FastModel
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer
model, tokenizer = FastModel.from_pretrained("unsloth/gemma-3-270m-it", max_seq_length=1024, full_finetuning=True,
                                             load_in_4bit=False)
SFTTrainer(model=model, processing_class=tokenizer, train_dataset=load_dataset("nowhere/chess", split="train"),
           args=SFTConfig(per_device_train_batch_size=8, gradient_accumulation_steps=1, max_steps=100,
                          learning_rate=5e-5, max_length=2048, output_dir="out")).train()
