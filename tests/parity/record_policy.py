"""What TRL's GRPOTrainer, GMPOTrainer and RLOOTrainer make of given rewards and log-probabilities: FIXTURES/learn/advantages.json
and policy_loss.json. usage: record_policy.py [--out FOLDER]

The trainers are the real ones, built on the tiny model; generation and the model's forward are replaced by tables.
Everything between is TRL's own code: _generate_and_score_completions (rewards, advantages, masks, correction of the
sampler), split_tensor_dict, _compute_loss. It runs in float64 (torch's default dtype), so that the goldens hold the
formulas without TRL's rounding; a second run in float32, as users have it, is compared and printed.

policy_loss.json: `tokens` is one generation batch, 8 completions (2 groups of 4) laid end to end: lengths, logprob,
old, ref, sampling (null: unknown), entropy, tool_mask, truncated. Each case: trainer, options (TRL's names; loss_type gmpo is
GMPOTrainer), micro_batches (gradient_accumulation_steps) and steps_per_generation, has_old, uses_sampling, uses_tool_mask, stretch (the old
log-probability is logprob + stretch (old - logprob)); epsilon, of gmpo, which has its own default;
advantages; kl (RLOO's penalty a row); num_items; scored (kl and sampling/... of the generation batch); micro: loss and metrics of each
micro-batch in order; gradient: d (sum of all losses) / d logprob; entropy_gradient where it is not 0.
RLOO's losses are divided by micro_batches here, which transformers' Trainer does in training_step.
advantages.json: each case: trainer, options, functions, group_size, rewards (rows of lists, null: None), kl (RLOO, beta
not 0: a row), advantages and metrics."""
import itertools
import logging
import math
import tempfile

import common
from common import FIXTURES, versions, write_json

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer
from trl.experimental.gmpo import GMPOConfig, GMPOTrainer
from trl.trainer.utils import split_tensor_dict

TINY = FIXTURES / "tiny_llama"
LENGTHS = [5, 3, 7, 1, 4, 6, 2, 5]
TRUNCATED = [False, False, True, False, True, False, False, False]
REWARDS = [2.0, 0.0, 1.0, 0.25, 1.0, 0.0, 0.5, 0.5]  # the last two have advantage 0


def token_tables():
    generator = torch.Generator().manual_seed(20)
    shape = (12, max(LENGTHS))  # the advantages' cases have up to 12 rows
    grid = lambda x: (x * 256).round() / 256  # exact in fp32 and in few decimals
    noise = lambda scale: torch.randn(shape, generator=generator) * scale
    logprob = -grid(torch.rand(shape, generator=generator) * 3 + 0.05)
    old = grid(torch.clamp(logprob + noise(0.35), max=-1 / 256))
    ref = grid(torch.clamp(logprob + noise(0.4), max=-1 / 256))
    sampling = grid(torch.clamp(old + noise(0.08), max=-1 / 256))
    sampling[2, 3] = sampling[5, 0] = math.nan
    entropy = grid(torch.rand(shape, generator=generator) * 2.5)
    tool = (torch.rand(shape, generator=generator) > 0.25).long()
    tool[:, 0] = 1
    return dict(logprob=logprob, old=old, ref=ref, sampling=sampling, entropy=entropy, tool_mask=tool)


class Bench:
    """A trainer whose generation and forward are tables. Row i's prompt is the token 3 + i, by which it is known."""

    def __init__(self, kind, options, ga=2, spg=4, sampling=False, tool_mask=False, stretch=1, columns=1, rewards=None, group=4,
                 lengths=LENGTHS, truncated=TRUNCATED):
        self.tables = {key: value.to(torch.get_default_dtype()) if value.is_floating_point() else value
                       for key, value in TABLES.items()}
        self.tables["old"] = self.tables["logprob"] + stretch * (self.tables["old"] - self.tables["logprob"])
        self.rows, self.ga, self.spg, self.kind = len(lengths), ga, spg, kind
        self.lengths, self.truncated, self.sampling, self.tool_mask = lengths, truncated, sampling, tool_mask
        rewards = rewards or [[one] for one in REWARDS]
        functions = []
        for k in range(columns):
            def function(completions, k=k, **_):
                return [row[k] for row in rewards]
            function.__name__ = f"f{k}"
            functions.append(function)
        config, trainer = (GRPOConfig, GRPOTrainer) if kind == "grpo" else (RLOOConfig, RLOOTrainer)
        self.gmpo = options.get("loss_type") == "gmpo"
        if self.gmpo:
            config, trainer, options = GMPOConfig, GMPOTrainer, {key: value for key, value in options.items() if key != "loss_type"}
        extra = dict(steps_per_generation=spg, gradient_accumulation_steps=ga, num_generations=group,
                     per_device_train_batch_size=self.rows // spg)
        args = config(output_dir=tempfile.mkdtemp(), use_cpu=True, bf16=False, report_to="none", **extra, **options)
        data = Dataset.from_dict({"prompt": [f"{i}" for i in range(self.rows)]})
        dtype = torch.get_default_dtype()
        torch.set_default_dtype(torch.float32)
        self.trainer = trainer(MODEL, functions, args=args, train_dataset=data, processing_class=TOKENIZER)
        torch.set_default_dtype(dtype)
        self.trainer.model.train()
        self.trainer._generate = self.generate
        self.trainer._get_per_token_logps_and_entropies = self.forward
        self.trainer.current_gradient_accumulation_steps = ga
        if sampling:
            self.trainer.use_vllm = True  # the engine itself is not asked for anything
        self.phase, self.leaves = "old", {}

    def generate(self, prompts):
        ids = [[3 + row] for row in range(self.rows)]
        end = self.trainer.eos_token_ids[0]
        outs = [[40 + row] * (n - 1) + [39 if cut else end]
                for row, (n, cut) in enumerate(zip(self.lengths, self.truncated))]
        texts = [""] * self.rows
        if self.kind == "rloo":
            return ids, outs, texts
        tool = [self.tables["tool_mask"][row, :n].tolist() for row, n in enumerate(self.lengths)]
        sampled = [[None if math.isnan(x) else x for x in self.tables["sampling"][row, :n].tolist()]
                   for row, n in enumerate(self.lengths)]
        return ids, outs, tool if self.tool_mask else None, texts, sampled if self.sampling else None, {}, None, []

    def forward(self, model, input_ids, attention_mask, logits_to_keep, *args, **kwargs):
        rows = input_ids[:, 0] - 3
        if self.phase == "loss":
            return (self.leaves["logprob"][rows, :logits_to_keep], self.leaves["entropy"][rows, :logits_to_keep], None)
        is_ref = model is not self.trainer.model
        return self.tables["ref" if is_ref else "old"][rows, :logits_to_keep], None, None

    def metrics(self):
        out = {key: values[-1] for key, values in self.trainer._metrics["train"].items() if key != "num_tokens"}
        self.trainer._metrics["train"].clear()
        return out

    def score(self):
        self.phase = "old"
        inputs = [{"prompt": f"{i}"} for i in range(self.rows)]
        batch = self.trainer._generate_and_score_completions(inputs)
        return batch, self.metrics()

    def run(self):
        batch, scored = self.score()
        self.phase = "loss"
        self.leaves = {key: self.tables[key].clone().requires_grad_() for key in ("logprob", "entropy")}
        micro = []
        for part in split_tensor_dict(batch, self.spg):
            loss = self.trainer._compute_loss(self.trainer.model, part)
            if self.kind == "rloo":
                loss = loss / self.ga
            loss.backward()
            micro.append({"loss": loss.item(), "metrics": self.metrics()})
        out = {"has_old": self.kind == "rloo" or "old_per_token_logps" in batch,
               "advantages": batch["advantages"].tolist(), "micro": micro,
               "scored": {key: x for key, x in scored.items() if key == "kl" or key.startswith("sampling/")},
               "gradient": self.packed(self.leaves["logprob"].grad)}
        if self.gmpo:
            out["epsilon"] = self.trainer.epsilon_low
        if "num_items_in_batch" in batch:
            out["num_items"] = batch["num_items_in_batch"].item()
        bonus = self.leaves["entropy"].grad
        if bonus is not None and bonus.any():
            out["entropy_gradient"] = self.packed(bonus)
        return out

    def packed(self, table):
        return [x for row, n in enumerate(self.lengths) for x in table[row, :n].tolist()]


def pairs_of_options(case, types):
    """Every two options together, in one loss type after the other: what cases of a single option do not show."""
    parts = [dict(importance_sampling_level="sequence"), dict(beta=0.1), dict(mask_truncated_completions=True), dict(top_entropy_quantile=0.4),
             dict(entropy_coef=0.05), dict(off_policy_mask_threshold=0.05), dict(epsilon_high=0.28, delta=1.25),
             dict(vllm_importance_sampling_mode="token_mask", vllm_importance_sampling_clip_max=1.1),
             dict(vllm_importance_sampling_mode="sequence_truncate", vllm_importance_sampling_clip_max=1.1)]
    for number, (one, other) in enumerate(itertools.combinations(parts, 2)):
        both = {**one, **other}
        mode = both.get("vllm_importance_sampling_mode", "")
        if len(both) < len(one) + len(other):  # two modes
            continue
        loss = types[number % len(types)]
        if loss == "vespo" and mode.startswith("sequence"):  # TRL refuses it
            loss = "dapo"
        case(f"pair_{number}_{loss}", dict(loss_type=loss, max_completion_length=9, **both), sampling=bool(mode))


def gmpo_cases(case, whole):
    base = dict(loss_type="gmpo", max_completion_length=9)
    case("gmpo", base)
    case("gmpo_on_policy", base, ga=4)
    case("gmpo_clipped", dict(base, epsilon=0.1, epsilon_high=0.2))
    case("gmpo_far", dict(base, beta=0.1), stretch=4)
    case("gmpo_kl_truncated", dict(base, beta=0.1, mask_truncated_completions=True))
    case("gmpo_kl_tools", dict(base, beta=0.1, epsilon_high=0.3), tool_mask=True)
    case("gmpo_top_entropy", dict(base, top_entropy_quantile=0.4))
    case("gmpo_top_entropy_whole", dict(base, num_iterations=2, top_entropy_quantile=0.3, beta=0.1), **whole)
    case("gmpo_everything", dict(base, beta=0.04, mask_truncated_completions=True, top_entropy_quantile=0.7, epsilon=0.1), tool_mask=True)
    # what its loss does not read: the gradient is that of gmpo
    case("gmpo_unread", dict(base, importance_sampling_level="sequence", delta=1.01, use_bias_correction_kl=False, entropy_coef=0.05,
                             off_policy_mask_threshold=0.01, vllm_importance_sampling_mode="token_mask",
                             vllm_importance_sampling_clip_max=1.05), sampling=True)


def policy_cases():
    """name -> (kind, options, how the Bench runs)."""
    types = ["grpo", "bnpo", "dr_grpo", "dapo", "cispo", "luspo", "sapo", "vespo"]
    clipped = ["grpo", "bnpo", "dr_grpo", "dapo", "luspo"]
    cases = {}

    def case(name, options, kind="grpo", **how):
        cases[name] = (kind, options, how)

    whole = dict(ga=1, spg=1)  # one micro-batch is the optimizer step
    for one in types:
        base = dict(loss_type=one, max_completion_length=9)
        if one == "cispo":
            base["epsilon_high"] = 1.3
        off = dict(base, num_iterations=2)
        case(f"{one}", base)
        case(f"{one}_on_policy", base, ga=4)
        case(f"{one}_sequence_kl", dict(base, importance_sampling_level="sequence", beta=0.1))
        case(f"{one}_kl_truncated", dict(base, beta=0.1, mask_truncated_completions=True))
        case(f"{one}_kl_uncorrected_tools", dict(base, beta=0.1, use_bias_correction_kl=False), tool_mask=True)
        case(f"{one}_top_entropy", dict(base, top_entropy_quantile=0.4))
        case(f"{one}_top_entropy_whole", dict(off, top_entropy_quantile=0.3, beta=0.1, entropy_coef=0.05), **whole)
        case(f"{one}_everything", dict(base, beta=0.04, mask_truncated_completions=True, top_entropy_quantile=0.7,
                                       off_policy_mask_threshold=0.05, entropy_coef=0.01, epsilon=0.1,
                                       vllm_importance_sampling_mode="token_truncate",
                                       vllm_importance_sampling_clip_min=0.95,
                                       vllm_importance_sampling_clip_max=1.05), sampling=True, tool_mask=True)
        modes = ["token_mask", "sequence_mask", "sequence_truncate"] if one in ("grpo", "luspo") else ["token_mask"]
        for mode in modes:
            case(f"{one}_{mode}", dict(base, vllm_importance_sampling_mode=mode,
                                       vllm_importance_sampling_clip_max=1.1), sampling=True)
    for one in clipped:
        case(f"{one}_delta", dict(loss_type=one, epsilon_high=0.28, delta=1.25, max_completion_length=9))
        case(f"{one}_sequence_delta", dict(loss_type=one, epsilon=0.05, epsilon_high=0.07, delta=1.1, beta=0.1,
                                           importance_sampling_level="sequence", mask_truncated_completions=True,
                                           max_completion_length=9))
    case("bnpo_whole", dict(loss_type="bnpo", num_iterations=2), **whole)
    case("bnpo_bonus", dict(loss_type="bnpo", entropy_coef=0.05))
    case("dapo_one_step_a_generation", dict(loss_type="dapo", num_iterations=2), ga=4)
    case("grpo_off_policy_mask", dict(loss_type="grpo", off_policy_mask_threshold=0.02))
    case("sapo_temperatures", dict(loss_type="sapo", sapo_temperature_neg=2.0, sapo_temperature_pos=0.5))
    case("vespo_numbers", dict(loss_type="vespo", vespo_k_pos=1.0, vespo_lambda_pos=1.5, vespo_k_neg=0.5,
                               vespo_lambda_neg=0.0))
    case("grpo_far", dict(loss_type="grpo", beta=0.1), stretch=4)
    case("vespo_far", dict(loss_type="vespo", vespo_k_pos=0.2, vespo_lambda_pos=0.01, vespo_k_neg=0.2,
                           vespo_lambda_neg=0.01), stretch=64)  # log ratios of tokens reach 60: the clamps bind
    case("vespo_sampler", dict(loss_type="vespo", off_policy_mask_threshold=0.1, num_iterations=2,
                               vllm_importance_sampling_mode="token_truncate",
                               vllm_importance_sampling_clip_max=1.05), sampling=True, stretch=2, **whole)
    pairs_of_options(case, types)
    gmpo_cases(case, whole)
    case("rloo", dict(beta=0.0), kind="rloo")
    case("rloo_kl_truncated", dict(beta=0.05, mask_truncated_completions=True, epsilon=0.3, epsilon_high=0.6),
         kind="rloo")
    case("rloo_normalized", dict(beta=0.05, normalize_advantages=True, reward_clip_range=(0.1, 1.5)), kind="rloo")
    return cases


def advantage_cases():
    none = None
    table = [[1.0, 0.25, 0.0], [0.0, 0.5, 3.0], [1.0, none, 1.0], [0.0, none, none],  # a function without an answer
             [0.5, 0.5, 2.0], [0.5, 0.5, 2.0], [0.5, 0.5, 2.0], [0.5, 0.5, 2.0],      # all equal
             [1.0, 2.0, none], [none, none, none], [0.25, 1.0, none], [0.0, 0.75, none]]  # one unscorable
    single = [[row[0]] for row in table]
    lonely = single[:4] + [[1.0], [none], [none], [none]] + [[none]] * 4  # one scorable; none
    equal = [[0.1], [0.1], [0.1], [0.7], [0.7], [0.7]]  # what fp32 makes of the mean of equal numbers
    cases = {}
    for scale in ("group", "batch", "none"):
        cases[f"single_{scale}"] = ("grpo", dict(scale_rewards=scale), 4, single)
        cases[f"three_{scale}"] = ("grpo", dict(scale_rewards=scale, reward_weights=[1.0, 0.3, -2.0]), 4, table)
        cases[f"lonely_{scale}"] = ("grpo", dict(scale_rewards=scale), 4, lonely)
        cases[f"equal_{scale}"] = ("grpo", dict(scale_rewards=scale), 3, equal)
        cases[f"pairs_{scale}"] = ("grpo", dict(scale_rewards=scale), 2, single)
    for name, rows in (("single", single), ("three", table), ("lonely", lonely)):
        weights = dict(reward_weights=[1.0, 0.3, 2.0]) if name == "three" else {}
        cases[f"{name}_gdpo"] = ("grpo", dict(multi_objective_aggregation="normalize_then_sum", **weights), 4, rows)
        for normalize in (False, True):
            cases[f"rloo_{name}_{'normalized' if normalize else 'plain'}"] = (
                "rloo", dict(beta=0.0, normalize_advantages=normalize, **weights), 4, rows)
    cases["equal_gdpo"] = ("grpo", dict(multi_objective_aggregation="normalize_then_sum"), 3, equal)
    cases["rloo_kl_clip"] = ("rloo", dict(beta=0.3, reward_clip_range=(-0.5, 0.75), normalize_advantages=True,
                                          reward_weights=[1.0, 0.3, -2.0]), 4, table[:8])
    return cases


def short(value):
    """10 digits; NaN and infinity as null."""
    if isinstance(value, dict):
        return {key: short(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [short(one) for one in value]
    if isinstance(value, float):
        return float(f"{value:.10g}") if math.isfinite(value) else None
    return value


def in_dtype(dtype, run):
    torch.set_default_dtype(dtype)
    try:
        return run()
    finally:
        torch.set_default_dtype(torch.float32)


def furthest(a, b):
    scale = max((abs(x) for x in a), default=0.0)
    return max((abs(x - y) for x, y in zip(a, b)), default=0.0) / max(scale, 1e-30) if scale else 0.0


def record_policy():
    n = [(row, at) for row, length in enumerate(LENGTHS) for at in range(length)]
    tokens = {key: [value[row, at].item() for row, at in n] for key, value in TABLES.items()}
    out = {"versions": versions(), "tokens": {"lengths": LENGTHS, "truncated": TRUNCATED, **tokens}, "cases": {}}
    worst = 0.0
    for name, (kind, options, how) in policy_cases().items():
        exact = in_dtype(torch.float64, lambda: Bench(kind, options, **how).run())
        as_run = in_dtype(torch.float32, lambda: Bench(kind, options, **how).run())
        off = furthest(exact["gradient"], as_run["gradient"])
        worst = max(worst, off)
        bench = dict(dict(ga=2, spg=4), **how)
        if kind == "rloo" and options["beta"]:
            gap = (TABLES["old"] - TABLES["ref"]).double()
            kept = [not (cut and options.get("mask_truncated_completions")) for cut in TRUNCATED]
            exact["kl"] = [gap[row, :length].sum().item() * keep for row, (length, keep) in enumerate(zip(LENGTHS, kept))]
        out["cases"][name] = {"trainer": kind, "options": options, "micro_batches": bench["ga"],
                              "steps_per_generation": bench["spg"], "uses_sampling": bench.get("sampling", False),
                              "uses_tool_mask": bench.get("tool_mask", False), "stretch": bench.get("stretch", 1),
                              **exact}
    print(f"policy_loss: {len(out['cases'])} cases; TRL's gradients in float32 are off by {worst:.1e} of the largest")
    return out


def record_advantages():
    out = {"versions": versions(), "cases": {}}
    worst, worst_name = 0.0, ""
    for name, (kind, options, group, rewards) in advantage_cases().items():
        rows, columns = len(rewards), len(rewards[0])
        lengths = (LENGTHS + LENGTHS)[:rows]
        kl = None
        if kind == "rloo" and options["beta"]:
            kl = [(TABLES["old"] - TABLES["ref"]).double()[row, :lengths[row]].sum().item() for row in range(rows)]

        def run():
            bench = Bench(kind, options, ga=1, spg=1, columns=columns, rewards=rewards, group=group, lengths=lengths,
                          truncated=[False] * rows)
            batch, metrics = bench.score()
            wanted = ("reward", "frac_")
            return batch["advantages"].tolist(), {k: v for k, v in metrics.items() if k.startswith(wanted)}
        advantages, metrics = in_dtype(torch.float64, run)
        fp32, _ = in_dtype(torch.float32, run)
        off = furthest(advantages, fp32)
        if off > worst:
            worst, worst_name = off, name
        out["cases"][name] = {"trainer": kind, "options": options, "functions": columns, "group_size": group,
                              "rewards": rewards, **({"kl": kl} if kl else {}), "advantages": advantages,
                              "metrics": metrics}
    print(f"advantages: {len(out['cases'])} cases; TRL's in float32 are off by {worst:.1e} of the largest ({worst_name})")
    return out


if __name__ == "__main__":
    arguments = common.options(__doc__)
    logging.disable(logging.WARNING)  # TRL's advice on unusual combinations
    TABLES = token_tables()
    MODEL = AutoModelForCausalLM.from_pretrained(TINY)
    TOKENIZER = AutoTokenizer.from_pretrained(TINY)
    write_json(arguments.out / "learn/advantages.json", short(record_advantages()))
    write_json(arguments.out / "learn/policy_loss.json", short(record_policy()))
