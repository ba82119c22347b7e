"""What TRL's trainers take and hone cannot: named, with what to do instead, before anything starts."""
import inspect
import os

from hone.errors import Refused
from hone.trl import models
from hone.trl.rows import is_named

# Arguments of TRL's trainers that are code or objects of this process; None, and what `EMPTY` has, is no refusal.
INSTEAD = {
    "data_collator": "hone makes its own batches, without padding; shape the rows instead",
    "compute_loss_func": "choose a loss with loss_type: `hone options` lists them",
    "compute_metrics": "hone's evaluation has loss, accuracy and rewards; score completions with a reward function",
    "preprocess_logits_for_metrics": "hone's evaluation has loss, accuracy and rewards; score completions with a reward function",
    "optimizers": "set optim, learning_rate, lr_scheduler_type and optim_args in the config",
    "optimizer_cls_and_kwargs": "set optim, learning_rate and optim_args in the config",
    "model_init": "name the model: model='folder or name'",
    "ref_model": "the reference is the model without its adapter, or a copy of it at the start; another one hone does not have",
    "reward_processing_classes": "a reward model's folder has its own tokenizer",
    "tools": "hone has no tools",
    "rollout_func": "hone samples by itself; replay reads rollouts from a file",
    "environment_factory": "hone has no environments",
    "value_model": "hone's policies need none",
}
EMPTY = {"optimizers": (None, None), "reward_processing_classes": [], "tools": [], "ref_model": None}

OWN = ("train", "evaluate", "save_model", "push_to_hub", "end", "add_callback", "remove_callback", "pop_callback", "log_history")


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
            if inspect.isroutine(value) and not name.startswith("__") and (hasattr(base, name) or name in STEPS):
                raise Refused(f"{owner.__name__}.{name}", "a trainer whose steps are hone's", "a method that replaces one of them",
                              INSTEAD_OF_STEPS.get(name, "use a reward function, a callback or an option; `hone options` lists them"))


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


def same_reference(given, model, trainer):
    """Takes away a ref_model that is the model itself, loaded twice."""
    reference = given.get("ref_model")
    if reference is not None and (is_named(reference) or models.is_model(reference)):
        if models.is_same(models.name_of(reference, f"{trainer}, ref_model"), model):
            del given["ref_model"]


def same_tokenizers(given, specs):
    """Takes away tokenizers of reward models that are those of the models' own folders."""
    classes = given.get("reward_processing_classes")
    several = classes if isinstance(classes, (list, tuple)) else [classes] * (classes is not None)
    names = [getattr(one, "name_or_path", one) for one in several]
    if names and all(name is None or any(models.is_same(str(name), spec) for spec in specs or ()) for name in names):
        del given["reward_processing_classes"]


def tokenizer_settings(processing_class, model, trainer):
    """{} for the model's own tokenizer, else tokenizer_name_or_path."""
    if processing_class is None:
        return {}
    named = processing_class if is_named(processing_class) else getattr(processing_class, "name_or_path", None)
    if not named or not is_named(named):
        raise Refused(f"{trainer}, processing_class", "a tokenizer with a name or a path", f"a {type(processing_class).__name__} without one",
                      "save it with save_pretrained(FOLDER) and pass processing_class=FOLDER")
    named = os.fspath(named)
    if models.is_same(named, model):
        return {}
    if not os.path.isdir(named):
        raise Refused(f"{trainer}, processing_class", f"the tokenizer of {model}, or a folder", named,
                      "leave processing_class out, or save the tokenizer with save_pretrained(FOLDER) and pass processing_class=FOLDER")
    return {"tokenizer_name_or_path": named}
