"""What scripts change around the steps: callbacks, optimizers, metrics, precision, tools."""
from common import CHAT_PROMPTS, FEW, GREEDY, MODEL, PAIRS, TEXTS, calling_model, calling_tokenizer, data, habit, logged, run_of, sampled

ROOMY = {**GREEDY, "max_completion_length": 700}  # a call, its result and an answer


@habit()
def callback():
    """a TrainerCallback with on_log, as the page on customization has it"""
    from transformers import TrainerCallback
    from trl import DPOConfig, DPOTrainer
    lines = []

    class Shows(TrainerCallback):
        def on_log(self, args, state, control, logs=None, **kwargs):
            if logs is not None:
                lines.append((state.global_step, logs.get("loss")))

    trainer = DPOTrainer(MODEL, args=DPOConfig("out", **FEW), train_dataset=data(PAIRS), callbacks=[Shows()])
    trainer.train()
    return {"lines": lines}


@habit()
def optimizer():
    """optimizers=(SGD of the model's parameters, None)"""
    import torch
    from transformers import AutoModelForCausalLM
    from trl import DPOConfig, DPOTrainer
    model = AutoModelForCausalLM.from_pretrained(MODEL)
    chosen = torch.optim.SGD(model.parameters(), lr=1e-3)
    return run_of(DPOTrainer(model, args=DPOConfig("out", **FEW), train_dataset=data(PAIRS), optimizers=(chosen, None)), "learning_rate")


@habit()
def optimizer_and_schedule():
    """optimizers=(AdamW, StepLR)"""
    import torch
    from transformers import AutoModelForCausalLM
    from trl import SFTConfig, SFTTrainer
    model = AutoModelForCausalLM.from_pretrained(MODEL)
    chosen = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.StepLR(chosen, step_size=2, gamma=0.1)
    return run_of(SFTTrainer(model, args=SFTConfig("out", **FEW), train_dataset=data(TEXTS), optimizers=(chosen, schedule)), "learning_rate")


@habit()
def compute_metrics():
    """a number of the caller's, of logits and labels, in each evaluation"""
    from trl import SFTConfig, SFTTrainer

    def counted(predicted):
        logits, labels = predicted
        return {"rows": float(len(logits)), "learned": float((labels != -100).sum())}

    args = SFTConfig("out", **FEW, eval_strategy="steps", eval_steps=3)
    trainer = SFTTrainer(MODEL, args=args, train_dataset=data(TEXTS), eval_dataset=data(TEXTS[:4]), compute_metrics=counted)
    return run_of(trainer, "eval_rows", "eval_learned")


@habit(near=3e-2)
def mixed_precision():
    """bf16=True"""
    from trl import SFTConfig, SFTTrainer
    trainer = SFTTrainer(MODEL, args=SFTConfig("out", **{**FEW, "bf16": True, "use_cpu": True}), train_dataset=data(TEXTS))
    trainer.train()
    return {"loss": logged(trainer, "loss"), "steps": trainer.state.global_step}


@habit()
def log_completions():
    """LogCompletionsCallback, which samples while the run goes on"""
    from trl import LogCompletionsCallback, SFTConfig, SFTTrainer
    from transformers import GenerationConfig
    args = SFTConfig("out", **FEW, eval_strategy="steps", eval_steps=3)
    trainer = SFTTrainer(MODEL, args=args, train_dataset=data(CHAT_PROMPTS_AS_ROWS), eval_dataset=data(CHAT_PROMPTS_AS_ROWS))
    trainer.add_callback(LogCompletionsCallback(trainer, generation_config=GenerationConfig(max_new_tokens=4, do_sample=False), num_prompts=2))
    return run_of(trainer)


CHAT_PROMPTS_AS_ROWS = [{"prompt": row["prompt"], "completion": [{"role": "assistant", "content": row["solution"]}]} for row in CHAT_PROMPTS]


@habit()
def tools():
    """functions that the policy of GRPO may call"""
    from trl import GRPOConfig, GRPOTrainer

    def product(a: int, b: int) -> int:
        """
        Multiplies two numbers.

        Args:
            a: One.
            b: The other.
        """
        return a * b

    def long_answers(completions, **kwargs):
        return [float(len(one[0]["content"])) for one in completions]

    trainer = GRPOTrainer(calling_model(), reward_funcs=long_answers, args=GRPOConfig("out", **ROOMY), train_dataset=data(CHAT_PROMPTS),
                          processing_class=calling_tokenizer(), tools=[product])
    return sampled(trainer, "reward")


@habit()
def environment():
    """an environment of the caller's class, which gives prompts and rewards"""
    from trl import GRPOConfig, GRPOTrainer

    class Counter:
        def reset(self, **kwargs):
            self.counter = 0
            return "Count to three."

        def get_reward(self):
            return float(self.counter == 3)

        def more(self, step: int) -> int:
            """
            Counts on.

            Args:
                step: How far.
            """
            self.counter += step
            return self.counter

    trainer = GRPOTrainer(calling_model(), args=GRPOConfig("out", **ROOMY), train_dataset=data(CHAT_PROMPTS),
                          processing_class=calling_tokenizer(), environment_factory=Counter)
    return sampled(trainer, "reward")
