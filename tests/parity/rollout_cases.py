"""A rollout function whose completions depend on nothing but the prompts and the number of the call, and runs that train on them: TRL's record
(record_trl_rollouts.py) and hone.trl's (tests/python/rollout_test.py) are of these."""
import zlib

PROMPTS = ["What is 43 + 21?", "Add 7 and 12.", "Name a colour.", "How many legs has a spider?", "Is 17 prime?", "Why?", "Half of 64 is", "2 * 9 ="]
END = 2

# adam_epsilon: with 1e-8 AdamW makes a whole step of a gradient that is only rounding. One step a batch and process: TRL shuffles a batch that
# feeds several, otherwise than hone.
SHARED = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 1, "num_generations": 4, "max_completion_length": 12, "learning_rate": 5e-3,
          "adam_epsilon": 1e-4, "max_steps": 4, "bf16": False, "logging_steps": 1, "shuffle_dataset": False, "save_strategy": "no"}
# name -> options, and whether the function masks tokens and gives each sample a prompt of its own.
CASES = {
    "plain": ({}, False),
    "masked": ({"loss_type": "dr_grpo", "mask_truncated_completions": True}, True),
    "again": ({"num_iterations": 2, "epsilon": 0.05, "beta": 0.1}, True),
    "sequences": ({"num_iterations": 2, "importance_sampling_level": "sequence", "loss_type": "grpo", "epsilon": 0.05}, True),
    "evaluated": ({"eval_strategy": "steps", "eval_steps": 2, "per_device_eval_batch_size": 4, "num_generations_eval": 2}, True),
}
# Of the log: what depends on the clock.
UNLOGGED = {"step_time", "total_flos", "train_loss", "train_runtime", "train_samples_per_second", "train_steps_per_second", "eval_runtime",
            "eval_samples_per_second", "eval_steps_per_second"}


def rollout_of(masks):
    calls = []

    def rollout(prompts, trainer):
        calls.append(len(prompts))
        out = {"prompt_ids": [], "completion_ids": [], "logprobs": [], "env_mask": [], "bonus": []}
        for number, prompt in enumerate(prompts):
            known = zlib.crc32(prompt.encode())
            drawn = known + 31 * number + 7 * len(calls)
            ids = [5 + (drawn * (place + 3) * (place + 7) // 5) % 370 for place in range(3 + drawn % 6)]
            if drawn % 3 == 0:
                ids[-1] = END
            out["prompt_ids"].append([5 + (known + place * place) % 300 for place in range(4 + (number % 2 if masks else 0))])
            out["completion_ids"].append(ids)
            out["logprobs"].append([-1.0 - 0.1 * place for place in range(len(ids))])
            out["env_mask"].append([int(place % 3 != 1) for place in range(len(ids))])
            out["bonus"].append(float(drawn % 5))
        if not masks:
            del out["env_mask"]
        return out

    return rollout


def reward(completions, bonus, **columns):
    return [more + 0.25 * (len(text) % 4) for more, text in zip(bonus, completions)]


def logged(trainer):
    """Of each step, and of each evaluation."""
    return [{name: value for name, value in entry.items() if name not in UNLOGGED} for entry in trainer.state.log_history
            if "loss" in entry or "eval_loss" in entry]
