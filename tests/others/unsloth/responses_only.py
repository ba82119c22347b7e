from unsloth import FastLanguageModel
from unsloth.chat_templates import get_chat_template, standardize_sharegpt, train_on_responses_only
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer
model, tokenizer = FastLanguageModel.from_pretrained("unsloth/Llama-3.2-3B-Instruct", max_seq_length=4096)
model = FastLanguageModel.get_peft_model(model, r=32, lora_alpha=64)
tokenizer = get_chat_template(tokenizer, chat_template="llama-3.1")
def fmt(examples):
    return {"text": [tokenizer.apply_chat_template(c, tokenize=False) for c in examples["conversations"]]}
data = standardize_sharegpt(load_dataset("nowhere/FineTome", split="train")).map(fmt, batched=True)
trainer = SFTTrainer(model=model, processing_class=tokenizer, train_dataset=data,
                     args=SFTConfig(output_dir="out", num_train_epochs=1, learning_rate=1e-4, report_to="none"))
trainer = train_on_responses_only(
    trainer, instruction_part="<|start_header_id|>user<|end_header_id|>\n\n",
    response_part="<|start_header_id|>assistant<|end_header_id|>\n\n")
trainer.train()
