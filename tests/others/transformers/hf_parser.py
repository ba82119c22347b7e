from dataclasses import dataclass, field
from typing import Optional
from datasets import load_dataset
from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments

@dataclass
class ModelArguments:
    model_name_or_path: Optional[str] = field(default="nowhere/opt-125m")

@dataclass
class DataArguments:
    data_path: str = field(default="data/rows.json", metadata={"help": "path"})

def train():
    parser = HfArgumentParser((ModelArguments, DataArguments, TrainingArguments))
    model_args, data_args, training_args = parser.parse_args_into_dataclasses()
    model = AutoModelForCausalLM.from_pretrained(model_args.model_name_or_path)
    data = load_dataset("json", data_files=data_args.data_path, split="train")
    Trainer(model=model, args=training_args, train_dataset=data).train()

if __name__ == "__main__":
    train()
