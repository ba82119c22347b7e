#!/usr/bin/env python3
"""20 steps of SFT on a 4-bit base in hone and in TRL with bitsandbytes on a CPU, from one adapter and in one order of rows: the losses of
every step side by side. Ends with 1 when one differs by more than 1e-2.

usage: PYTHONPATH=FOLDER tests/parity/check_qlora.py --model FOLDER [--steps 20] [--kind nf4|nf4_nested|int8] [--hone build/hone]
PYTHONPATH: a folder that holds bitsandbytes 0.50.2. The model's rows must be whole blocks of 64 numbers: bitsandbytes' AVX-512 form reads wrong
scales otherwise. float32 on both sides; TRL casts the adapter of a quantized base to bfloat16, which is undone here, as hone keeps float32.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ.update(TORCHDYNAMO_DISABLE="1", TOKENIZERS_PARALLELISM="false", HF_HUB_OFFLINE="1", CUDA_VISIBLE_DEVICES="")
SOURCE = pathlib.Path(__file__).resolve().parents[2]
PYTHON = SOURCE / "third_party/parity-venv/bin/python"
COMMON = dict(learning_rate=2e-3, lr_scheduler_type="constant", per_device_train_batch_size=2, max_length=64, logging_steps=1,
              save_strategy="no", max_grad_norm=1.0, seed=42)


def rows(path):
    words = "river stone winter seven carries little bridge under morning letter window quiet market ladder silver".split()
    with open(path, "w", encoding="utf-8") as out:
        for row in range(40):
            out.write(json.dumps({"text": " ".join(words[(row * 7 + i * i + 3 * i) % len(words)] for i in range(12 + row % 9 * 5))}) + "\n")


def trl(o):
    import torch
    from datasets import Dataset
    from peft import LoraConfig
    from transformers import BitsAndBytesConfig
    from trl import SFTConfig, SFTTrainer
    asked = BitsAndBytesConfig(load_in_8bit=True) if o["kind"] == "int8" else BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=o["kind"] == "nf4_nested", bnb_4bit_compute_dtype=torch.float32)
    args = SFTConfig(output_dir=o["folder"] + "/trl", max_steps=o["steps"], bf16=False, use_cpu=True, gradient_checkpointing=False, disable_tqdm=True,
                     report_to="none", model_init_kwargs=dict(dtype="float32", quantization_config=asked, device_map={"": "cpu"}), **COMMON)
    torch.manual_seed(0)
    trainer = SFTTrainer(o["model"], args=args, train_dataset=Dataset.from_list([json.loads(line) for line in open(o["data"], encoding="utf-8")]),
                         peft_config=LoraConfig(r=8, lora_alpha=16, lora_dropout=0.0, target_modules="all-linear", task_type="CAUSAL_LM"))
    for name, value in trainer.model.named_parameters():
        if "lora_" in name:
            value.data = value.data.float()
    trainer.model.save_pretrained(o["folder"] + "/start")
    trainer.train()
    print("RESULT", json.dumps([entry["loss"] for entry in trainer.state.log_history if "loss" in entry]))


def hone(o):
    words = [o["hone"], "sft", "--model_name_or_path", o["model"], "--dataset_name", o["data"], "--output_dir", o["folder"] + "/hone", "--use_peft", "true",
             "--adapter_name_or_path", o["folder"] + "/start", "--dtype", "float32", "--bf16", "false", "--max_steps", o["steps"], "--report_to", "none",
             "--skip_doctor", "true"]
    words += ["--load_in_8bit", "true"] if o["kind"] == "int8" else ["--load_in_4bit", "true", "--use_bnb_nested_quant", str(o["kind"] == "nf4_nested").lower()]
    for name, value in COMMON.items():
        words += ["--" + name, value]
    subprocess.run([str(word) for word in words], check=True, stdout=subprocess.DEVNULL)
    lines = pathlib.Path(o["folder"], "hone", "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [entry["loss"] for entry in map(json.loads, lines) if "loss" in entry]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--kind", choices=("nf4", "nf4_nested", "int8"), default="nf4_nested")
    parser.add_argument("--hone", default=str(SOURCE / "build/hone"))
    parser.add_argument("--trl", help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.trl:
        trl(json.loads(a.trl))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        o = dict(model=a.model, steps=a.steps, kind=a.kind, hone=a.hone, folder=folder, data=folder + "/train.jsonl")
        rows(o["data"])
        text = subprocess.run([PYTHON, "-W", "ignore", __file__, "--model", a.model, "--trl", json.dumps(o)], check=True, stdout=subprocess.PIPE, text=True).stdout
        theirs = json.loads(next(line for line in text.splitlines() if line.startswith("RESULT ")).removeprefix("RESULT "))
        ours = hone(o)
    worst = max(abs(x - y) for x, y in zip(ours, theirs))
    for step, (x, y) in enumerate(zip(ours, theirs), 1):
        print(f"step {step:3d}: hone {x:.6f}  TRL {y:.6f}  {x - y:+.1e}")
    whole = len(ours) == len(theirs) == a.steps
    print(f"{a.kind}: worst difference {worst:.1e} over {len(ours)} steps (bound 1e-2)" + ("" if whole else f"; TRL logged {len(theirs)}"))
    return 0 if whole and worst <= 1e-2 else 1


if __name__ == "__main__":
    sys.exit(main())
