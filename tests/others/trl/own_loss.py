import torch
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

class Weighted(SFTTrainer):
    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        loss, out = super().compute_loss(model, inputs, return_outputs=True, **kwargs)
        return (loss * 0.5, out) if return_outputs else loss * 0.5

args = SFTConfig(output_dir="out", learning_rate=1e-5, num_train_epochs=1)
Weighted("nowhere/m", args=args, train_dataset=load_dataset("nowhere/rows", split="train")).train()
