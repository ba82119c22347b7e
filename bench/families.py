#!/usr/bin/env python3
"""SFT + LoRA steps of every family beside a Llama of the same shapes: what a family costs for the same work. Models of 6 layers,
hidden 896, 14 heads over 2, MLP 4864, random bf16 weights and a small vocabulary, so that layers are what is measured. In a round
every family runs once. Work is counted as parameters of the linears that a token meets (of experts: those of its top k) and the head.

usage: bench/families.py --out bench/results/NAME.md [--only WORD,...] [--rounds 3] [--batch 4] [--length 256] [--steps 4] [--quick]
Needs build/hone and tests/parity/setup's environment. Run it on an idle machine.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

import beside_trl
from setting import PYTHON, SOURCE, setting, table

MAKE = r'''
import json, sys, shutil, pathlib
import torch
import transformers as t
out, tokenizer, layers = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), int(sys.argv[3])
same = dict(vocab_size=512, hidden_size=896, intermediate_size=4864, num_hidden_layers=layers, num_attention_heads=14,
            num_key_value_heads=2, max_position_embeddings=4096, bos_token_id=1, eos_token_id=2, pad_token_id=0,
            tie_word_embeddings=True)
head = dict(same, head_dim=64)
yarn = {"rope_type": "yarn", "rope_theta": 1e6, "factor": 16.0, "original_max_position_embeddings": 2048, "llama_4_scaling_beta": 0.1}
experts = dict(num_experts=16, num_experts_per_tok=4, moe_intermediate_size=1216, norm_topk_prob=True)
made = {
    "llama": lambda: t.LlamaForCausalLM(t.LlamaConfig(**head)),
    "qwen2": lambda: t.Qwen2ForCausalLM(t.Qwen2Config(**same)),
    "qwen3": lambda: t.Qwen3ForCausalLM(t.Qwen3Config(**head)),
    "mistral": lambda: t.MistralForCausalLM(t.MistralConfig(sliding_window=128, **head)),
    "smollm3": lambda: t.SmolLM3ForCausalLM(t.SmolLM3Config(**same)),
    "granite": lambda: t.GraniteForCausalLM(t.GraniteConfig(embedding_multiplier=12.0, attention_multiplier=0.0156, residual_multiplier=0.22,
                                                            logits_scaling=6.0, **same)),
    "granitemoehybrid": lambda: t.GraniteMoeHybridForCausalLM(t.GraniteMoeHybridConfig(
        embedding_multiplier=12.0, attention_multiplier=0.0156, residual_multiplier=0.22, logits_scaling=6.0, num_local_experts=0, num_experts_per_tok=0,
        position_embedding_type="rope", shared_intermediate_size=4864, layer_types=["attention"] * layers, mamba_n_heads=28, **same)),
    "olmo2": lambda: t.Olmo2ForCausalLM(t.Olmo2Config(**same)),
    "olmo3": lambda: t.Olmo3ForCausalLM(t.Olmo3Config(sliding_window=128, **same)),
    "gemma": lambda: t.GemmaForCausalLM(t.GemmaConfig(**head)),
    "gemma3_text": lambda: t.Gemma3ForCausalLM(t.Gemma3TextConfig(sliding_window=128, query_pre_attn_scalar=64, **head)),
    "gemma4_text": lambda: t.Gemma4ForCausalLM(t.Gemma4TextConfig(
        sliding_window=128, global_head_dim=128, num_kv_shared_layers=layers // 2, layer_types=["sliding_attention", "sliding_attention", "full_attention"] * (layers // 3),
        hidden_size_per_layer_input=64, vocab_size_per_layer_input=head["vocab_size"], **head)),
    "phi3": lambda: t.Phi3ForCausalLM(t.Phi3Config(**same)),
    "ministral3": lambda: t.Ministral3ForCausalLM(t.Ministral3Config(rope_parameters=yarn, **head)),
    "gemma2": lambda: t.Gemma2ForCausalLM(t.Gemma2Config(sliding_window=128, query_pre_attn_scalar=64, **head)),
    "lfm2": lambda: t.Lfm2ForCausalLM(t.Lfm2Config(block_auto_adjust_ff_dim=False, layer_types=["conv", "conv", "full_attention"] * (layers // 3), **same)),
    "qwen3_5_text": lambda: t.Qwen3_5ForCausalLM(t.Qwen3_5TextConfig(
        layer_types=["linear_attention", "linear_attention", "full_attention"] * (layers // 3), linear_num_key_heads=7, linear_num_value_heads=7, **head)),
    "qwen3_moe": lambda: t.Qwen3MoeForCausalLM(t.Qwen3MoeConfig(**experts, **head)),
    "mixtral": lambda: t.MixtralForCausalLM(t.MixtralConfig(**dict(head, num_local_experts=8, num_experts_per_tok=2, intermediate_size=2432))),
    "olmoe": lambda: t.OlmoeForCausalLM(t.OlmoeConfig(**dict(same, num_experts=16, num_experts_per_tok=4, intermediate_size=1216))),
    "exaone4": lambda: t.Exaone4ForCausalLM(t.Exaone4Config(sliding_window=128, sliding_window_pattern=4, **same)),
    "granitemoe": lambda: t.GraniteMoeForCausalLM(t.GraniteMoeConfig(embedding_multiplier=12.0, attention_multiplier=0.0156, residual_multiplier=0.22,
                                                                    logits_scaling=6.0, **dict(same, num_local_experts=8, num_experts_per_tok=2, intermediate_size=2432))),
}
active = {}
for name, make in made.items():
    if len(sys.argv) > 4 and name not in sys.argv[4].split(","): continue
    torch.manual_seed(0)
    model = make().to(torch.bfloat16)
    c = model.config
    total = getattr(c, "num_experts", None) or getattr(c, "num_local_experts", None) or 1
    share = (getattr(c, "num_experts_per_tok", 0) or total) / total
    # the embedding is the head; a matrix of experts is [E, out, in]
    active[name] = sum(p.numel() * (share if p.dim() == 3 and "experts" in n or "input_linear" in n or "output_linear" in n else 1)
                       for n, p in model.named_parameters() if p.dim() >= 2)
    model.save_pretrained(out / name)
    for file in ("tokenizer.json", "tokenizer_config.json"): shutil.copyfile(tokenizer / file, out / name / file)
print("RESULT", json.dumps(active))
'''


def make(folder, layers, only):
    words = [PYTHON, "-W", "ignore", "-c", MAKE, folder, SOURCE / "tests/fixtures/parity/tiny_llama", layers, *([only] if only else [])]
    text = subprocess.run([str(word) for word in words], check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(text[text.index("RESULT ") + 7:])


def report(a, said, active, rounds):
    """Ratios are to Llama's run of the same round."""
    lines = [f"# SFT + LoRA r 16 all-linear, bf16, batch {a.batch} x {a.length}, {a.threads} threads: families beside Llama", "",
             f"{a.layers} layers, hidden 896, 14 heads of 64 over 2, MLP 4864 (experts together the same for a token), vocabulary 512, random weights; recompute "
             f"none; {len(rounds)} rounds of every family in turn, {a.steps} steps each, the first left out.", "", *said, ""]
    body = []
    for name in active:
        seconds = [one[name]["seconds"] for one in rounds]
        work = active[name] / active["llama"]
        ratios = [one["llama"]["seconds"] / one[name]["seconds"] for one in rounds]
        body.append([name, f"{active[name] / 1e6:.1f}", f"{statistics.median(seconds):.2f}", f"{statistics.median(ratios):.2f}",
                     f"{statistics.median(ratios) * work:.2f}", " ".join(f"{one:.2f}" for one in seconds)])
    lines += table(["family", "active M", "s a step", "tokens/s to Llama's", "work/s to Llama's", "each round"], body)
    return "\n".join([*lines, "", f"`bench/families.py --rounds {len(rounds)} --batch {a.batch} --length {a.length} --steps {a.steps}`", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--only", default="", help="families, with commas; Llama is always there")
    for name, default in dict(rounds=3, batch=4, length=256, steps=4, threads=2, layers=6).items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--quick", action="store_true", help="one round of small steps: does it run?")
    a = parser.parse_args()
    if a.quick:
        a.rounds, a.batch, a.length, a.steps = 1, 2, 32, 3
    said, rounds = setting(a.threads), []
    with tempfile.TemporaryDirectory() as temporary:
        active = make(temporary, a.layers, f"llama,{a.only}" if a.only else "")
        data = f"{temporary}/train.jsonl"
        beside_trl.rows(data, a.length)
        for number in range(a.rounds):
            rounds.append({})
            for name in active:
                rounds[-1][name] = beside_trl.hone(dict(model=f"{temporary}/{name}", data=data, batch=a.batch, length=a.length, steps=a.steps,
                                                        threads=a.threads, recompute="none", layer_form="auto",
                                                        more=("--skip_doctor", "true")), f"{temporary}/out-{name}-{number}")
                print(f"round {number + 1}: {name} {rounds[-1][name]['seconds']:.2f} s", flush=True)
        a.out.write_text(report(a, said, active, rounds), encoding="utf-8")
    print(a.out)


if __name__ == "__main__":
    main()
