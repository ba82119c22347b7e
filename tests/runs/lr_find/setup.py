import pathlib

import staging

rows = staging.SOURCE / "tests" / "fixtures" / "parity" / "sft" / "text.jsonl"
pathlib.Path("run.yaml").write_text(f"""model_name_or_path: {staging.TINY}
dataset_name: {rows}
use_peft: true
lora_target_modules: all-linear
learning_rate: 1e-4
threads: 1
output_dir: out
""")
