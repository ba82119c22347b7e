"""SmolLM2-135M-Instruct's GGUF -> a fp32 Hugging Face folder, and the deterministic starting adapter beside it.
usage: make_smollm2.py GGUF OUT      (OUT-adapter gets the adapter; OUT/complete is written last)

llama.cpp interleaves the rows of q and k for its rotary form; `unpermute` restores Hugging Face's halves. The
tokenizer is built here from the GGUF's own tokens and merges: `tokenizer.ggml.pre` = smollm means Digits(individual)
before ByteLevel, which transformers' own GGUF conversion leaves out."""
import json
import sys
from pathlib import Path

from common import apply_rule, enter, save_adapter

import numpy as np
import torch
from gguf import GGUFReader
from gguf.quants import dequantize
from peft import LoraConfig, get_peft_model
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM

NAMES = dict(attn_norm="input_layernorm", ffn_norm="post_attention_layernorm", ffn_down="mlp.down_proj",
             ffn_gate="mlp.gate_proj", ffn_up="mlp.up_proj", attn_k="self_attn.k_proj", attn_q="self_attn.q_proj",
             attn_v="self_attn.v_proj", attn_output="self_attn.o_proj")
HEADS, KV_HEADS = 9, 3


def unpermute(w, heads):
    return w.reshape(heads, w.shape[0] // heads // 2, 2, w.shape[1]).swapaxes(1, 2).reshape(w.shape)


def make_model(reader, out):
    config = LlamaConfig(vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30,
                         num_attention_heads=HEADS, num_key_value_heads=KV_HEADS, max_position_embeddings=8192,
                         rope_theta=1e5, rms_norm_eps=1e-5, tie_word_embeddings=True, bos_token_id=1, eos_token_id=2,
                         pad_token_id=2)
    model = LlamaForCausalLM(config).to(torch.float32)
    state, filled = model.state_dict(), set()
    for tensor in reader.tensors:
        w = dequantize(tensor.data, tensor.tensor_type)
        if tensor.name == "token_embd.weight":
            key = "model.embed_tokens.weight"
        elif tensor.name == "output_norm.weight":
            key = "model.norm.weight"
        else:
            _, block, part, _ = tensor.name.split(".")
            key = f"model.layers.{block}.{NAMES[part]}.weight"
            w = unpermute(w, HEADS) if part == "attn_q" else unpermute(w, KV_HEADS) if part == "attn_k" else w
        state[key].copy_(torch.from_numpy(np.array(w, dtype=np.float32)))
        filled.add(key)
    assert filled == set(state) - {"lm_head.weight"}, set(state) - filled
    model.load_state_dict(state)
    model.save_pretrained(str(out))
    return model


def make_tokenizer(reader, out):
    field = lambda name: reader.fields[name].contents()
    tokens, kinds = field("tokenizer.ggml.tokens"), field("tokenizer.ggml.token_type")
    merges = [tuple(merge.split(" ")) for merge in field("tokenizer.ggml.merges")]
    tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                                       pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False)
                                  for token, kind in zip(tokens, kinds) if kind == 3])  # 3: control
    tokenizer.save(str(out / "tokenizer.json"))
    named = {key: tokens[field(f"tokenizer.ggml.{key2}_token_id")]
             for key, key2 in (("bos_token", "bos"), ("eos_token", "eos"), ("unk_token", "unknown"),
                               ("pad_token", "padding"))}
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 8192,
              "clean_up_tokenization_spaces": False, "add_prefix_space": False, **named,
              "chat_template": field("tokenizer.chat_template")}
    (out / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def main():
    gguf, out = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    enter()
    out.mkdir(parents=True, exist_ok=True)
    reader = GGUFReader(str(gguf))
    model = make_model(reader, out)
    make_tokenizer(reader, out)
    adapted = get_peft_model(model, LoraConfig(r=8, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM"))
    apply_rule(adapted)
    adapted.peft_config["default"].base_model_name_or_path = str(out)
    save_adapter(adapted, Path(str(out) + "-adapter"))
    (out / "complete").touch()


main()
