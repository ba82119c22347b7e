#!/usr/bin/env python3
"""Records tests/fixtures/gguf/: a small file by llama.cpp's own Python writer and its dequantized floats; and
blocks.json, blocks of every format that hone writes: what gguf-py makes of random ones, and of values.

Usage: record_gguf.py    (needs gguf and numpy; the versions used are written into the golden)
       record_gguf.py --ggml LIBRARY    records k_blocks.json alone: Q4_K, Q5_K and Q6_K, which gguf-py only reads, by
                                        ggml's own quantize_row_*_ref (a shared library that exports them, such as the
                                        one in the wheel xllamacpp)
"""
import argparse
import ctypes
import importlib.metadata
import json
import pathlib

import gguf
import numpy as np
from gguf import GGMLQuantizationType as T

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "fixtures" / "gguf"
BLOCKS = {T.Q8_0: (32, 34, 1), T.Q4_0: (32, 18, 1), T.Q4_1: (32, 20, 2)}  # elements, bytes, fp16 numbers in front
MORE = {T.Q5_0: (32, 22, 1, 0), T.Q4_K: (256, 144, 2, 0), T.Q5_K: (256, 176, 2, 0), T.Q6_K: (256, 210, 1, 208)}


def random_blocks(rng, kind, rows, columns):
    """Every bit of a block is random, except that its fp16 numbers are finite."""
    elements, size, halves = BLOCKS[kind]
    blocks = rng.integers(0, 256, (rows * columns // elements, size), dtype=np.uint8)
    scales = rng.standard_normal((len(blocks), halves)).astype(np.float16)
    scales[0, 0] = np.float16(6e-8)  # a subnormal
    scales[1, 0] = -abs(scales[1, 0])  # a negative scale gives -0 at the center
    blocks[:, : 2 * halves] = scales.view(np.uint8)
    return blocks.reshape(rows, columns // elements * size)


def record_blocks():
    rng = np.random.default_rng(12)
    known = {"dequantise": [], "quantise": []}
    for kind, (elements, size, halves, at) in MORE.items():
        blocks = rng.integers(0, 256, (4, size), dtype=np.uint8)
        blocks[:, at:at + 2 * halves] = rng.standard_normal((4, halves)).astype(np.float16).view(np.uint8)
        floats = gguf.quants.dequantize(blocks, kind).astype(np.float32)
        known["dequantise"].append({"type": kind.name, "blocks": blocks.tobytes().hex(), "floats": floats.tobytes().hex()})
    values = (rng.standard_normal((4, 96)) * np.array([[1e-3], [1], [300], [0.02]])).astype(np.float32)
    values[1, 32:64] = 0
    values[2, 5] = -values[2].max() - 1
    for kind in (T.F16, T.BF16, T.Q8_0, T.Q5_0):
        blocks = gguf.quants.quantize(values, kind)
        known["quantise"].append({"type": kind.name, "blocks": blocks.tobytes().hex(), "floats": values.tobytes().hex()})
    golden = {"gguf": importlib.metadata.version("gguf"), "numpy": np.__version__, **known}
    (FOLDER / "blocks.json").write_text(json.dumps(golden, indent=1) + "\n")


def hard_values():
    """Rows that take every way through the search: zero, one sign, constant, tiny and large, zero sub-blocks."""
    x = np.random.default_rng(13).standard_normal((12, 256)).astype(np.float32)
    x[0], x[1, :64], x[2], x[3] = 0, 0, x[2] * 1e-4, np.abs(x[3])
    x[4], x[5, :32], x[6], x[7] = -np.abs(x[4]), x[5, :32] * 1e-3, -0.5, x[7] * 1e4
    x[8, ::2], x[9, 3], x[10, 32:64], x[11, 16:32] = 0, 100, x[10, 32:64] * 1e-5, 1e-17
    return x


def record_k_blocks(library):
    ggml, values = ctypes.CDLL(library), hard_values()
    golden = {"by": "ggml, quantize_row_*_ref", "floats": values.tobytes().hex()}
    for kind in ("Q4_K", "Q5_K", "Q6_K"):
        blocks = np.zeros((len(values), MORE[T[kind]][1]), dtype=np.uint8)
        quantize = getattr(ggml, f"quantize_row_{kind.lower().replace('_k', '_K')}_ref")
        quantize.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
        quantize(values.ctypes.data, blocks.ctypes.data, values.size)
        golden[kind] = blocks.tobytes().hex()
    (FOLDER / "k_blocks.json").write_text(json.dumps(golden, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ggml")
    library = parser.parse_args().ggml
    if library:
        record_k_blocks(library)
        return
    record_blocks()
    rng = np.random.default_rng(11)
    FOLDER.mkdir(parents=True, exist_ok=True)
    writer = gguf.GGUFWriter(FOLDER / "tiny.gguf", "llama")
    writer.add_block_count(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_add_bos_token(True)
    writer.add_token_list(["<s>", "a", "é"])
    writer.add_token_types([3, 1, 1])
    writer.add_token_scores([0.0, -1.5, 2.0])
    writer.add_int32("test.negative", -7)
    expected = {}
    for kind in (T.F32, T.F16, T.BF16, T.Q8_0, T.Q4_0, T.Q4_1):
        if kind in BLOCKS:
            data = random_blocks(rng, kind, 3, 64)
        elif kind is T.BF16:
            data = rng.integers(0, 0x7F80, (3, 10), dtype=np.uint16).view(np.uint8)
        else:
            data = rng.standard_normal((3, 10)).astype(np.float32 if kind is T.F32 else np.float16)
        floats = gguf.quants.dequantize(data, kind).astype(np.float32)
        writer.add_tensor(kind.name.lower(), data, raw_dtype=kind)
        expected[kind.name.lower()] = {"shape": list(floats.shape), "floats": floats.tobytes().hex()}
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    golden = {"gguf": importlib.metadata.version("gguf"), "numpy": np.__version__, "tensors": expected}
    (FOLDER / "tiny.json").write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
