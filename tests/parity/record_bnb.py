"""What bitsandbytes makes of small matrices on a CPU: codes, scales and the numbers they stand for.

Needs bitsandbytes (0.50.2) beside the parity environment: PYTHONPATH=<folder that holds it>. Writes
FIXTURES/bnb.safetensors. Matrices `m` (random, of bf16's numbers, so that the sum of their scales is exact and the same on
every machine): <m>.in bf16; for kinds nf4, fp4, nf4_nested, nf4_bf16 (quantized from bf16): <m>.<kind>.weight u8 and the
tensors that transformers writes beside it (absmax, quant_map, nested_absmax, nested_quant_map,
quant_state.bitsandbytes__nf4), <m>.<kind>.f32 and .bf16, dequantized; for int8 .weight i8, .SCB f32, and .bf16, .f32: what
training on a CPU multiplies with. The folders
tiny_llama_nf4 and tiny_llama_int8 hold a model that transformers loaded quantized and saved, and its logits.
"""
import os
import shutil
from pathlib import Path

os.environ["TORCHDYNAMO_DISABLE"] = "1"  # bitsandbytes would compile its plain forms

from common import options, write_tensors

import torch

import bitsandbytes as bnb
import bitsandbytes.functional as F


def matrices():
    generator = torch.Generator().manual_seed(5)

    def random(rows, columns, scale):
        return (torch.randn(rows, columns, generator=generator) * scale).to(torch.bfloat16).float()
    yield "square", random(32, 128, 0.05)
    edges = random(16, 64, 1.0)
    edges[0] = 0.0  # a block without a largest number
    edges[1] = 0.125  # every number is the largest
    edges[2] = -0.125
    edges[3, 1:] = 0.0
    edges[4] = torch.linspace(-1, 1, 64)
    edges[5] = edges[5] * 1e-6
    edges[6] = edges[6] * 1e4
    yield "edges", edges.to(torch.bfloat16).float()
    yield "many", random(272, 64, 0.02)  # more than 256 scales; double quantized only
    yield "odd", random(5, 27, 0.3)  # the last block and the last byte are not whole


def four_bit(name, w, kind, found):
    source = w.to(torch.bfloat16) if kind.endswith("bf16") else w
    codes, state = F.quantize_4bit(source, blocksize=64, quant_type=kind[:3], compress_statistics="nested" in kind)
    found[f"{name}.{kind}.weight"] = codes
    for key, value in state.as_dict(packed=True).items():
        found[f"{name}.{kind}.weight.{key}"] = value
    for dtype, short in ((torch.float32, "f32"), (torch.bfloat16, "bf16")):
        state.dtype = dtype
        found[f"{name}.{kind}.{short}"] = F.dequantize_4bit(codes, state).reshape(w.shape)


def eight_bit(name, w, found):
    codes, scales, _ = F.int8_vectorwise_quant(w.to(torch.float16))
    found[f"{name}.int8.weight"], found[f"{name}.int8.SCB"] = codes, scales
    for dtype, short in ((torch.float32, "f32"), (torch.bfloat16, "bf16")):  # MatMul8bitFp.forward
        found[f"{name}.int8.{short}"] = codes.to(dtype).mul_(scales.unsqueeze(1).mul(1.0 / 127.0))


def checkpoint(folder):
    """A model whose rows are whole blocks, saved by transformers as it lies in memory after load_in_4bit."""
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig, LlamaConfig, LlamaForCausalLM
    shape = dict(hidden_size=64, intermediate_size=128, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2,
                 max_position_embeddings=64, vocab_size=96, bos_token_id=1, eos_token_id=2, pad_token_id=0)
    generator = torch.Generator().manual_seed(9)
    model = LlamaForCausalLM(LlamaConfig(tie_word_embeddings=True, **shape))
    with torch.no_grad():
        for key, value in model.named_parameters():
            noise = torch.randn(value.shape, generator=generator)
            value.copy_(1.0 + 0.2 * noise if "norm" in key else 0.08 * noise)
    model = model.to(torch.bfloat16).float()
    plain = Path("/tmp") / "hone_record_bnb"
    ids = torch.randint(3, 96, (1, 24), generator=generator)
    for kind in ("nf4", "int8"):
        shutil.rmtree(plain, ignore_errors=True)
        model.save_pretrained(plain)
        asked = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True,
                                   bnb_4bit_compute_dtype=torch.float32) if kind == "nf4" else \
            BitsAndBytesConfig(load_in_8bit=True)
        quantized = AutoModelForCausalLM.from_pretrained(plain, quantization_config=asked, dtype=torch.float32,
                                                         device_map={"": "cpu"})
        out = folder / f"tiny_llama_{kind}"
        shutil.rmtree(out, ignore_errors=True)
        quantized.save_pretrained(out)
        (out / "generation_config.json").unlink(missing_ok=True)
        (out / "model.safetensors").chmod(0o644)
        quantized.train()  # in training a CPU multiplies with the dequantized weight
        with torch.no_grad():
            logits = quantized(ids).logits[0].float()
        write_tensors(out / "golden.safetensors", {"ids": ids[0], "logits": logits}, bitsandbytes=bnb.__version__)
    shutil.rmtree(plain)


def main():
    out = options(__doc__).out
    found = {}
    for name, w in matrices():
        found[f"{name}.in"] = w.to(torch.bfloat16)
        for kind in ("nf4", "fp4", "nf4_nested", "nf4_bf16") if name != "many" else ("nf4_nested",):
            four_bit(name, w, kind, found)
        if name != "many":
            eight_bit(name, w, found)
    write_tensors(out / "bnb.safetensors", found, bitsandbytes=bnb.__version__)
    checkpoint(out)


if __name__ == "__main__":
    main()
