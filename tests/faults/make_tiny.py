#!/usr/bin/env python3
"""Makes tests/fixtures/faults/{llama,qwen2}: tiny models that were really trained, so that a healthy run looks healthy.

They have learned one-digit sums about half way, raw and as a conversation: completions end, some answers are right and some
are wrong. Needs torch and transformers (tests/parity/setup); run by hand, its result is committed.
"""
import json
import pathlib
import random
import shutil

import torch
from tokenizers import Tokenizer
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
TINY = SOURCE / "tests" / "fixtures" / "parity" / "tiny_llama"
OUT = SOURCE / "tests" / "fixtures" / "faults"
SHAPE = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=512, vocab_size=384, tie_word_embeddings=True, bos_token_id=3, eos_token_id=2,
             pad_token_id=0)
STEPS, BATCH = 500, 64


def raw(a, b, answer):
    return f"<|bos|>What is {a} + {b}?", f" {answer}<|im_end|>"


def chat(a, b, answer):
    return f"<|im_start|>user\nWhat is {a} + {b}?<|im_end|>\n<|im_start|>assistant\n", f"{answer}<|im_end|>\n"


def batch_of(tokenizer, rng):
    rows = []
    for _ in range(BATCH):
        a, b = rng.randrange(10), rng.randrange(10)
        answer = a + b if rng.random() < 0.8 else rng.randrange(19)  # it shall not be sure
        prompt, completion = rng.choice((raw, chat))(a, b, answer)
        rows.append(tokenizer.encode(prompt + completion, add_special_tokens=False).ids)
    width = max(map(len, rows))
    ids = torch.tensor([r + [0] * (width - len(r)) for r in rows])
    mask = torch.tensor([[1] * len(r) + [0] * (width - len(r)) for r in rows])
    return ids, mask


def train(model, tokenizer):
    rng = random.Random(1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=STEPS)
    for step in range(STEPS):
        ids, mask = batch_of(tokenizer, rng)
        loss = model(input_ids=ids, attention_mask=mask, labels=ids.masked_fill(mask == 0, -100)).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 100 == 99:
            print(f"  step {step + 1}: loss {loss.item():.3f}", flush=True)


def save(model, name):
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    model.to(torch.bfloat16).save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(TINY / file, folder / file)


def main():
    tokenizer = Tokenizer.from_file(str(TINY / "tokenizer.json"))
    torch.set_num_threads(1)
    for name, make in (("llama", lambda: LlamaForCausalLM(LlamaConfig(head_dim=16, **SHAPE))),
                       ("qwen2", lambda: Qwen2ForCausalLM(Qwen2Config(**SHAPE)))):
        print(name)
        torch.manual_seed(1)
        model = make()
        train(model, tokenizer)
        save(model, name)


if __name__ == "__main__":
    main()
