"""Data sets without a length, such as datasets' IterableDataset: the program gets a file of as many rows as the run reads."""
import collections.abc

from hone.errors import Refused
from hone.trl import machine
from hone.trl.rows import is_named, is_splits, raw_of

# A packed row takes several rows. Its tokens are not counted here: rows are taken until their text has this many bytes for each token.
BYTES_OF_A_TOKEN = 32


def is_stream(data):
    """Whether its rows are not counted: it may have no end."""
    data = raw_of(data)
    return data is not None and not is_named(data) and not is_splits(data) and hasattr(data, "__iter__") and not hasattr(data, "__len__")


def is_wanted_again(data):
    """An iterator gives its rows once, and a run is more than one pass."""
    return isinstance(data, collections.abc.Iterator)


def refuse_endless(data, args, where):
    """As transformers: without max_steps the last step, and the schedule of the learning rate, are not known."""
    if is_wanted_again(data):
        raise Refused(f"{where}, train_dataset", "rows that can be read again", f"a {type(data).__name__}, which gives its rows once",
                      "pass list(rows), or datasets.IterableDataset.from_generator(function)")
    if is_stream(data) and args.max_steps <= 0:
        raise Refused(f"{where}, train_dataset", "max_steps in args", f"a {type(data).__name__}: the train_dataset does not implement __len__, so the "
                      "number of training steps cannot be inferred; max_steps has to be specified", "set max_steps")


class Enough:
    """Whether the rows that were written are those that a run of max_steps reads."""

    def __init__(self, args):
        several = getattr(args, "num_iterations", 1) or 1
        sequences = args.max_steps * args.per_device_train_batch_size * args.gradient_accumulation_steps * machine.world_size()
        steps = getattr(args, "steps_per_generation", None) or 0
        self.rows = sequences + args.per_device_train_batch_size * max(steps, 1) * several
        packed = getattr(args, "packing", False) and (args.max_length or 0)
        self.bytes = self.rows * packed * BYTES_OF_A_TOKEN

    def __call__(self, rows, written):
        return rows >= self.rows and written >= self.bytes


def settings(data):
    """Options of a run whose rows are a stream's: they come in its order, as in TRL."""
    return {"dataset_streaming": True} if is_stream(data) else {}
