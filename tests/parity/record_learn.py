"""Records AdamW steps, clipping and token facts as torch computes them.

usage: python tests/parity/record_learn.py > tests/fixtures/learn/learn.json
"""

import json

import numpy
import torch


def adamw(weight_decay, fused, beta1=0.9):
    torch.manual_seed(3)
    p = torch.nn.Parameter(torch.randn(37))
    optimizer = torch.optim.AdamW([p], lr=1e-2, betas=(beta1, 0.999), eps=1e-8, weight_decay=weight_decay,
                                  fused=fused, foreach=False)
    start, gradients, after, rates = p.tolist(), [], [], []
    for step in range(10):
        p.grad = torch.randn(37) * 10.0 ** (step % 4 - 3)
        rates.append(1e-2 * (1 - step / 10))
        optimizer.param_groups[0]["lr"] = rates[-1]
        optimizer.step()
        gradients.append(p.grad.tolist())
        after.append(p.tolist())
    state = optimizer.state[p]
    return {"weight_decay": weight_decay, "fused": fused, "beta1": beta1, "start": start, "rates": rates,
            "gradients": gradients, "after": after, "m": state["exp_avg"].tolist(), "v": state["exp_avg_sq"].tolist()}


def clip(scale, max_norm):
    torch.manual_seed(5)
    p = torch.nn.Parameter(torch.zeros(50))
    p.grad = torch.randn(50) * scale
    before = p.grad.tolist()
    norm = torch.nn.utils.clip_grad_norm_([p], max_norm)
    return {"max_norm": max_norm, "before": before, "norm": norm.item(), "after": p.grad.tolist()}


def facts():
    torch.manual_seed(11)
    logits = (torch.randn(6, 17) * 4).requires_grad_()
    with torch.no_grad():
        logits[2, 5] = logits[2].max()  # a tie may still be the first
        logits[3] *= 20
    targets = torch.tensor([0, 16, 5, 3, 9, 1])
    logprob = torch.log_softmax(logits, -1)
    picked = logprob.gather(1, targets[:, None])[:, 0]
    (-picked.sum() / 9).backward()
    return {"logits": logits.tolist(), "targets": targets.tolist(), "denominator": 9, "logprob": picked.tolist(),
            "entropy": (-(logprob.exp() * logprob).sum(-1)).tolist(),
            "is_top1": (logits.argmax(-1) == targets).int().tolist(),
            "loss": (-picked.sum() / 9).item(), "gradient": logits.grad.tolist()}


out = {
    "versions": {"torch": torch.__version__},
    "adamw": [adamw(0.0, False), adamw(0.1, False), adamw(0.1, True), adamw(0.01, False, beta1=0.3)],
    "clip": [clip(3.0, 1.0), clip(0.01, 1.0), clip(1.0, 2.5)],
    "facts": facts(),
}


def short(value):
    """fp32 numbers in the fewest digits that name them."""
    if isinstance(value, dict):
        return {k: v if k in ("factors", "rates") else short(v) for k, v in value.items()}
    if isinstance(value, list):
        return [short(v) for v in value]
    return float(str(numpy.float32(value))) if isinstance(value, float) else value


out.update({k: short(out[k]) for k in ("adamw", "clip", "facts")})
print(json.dumps(out, separators=(",", ":")))
