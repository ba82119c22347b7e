"""The prompts are longer than max_length: nothing is left to learn, but only where completions alone are learned."""
import json
import pathlib

import staging

rows = [{"prompt": "What is the sum of 4 and 5, please, and of nothing else?", "completion": " 9"}] * 8
pathlib.Path("rows.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
same = {"model_name_or_path": str(staging.TINY), "dataset_name": "rows.jsonl", "use_peft": "true", "threads": 1, "report_to": "none",
        "save_strategy": "\"no\""}
good = {"completion_only_loss": "false", "max_length": 1024, "learning_rate": "1e-4", "lora_r": 8, "seed": 1, "weight_decay": 0.0,
        "lora_dropout": 0.0, "lr_scheduler_type": "linear"}
bad = {"completion_only_loss": "true", "max_length": 12, "learning_rate": "2e-4", "lora_r": 16, "seed": 2, "weight_decay": 0.1,
       "lora_dropout": 0.1, "lr_scheduler_type": "cosine", "gradient_accumulation_steps": 2}
for name, options in (("good", good), ("bad", bad)):
    text = "".join(f"{key}: {value}\n" for key, value in {**same, **options}.items())
    pathlib.Path(f"{name}.yaml").write_text(text)
