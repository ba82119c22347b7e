"""Reward functions of every form that the documentation shows, for the trainers that sample."""
import asyncio
import re

from common import CHAT_PROMPTS, GREEDY, MODEL, PROMPTS, REWARD_MODEL, SAMPLING, data, habit, logged, sampled, tokenizer_of

LENGTHS = ("completions/mean_length", "completions/max_length", "num_tokens", "entropy")


def grpo_of(reward, rows=None, options=None, **more):
    from trl import GRPOConfig, GRPOTrainer
    return GRPOTrainer(model=MODEL, reward_funcs=reward, args=GRPOConfig(output_dir="out", **(options or GREEDY), **more),
                       train_dataset=data(rows or PROMPTS))


@habit()
def of_text():
    """a function of completions as texts"""
    def long_answers(completions, **kwargs):
        return [float(len(completion)) for completion in completions]

    return sampled(grpo_of(long_answers), "reward", "rewards/long_answers/mean", *LENGTHS)


@habit()
def of_ids():
    """a function of completion_ids"""
    def spread(completion_ids, **kwargs):
        return [float(len(set(ids))) + at for at, ids in enumerate(completion_ids)]

    return sampled(grpo_of(spread), "reward", "reward_std", "rewards/spread/std")


@habit(fast=True)
def of_turns():
    """a pattern that the content of the assistant's turn has to have"""
    def has_pattern(completions, **kwargs):
        contents = [completion[0]["content"] for completion in completions]
        return [0.1 * len(content) + (1.0 if re.match(r"^<think>.*?</think>", content) else 0.0) for content in contents]

    return sampled(grpo_of(has_pattern, CHAT_PROMPTS), "reward", *LENGTHS)


@habit()
def of_a_column():
    """a column of the rows is an argument of the function"""
    seen = []

    def right(prompts, completions, answer, **kwargs):
        seen.extend(zip(prompts, answer))
        return [float(len(found) + len(wanted)) for found, wanted in zip(completions, answer)]

    found = sampled(grpo_of(right), "reward")
    pairs = {(row["prompt"], row["answer"]) for row in PROMPTS}
    return {**found, "columns": set(seen[-12:]) <= pairs, "calls": len(seen) >= 12}


@habit(fast=True)
def of_some_tasks():
    """a function for each task: None where it is another's"""
    def sums(prompts, completions, task, **kwargs):
        return [len(completion) if one == "sum" else None for completion, one in zip(completions, task)]

    def words(prompts, completions, task, **kwargs):
        return [-1.0 * len(completion) if one == "word" else None for completion, one in zip(completions, task)]

    rows = [{"prompt": f"after {n} comes", "task": "sum" if n % 2 else "word"} for n in range(8)]
    return sampled(grpo_of([sums, words], rows), "reward", "rewards/sums/mean", "rewards/words/mean")


@habit(fast=True)
def of_coroutines():
    """an async function beside another one"""
    async def asked(prompts, completions, **kwargs):
        await asyncio.sleep(0.01)
        return [1.0 if completion else 0.0 for completion in completions]

    def long_answers(completions, **kwargs):
        return [float(len(completion)) for completion in completions]

    return sampled(grpo_of([asked, long_answers]), "reward", "rewards/asked/mean")


@habit()
def with_a_log():
    """log_extra and log_metric: a column beside the completions, and a number in the log"""
    def right(completions, answer, log_extra=None, log_metric=None, **kwargs):
        scores = [float(len(one)) for one in completions]
        if log_extra:
            log_extra("wanted", list(answer))
        if log_metric:
            log_metric("share", sum(scores) / len(scores))
        return scores

    return sampled(grpo_of(right, log_completions=True), "reward", "share")


@habit()
def weights():
    """several functions with reward_weights"""
    def first(completions, **kwargs):
        return [float(len(one)) for one in completions]

    def second(completion_ids, **kwargs):
        return [float(ids[0] % 7) for ids in completion_ids]

    return sampled(grpo_of([first, second], reward_weights=[0.5, 2.0]), "reward", "rewards/first/mean", "rewards/second/mean")


@habit()
def built_in():
    """TRL's own functions: a format, and a punishment of what is too long"""
    from trl.rewards import get_soft_overlong_punishment, think_format_reward

    def long_answers(completions, **kwargs):
        return [0.1 * len(one[0]["content"]) for one in completions]

    punish = get_soft_overlong_punishment(max_completion_len=8, soft_punish_cache=4)
    found = sampled(grpo_of([think_format_reward, punish, long_answers], CHAT_PROMPTS), "reward", "rewards/think_format_reward/mean")
    return {**found}


@habit()
def model_as_reward():
    """a reward model by its name, and beside it the reference's distance: beta"""
    return sampled(grpo_of(REWARD_MODEL, options={**GREEDY, "beta": 0.04, "learning_rate": 1e-7}), "reward", "kl", "entropy")


@habit(fast=True)
def rloo():
    """RLOOTrainer with the number of different characters"""
    from trl import RLOOConfig, RLOOTrainer

    def different(completions, **kwargs):
        return [float(len(set(one))) for one in completions]

    trainer = RLOOTrainer(model=MODEL, reward_funcs=different, args=RLOOConfig("out", **GREEDY), train_dataset=data(PROMPTS))
    return sampled(trainer, "reward", "rewards/different/mean", *LENGTHS)


@habit()
def online_dpo():
    """OnlineDPOTrainer of trl.experimental.online_dpo with the objects of model, tokenizer and reward model"""
    from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification
    from trl.experimental.online_dpo import OnlineDPOConfig, OnlineDPOTrainer
    options = {name: value for name, value in SAMPLING.items() if name not in ("num_generations", "max_completion_length")}
    args = OnlineDPOConfig("out", **options, max_new_tokens=8, missing_eos_penalty=1.0)
    judge = AutoModelForSequenceClassification.from_pretrained(REWARD_MODEL, num_labels=1)
    trainer = OnlineDPOTrainer(model=AutoModelForCausalLM.from_pretrained(MODEL), reward_funcs=judge, args=args, processing_class=tokenizer_of(MODEL),
                               reward_processing_classes=tokenizer_of(REWARD_MODEL), train_dataset=data(PROMPTS))
    trainer.train()
    return {"steps": trainer.state.global_step, "losses": len(logged(trainer, "loss")), "log_history": len(trainer.state.log_history)}
