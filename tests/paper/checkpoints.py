#!/usr/bin/env python3
"""Models of real shapes that take no room: bf16 zeros in files with holes, and rows to train them on.

  checkpoints.py FOLDER [NAME...]     makes those of SHAPES (all without a NAME) and *.jsonl in FOLDER,
                                      and fixtures that have no tokenizer with one

The tokenizer is that of tiny_llama, so ids are small; shapes, and with them kernels and memory, are the model's.
"""
import json
import pathlib
import random
import shutil
import struct
import sys

FIXTURES = pathlib.Path(__file__).resolve().parents[1] / "fixtures/parity"
WORDS = "the cat sat on a mat and then it ran to the old house near a river while birds sang songs".split()

# family: whose config.json is changed; the rest by transformers' names
SHAPES = {
    "qwen2.5-0.5b": dict(family="tiny_qwen2", hidden_size=896, num_hidden_layers=24, num_attention_heads=14, num_key_value_heads=2,
                         head_dim=64, intermediate_size=4864, vocab_size=151936, tie_word_embeddings=True),
    "qwen2.5-1.5b": dict(family="tiny_qwen2", hidden_size=1536, num_hidden_layers=28, num_attention_heads=12, num_key_value_heads=2,
                         head_dim=128, intermediate_size=8960, vocab_size=151936, tie_word_embeddings=True),
    "qwen3-8b": dict(family="tiny_qwen3", hidden_size=4096, num_hidden_layers=36, num_attention_heads=32, num_key_value_heads=8,
                     head_dim=128, intermediate_size=12288, vocab_size=151936, tie_word_embeddings=False),
    "olmoe-1b-7b": dict(family="tiny_olmoe", hidden_size=2048, num_hidden_layers=16, num_attention_heads=16, num_key_value_heads=16,
                        head_dim=128, intermediate_size=1024, num_experts=64, num_experts_per_tok=8, vocab_size=50304,
                        tie_word_embeddings=False),
}


def tensors(shape):
    """name -> sizes, of Qwen2.5 (biases of q, k and v), Qwen3 (norms of q and k) and OLMoE (norms of all of q and k, experts)."""
    hidden, inner, size = shape["hidden_size"], shape["intermediate_size"], shape["head_dim"]
    heads, kv_heads = shape["num_attention_heads"] * size, shape["num_key_value_heads"] * size
    out = {"model.embed_tokens.weight": [shape["vocab_size"], hidden], "model.norm.weight": [hidden]}
    if not shape["tie_word_embeddings"]:
        out["lm_head.weight"] = [shape["vocab_size"], hidden]
    for layer in range(shape["num_hidden_layers"]):
        of_layer = {"input_layernorm.weight": [hidden], "post_attention_layernorm.weight": [hidden],
                    "self_attn.q_proj.weight": [heads, hidden], "self_attn.k_proj.weight": [kv_heads, hidden],
                    "self_attn.v_proj.weight": [kv_heads, hidden], "self_attn.o_proj.weight": [hidden, heads]}
        experts = shape.get("num_experts", 0)
        for place in [f"mlp.experts.{expert}" for expert in range(experts)] or ["mlp"]:
            of_layer |= {f"{place}.gate_proj.weight": [inner, hidden], f"{place}.up_proj.weight": [inner, hidden],
                         f"{place}.down_proj.weight": [hidden, inner]}
        if experts:
            of_layer |= {"mlp.gate.weight": [experts, hidden], "self_attn.q_norm.weight": [heads], "self_attn.k_norm.weight": [kv_heads]}
        elif shape["family"] == "tiny_qwen3":
            of_layer |= {"self_attn.q_norm.weight": [size], "self_attn.k_norm.weight": [size]}
        else:
            of_layer |= {"self_attn.q_proj.bias": [heads], "self_attn.k_proj.bias": [kv_heads], "self_attn.v_proj.bias": [kv_heads]}
        out |= {f"model.layers.{layer}.{name}": sizes for name, sizes in of_layer.items()}
    return out


def write_model(folder, shape):
    folder.mkdir(parents=True)
    for source in ("tiny_llama/tokenizer.json", "tiny_llama/tokenizer_config.json", f"{shape['family']}/generation_config.json"):
        shutil.copyfile(FIXTURES / source, folder / pathlib.Path(source).name)
    config = json.loads((FIXTURES / shape["family"] / "config.json").read_text())
    for name in ("layer_types", "dtype"):
        config.pop(name, None)
    config |= {name: value for name, value in shape.items() if name != "family"}
    config |= {"max_position_embeddings": 32768, "max_window_layers": shape["num_hidden_layers"], "torch_dtype": "bfloat16"}
    if shape["family"] != "tiny_qwen3":
        config.pop("head_dim")
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    header, end = {}, 0
    for name, sizes in tensors(shape).items():
        count = 1
        for size in sizes:
            count *= size
        header[name] = {"dtype": "BF16", "shape": sizes, "data_offsets": [end, end + 2 * count]}
        end += 2 * count
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with (folder / "model.safetensors").open("wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        out.truncate(8 + len(text) + end)  # a hole: zeros that take no room


def write_rows(folder):
    rng = random.Random(1)

    def words(count):
        return " ".join(rng.choice(WORDS) for _ in range(count))

    def shuffled(count):  # as many tokens each time, where it does not begin the text
        of = [WORDS[i % len(WORDS)] for i in range(count)]
        rng.shuffle(of)
        return " ".join(of)

    rows = {"long": [{"text": words(4000)} for _ in range(64)],
            "short": [{"text": words(20)} for _ in range(8)],
            "uneven": [{"text": words(10 + rng.randrange(500))} for _ in range(64)],
            "prompts": [{"prompt": "so " + shuffled(60)} for _ in range(64)],
            "pairs": [{"prompt": "so " + shuffled(60), "chosen": words(400), "rejected": words(400)} for _ in range(64)]}
    for name, of_file in rows.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in of_file))


def write_named(folder, name):
    """A fixture's model that has no tokenizer, with one of letters."""
    shutil.copytree(FIXTURES / name, folder, ignore=shutil.ignore_patterns("golden*", "adapter*"))
    plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    added = [{"id": at, "content": text, "special": True, **plain} for at, text in enumerate(("[UNK]", "<s>", "</s>"))]
    letters = {letter: 3 + at for at, letter in enumerate(sorted({*"".join(WORDS), "\u0120"}))}  # the last is ByteLevel's blank
    by_bytes = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    tokenizer = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
                 "pre_tokenizer": by_bytes, "post_processor": None, "decoder": by_bytes,
                 "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                           "fuse_unk": False, "byte_fallback": False, "vocab": letters, "merges": []}}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    config = {"tokenizer_class": "TokenizersBackend", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "[UNK]",
              "pad_token": "[UNK]"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


def make(folder, names=tuple(SHAPES)):
    """Those that are not there yet."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_rows(folder)
    for name in sorted(path.name for path in FIXTURES.glob("tiny_*") if not (path / "tokenizer.json").exists()):
        if not (folder / name).exists():
            write_named(folder / name, name)
    for name in names:
        if not (folder / name / "model.safetensors").exists():
            shutil.rmtree(folder / name, ignore_errors=True)
            write_model(folder / name, SHAPES[name])


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    make(sys.argv[1], sys.argv[2:] or tuple(SHAPES))
