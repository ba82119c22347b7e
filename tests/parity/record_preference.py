"""What TRL's DPOTrainer makes of given log-probabilities: FIXTURES/learn/preference_loss.json.
usage: record_preference.py [--out FOLDER]

The trainer is the real one, built on the tiny model; the model's forward is replaced by tables. Everything between is TRL's own
code: compute_ref_log_probs and _compute_loss. It runs in float64, so that the goldens hold the formulas without TRL's rounding;
but alpha_divergence, of which TRL knows no clamp in float64, in float32.

`tokens` is one micro-batch of 5 pairs, sequences chosen 0, rejected 0, chosen 1, ...: prompts, scored (tokens a sequence),
completion (with the first token that a sequence without a prompt does not score), and laid end to end logprob, ref,
log_sum_squares, entropy, mean_logit, is_top1. Each case: options (TRL's names), loss, gradient (d loss / d logprob), metrics."""
import copy
import logging
import math
import tempfile
from types import SimpleNamespace

import common
from common import FIXTURES, versions, write_json

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import DPOConfig, DPOTrainer

TINY = FIXTURES / "tiny_llama"
PROMPTS = [3, 1, 0, 5, 2]                                  # tokens; without a prompt the first token is not scored
COMPLETIONS = [(5, 3), (2, 6), (4, 5), (1, 1), (7, 4)]     # chosen, rejected
TYPES = ["sigmoid", "hinge", "ipo", "exo_pair", "nca_pair", "robust", "bco_pair", "sppo_hard", "aot", "aot_unpaired",
         "apo_zero", "apo_down", "discopop", "sft", "sigmoid_norm"]
DIVERGENT = ["sigmoid", "sigmoid_norm", "hinge", "ipo", "exo_pair", "robust", "discopop", "sft"]
SMOOTHED = {"exo_pair": 1e-3, "robust": 0.1, "aot": 0.2, "aot_unpaired": 0.2}
NAMES = dict(logprob="log_probs", entropy="entropy", mean_logit="mean_logits", is_top1="is_top1",
             log_sum_squares="log_sum_sq_probs")


def cases():
    out = {}

    def case(name, **options):
        out[name] = options

    def of(kind, **options):
        smoothing = dict(label_smoothing=SMOOTHED[kind]) if kind in SMOOTHED else {}
        return dict(loss_type=[kind], **smoothing, **options)

    for kind in TYPES:
        case(kind, **of(kind, beta=0.3))
        case(f"{kind}_ld", **of(kind, ld_alpha=0.4, beta=0.7))
        # WPO multiplies in place, which torch refuses for sft's expanded scalar and for what relu keeps for its backward.
        if not kind.startswith("aot") and kind not in ("sft", "hinge"):
            case(f"{kind}_wpo", **of(kind, use_weighting=True))
    for kind in DIVERGENT:
        for divergence in ("forward_kl", "js_divergence", "alpha_divergence"):
            case(f"{kind}_{divergence}", **of(kind, beta=0.3, f_divergence_type=divergence))
    case("alpha_of_one", loss_type=["sigmoid"], f_divergence_type="alpha_divergence", f_alpha_divergence_coef=1.0)
    case("alpha_of_two", loss_type=["ipo"], f_divergence_type="alpha_divergence", f_alpha_divergence_coef=2.0)
    case("mpo", loss_type=["sigmoid", "bco_pair", "sft"], loss_weights=[0.8, 0.2, 1.0])
    case("all", loss_type=TYPES, label_smoothing=0.05, loss_weights=[(i + 1) / 8 for i in range(len(TYPES))])
    case("unweighted", loss_type=["sigmoid", "sft", "hinge"], ld_alpha=0.0)
    case("discopop_tau", loss_type=["discopop"], discopop_tau=0.5, beta=0.05)
    case("sharp", loss_type=["sigmoid"], beta=20.0)
    case("flipped", loss_type=["robust"], label_smoothing=0.4)
    return out


def tables():
    """[10, longest] in the trainer's order: five chosen, then five rejected."""
    rows = [(prompt, chosen) for prompt, (chosen, _) in zip(PROMPTS, COMPLETIONS)]
    rows += [(prompt, rejected) for prompt, (_, rejected) in zip(PROMPTS, COMPLETIONS)]
    width = max(prompt + length for prompt, length in rows)
    mask = torch.zeros(len(rows), width, dtype=torch.long)
    ids = torch.zeros_like(mask)
    for row, (prompt, length) in enumerate(rows):
        ids[row, : prompt + length] = 7
        mask[row, prompt : prompt + length] = 1
    scored = mask[:, 1:]
    random = torch.Generator().manual_seed(30)
    grid = lambda x: (x * 256).round() / 256  # exact in fp32 and in few decimals
    shape = scored.shape
    logprob = -grid(torch.rand(shape, generator=random) * 3 + 0.05)
    out = dict(logprob=logprob, ref=grid((logprob + 0.5 * torch.randn(shape, generator=random)).clamp(max=-1 / 256)),
               log_sum_squares=-grid(torch.rand(shape, generator=random) * 1.5), entropy=grid(torch.rand(shape, generator=random) * 2),
               mean_logit=grid(torch.randn(shape, generator=random)))
    out = {key: value * scored for key, value in out.items()}
    out["is_top1"] = (torch.rand(shape, generator=random) > 0.4) & scored.bool()
    return ids, mask, out


def packed(table, mask):
    """Pair by pair, chosen first."""
    half = len(PROMPTS)
    order = [row for pair in range(half) for row in (pair, pair + half)]
    return [x for row in order for x in table[row][mask[row, 1:].bool()].tolist()]


def run(options):
    """As DPOTrainer.__init__ reads the options; one trainer serves all cases."""
    dtype = torch.float32 if options.get("f_divergence_type") == "alpha_divergence" else torch.float64
    trainer = TRAINER
    trainer.args = args = copy.copy(ARGS)
    trainer.precompute_ref_logps = False
    for name, value in options.items():
        setattr(args, name, value)
    trainer.loss_types, trainer.loss_weights = args.loss_type, args.loss_weights or [1.0] * len(args.loss_type)
    for name in ("beta", "ld_alpha", "f_divergence_type", "f_alpha_divergence_coef", "label_smoothing", "use_weighting"):
        setattr(trainer, name, getattr(args, name))
    trainer._metrics["train"].clear()
    ids, mask, table = tables()
    now = {key: value.to(dtype) if value.is_floating_point() else value for key, value in table.items()}
    leaf = now["logprob"].clone().requires_grad_()
    inputs = {"input_ids": ids, "attention_mask": (ids != 0).long(), "completion_mask": mask}
    reference = lambda **_: SimpleNamespace(log_probs=now["ref"])
    policy = lambda **_: SimpleNamespace(**{name: leaf if key == "logprob" else now[key] for key, name in NAMES.items()})
    inputs["ref_chosen_logps"], inputs["ref_rejected_logps"] = trainer.compute_ref_log_probs(reference, inputs)
    trainer.precompute_ref_logps = True
    loss = trainer._compute_loss(policy, inputs, False)
    loss.backward()
    metrics = {key: values[-1] for key, values in trainer._metrics["train"].items() if key != "num_tokens"}
    return {"options": options, "loss": loss.item(), "metrics": metrics, "gradient": packed(leaf.grad, mask)}


def short(value):
    """10 digits."""
    if isinstance(value, dict):
        return {key: short(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [short(one) for one in value]
    if isinstance(value, float):
        assert math.isfinite(value)
        return float(f"{value:.10g}")
    return value


if __name__ == "__main__":
    arguments = common.options(__doc__)
    logging.disable(logging.WARNING)
    data = Dataset.from_dict({"prompt": ["1 + 1 ="], "chosen": [" 2"], "rejected": [" 3"]})
    ARGS = DPOConfig(output_dir=tempfile.mkdtemp(), use_cpu=True, bf16=False, report_to="none")
    TRAINER = DPOTrainer(AutoModelForCausalLM.from_pretrained(TINY), args=ARGS, train_dataset=data,
                         processing_class=AutoTokenizer.from_pretrained(TINY))
    TRAINER.model.train()
    ids, mask, table = tables()
    half = len(PROMPTS)
    sequences = [row for pair in range(half) for row in (pair, pair + half)]
    tokens = {"prompts": PROMPTS, "scored": [mask[row, 1:].sum().item() for row in sequences],
              "completion": [mask[row].sum().item() for row in sequences],
              **{key: [float(x) for x in packed(value, mask)] for key, value in table.items()}}
    recorded = {name: run(options) for name, options in cases().items()}
    write_json(arguments.out / "learn/preference_loss.json",
               short({"versions": versions(), "tokens": tokens, "cases": recorded}))
    print(f"preference_loss: {len(recorded)} cases")
