"""compute_metrics: a function of the caller's that gets the numbers of each evaluation and adds its own to the log.

The program evaluates, so that predictions and labels are not in this process. A function that reads them is refused when the trainer is made, as
far as its code shows it, else when it reads them.
"""
import dis
import types

from hone.errors import Refused

OF_LOGITS = ("predictions", "label_ids", "inputs", "losses")
INSTEAD = ("it gets .metrics, the evaluation's means and counts by name; score completions with a reward function, or use trainer.model.generate(...) "
           "after train()")


class EvaluationNumbers:
    """What the function gets. `metrics` has the numbers of one evaluation by their names, without eval_."""

    def __init__(self, metrics, where):
        self.metrics, self._where = metrics, where

    def _refuse(self, found):
        raise Refused(self._where, "a function that reads .metrics", f"it reads {found}, which is in the program that evaluates", INSTEAD)

    def __getattr__(self, name):
        if name in OF_LOGITS:
            self._refuse(name)
        raise AttributeError(f"what compute_metrics gets has no attribute {name!r}: it has .metrics")

    def __iter__(self):
        self._refuse("predictions and labels")

    def __getitem__(self, at):
        self._refuse("predictions and labels")


def code_of(function):
    """The code of a function, a method, a partial or an object that is called; None of what has none."""
    while hasattr(function, "func"):
        function = function.func
    for one in (function, getattr(function, "__func__", None), getattr(type(function), "__call__", None)):
        if isinstance(getattr(one, "__code__", None), types.CodeType):
            return one.__code__
    return None


def reads(code):
    """The part of an evaluation's logits that a function's code names, or unpacks its argument for; "" where it shows none."""
    found = next((name for name in OF_LOGITS if name in code.co_names), "")
    inside = [one for one in code.co_consts if isinstance(one, types.CodeType)]
    if found or any(reads(one) for one in inside):
        return found or next(filter(None, map(reads, inside)))
    arguments = code.co_varnames[:code.co_argcount]
    steps = [one for one in dis.get_instructions(code) if one.opname not in ("RESUME", "CACHE", "NOP")]
    unpacked = any(one.argval in arguments and one.opname.startswith("LOAD_FAST") and after.opname == "UNPACK_SEQUENCE"
                   for one, after in zip(steps, steps[1:]))
    return "predictions and labels" if unpacked else ""


def taken(given, arguments, args, trainer):
    """The argument of a trainer that has it, when it is made; None where it was not given."""
    function = given.pop("compute_metrics", None) if "compute_metrics" in arguments else None
    if function is None:
        return None
    where = f"{trainer}, compute_metrics"
    if not callable(function):
        raise Refused(where, "a function", f"a {type(function).__name__}", INSTEAD)
    if getattr(args, "batch_eval_metrics", False):
        raise Refused(where, "one call for an evaluation", "batch_eval_metrics=True", "leave batch_eval_metrics out: the program has the batches")
    code = code_of(function)
    found = reads(code) if code is not None else ""
    if found:
        raise Refused(where, "a function that reads .metrics", f"one that reads {found}, which is in the program that evaluates", INSTEAD)
    return function


def prefix_of(entry):
    """eval, or eval_NAME of one of several data sets: what stands before the name of the time that it took."""
    name = next((name for name in entry if name.startswith("eval") and name.endswith("_runtime")), "eval_runtime")
    return name.removesuffix("_runtime")


def added(function, entry, trainer):
    """An entry of the log; of an evaluation with the function's own numbers."""
    if function is None or not any(name.startswith("eval_") for name in entry):
        return entry
    where, prefix = f"{trainer}, compute_metrics", prefix_of(entry)
    numbers = {name.removeprefix(f"{prefix}_"): value for name, value in entry.items() if name.startswith(f"{prefix}_")}
    made = function(EvaluationNumbers(numbers, where))
    if not isinstance(made, dict):
        raise Refused(where, "a mapping of names to numbers", f"a {type(made).__name__}", "return {name: number}")
    own = {name if name.startswith(f"{prefix}_") else f"{prefix}_{name}": value.item() if hasattr(value, "item") else value for name, value in made.items()}
    return {**entry, **own}


def means(noted, prefix):
    """The means of what functions of this process have appended to trainer._metrics since the last record: TRL logs them, and begins again."""
    out = {f"{prefix}{name}": sum(map(float, values)) / len(values) for name, values in noted.items() if values}
    noted.clear()
    return out
