"""What TRL's divergence of two models' hidden rows is: FIXTURES/learn/divergence.json.
usage: record_divergence.py [--out FOLDER]

ChunkedDivergenceFunction, which DistillationTrainer's loss is made of, in fp32 on five rows; the two models have other widths.
`student` and `teacher`: hidden [5, H] and weight [13, H]. Each case: options, divergence and entropy of each row, and of the sum
of divergences times `upstream` the gradients by the student's hidden rows and by its weight (`d_hidden`, `d_weight`, row by row).
`gkd`: the sum that GKDTrainer.generalized_jsd_loss makes of the same logits, where it knows the options."""
import common
from common import versions, write_json

import torch
from trl.experimental.gkd import GKDTrainer
from trl.kernels.chunked_divergence import ChunkedDivergenceFunction

UPSTREAM = 0.125


def side(seed, width):
    random = torch.Generator().manual_seed(seed)
    coarse = lambda *shape: (torch.randn(shape, generator=random) * 64).round() / 64
    return coarse(5, width), coarse(13, width)


def cases():
    out = {f"beta_{beta}_at_{temperature}": dict(beta=beta, temperature=temperature)
           for beta in (0.0, 0.25, 0.5, 1.0) for temperature in (1.0, 0.7)}
    return out | {f"capped_beta_{beta}": dict(beta=beta, temperature=0.7, student_cap=2.0, teacher_cap=5.0) for beta in (0.0, 0.5, 1.0)}


def run(options):
    (hidden, weight), (teacher_hidden, teacher_weight) = side(50, 4), side(51, 6)
    hidden, weight = hidden.requires_grad_(), weight.requires_grad_()
    divergence, entropy = ChunkedDivergenceFunction.apply(
        hidden, weight, None, teacher_hidden, teacher_weight, None, options["beta"], options["temperature"],
        1.0, options.get("student_cap"), 1.0, options.get("teacher_cap"))
    (divergence.sum() * UPSTREAM).backward()
    out = {"options": options, "divergence": divergence, "entropy": entropy, "d_hidden": hidden.grad.flatten(),
           "d_weight": weight.grad.flatten()}
    out = {key: value if isinstance(value, dict) else short(value) for key, value in out.items()}
    if "student_cap" not in options:
        out["gkd"] = round(GKDTrainer.generalized_jsd_loss(
            (hidden @ weight.T)[None], (teacher_hidden @ teacher_weight.T)[None], beta=options["beta"],
            temperature=options["temperature"], reduction="sum").item(), 7)
    return out


def short(values):
    return [float(f"{value:.7g}") for value in values.tolist()]


if __name__ == "__main__":
    arguments = common.options(__doc__)
    sides = {name: {"hidden": short(hidden.flatten()), "weight": short(weight.flatten())}
             for name, (hidden, weight) in (("student", side(50, 4)), ("teacher", side(51, 6)))}
    recorded = {name: run(options) for name, options in cases().items()}
    write_json(arguments.out / "learn/divergence.json", {"versions": versions(), "upstream": UPSTREAM, **sides, "cases": recorded})
    print(f"divergence: {len(recorded)} cases")
