"""Attributes of TRL's trainers that stand for an option, and have another value than the option where that is None."""
import sys

from hone.trl.rows import is_named


def listed(trainer, value):
    return value if isinstance(value, list) else [value]


def weights(trainer, value):
    return value or [1.0] * len(trainer.loss_types)


def coefficient(trainer, value):
    """Of a mixture of experts: that of its configuration."""
    return getattr(trainer._trained.config.get_text_config(), "router_aux_loss_coef", 0.0) if value is None else value


def completion_only(trainer, value):
    """Rows of a prompt and a completion have their loss on the completion alone."""
    rows = trainer._train_rows
    if value is not None or rows is None or is_named(rows):
        return value
    if trainer._formatting is not None:
        return False
    columns = getattr(rows, "column_names", None)
    if columns is None and isinstance(rows, (list, tuple)) and rows and isinstance(rows[0], dict):
        columns = rows[0]
    return None if columns is None else {"prompt", "completion"} <= set(columns)


SETTLED = {
    "max_tool_calling_iterations": lambda trainer, value: sys.maxsize if value is None else value,
    "num_generations_eval": lambda trainer, value: value or trainer.args.num_generations,
    "chat_template_kwargs": lambda trainer, value: value or {},
    "epsilon_high": lambda trainer, value: trainer.args.epsilon if value is None else value,
    "loss_types": listed,
    "loss_weights": weights,
    "router_aux_loss_coef": coefficient,
    "completion_only_loss": completion_only,
}


def value_of(trainer, name, value):
    """What TRL's trainer has where the option's value is `value`."""
    return SETTLED[name](trainer, value) if name in SETTLED else value
