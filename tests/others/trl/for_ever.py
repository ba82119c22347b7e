from trl import SFTConfig, SFTTrainer

n = 1
while n > 0:
    n += 1
SFTTrainer("nowhere/m", args=SFTConfig(output_dir="out", max_steps=n)).train()
