"""A run of TRL's Trainer on tiny models, and what recorders keep of it: the log and the first gradients."""
import common
from datasets import Dataset, disable_progress_bars
from transformers import PrinterCallback
from transformers.utils import logging

UNLOGGED = {"total_flos", "train_loss", "train_runtime", "train_samples_per_second", "train_steps_per_second",
            "eval_runtime", "eval_samples_per_second", "eval_steps_per_second"}


def train_set(rows, options):
    """(the rows to train on, the options of TRL's Config): dataset_streaming is an option of TRL's scripts."""
    data = Dataset.from_list(rows)
    config = {key: value for key, value in options.items() if key != "dataset_streaming"}
    return data.to_iterable_dataset() if options.get("dataset_streaming") else data, config


def trained(trainer, parameters):
    """trainer.train(); the gradients before the first clipping of `parameters(model)`: {name: tensor}."""
    gradients, clip = {}, trainer.accelerator.clip_grad_norm_

    def clipped(*args, **kwargs):
        if not gradients:
            gradients.update({key: value.grad.clone() for key, value in parameters(trainer.model).items()})
        return clip(*args, **kwargs)

    trainer.accelerator.clip_grad_norm_ = clipped
    trainer.pop_callback(PrinterCallback)
    trainer.train()
    return gradients


def logged(trainer):
    """(the entries of steps, those of evaluations), without times."""
    log = [{key: value for key, value in entry.items() if key not in UNLOGGED} for entry in trainer.state.log_history]
    return [one for one in log if "loss" in one], [one for one in log if "eval_loss" in one]


def case_options(description, folder):
    """common.options() and which cases: asked(name). Makes `folder` below out; only errors are printed."""
    def add(parser):
        parser.add_argument("--only", default="", help="cases whose name begins so")
        parser.add_argument("--skip", default="-", help="cases whose name begins so are left out")

    arguments = common.options(description, add)
    arguments.asked = lambda name: name.startswith(arguments.only) and not name.startswith(arguments.skip)
    disable_progress_bars()
    logging.set_verbosity_error()
    (arguments.out / folder).mkdir(parents=True, exist_ok=True)
    return arguments
