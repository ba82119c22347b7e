"""Data sets without a length, such as datasets' IterableDataset: the program gets a file of as many rows as the run reads."""
import types

from hone.errors import Refused
from hone.trl import machine, options
from hone.trl.rows import is_named, is_splits, raw_of, refuse_once

# A packed row takes several rows. Its tokens are not counted here: rows are taken until their text has this many bytes for each token.
BYTES_OF_A_TOKEN = 32
# Rows that are too long are left out: at most so many times the rows of a run are written.
MOST = 100


def is_stream(data):
    """Whether its rows are not counted: it may have no end."""
    data = raw_of(data)
    return data is not None and not is_named(data) and not is_splits(data) and hasattr(data, "__iter__") and not hasattr(data, "__len__")


def refuse_endless(data, args, where):
    """As transformers: without max_steps the last step, and the schedule of the learning rate, are not known."""
    refuse_once(data, f"{where}, train_dataset")
    if is_stream(data) and args.max_steps <= 0:
        raise Refused(f"{where}, train_dataset", "max_steps in args", f"a {type(data).__name__}: the train_dataset does not implement __len__, so the "
                      "number of training steps cannot be inferred; max_steps has to be specified", "set max_steps")


def any_stream(data):
    return any(is_stream(one) for one in (data.values() if isinstance(data, dict) else [data]))


def refuse_precomputed(args, data, where):
    """Of rows that have no number, the reference is computed with each batch."""
    if getattr(args, "precompute_ref_log_probs", False) and any_stream(data):
        raise Refused(where, "rows that are counted: `precompute_ref_log_probs=True` is not supported with IterableDataset", "an IterableDataset",
                      "set precompute_ref_log_probs=False, or pass a datasets.Dataset")


class Enough:
    """Whether what was written of a stream is what a run reads: called with each row, and with the bytes until then."""

    def __init__(self, rows, size, kept):
        self.rows, self.size, self.kept = rows, size, kept
        self.count = self.written = 0

    def __call__(self, row, size):
        self.written += 1
        self.count += 1 if self.kept is None or self.kept(row) else 0
        # Where nearly all rows are left out, the program says so, or begins again with those that it has.
        return (self.count >= self.rows and size >= self.size) or self.written >= MOST * self.rows + 10000


def enough(data, trainer):
    """Of a stream: until when a run of max_steps reads it. None of other data, which is written whole."""
    if not is_stream(data):
        return None
    args = trainer.args
    from hone.trl.prepared_rows import kept  # which a run without streams does not need
    batch = args.per_device_train_batch_size
    rows = args.max_steps * batch * args.gradient_accumulation_steps * machine.world_size()
    rows += batch * (getattr(args, "steps_per_generation", None) or 1)  # completions are made for several steps at once
    packed = args.max_length or 0 if getattr(args, "packing", False) else 0
    return Enough(rows, rows * packed * BYTES_OF_A_TOKEN, None if packed else kept(trainer))


def settings(data):
    """Options of a run whose rows are a stream's: they come in its order, as in TRL."""
    return {"dataset_streaming": True} if is_stream(data) else {}


# ---- args of a run with streams, as TRL's constructors leave them

# transformers.AcceleratorConfig: what nobody has set.
ACCELERATOR = {"split_batches": False, "dispatch_batches": None, "even_batches": True, "use_seedable_sampler": True, "non_blocking": False,
               "gradient_accumulation_kwargs": None, "use_configured_state": False}


def with_accelerator_config(args):
    """args.accelerator_config as an object, as transformers makes it; the options keep what was set."""
    given = args.__dict__.get("accelerator_config")
    if given is None or isinstance(given, dict):
        args.__dict__["accelerator_config"] = types.SimpleNamespace(**{**ACCELERATOR, **(given or {})})


def settle(args, train, evaluation, method, where):
    """What TRL sets in args where rows are a stream's."""
    with_accelerator_config(args)
    if not is_stream(train) and not any_stream(evaluation):
        return
    for data in (train, evaluation):
        refuse_precomputed(args, data, where)
    samples = options.METHODS[method] in ("grpo", "rloo")
    if samples and args.accelerator_config.dispatch_batches:
        raise Refused(f"{where}, args.accelerator_config", "no dispatch_batches: Iterable datasets require `dispatch_batches=False`", "True",
                      "leave it out: the program makes the batches")
    if samples or is_stream(train):
        args.accelerator_config.dispatch_batches = False
    if samples and is_stream(train):
        args.__dict__["dataloader_num_workers"] = 0
