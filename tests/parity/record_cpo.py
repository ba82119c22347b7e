"""What TRL's CPOTrainer and ORPOTrainer make of given log-probabilities: FIXTURES/learn/cpo_loss.json.
usage: record_cpo.py [--out FOLDER]

get_batch_loss_metrics of the real classes, on a batch of their collator's form; the model is a table. It has two words, and the
logits of each position are log p and log (1 - p), so that a target's log-probability is the table's entry and the gradient that of
the loss in it. In float64, but TRL's odds ratio rounds to float32. TRL's logits/* are left out: hone defines its own.

`tokens` is one micro-batch of 4 pairs, sequences chosen 0, rejected 0, chosen 1, ...: scored (tokens a sequence), logprob
(concatenated), prompt_logprob (of the chosen sequences' prompts, but for each one's first token). Each case: method, options (TRL's
names), loss, gradient (d loss / d logprob, of ORPO also / d prompt_logprob), metrics."""
from types import SimpleNamespace

import common
from common import versions, write_json
from record_preference import short

import torch
from trl.experimental.cpo import CPOTrainer
from trl.experimental.orpo import ORPOTrainer

PROMPTS = [3, 1, 5, 2]
COMPLETIONS = [(5, 3), (2, 6), (4, 5), (1, 1)]  # chosen, rejected
DEFAULTS = dict(beta=0.1, label_smoothing=0.0, loss_type="sigmoid", cpo_alpha=1.0, simpo_gamma=0.5, alpha=0.0)


def cases():
    out = {}
    for kind in ("sigmoid", "hinge", "ipo", "simpo"):
        out[kind] = dict(loss_type=kind, beta=0.3)
        out[f"{kind}_smoothed"] = dict(loss_type=kind, label_smoothing=0.1, cpo_alpha=0.0)
        out[f"{kind}_alpha"] = dict(loss_type=kind, alpha=0.25, cpo_alpha=0.5)
        out[f"{kind}_alpha_below"] = dict(loss_type=kind, alpha=-0.5, beta=1.5)
    out["simpo_recipe"] = dict(loss_type="simpo", beta=10.0, simpo_gamma=3.0, cpo_alpha=0.0)
    out["sharp"] = dict(loss_type="sigmoid", beta=20.0)
    out["hinge_flat"] = dict(loss_type="hinge", beta=5.0)
    return {name: ("cpo", options) for name, options in out.items()} | {
        "orpo": ("orpo", {}), "orpo_strong": ("orpo", dict(beta=2.5))}


def table():
    """[8, longest - 1] log-probabilities of the tokens after the first: four chosen sequences, then four rejected ones."""
    random = torch.Generator().manual_seed(40)
    width = max(prompt + max(pair) for prompt, pair in zip(PROMPTS, COMPLETIONS))
    return -((torch.rand((8, width - 1), generator=random) * 3 + 0.05) * 256).round().double() / 256


def batch():
    """As DPODataCollatorWithPadding leaves it; word 1 is every token."""
    out = {}
    for side, name in enumerate(("chosen", "rejected")):
        width = max(prompt + pair[side] for prompt, pair in zip(PROMPTS, COMPLETIONS))
        ids = torch.zeros(4, width, dtype=torch.long)
        labels = torch.full_like(ids, -100)
        for row, (prompt, pair) in enumerate(zip(PROMPTS, COMPLETIONS)):
            ids[row, : prompt + pair[side]] = 1
            labels[row, prompt : prompt + pair[side]] = 1
        out |= {f"{name}_input_ids": ids, f"{name}_attention_mask": ids.clone(), f"{name}_labels": labels}
    return out


def packed(values):
    """Completions pair by pair, chosen first; then the prompts of chosen."""
    completions = [values[pair + 4 * side, prompt - 1 : prompt - 1 + COMPLETIONS[pair][side]].tolist()
                   for pair, prompt in enumerate(PROMPTS) for side in (0, 1)]
    prompts = [values[pair, : prompt - 1].tolist() for pair, prompt in enumerate(PROMPTS)]
    return sum(completions, []), sum(prompts, [])


def trainer_of(method, options):
    trainer = {"cpo": CPOTrainer, "orpo": ORPOTrainer}[method]
    trainer = trainer.__new__(trainer)
    for name, value in {**DEFAULTS, **options}.items():
        setattr(trainer, name, value)
    trainer.accelerator = SimpleNamespace(device="cpu", gather_for_metrics=lambda x: x)
    trainer.is_encoder_decoder = trainer.aux_loss_enabled = False
    trainer.pad_token_id = trainer.padding_value = 0
    return trainer


def run(method, options):
    leaf = table().requires_grad_()

    def model(ids, **_):
        of_target = torch.stack((torch.log1p(-leaf.exp()), leaf), -1)  # [8, longest - 1, 2]
        return SimpleNamespace(logits=torch.cat((of_target, torch.zeros(8, 1, 2)), 1).double())

    loss, metrics = trainer_of(method, options).get_batch_loss_metrics(model, batch())
    loss.backward()
    completions, prompts = packed(leaf.grad)
    metrics = {key: value for key, value in metrics.items() if not key.startswith("logits/")}
    return {"method": method, "options": options, "loss": loss.item(), "metrics": metrics,
            "gradient": completions + (prompts if method == "orpo" else [])}


if __name__ == "__main__":
    arguments = common.options(__doc__)
    logprob, prompt_logprob = packed(table())
    tokens = {"scored": [length for pair in COMPLETIONS for length in pair], "logprob": logprob, "prompt_logprob": prompt_logprob}
    recorded = {name: run(*case) for name, case in cases().items()}
    write_json(arguments.out / "learn/cpo_loss.json", short({"versions": versions(), "tokens": tokens, "cases": recorded}))
    print(f"cpo_loss: {len(recorded)} cases")
