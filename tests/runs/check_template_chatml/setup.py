import json
import pathlib

from staging import TINY

rows = [{"messages": [{"role": "user", "content": f"What is {i} + 1?"}, {"role": "assistant", "content": f"{i + 1}"}]} for i in range(70)]
pathlib.Path("rows.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
pathlib.Path("run.yaml").write_text(f"""model_name_or_path: {TINY}
stage: sft
do_train: true
finetuning_type: lora
dataset: sums
template: chatml
cutoff_len: 128
output_dir: out
""", encoding="utf-8")
