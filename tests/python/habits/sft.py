"""Rows of every form, and the options of SFT that the documentation shows."""
from common import CHATS, FEW, MODEL, TEXTS, TURN, assistant, data, habit, run_of, tokenizer_of, user


def trainer_of(rows, folder="out", **options):
    from trl import SFTConfig, SFTTrainer
    return SFTTrainer(model=MODEL, args=SFTConfig(output_dir=folder, **{**FEW, **options}), train_dataset=data(rows))


@habit()
def messages():
    """rows of messages get the model's template"""
    return run_of(trainer_of(CHATS), "num_tokens")


@habit(fast=True)
def prompt_and_completion():
    """rows of prompt and completion: the loss is of the completion"""
    return run_of(trainer_of([{"prompt": f"after {n}", "completion": f" comes {n + 1}"} for n in range(8)]), "num_tokens")


@habit()
def turns_and_completion():
    """rows of another data set, mapped to turns of prompt and completion"""
    from trl import SFTConfig, SFTTrainer

    def shaped(row):
        return {"prompt": user(row["Question"]), "completion": assistant(f"<think>{row['Thought']}</think>{row['Response']}")}

    rows = data([{"Question": TURN.format(n), "Thought": f"{n} + 1", "Response": str(n + 1)} for n in range(8)])
    rows = rows.map(shaped, remove_columns=["Question", "Thought", "Response"])
    return run_of(SFTTrainer(model=MODEL, args=SFTConfig("out", **FEW), train_dataset=rows), "num_tokens")


@habit()
def whole_loss():
    """completion_only_loss=False: the prompt is learned too"""
    return run_of(trainer_of([{"prompt": f"after {n}", "completion": f" comes {n + 1}"} for n in range(8)], completion_only_loss=False))


@habit(fast=True)
def assistant_only():
    """assistant_only_loss=True, with a template that marks the assistant's turns"""
    return run_of(trainer_of(CHATS, assistant_only_loss=True))


@habit()
def packing():
    """packing=True with a max_length"""
    trainer = trainer_of(TEXTS, packing=True, packing_strategy="bfd", max_length=64, max_steps=2)
    return {"rows": len(trainer.train_dataset), **run_of(trainer, "num_tokens")}


@habit(fast=True)
def max_length():
    """rows are cut at max_length"""
    return run_of(trainer_of(TEXTS, max_length=12), "num_tokens")


@habit(near=2e-2)
def dtype():
    """the model is opened in bfloat16, by model_init_kwargs"""
    import torch
    trainer = trainer_of(TEXTS, model_init_kwargs={"dtype": torch.bfloat16})
    found = run_of(trainer)
    return {"dtype": str(trainer.model.dtype), "global_step": found["global_step"], "loss": found["loss"]}


@habit()
def loss_types():
    """loss_type: the plain loss, and dynamic fine-tuning"""
    return {name: run_of(trainer_of(TEXTS, name, loss_type=name)) for name in ("nll", "dft")}


@habit()
def chat_template_path():
    """a base model learns turns with the template of another: chat_template_path"""
    from trl import SFTConfig, SFTTrainer
    from transformers import AutoTokenizer
    other = AutoTokenizer.from_pretrained(MODEL)
    other.chat_template = "{% for m in messages %}[{{ m.role }}] {{ m.content }}<|im_end|>{% endfor %}{% if add_generation_prompt %}[assistant] {% endif %}"
    other.save_pretrained("instructed")
    trainer = SFTTrainer(model=MODEL, args=SFTConfig("out", **FEW, chat_template_path="instructed"), train_dataset=data(CHATS))
    found = run_of(trainer, "num_tokens")
    trainer.save_model("saved")
    return {**found, "saved": AutoTokenizer.from_pretrained("saved").chat_template == other.chat_template}


@habit()
def tools():
    """conversations that call a tool, with its schema in the column tools"""
    from transformers.utils import get_json_schema

    def light(room: str, on: bool) -> str:
        """
        Turns the light of a room on or off.

        Args:
            room: Which room.
            on: Whether it is on afterwards.
        """
        return f"{room}: {on}"

    turns = [{"role": "user", "content": "Light in the hall!"}, {"role": "assistant", "content": "Yes."}, {"role": "tool", "content": "hall: True"},
             {"role": "assistant", "content": "Done."}]
    return run_of(trainer_of([{"messages": turns, "tools": [get_json_schema(light)]}] * 4), "num_tokens")


@habit()
def look_at_rows():
    """what the trainer made of a row: input_ids, decoded"""
    trainer = trainer_of(CHATS)
    row = trainer.train_dataset[0]
    return {"columns": sorted(trainer.train_dataset.column_names), "ids": row["input_ids"], "text": tokenizer_of(MODEL).decode(row["input_ids"])}


@habit(fast=True)
def metrics():
    """the names and numbers that are logged at every step"""
    trainer = trainer_of(TEXTS)
    found = run_of(trainer, "entropy", "mean_token_accuracy", "num_tokens", "learning_rate", "epoch")
    return {**found, "end": sorted(name for name in ("train_runtime", "train_loss", "train_samples_per_second", "train_steps_per_second")
                                   if name in trainer.state.log_history[-1])}
