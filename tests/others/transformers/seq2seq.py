from datasets import load_dataset
from transformers import AutoModelForSeq2SeqLM, Seq2SeqTrainer, Seq2SeqTrainingArguments
model = AutoModelForSeq2SeqLM.from_pretrained("nowhere/t5-small")
args = Seq2SeqTrainingArguments(output_dir="t5", predict_with_generate=True, learning_rate=2e-5)
Seq2SeqTrainer(model=model, args=args, train_dataset=load_dataset("nowhere/billsum", split="ca_test")).train()
