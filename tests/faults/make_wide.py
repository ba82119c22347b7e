"""A random model whose adapter of rank 128 is large beside its batches, written without a library. 38 MB."""
import json
import random
import shutil
import struct

import scene
import staging

HIDDEN, INNER, LAYERS, HEADS, KV_HEADS, HEAD_DIM, VOCABULARY = 512, 1024, 8, 8, 4, 64, 384


def table(size, count=1 << 16):
    """bf16 values of a normal distribution, as bytes."""
    rng = random.Random(7)
    return b"".join(struct.pack("<f", rng.gauss(0, size))[2:] for _ in range(count))


def shapes():
    yield "model.embed_tokens.weight", (VOCABULARY, HIDDEN)
    yield "model.norm.weight", (HIDDEN,)
    for layer in range(LAYERS):
        at = f"model.layers.{layer}."
        for name in ("input_layernorm", "post_attention_layernorm"):
            yield f"{at}{name}.weight", (HIDDEN,)
        for name, out in (("q_proj", HEADS * HEAD_DIM), ("k_proj", KV_HEADS * HEAD_DIM), ("v_proj", KV_HEADS * HEAD_DIM)):
            yield f"{at}self_attn.{name}.weight", (out, HIDDEN)
        yield f"{at}self_attn.o_proj.weight", (HIDDEN, HEADS * HEAD_DIM)
        for name in ("gate_proj", "up_proj"):
            yield f"{at}mlp.{name}.weight", (INNER, HIDDEN)
        yield f"{at}mlp.down_proj.weight", (HIDDEN, INNER)


def write(folder):
    folder.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        shutil.copyfile(scene.FIXTURES / "llama" / name, folder / name)
    config = json.loads((scene.FIXTURES / "llama" / "config.json").read_text())
    config.update(hidden_size=HIDDEN, intermediate_size=INNER, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
                  num_key_value_heads=KV_HEADS, head_dim=HEAD_DIM, vocab_size=VOCABULARY)
    (folder / "config.json").write_text(json.dumps(config))
    some, one = table(0.03), struct.pack("<f", 1.0)[2:]
    header, parts, end = {}, [], 0
    for index, (name, shape) in enumerate(shapes()):
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        if len(shape) == 1:
            body = one * count
        else:
            turned = some[2 * 977 * index % len(some):] + some[:2 * 977 * index % len(some)]
            body = (turned * (2 * count // len(turned) + 1))[:2 * count]
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [end, end + len(body)]}
        parts.append(body)
        end += len(body)
    staging.write_safetensors(folder / staging.WEIGHTS, header, b"".join(parts))
