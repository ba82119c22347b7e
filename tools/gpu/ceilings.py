#!/usr/bin/env python3
"""What torch alone reaches on this GPU: launches, copies, products and attention. A line of JSON each, at once.

  ceilings.py            needs torch with CUDA, and nothing else
"""
import json
import sys
import time

PRODUCTS = [(8192, 896, 1152), (8192, 896, 9728), (8192, 4864, 896), (8192, 1536, 2048), (8192, 1536, 17920), (8192, 8960, 1536),
            (8192, 4096, 6144), (8192, 4096, 24576), (8192, 12288, 4096), (8192, 896, 16384), (64, 4096, 24576), (8192, 8192, 8192)]


def tell(name, value, unit):
    print(json.dumps({"name": name, "value": round(value, 4), "unit": unit}), flush=True)


def seconds(torch, call, times):
    call()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(times):
        call()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / times


def launches(torch):
    x = torch.zeros(64, device="cuda")

    def many():
        for _ in range(1000):
            x.add_(1)

    tell("a launch", seconds(torch, many, 3) * 1e3, "us")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        many()
    tell("a launch in a graph", seconds(torch, graph.replay, 3) * 1e3, "us")


def copies(torch):
    size = 1 << 30
    source, target = torch.zeros(size, dtype=torch.uint8, device="cuda"), torch.empty(size, dtype=torch.uint8, device="cuda")
    tell("a copy on the card, read and written", 2 * size / seconds(torch, lambda: target.copy_(source), 10) / 1e9, "GB/s")
    part = size // 4
    host = torch.zeros(part, dtype=torch.uint8).pin_memory()
    tell("to the card, pinned", part / seconds(torch, lambda: target[:part].copy_(host, non_blocking=True), 4) / 1e9, "GB/s")
    tell("to the host, pinned", part / seconds(torch, lambda: host.copy_(target[:part], non_blocking=True), 4) / 1e9, "GB/s")


def products(torch):
    for rows, width, out in PRODUCTS:
        x = torch.randn(rows, width, device="cuda", dtype=torch.bfloat16)
        w = torch.randn(out, width, device="cuda", dtype=torch.bfloat16)
        spent = seconds(torch, lambda: torch.nn.functional.linear(x, w), 10)
        tell(f"bf16 [{rows} x {width}] x [{width} x {out}]", 2 * rows * width * out / spent / 1e12, "TFLOP/s")


def attention(torch):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    for dim in (64, 128):
        for name, backend in (("FA2", SDPBackend.FLASH_ATTENTION), ("cuDNN", SDPBackend.CUDNN_ATTENTION)):
            heads, length, batch = 16, 2048, 4
            q, k, v = (torch.randn(batch, heads, length, dim, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
            flops = 2 * batch * heads * length * length * dim  # causal: half of two products
            try:
                with sdpa_kernel(backend):
                    def forward():
                        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

                    with torch.no_grad():
                        tell(f"{name} forward, head size {dim}", flops / seconds(torch, forward, 10) / 1e12, "TFLOP/s")
                    out = forward()
                    d = torch.randn_like(out)
                    spent = seconds(torch, lambda: torch.autograd.grad(out, (q, k, v), d, retain_graph=True), 10)
                    tell(f"{name} backward, head size {dim}", 2.5 * flops / spent / 1e12, "TFLOP/s")
            except RuntimeError as error:
                print(json.dumps({"name": f"{name}, head size {dim}", "not run": str(error).splitlines()[0]}), flush=True)


def main():
    try:
        import torch
    except ImportError as error:
        sys.exit(f"not run: {error}")
    if not torch.cuda.is_available():
        sys.exit("not run: this torch sees no GPU")
    print(json.dumps({"card": torch.cuda.get_device_name(), "torch": torch.__version__, "cuda": torch.version.cuda}), flush=True)
    for part in (launches, copies, products, attention):
        part(torch)


if __name__ == "__main__":
    main()
