from unsloth import FastLanguageModel, UnslothTrainer, UnslothTrainingArguments
from datasets import load_dataset
model, tokenizer = FastLanguageModel.from_pretrained("unsloth/mistral-7b-v0.3", max_seq_length=2048, load_in_4bit=True)
model = FastLanguageModel.get_peft_model(
    model, r=128, lora_alpha=32, use_rslora=True,
    target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "embed_tokens", "lm_head"])
rows = load_dataset("nowhere/wiki-ko", split="train").train_test_split(train_size=0.01)["train"]
UnslothTrainer(
    model=model, tokenizer=tokenizer, train_dataset=rows, dataset_text_field="text", max_seq_length=2048,
    args=UnslothTrainingArguments(
        per_device_train_batch_size=2, gradient_accumulation_steps=8, num_train_epochs=1, warmup_ratio=0.1,
        learning_rate=5e-5, embedding_learning_rate=1e-5, output_dir="out")).train()
