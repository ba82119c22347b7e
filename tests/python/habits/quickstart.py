"""The first script that someone writes with each trainer, with next to no options, and the first changes to it."""
import pathlib

from common import CHAT_PAIRS, CHAT_PROMPTS, FEW, MODEL, PAIRS, TEXTS, data, habit, logged, run_of


def checkpoints(trainer):
    return sorted(path.name for path in pathlib.Path(trainer.args.output_dir).glob("checkpoint-*"))


@habit(near=2e-2)
def sft():
    """SFTTrainer of a name and rows, with no option but where it runs"""
    from trl import SFTConfig, SFTTrainer
    trainer = SFTTrainer(model=MODEL, args=SFTConfig(use_cpu=True), train_dataset=data(TEXTS))
    trainer.train()
    return {"output_dir": trainer.args.output_dir, "epochs": trainer.state.epoch, "global_step": trainer.state.global_step,
            "train_loss": logged(trainer, "train_loss"), "checkpoints": checkpoints(trainer)}


@habit(near=2e-2)
def dpo():
    """DPOTrainer of a name and rows of turns, with no option but where it runs"""
    from trl import DPOConfig, DPOTrainer
    trainer = DPOTrainer(model=MODEL, args=DPOConfig(use_cpu=True), train_dataset=data(CHAT_PAIRS))
    trainer.train()
    return {"output_dir": trainer.args.output_dir, "global_step": trainer.state.global_step, "train_loss": logged(trainer, "train_loss"),
            "checkpoints": checkpoints(trainer)}


@habit()
def grpo():
    """GRPOTrainer of a name, rows and TRL's accuracy_reward"""
    from trl import GRPOConfig, GRPOTrainer
    from trl.rewards import accuracy_reward
    trainer = GRPOTrainer(model=MODEL, reward_funcs=accuracy_reward, train_dataset=data(CHAT_PROMPTS),
                          args=GRPOConfig(output_dir="out", max_completion_length=8, max_steps=2, logging_steps=1, use_cpu=True))
    trainer.train()
    return {"global_step": trainer.state.global_step, "reward": logged(trainer, "reward"),
            "of it": logged(trainer, "rewards/accuracy_reward/mean"), "log_history": len(trainer.state.log_history)}


@habit(near=5e-2)
def reward():
    """RewardTrainer of a language model's name and pairs: a head is drawn"""
    from trl import RewardConfig, RewardTrainer
    trainer = RewardTrainer(model=MODEL, args=RewardConfig(use_cpu=True), train_dataset=data(PAIRS))
    trainer.train()
    return {"output_dir": trainer.args.output_dir, "global_step": trainer.state.global_step, "checkpoints": checkpoints(trainer)}


@habit(fast=True)
def accumulation():
    """a batch of one row, and gradients of four of them to a step"""
    from trl import SFTConfig, SFTTrainer
    args = SFTConfig("out", **{**FEW, "per_device_train_batch_size": 1}, gradient_accumulation_steps=4)
    trainer = SFTTrainer(model=MODEL, args=args, train_dataset=data(TEXTS))
    return {**run_of(trainer, "epoch"), "batch": trainer.get_total_train_batch_size(args)}
