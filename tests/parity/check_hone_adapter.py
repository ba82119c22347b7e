"""Does PEFT, given an adapter that hone wrote, compute hone's logits?
usage: check_hone_adapter.py BASE_FOLDER ADAPTER_FOLDER DUMP [--tolerance 1e-4]

DUMP is a safetensors file by hone in fp32 mode: for n = 0, 1, ...  ids_n [T] i64 and logits_n [T,V] f32 of
the base with the adapter on, dropout off, each sequence alone. Also required of the folder: adapter_config.json parses as a PEFT
LoraConfig, every LoRA tensor PEFT makes is in adapter_model.safetensors and nothing else is.
Prints for each sequence the largest |hone - PEFT| over the largest |PEFT|, the cosine, and the share of the tolerance
used; exit code 0 when all are within it, 1 when not, 2 when the input is unusable."""
import json
import sys
from pathlib import Path

from check_logits import compare_dump, parse

from common import adapter_parameters, enter, peft_key

import torch
from peft import PeftModel
from safetensors import safe_open
from transformers import AutoModelForCausalLM


def main():
    arguments = parse(__doc__, ("base", "adapter", "dump"))
    enter()
    base = AutoModelForCausalLM.from_pretrained(arguments.base, dtype=torch.float32, attn_implementation="sdpa")
    model = PeftModel.from_pretrained(base, arguments.adapter).eval()
    made = {peft_key(name) for name, _ in model.named_parameters() if "lora_" in name}
    with safe_open(str(Path(arguments.adapter) / "adapter_model.safetensors"), "pt") as file:
        stored = set(file.keys())
    ok = made == stored
    if not ok:
        print(f"FAILED tensors on one side only: PEFT {sorted(made - stored)[:3]}, hone {sorted(stored - made)[:3]}")
    config = json.loads((Path(arguments.adapter) / "adapter_config.json").read_text())
    print(f"PEFT read {len(stored)} tensors, r {config['r']}, alpha {config['lora_alpha']}, base "
          f"{config['base_model_name_or_path']}; largest |B| "
          f"{max(p.abs().max().item() for name, p in adapter_parameters(model).items() if 'lora_B' in name):.3e}")
    with torch.no_grad(), model.disable_adapter():
        first = compare_dump(lambda ids: model(input_ids=ids[None]).logits[0], arguments.dump, None, quiet=True)
    print(f"(adapter off would differ by {first:.2e}: the comparison below sees the adapter)")
    if first < 10 * arguments.tolerance:
        print("FAILED the adapter hardly changes the logits: this comparison proves nothing")
        ok = False
    with torch.no_grad():
        worst = compare_dump(lambda ids: model(input_ids=ids[None]).logits[0], arguments.dump, arguments.tolerance)
    sys.exit(0 if ok and worst <= arguments.tolerance else 1)


main()
