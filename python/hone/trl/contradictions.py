"""What TRL's constructors refuse, refused in the constructor here: a ValueError with the words that TRL's users look for."""
import json
import logging
import os
import sys
import warnings

from hone.errors import Refused
from hone.trl import models, options, references
from hone.trl.rows import is_named, is_splits

# Trainers that want rows when they are made; the others of TRL's take them at train().
WANT_ROWS = ("SFT", "DPO", "KTO", "Reward", "GRPO", "RLOO", "GMPO")


def refuse(method, where, args, settings, train, evaluation, has_reward=False):
    """`settings`: the options that the arguments gave; `has_reward`: an environment scores. Called last, so that a wrong argument is named before what is missing."""
    refuse_remote_code(settings, where)
    refuse_options(method, settings, where)
    references.refuse_moving(method, settings, where)
    refuse_absent_rewards(method, settings, where, has_reward)
    refuse_absent_rows(method, train, evaluation, where)
    if method == "Reward":
        for name, data in named(train, evaluation):
            warn_of_names(data, f"{where}, {name}")
    if method in models.SAMPLERS:
        refuse_weights(args, settings, where)
        refuse_searches(args, where)
    if method == "GRPO":
        warn_of_lengths(args, where)
    if method == "SFT":
        refuse_uncut(args, where)
        for name, data in named(train, evaluation):
            refuse_masks(args, data, f"{where}, {name}")


def named(train, evaluation):
    """[(argument, data set)] of those that this process has."""
    several = [("train_dataset", train)]
    several += [(f"eval_dataset[{name!r}]", data) for name, data in evaluation.items()] if is_splits(evaluation) else [("eval_dataset", evaluation)]
    return [(name, data) for name, data in several if data is not None and not is_named(data)]


def refuse_remote_code(settings, where):
    """A model whose folder brings its own classes: TRL wants trust_remote_code, and the program runs no code of a model's."""
    name = settings.get("model_name_or_path")
    # A name of the hub is looked at where transformers, which knows the cache, has been imported already.
    at_hand = name and (os.path.isdir(name) or "transformers" in sys.modules)
    folder = models.folder_named(name) if at_hand else None
    path = folder / "config.json" if folder is not None else None
    if path is None or not path.is_file():
        return
    config = json.loads(path.read_text(encoding="utf-8"))
    own = (config.get("auto_map") or {}).get("AutoConfig")
    # Families that transformers has since taken up keep their auto_map: what decides is whether this configuration is of code of its own.
    if own and "--" not in own and (folder / f"{own.split('.')[0]}.py").is_file():
        raise Refused(f"{where}, model", "a family that hone has", f"{os.fspath(name)}, of type {config.get('model_type')!r}: it contains custom "
                      f"code, {own.split('.')[0]}.py, which hone does not run", "docs/comparison.md has the families; trust_remote_code adds none")


def refuse_options(method, settings, where):
    """Options that the program refuses at anything but their default, in its words."""
    for name, row in options.rows(options.METHODS[method]).items():
        value = settings.get(name)
        if row["class"] == "refused" and value not in (None, False, "", [], {}) and value != row["default"]:
            why = row.get("reason") or row["meaning"]
            raise Refused(f"{where}, args.{name}", f"its default, {row['default']}", f"{value!r}: {why}", f"leave {name} out")


def refuse_labels(model, where):
    """Of a reward model as an object."""
    labels = getattr(getattr(model, "config", None), "num_labels", 1)
    if labels != 1:
        raise Refused(f"{where}, model", "one score: reward models require `num_labels=1`", f"{labels}", "load it with num_labels=1")


def headless(config, where):
    """The refusal of a LoraConfig for a reward model, or None: TRL leaves a new head as it was drawn where neither is set, and here the head always
    trains. What get_peft_config() makes of a command line is no LoraConfig: scripts leave lora_task_type out, and mean a reward model."""
    if config is None or not hasattr(config, "peft_type"):
        return None
    task = getattr(config, "task_type", "SEQ_CLS")
    if getattr(task, "value", task) == "SEQ_CLS" or "score" in (getattr(config, "modules_to_save", None) or ()):
        return None
    return Refused(f"{where}, peft_config", "an adapter with the head of a reward model, which is trained as a whole",
                   f"task_type={getattr(task, 'value', task)!r}, and no 'score' in modules_to_save: TRL would leave a new head as it was drawn",
                   "LoraConfig(..., task_type='SEQ_CLS') or LoraConfig(..., modules_to_save=['score'])")


def warn_of_head(config, where):
    """TRL makes the trainer, and scripts look at its model; train() refuses."""
    refusal = headless(config, where)
    if refusal is not None:
        warnings.warn(f"hone: train() will refuse this: {refusal}", stacklevel=4)


def refuse_head(config, where):
    refusal = headless(config, where)
    if refusal is not None:
        raise refusal


def refuse_weights(args, settings, where):
    """Environments that score themselves have none."""
    weights, rewards = getattr(args, "reward_weights", None), settings.get("reward_funcs")
    if isinstance(weights, (list, tuple)) and isinstance(rewards, list) and len(weights) != len(rewards):
        raise Refused(f"{where}, args.reward_weights", f"one for each of reward_funcs: the number of reward weights ({len(weights)}) must match the "
                      f"number of reward functions ({len(rewards)})", f"{list(weights)}", "a weight for each function; those of environments have 1")


def refuse_absent_rewards(method, settings, where, has_reward):
    if method in ("GRPO", "RLOO", "GMPO") and not settings.get("reward_funcs") and not has_reward:
        raise Refused(f"{where}, reward_funcs", "one or more", "No reward source provided", "pass a function, a reward model, or a list of them"
                      + ("" if method == "RLOO" else ", or an environment_factory whose environment has get_reward"))


def refuse_absent_rows(method, train, evaluation, where):
    """Rows for an evaluation are enough here: evaluate() needs no others."""
    if method in WANT_ROWS and train is None and evaluation is None:
        raise Refused(f"{where}, train_dataset", "rows: `train_dataset` is required", "none", "pass a datasets.Dataset, a list of dicts, or a path")


def warn_of_names(data, where):
    """As TRL: rows of tokens with the names of before."""
    columns = getattr(data, "column_names", None) or ()
    if {"chosen_input_ids", "rejected_input_ids"} <= set(columns) and "chosen_ids" not in columns:
        warnings.warn(f"hone: {where} has chosen_input_ids and rejected_input_ids, which will not be supported in v1 of TRL: name them "
                      "chosen_ids and rejected_ids", FutureWarning, stacklevel=4)


def refuse_searches(args, where):
    """The program looks at generation_kwargs when it begins; a search it never has."""
    beams = (getattr(args, "generation_kwargs", None) or {}).get("num_beams")
    if beams not in (None, 1):
        raise Refused(f"{where}, args.generation_kwargs", "sampling, with num_beams=1", f"num_beams={beams}: the methods sample, and search no beams",
                      "leave num_beams and length_penalty out; temperature, top_p, top_k and min_p shape what is sampled")


def warn_of_lengths(args, where):
    """As TRL, by a logger: losses that add up tokens, beside one weight for a completion."""
    loss = getattr(args.loss_type, "value", args.loss_type)
    if getattr(args, "importance_sampling_level", "token") == "sequence" and loss in ("bnpo", "dr_grpo", "dapo", "cispo"):
        logging.getLogger("hone.trl").warning("%s: with importance_sampling_level='sequence' the loss_type %r weights each sequence by its completion length; "
                                              "GSPO's objective is loss_type='grpo'", where, loss)


def refuse_uncut(args, where):
    if getattr(args, "padding_free", False) and not args.packing and args.max_length is not None:
        raise Refused(f"{where}, args.padding_free", "packing, or max_length=None, beside it", "padding_free=True without packing: `max_length` is "
                      "not enforced in TRL", "set packing=True, or leave padding_free out: hone never pads, and cuts at max_length")


def refuse_masks(args, data, where):
    """Rows that are ready, of which the masks would not be read."""
    if not (getattr(args, "dataset_kwargs", None) or {}).get("skip_prepare_dataset"):
        return
    columns = getattr(data, "column_names", None) or ()
    if "labels" not in columns and ("completion_mask" in columns or "assistant_masks" in columns):
        raise Refused(where, "labels", "mask columns, which skip_prepare_dataset leaves unread", "Add a 'labels' column with -100 where no loss is, "
                      "or leave skip_prepare_dataset out")
