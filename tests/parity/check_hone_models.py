"""Does transformers, given a model folder that hone wrote (merge or convert), compute hone's logits?
usage: check_hone_models.py MODEL_FOLDER DUMP [--tolerance 1e-4] [--base FOLDER --adapter FOLDER] [--same-as FOLDER]

DUMP: as in check_hone_adapter.py, ids_n [T] i64 and logits_n [T,V] f32 by hone in fp32 mode; for a merged model, of the
base with the adapter on. MODEL_FOLDER must load with AutoModelForCausalLM without a missing or an unexpected weight.
--base and --adapter: the logits are also compared with PEFT's own merge_and_unload of those two.
--same-as: every weight must equal, bit for bit, the one of that folder (a conversion against another converter's).
With a tokenizer in the folder, AutoTokenizer must load it and give back "12 + 7 = 19". Exit code as there."""
import sys
from pathlib import Path

from check_logits import compare_dump, parse

from common import enter

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


def load(folder):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa",
                                                output_loading_info=True)


def main():
    arguments = parse(__doc__, ("model", "dump"), ("--base", "--adapter", "--same-as"))
    enter()
    model, info = load(arguments.model)
    odd = {key: list(value)[:3] for key, value in info.items() if value}
    ok = not odd
    print(f"transformers loaded {arguments.model}: {model.num_parameters():,} parameters"
          + (f"; FAILED {odd}" if odd else ""))
    if (Path(arguments.model) / "tokenizer.json").exists():
        tokenizer = AutoTokenizer.from_pretrained(arguments.model)
        text = tokenizer.decode(tokenizer("12 + 7 = 19", add_special_tokens=False).input_ids)
        ok &= text == "12 + 7 = 19"
        print(f"tokenizer: {len(tokenizer)} tokens, round trip {text!r}")
    if arguments.same_as:
        other = load(arguments.same_as)[0].state_dict()
        mine = model.state_dict()
        different = [key for key in other if key not in mine or not torch.equal(mine[key], other[key])]
        ok &= not different and mine.keys() == other.keys()
        print(f"{len(other) - len(different)} of {len(other)} weights equal {arguments.same_as} bit for bit"
              + (f"; FAILED {different[:3]}" if different else ""))
    with torch.no_grad():
        forward = lambda one: (lambda ids: one(input_ids=ids[None]).logits[0])
        worst = compare_dump(forward(model), arguments.dump, arguments.tolerance)
        if arguments.base:
            from peft import PeftModel
            merged = PeftModel.from_pretrained(load(arguments.base)[0], arguments.adapter).merge_and_unload().eval()
            print("against PEFT's own merge:")
            worst = max(worst, compare_dump(forward(merged), arguments.dump, arguments.tolerance))
    sys.exit(0 if ok and worst <= arguments.tolerance else 1)


main()
