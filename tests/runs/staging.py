"""What the cases' setup.py share: bad and small files made from the fixtures, with Python's own library."""
import json
import pathlib
import shutil
import struct

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
TINY = SOURCE / "tests" / "fixtures" / "parity" / "tiny_llama"
WEIGHTS = "model.safetensors"
GGUF_NAMES = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
              "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
              "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
              "model.layers.": "blk.", "model.embed_tokens": "token_embd", "model.norm": "output_norm"}


def copy_model(folder="model"):
    """The tiny Llama without its goldens and adapters."""
    out = pathlib.Path(folder)
    out.mkdir()
    for name in ("config.json", "generation_config.json", WEIGHTS, "tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(TINY / name, out / name)
    return out


def edit_json(path, **changes):
    """Sets keys of a JSON object; None removes one."""
    path = pathlib.Path(path)
    content = json.loads(path.read_text(encoding="utf-8"))
    for key, value in changes.items():
        content[key] = value
        if value is None:
            del content[key]
    path.write_text(json.dumps(content, indent=1), encoding="utf-8")


def read_safetensors(path):
    """(header, bytes of the tensors)"""
    raw = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    return json.loads(raw[8:8 + size]), raw[8 + size:]


def write_safetensors(path, header, body):
    text = json.dumps(header).encode()
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + body)


def gguf_string(text):
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def gguf_value(value):
    """A metadata value with its type: str, int (u32), float (f32) or a list of one of them."""
    if isinstance(value, str):
        return struct.pack("<I", 8) + gguf_string(value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    items = [gguf_value(item) for item in value]
    return struct.pack("<I", 9) + items[0][:4] + struct.pack("<Q", len(items)) + b"".join(i[4:] for i in items)


def write_gguf(path, metadata, tensors):
    """tensors: (name, shape as torch says it, little-endian float32 bytes)"""
    infos, data = b"", b""
    for name, shape, raw in tensors:
        data += b"\0" * (-len(data) % 32)
        infos += gguf_string(name) + struct.pack("<I", len(shape))
        infos += b"".join(struct.pack("<Q", n) for n in reversed(shape)) + struct.pack("<IQ", 0, len(data))
        data += raw
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    head += b"".join(gguf_string(key) + gguf_value(value) for key, value in metadata.items()) + infos
    pathlib.Path(path).write_bytes(head + b"\0" * (-len(head) % 32) + data)


def interleaved(raw, shape, heads):
    """llama.cpp's order of the rows of Q and K: the halves of each rotary pair beside each other."""
    row, half = len(raw) // shape[0], shape[0] // heads // 2
    order = [(h * 2 + j) * half + i for h in range(heads) for i in range(half) for j in range(2)]
    return b"".join(raw[r * row:(r + 1) * row] for r in order)


def tiny_gguf(path):
    """The tiny Llama as one GGUF file of float32, with its tokenizer."""
    config = json.loads((TINY / "config.json").read_text(encoding="utf-8"))
    text = json.loads((TINY / "tokenizer.json").read_text(encoding="utf-8"))
    header, body = read_safetensors(TINY / WEIGHTS)
    tensors = []
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        raw = body[slice(*entry["data_offsets"])]
        for part, heads in (("q_proj", config["num_attention_heads"]), ("k_proj", config["num_key_value_heads"])):
            if part in name:
                raw = interleaved(raw, entry["shape"], heads)
        for hf, gguf in GGUF_NAMES.items():
            name = name.replace(hf, gguf)
        tensors.append((name, entry["shape"], raw))
    tokens = {**text["model"]["vocab"], **{t["content"]: t["id"] for t in text["added_tokens"]}}
    special = {t["content"]: 3 if t["special"] else 4 for t in text["added_tokens"]}
    ordered = sorted(tokens, key=tokens.get)
    metadata = {
        "general.architecture": "llama", "llama.block_count": config["num_hidden_layers"],
        "llama.embedding_length": config["hidden_size"], "llama.feed_forward_length": config["intermediate_size"],
        "llama.context_length": config["max_position_embeddings"],
        "llama.attention.head_count": config["num_attention_heads"],
        "llama.attention.head_count_kv": config["num_key_value_heads"],
        "llama.attention.key_length": config["head_dim"],
        "llama.attention.layer_norm_rms_epsilon": config["rms_norm_eps"], "llama.rope.freq_base": 10000.0,
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": ordered,
        "tokenizer.ggml.token_type": [special.get(token, 1) for token in ordered],
        "tokenizer.ggml.merges": [" ".join(pair) for pair in text["model"]["merges"]],
        "tokenizer.ggml.bos_token_id": 3, "tokenizer.ggml.eos_token_id": 2, "tokenizer.ggml.padding_token_id": 0}
    write_gguf(path, metadata, tensors)
