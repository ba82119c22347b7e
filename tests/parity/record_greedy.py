"""What transformers.generate decodes greedily with the tiny models, for hone to equal token for token.

Writes FIXTURES/greedy.json: cases of {model, adapter or null, max_new_tokens, eos, prompts: [ids], completions: [ids]}.
Each prompt is decoded alone, in fp32, without padding; a completion ends with the first token of `eos`, which it holds,
or after max_new_tokens. `eos` is a token that the model does say, so that some prompts end early and others do not. A prompt whose most likely
token was once ahead of the second by less than LEAST_LEAD is left out: a rounding could decide it.
"""
from common import FIXTURES, options, versions, write_json

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

CASES = [("tiny_llama", None), ("tiny_llama", "adapter"), ("tiny_llama", "adapter_rslora"), ("tiny_llama3", "adapter"),
         ("tiny_qwen2", "adapter"), ("tiny_qwen3", "adapter")]
LENGTHS = (1, 2, 3, 5, 8, 13, 21, 34, 55, 4, 7)  # of the prompts; hone decodes them together
NEW_TOKENS, LEAST_LEAD = 24, 1e-3


def decode(model, ids, eos):
    """(completion, least lead)"""
    with torch.no_grad():
        out = model.generate(input_ids=torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long),
                             max_new_tokens=NEW_TOKENS, do_sample=False, eos_token_id=eos, pad_token_id=0,
                             return_dict_in_generate=True, output_logits=True)
    tops = [logits[0].topk(2).values for logits in out.logits]
    return out.sequences[0, len(ids):].tolist(), min(float(top[0] - top[1]) for top in tops)


def record(folder, adapter, seed):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa")
    if adapter:
        model = PeftModel.from_pretrained(model, folder / adapter)
    model.eval()
    generator = torch.Generator().manual_seed(seed)
    prompts = [torch.randint(3, model.config.vocab_size, (length,), generator=generator).tolist() for length in LENGTHS]
    model.generation_config.eos_token_id = None
    without_end = [decode(model, ids, None)[0] for ids in prompts]
    # the token that ends the most prompts after their first token, but not all of them
    said = {token for ids in without_end for token in ids[1:]}
    ends = {token: sum(token in ids for ids in without_end) for token in said}
    eos = max((count, token) for token, count in ends.items() if count < len(prompts) - 1)[1]
    decoded = [(ids, *decode(model, ids, eos)) for ids in prompts]
    kept = [one for one in decoded if one[2] >= LEAST_LEAD]
    lengths = [len(completion) for _, completion, _ in kept]
    assert len(kept) >= 8 and min(lengths) < NEW_TOKENS == max(lengths), f"{folder} {adapter}: {lengths}"
    print(f"{folder} {adapter}: {len(kept)} prompts, lengths {lengths}, closest choice {min(one[2] for one in kept):.1e}")
    return {"model": f"tests/fixtures/parity/{folder.name}", "adapter": adapter, "max_new_tokens": NEW_TOKENS, "eos": [eos],
            "prompts": [one[0] for one in kept], "completions": [one[1] for one in kept]}


def main():
    arguments = options(__doc__)
    cases = [record(FIXTURES / name, adapter, seed) for seed, (name, adapter) in enumerate(CASES, start=31)]
    write_json(arguments.out / "greedy.json", {"versions": versions(), "cases": cases})


main()
