from dataclasses import dataclass, field
from unsloth import FastLanguageModel
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

@dataclass
class Settings:
    model: str = "unsloth/Qwen2.5-7B-Instruct"
    rank: int = 16
    lr: float = 2e-4
    targets: list = field(default_factory=lambda: ["q_proj", "v_proj"])

class Tuner:
    def __init__(self, s):
        self.s = s
        self.model, self.tokenizer = FastLanguageModel.from_pretrained(s.model, max_seq_length=1024)
    def adapt(self):
        self.model = FastLanguageModel.get_peft_model(self.model, r=self.s.rank, lora_alpha=2 * self.s.rank,
                                                      target_modules=self.s.targets)
    def run(self):
        args = SFTConfig(output_dir=f"out/r{self.s.rank}", learning_rate=self.s.lr, num_train_epochs=1)
        SFTTrainer(model=self.model, args=args, train_dataset=load_dataset("nowhere/rows", split="train")).train()

def main():
    t = Tuner(Settings(rank=8))
    t.adapt()
    t.run()

if __name__ == "__main__":
    main()
