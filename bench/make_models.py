#!/usr/bin/env python3
"""Writes q05b, the model of every speed figure: Qwen2.5-0.5B's exact shapes with random weights (seed 0), bf16, tied head, as a
Hugging Face folder. TOKENIZER is a folder with Qwen2.5's tokenizer.json and tokenizer_config.json.

usage: bench/make_models.py OUT TOKENIZER [--layers 24]      for instance
       third_party/parity-venv/bin/python bench/make_models.py models/q05b third_party/tokenizers/qwen2_5
Fewer layers make a model for trying the benchmarks out. Needs torch and transformers (tests/parity/setup's environment).
"""
import argparse
import os
import pathlib
import shutil
import sys

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("tokenizer", type=pathlib.Path)
    parser.add_argument("--layers", type=int, default=24)
    a = parser.parse_args()
    for name in TOKENIZER_FILES:
        if not (a.tokenizer / name).is_file():
            sys.exit(f"{a.tokenizer}: no {name}")
    if a.out.exists() and any(a.out.iterdir()):
        sys.exit(f"{a.out} is not empty")

    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM
    torch.manual_seed(0)
    config = Qwen2Config(vocab_size=151936, hidden_size=896, intermediate_size=4864, num_hidden_layers=a.layers,
                         num_attention_heads=14, num_key_value_heads=2, max_position_embeddings=32768, rope_theta=1e6,
                         rms_norm_eps=1e-6, tie_word_embeddings=True, bos_token_id=151643, eos_token_id=151645)
    partial = a.out.with_name(a.out.name + ".partial")  # a killed run leaves no folder that looks whole
    shutil.rmtree(partial, ignore_errors=True)
    Qwen2ForCausalLM(config).to(torch.bfloat16).save_pretrained(partial)
    for name in TOKENIZER_FILES:
        shutil.copyfile(a.tokenizer / name, partial / name)
    if a.out.exists():
        a.out.rmdir()
    os.replace(partial, a.out)


if __name__ == "__main__":
    main()
