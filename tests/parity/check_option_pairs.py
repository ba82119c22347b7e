#!/usr/bin/env python3
"""Every two options of a method's loss and sampling together, as TRL computes them and as hone does: two steps of a tiny model.

The options, their values and the handfuls are those of tests/runs/option_pairs.py, of which TRL's config has the name too; every pair
is in at least one handful. TRL samples, scores and trains by itself; hone replays its completions (record_trl_grpo.Recorder). The losses
and gradient norms of both steps agree within BOUND. A handful that does not agree loses options until every one of them is needed.
Prints `ok METHOD: ...` or `not ok METHOD: OPTIONS: why`. usage: check_option_pairs.py [--hone PROGRAM] [--method grpo,dpo] [--most RUNS]
"""
import argparse
import dataclasses
import itertools
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import warnings

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "runs")]
import common  # noqa: E402
import option_pairs  # noqa: E402
import record_trl_grpo as policy  # noqa: E402
import torch  # noqa: E402
import trl  # noqa: E402
from datasets import Dataset, disable_progress_bars  # noqa: E402
from peft import PeftModel  # noqa: E402
from transformers import (AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer,  # noqa: E402
                          PrinterCallback)
from transformers.utils import logging  # noqa: E402
from trl.experimental.cpo import CPOConfig, CPOTrainer  # noqa: E402
from trl.experimental.orpo import ORPOConfig, ORPOTrainer  # noqa: E402

TINY = common.FIXTURES.resolve() / "tiny_llama"
REWARD_MODEL = common.FIXTURES.resolve() / "rewards/tiny_reward"
TRAINERS = {
    "sft": (trl.SFTConfig, trl.SFTTrainer), "dpo": (trl.DPOConfig, trl.DPOTrainer), "kto": (trl.KTOConfig, trl.KTOTrainer),
    "cpo": (CPOConfig, CPOTrainer), "orpo": (ORPOConfig, ORPOTrainer), "reward": (trl.RewardConfig, trl.RewardTrainer),
    "grpo": (trl.GRPOConfig, trl.GRPOTrainer), "rloo": (trl.RLOOConfig, trl.RLOOTrainer),
}
SAMPLERS = ("grpo", "rloo")
STEPS = 2
BOUND = 1e-4       # of the value; the paths of rounding are not the same
NEAR_ZERO = 2e-5   # the loss of a policy that has not moved is 0, but for rounding
HANDFUL = 9
# What changes no loss of these two steps, what other checks compare, and what needs another sampler or machine.
LEFT_OUT = """bf16 fp16 dtype optim eval_strategy eval_on_start eval_packing num_generations_eval gradient_checkpointing
vllm_structured_outputs_regex dataset_streaming dataloader_drop_last lr_scheduler_type disable_dropout precompute_ref_batch_size
max_steps warmup_steps chat_template_kwargs""".split()
# What TRL draws from torch's global generator, which depends on all that was drawn before.
LEFT_OUT += ["neftune_noise_alpha"]
DRAWN = {"train_sampling_strategy": "group_by_length"}
SHARED = {"bf16": False, "learning_rate": 5e-3, "adam_epsilon": 1e-4, "max_steps": STEPS, "per_device_train_batch_size": 4, "seed": 6}
SAMPLED = {"per_device_train_batch_size": 8, "num_generations": 4, "max_completion_length": 12}


def even(completion_ids, **_):
    return [sum(1 for one in ids if one % 2 == 0) / 8 for ids in completion_ids]


class Comparison:
    """One method: how TRL runs it, and how hone does."""

    def __init__(self, hone, name, places, root):
        self.hone, self.name, self.root = hone, name, root
        self.config, self.trainer = TRAINERS[name]
        self.rows = [{**json.loads(line), "row": at} for at, line in enumerate(places[name].read_text().splitlines())]
        self.data = places[name]
        self.base = SHARED | (SAMPLED if name in SAMPLERS else {"max_length": 64})
        self.fields = {one.name for one in dataclasses.fields(self.config)}
        self.count = itertools.count()

    def items(self):
        found, _ = option_pairs.table(self.hone, self.name)
        known = lambda needs: {key: value for key, value in needs.items() if key in self.fields}
        return [(name, value, known(needs)) for name, value, needs in found
                if name in self.fields and name not in LEFT_OUT and self.base.get(name) != value and DRAWN.get(name) != value]

    def options(self, items):
        out = dict(self.base)
        for _, _, needs in items:
            out |= needs
        return out | {name: value for name, value, _ in items}

    def model(self):
        if self.name == "reward":
            return AutoModelForSequenceClassification.from_pretrained(str(REWARD_MODEL), dtype=torch.float32, num_labels=1)
        model = AutoModelForCausalLM.from_pretrained(str(TINY), dtype=torch.float32, attn_implementation="sdpa")
        model.generation_config.eos_token_id = policy.ENDS
        return PeftModel.from_pretrained(model, str(TINY / "adapter"), is_trainable=True)

    def reference(self, options, folder):
        """TRL's (loss, grad_norm) of each step; rollouts.jsonl in `folder` of what it sampled. None where a threshold is a toss-up."""
        given = {key: {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value for key, value in options.items()}
        given |= {key: tuple(given[key]) for key in ("reward_clip_range",) if key in given}
        tokenizer = AutoTokenizer.from_pretrained(str(REWARD_MODEL if self.name == "reward" else TINY))
        tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token  # CPO refuses a tokenizer without one
        args = self.config(output_dir=str(folder / "trl"), use_cpu=True, report_to="none", logging_steps=1, disable_tqdm=True,
                           save_strategy="no", gradient_checkpointing=False, **given)
        words = {"args": args, "train_dataset": Dataset.from_list(self.rows), "processing_class": tokenizer}
        if self.name in SAMPLERS:
            trainer = self.trainer(self.model(), [policy.first, even], **words)
            sampled = "vllm_importance_sampling_mode" in options or options.get("vllm_importance_sampling_correction", False)
            recorder = policy.Recorder(trainer, self.name, sampled)
        else:
            trainer, recorder = self.trainer(self.model(), **words), None
        trainer.pop_callback(PrinterCallback)
        trainer.train()
        if recorder:
            (folder / "rollouts.jsonl").write_text("".join(json.dumps(batch) + "\n" for batch in recorder.batches))
            if recorder.closest < 1e-4:
                return None
        return [(entry["loss"], entry["grad_norm"]) for entry in trainer.state.log_history if "loss" in entry]

    def ours(self, options, folder):
        """(code, what was told, (loss, grad_norm) of each step)"""
        run = options | {"dataset_name": str(self.data), "output_dir": str(folder / "hone"), "logging_steps": 1, "save_strategy": "no",
                         "skip_doctor": True, "report_page": False, "threads": 1}
        if self.name == "reward":
            run |= {"model_name_or_path": str(REWARD_MODEL), "use_peft": False, "dtype": "float32"}
        else:
            run |= {"model_name_or_path": str(TINY), "adapter_name_or_path": str(TINY / "adapter"), "use_peft": True}
        if self.name in SAMPLERS:
            run["replay"] = str(folder / "rollouts.jsonl")
        (folder / "run.json").write_text(json.dumps(run))
        done = subprocess.run([self.hone, self.name, "--config", "run.json"], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, check=False)
        log = folder / "hone/metrics.jsonl"
        steps = [json.loads(line) for line in log.read_text().splitlines()] if log.is_file() else []
        return done.returncode, done.stdout + done.stderr, [(one["loss"], one["grad_norm"]) for one in steps if "grad_norm" in one]

    def compare(self, items):
        """("agree" | "differ" | "refused" | "trl" | "toss-up", what to say, largest deviation as a share of the bound)"""
        folder = self.root / f"{self.name}-{next(self.count)}"
        folder.mkdir()
        options = self.options(items)
        try:
            for seed in (6, 7, 8):
                theirs = self.reference(options | {"seed": seed}, folder)
                if theirs:
                    break
        except Exception as error:  # TRL's own refusals are of many classes
            return "trl", f"{type(error).__name__}: {str(error)[:160]}", 0
        if theirs is None:
            return "toss-up", "", 0
        if any(math.isnan(value) for step in theirs for value in step):  # exp() of a sum of log-probabilities is 0 in fp32
            return "trl", f"its own loss or gradient is not a number: {theirs}", 0
        code, told, ours = self.ours(options, folder)
        if code == 2:
            return "refused", told, 0
        if code != 0 or len(ours) != len(theirs):
            return "differ", f"exit {code}, {len(ours)} of {len(theirs)} steps: {option_pairs.last_words(told)}", math.inf
        worst = max((abs(a - b) / (BOUND * abs(b) + NEAR_ZERO) for one, other in zip(ours, theirs) for a, b in zip(one, other)), default=0)
        worst = math.inf if math.isnan(worst) else worst
        return ("agree" if worst <= 1 else "differ"), f"hone {ours}, TRL {theirs}", worst

    def needed(self, items, result):
        """The options without which it would not be so, and what is said of those."""
        told = self.compare(items)[1]
        for one in list(items):
            fewer = [each for each in items if each is not one]
            again = self.compare(fewer)
            if again[0] == result:
                items, told = fewer, again[1]
        return items, told


def check(methods, most):
    """Prints; whether all agreed."""
    items = methods.items()
    dealer = option_pairs.Method(None, methods.name, items)
    left = {pair for pair in itertools.combinations(range(len(items)), 2) if option_pairs.agree(items[pair[0]], items[pair[1]])}
    pairs, runs, worst, wrong = len(left), 0, 0.0, []
    told = {"refused": set(), "trl": set(), "toss-up": set()}
    while left and (not most or runs < most):
        indices = dealer.deal(left)
        hand = [items[at] for at in indices]
        result, why, deviation = methods.compare(hand)
        runs += 1
        if runs % 10 == 0:
            print(f"   {methods.name}: {runs} runs, {len(left)} pairs are left", flush=True)
        dealt = set(itertools.combinations(indices, 2))
        if result == "agree":
            worst = max(worst, deviation)
            left -= dealt
            continue
        few, why = (hand, why) if result == "toss-up" else methods.needed(hand, result)
        if result in told and few:
            told[result].add(f"{option_pairs.shown(few)}: {option_pairs.last_words(why)[:200]}")
        else:
            wrong.append(few)
            print(f"not ok {methods.name}: {option_pairs.shown(few)}: {why}", flush=True)
        at = [index for index in indices if items[index] in few]
        found = set(itertools.combinations(at, 2)) or {pair for pair in left if set(at) & set(pair)}
        dealer.refused |= found
        left -= found or dealt
    for kind, lines in told.items():
        for line in sorted(lines):
            print(f"   {kind}: {line}")
    if not wrong:
        print(f"ok {methods.name}: {pairs} pairs of {len(items)} options and values in {runs} runs, at most {worst:.2g} of the bound", flush=True)
    return not wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hone", default=str(option_pairs.SOURCE / "build/hone"))
    parser.add_argument("--method", default=",".join(TRAINERS))
    parser.add_argument("--most", type=int, default=0, help="runs of each method; 0: until every pair was in one")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    disable_progress_bars()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    torch.set_num_threads(1)
    option_pairs.HANDFUL = HANDFUL
    good = True
    with tempfile.TemporaryDirectory(prefix="hone-pairs-") as folder:
        root = pathlib.Path(folder)
        places = option_pairs.write_data(root)
        for name in arguments.method.split(","):
            good = check(Comparison(str(pathlib.Path(arguments.hone).resolve()), name, places, root), arguments.most) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
