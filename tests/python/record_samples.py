"""Runs a script of TRL's, and writes down what TRL's trainer samples, for hone to replay (src/train/batches/rollout_batch.h).

usage: record_samples.py OUT.jsonl SCRIPT [OPTION...]     with the packages of third_party/parity-venv; rows have a column `row`
"""
import json
import math
import runpy
import sys

from trl import GRPOTrainer, RLOOTrainer
from trl.experimental.online_dpo import OnlineDPOTrainer

batches = []


def trimmed(ids, mask):
    return [row[keep.bool()].tolist() for row, keep in zip(ids, mask)]


def keep(names, rows, prompts, completions, rewards, ends, old=None):
    """`completions` and `rewards` of each prompt beside each other; `old`: log-probabilities of their tokens when they were sampled."""
    group = len(completions) // len(prompts)
    samples = [{"prompt": at // group, "ids": ids, "truncated": ids[-1] not in ends, "rewards": [None if math.isnan(x) else x for x in scores]}
               for at, (ids, scores) in enumerate(zip(completions, rewards))]
    for at, sample in enumerate(samples if old is not None else ()):
        sample["old_logprobs"] = old[at, :len(sample["ids"])].tolist()
    batches.append({"format": "hone-rollouts-1", "generation": len(batches), "reward_names": names,
                    "prompts": [{"row": row, "ids": ids} for row, ids in zip(rows, prompts)], "samples": samples})


def watch_groups(trainer):
    """Of GRPO and RLOO: the samples of a prompt are adjacent already."""
    score, calculate, logprobs = trainer._generate_and_score_completions, trainer._calculate_rewards, trainer._get_per_token_logps_and_entropies

    def computed(self, *arguments, **named):
        out = logprobs(self, *arguments, **named)
        self.passes = [*getattr(self, "passes", ()), out[0]]
        return out

    def calculated(self, *arguments):
        self.seen = calculate(self, *arguments)
        return self.seen

    def scored(self, inputs):
        self.passes = []
        out = score(self, inputs)
        prompts = trimmed(out["prompt_ids"], out["prompt_mask"])[::self.num_generations]
        keep(self.reward_func_names, [one["row"] for one in inputs][::self.num_generations], prompts,
             trimmed(out["completion_ids"], out["completion_mask"]), self.seen.tolist(), {*self.eos_token_ids, self._tokenizer.pad_token_id},
             self.passes[0] if "old_logps" in out else None)  # RLOO computes them always
        return out

    trainer._generate_and_score_completions, trainer._calculate_rewards = scored, calculated
    trainer._get_per_token_logps_and_entropies = computed


def watch_pairs(trainer):
    """Of Online DPO: first completions of all prompts, then second ones."""
    generate, step, calculate = trainer._generate, trainer.training_step, trainer._calculate_rewards_from_functions

    def generated(self, *arguments, **named):
        self.made = generate(self, *arguments, **named)
        return self.made

    def calculated(self, *arguments, **named):
        scores = calculate(self, *arguments, **named)
        self.seen = scores.tolist()
        return scores

    def stepped(self, model, inputs, *arguments, **named):
        out = step(self, model, inputs, *arguments, **named)
        prompt_ids, prompt_mask, ids, mask, _ = self.made
        count = len(inputs["row"])
        order = [which for at in range(count) for which in (at, count + at)]
        completions = trimmed(ids, mask)
        keep(self.reward_func_names, inputs["row"], trimmed(prompt_ids, prompt_mask)[:count], [completions[at] for at in order],
             [[self.seen[at]] for at in order], set(self.eos_token_ids))
        return out

    trainer._generate, trainer.training_step, trainer._calculate_rewards_from_functions = generated, stepped, calculated


def main():
    out, script = sys.argv[1:3]
    for trainer in (GRPOTrainer, RLOOTrainer):
        watch_groups(trainer)
    watch_pairs(OnlineDPOTrainer)
    sys.argv = sys.argv[2:]
    try:
        runpy.run_path(script, run_name="__main__")
    finally:
        with open(out, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(batch) + "\n" for batch in batches)


main()
