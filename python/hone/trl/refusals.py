"""What TRL's trainers take and hone cannot: named, with what to do instead, before anything starts."""
import inspect
import warnings

from hone.errors import Refused
from hone.trl import models

# Arguments of TRL's trainers that are code or objects of this process; None, and what `EMPTY` has, is no refusal.
INSTEAD = {
    "data_collator": "hone makes its own batches, without padding; shape the rows instead",
    "compute_loss_func": "choose a loss with loss_type: `hone options` lists them",
    "compute_metrics": "pass it to a trainer that evaluates by rows; of completions use a reward function",
    "preprocess_logits_for_metrics": "hone's evaluation has loss, accuracy and rewards; score completions with a reward function",
    "optimizers": "set optim, learning_rate, lr_scheduler_type and optim_args in the config",
    "optimizer_cls_and_kwargs": "set optim, learning_rate and optim_args in the config",
    "model_init": "name the model: model='folder or name'",
    "reward_processing_classes": "pass reward_funcs, which have them",
    "tools": "GRPOTrainer(tools=[...]) trains a model that calls tools",
    "rollout_func": "GRPOTrainer(rollout_func=...) has a function that makes the completions",
    "environment_factory": "GRPOTrainer(environment_factory=...) trains in environments",
    "value_model": "hone's policies need none",
}
EMPTY = {"optimizers": (None, None), "reward_processing_classes": [], "tools": []}

def refuse_arguments(trainer, arguments):
    for name, value in arguments.items():
        empty = EMPTY.get(name)
        if value is None or (name in EMPTY and type(value) is type(empty) and value == empty):
            continue
        if name in INSTEAD:
            raise Refused(f"{trainer}, {name}", "no such argument: the run is a program of its own", f"a {type(value).__name__}", INSTEAD[name])
        raise TypeError(f"{trainer}.__init__() got an unexpected keyword argument {name!r}")


def refuse_overrides(trainer, base):
    """Methods of a subclass of the user's that TRL would call, and the program cannot."""
    for owner in type(trainer).__mro__:
        if owner.__module__.split(".")[0] == "hone":
            break
        for name, value in vars(owner).items():
            if inspect.isroutine(value) and not name.startswith("__") and name not in CALLED_HERE and (hasattr(base, name) or name in STEPS):
                raise Refused(f"{owner.__name__}.{name}", "a trainer whose steps are hone's", "a method that replaces one of them",
                              INSTEAD_OF_STEPS.get(name, "use a reward function, a callback or an option; `hone options` lists them"))


# What only scripts call: a subclass may have its own.
CALLED_HERE = ("create_model_card", "log_metrics", "save_metrics", "metrics_format", "save_state", "is_world_process_zero")
STEPS = ("compute_loss", "training_step", "prediction_step", "evaluation_loop", "get_train_dataloader", "get_eval_dataloader",
         "create_optimizer", "create_scheduler", "create_optimizer_and_scheduler", "log", "_prepare_dataset", "_generate_and_score_completions",
         "_get_per_token_logps", "_compute_loss", "_prepare_inputs", "get_batch_loss_metrics", "tokenize_row", "floating_point_ops",
         "_calculate_rewards", "_generate", "_get_train_sampler", "concatenated_forward", "save_model", "_save", "optimizer_step")
INSTEAD_OF_STEPS = {
    "compute_loss": "choose a loss with loss_type: `hone options` lists them",
    "_compute_loss": "choose a loss with loss_type: `hone options` lists them",
    "log": "a callback's on_log gets what is logged",
    "create_optimizer": "set optim and optim_args in the config",
    "create_scheduler": "set lr_scheduler_type and lr_scheduler_kwargs in the config",
    "_prepare_dataset": "prepare the rows before the trainer gets them",
    "_calculate_rewards": "pass reward_funcs",
}


def refuse_second_adapter(given, settings, trainer):
    """Of a PeftModel: TRL wants its adapter merged before it makes another."""
    second = "peft_config" if given.get("peft_config") is not None else "adapter_name_or_path" if settings.get("adapter_name_or_path") else ""
    if second:
        raise Refused(f"{trainer}, {second}", "one adapter", f"a PeftModel, which has one, and {second}", "leave one of them out")


def refuse_changed_model(changed, method, trainer):
    """What a script has set in trainer.model.config before train(), and the program would not know."""
    for whose, values in changed.items():
        if whose == "generation_config" and method not in models.SAMPLERS:
            continue  # nothing is sampled: it is saved with the model
        silent = {*models.NEUTRAL, *(models.OF_ARGS if whose == "generation_config" else () if method in models.SAMPLERS else models.OF_TOKENIZER)}
        for name, value in values.items():
            if name not in silent and not name.startswith("_"):
                raise Refused(f"{trainer}.model.{whose}.{name}", "what the model's folder has", repr(value),
                              "sampling options go into args" if whose == "generation_config" else
                              "save the model with this configuration to a folder, and pass model=FOLDER")


def own_generate(model):
    """Who has put a function in the place of the model's `generate`: "the model", "its class"; "" where it is transformers' or PEFT's."""
    for one in (model, models.base_of(model)):
        if "generate" in vars(one):
            return "the model"
        made = getattr(getattr(type(one), "generate", None), "__module__", None) or ""
        if hasattr(type(one), "generate") and made.split(".")[0] not in ("transformers", "peft"):
            return "its class"
    return ""


def refuse_own_generate(model, trainer):
    """Of trainers that sample: TRL would call it for every completion. `model` is the object of this process, if there is one."""
    whose = own_generate(model) if model is not None else ""
    if whose:
        raise Refused(f"{trainer}.model.generate", "the model's own generate: hone samples by itself, and never calls it",
                      f"another function in its place, of {whose}",
                      "pass rollout_func, a function that makes the completions, to GRPOTrainer; else take it away again")


# ---- formatting_func

def refuse_formatting(function, args, data, trainer):
    """TRL's own error: a text that a function makes has no completion."""
    if function is None:
        return
    columns = getattr(data, "column_names", None) or (data[0] if isinstance(data, list) and data and isinstance(data[0], dict) else ())
    if getattr(args, "completion_only_loss", None) is True:
        raise Refused(f"{trainer}, formatting_func", "no completion_only_loss=True beside it", "both: the function makes one text of a row, which "
                      "has no completion", "make prompt and completion of the rows before the trainer gets them, or set "
                      "completion_only_loss=False: the whole text is trained")
    if "input_ids" in columns:
        warnings.warn(f"hone: {trainer}, formatting_func: the rows have input_ids, so that the function is not called", stacklevel=4)
    # TRL keeps these columns beside the function's text, and tokenizes them in its place.
    own = next((name for name in ("prompt and completion", "messages", "conversations") if set(name.split(" and ")) <= set(columns)), None)
    if own:
        warnings.warn(f"hone: {trainer}, formatting_func: the rows have {own}, and the loss is of the whole text that the function makes; TRL "
                      f"1.16 trains on {own} all the same", stacklevel=4)


def formatting(function, column):
    """The text of a row instead of its columns; rows that are tokenized stay, as TRL leaves them."""
    def text(row, where):
        if "input_ids" in row:
            return row
        made = function(row)
        if isinstance(made, str):
            return {column: made}
        kind = "None" if made is None else f"a {type(made).__name__}"
        batches = isinstance(made, (list, tuple))
        raise Refused(f"{where}, formatting_func", "a text for a row", kind, "it gets one row, and returns one text: TRL no longer calls it "
                      "with batches" if batches else "return a text for every row, or filter the rows first")

    return text
