"""Functions of the calling process that the program calls: rewards, judges. They run in the thread that called train()."""
import asyncio
import concurrent.futures
import inspect
import math
import os
import re
import traceback

from hone.errors import Refused
from hone.trl import models, states
from hone.trl.rows import is_named

TIMEOUT = 86400.0  # seconds: TRL waits for a function for ever


def name_of(function):
    inner = function
    while hasattr(inner, "func"):  # functools.partial
        inner = inner.func
    return getattr(inner, "__name__", type(inner).__name__)


def parameters_of(function):
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a builtin does not say
        return None
    return [[p.name, p.kind.name, p.default is not p.empty] for p in parameters]


def short(value, most=200):
    try:
        text = " ".join(repr(value).split())
    except Exception:
        text = f"a {type(value).__name__}"
    return text if len(text) <= most else text[:most] + "..."


def score(value):
    """None, a number, or what a message may say of it."""
    if value is None:
        return None
    if hasattr(type(value), "__float__") or hasattr(type(value), "__index__"):
        try:
            return float(value)
        except Exception:
            pass
    return {"odd": short(value)}


def encoded(result):
    """What a function returned, as hone.caller reads it: a list of scores, or what is wrong with it."""
    if result is None or isinstance(result, (str, bool, int, float)):
        return result
    if isinstance(result, (bytes, dict)) or not hasattr(type(result), "__iter__"):
        return {"type": type(result).__name__} if isinstance(result, dict) else short(result)
    return [score(value) for value in result]


def logged(value, depth=0):
    """A value of log_extra as JSON, or as text."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if depth < 8 and isinstance(value, (list, tuple)):
        return [logged(item, depth + 1) for item in value]
    if depth < 8 and isinstance(value, dict):
        return {str(key): logged(item, depth + 1) for key, item in value.items()}
    try:
        value = float(value)
        return value if math.isfinite(value) else None
    except Exception:
        return short(value, 2000)


class Functions:
    """By the names that the program calls them by: hone.caller.NAME."""

    def __init__(self, trainer):
        self.trainer = trainer
        self.all, self.judges = {}, set()
        self.failure = None  # the exception that ended the run
        self.tools = None    # tools.Tools: environments, for rewards that ask for them
        self.last = {"prompt": [], "completion": [], "rewards": {}, "extra": {}}  # of the last call of each function
        self._thread = None
        self._loop = None

    def specs(self, functions, judge=False, option="reward_funcs"):
        """reward_funcs for the program: words stay, callables become hone.caller.NAME."""
        if functions is None:
            return None
        several = functions if isinstance(functions, (list, tuple)) else [functions]
        return [self.spec(one, judge, option) for one in several]

    def spec(self, one, judge, option="reward_funcs"):
        where, one = f"{self.trainer}, {'judge' if judge else option}", models.uncompiled(one)
        if is_named(one):
            return os.fspath(one)
        if judge and callable(getattr(one, "judge", None)):
            one = one.judge
        if models.is_model(one):
            states.refuse_unknown(one, where, wrapped=False)
            return models.base_of(one).name_or_path or "reward model"  # what is otherwise than its folder gets one (reward_models.py)
        if not callable(one) or isinstance(one, type):
            raise Refused(where, "a function, a name, or a folder", f"a {type(one).__name__}" if not isinstance(one, type) else f"the class {one.__name__}")
        base = re.sub(r"\W", "_", name_of(one), flags=re.ASCII).strip("_") or "function"
        base = f"f_{base}" if base[0].isdigit() or base.startswith("_") else base
        name, count = base, 1
        while name in self.all and self.all[name] is not one:
            count += 1
            name = f"{base}_{count}"
        self.all[name] = one
        if judge:
            self.judges.add(name)
        return f"hone.caller.{name}"

    def listed(self):
        return {"functions": [{"name": name, "parameters": parameters_of(function), "judge": name in self.judges}
                              for name, function in self.all.items()]}

    def call(self, name, arguments, state):
        """The reply to a call; what the function raises is kept, and ends the run."""
        if self.failure is not None:
            return {"raised": "an earlier call has raised"}
        extra, metrics = [], []

        def log_extra(column, values):
            if isinstance(values, str):
                raise TypeError(f"log_extra({column!r}, ...) wants a list, one value per completion, not a string")
            extra.append([str(column), [logged(value) for value in values]])

        def log_metric(metric, value):
            metrics.append([str(metric), float(value)])

        more = {} if name in self.judges else {"trainer_state": state, "log_extra": log_extra, "log_metric": log_metric}
        try:
            arguments = self.tools.replaced(arguments) if self.tools is not None else arguments
            result = encoded(self.result(self.all[name], {**arguments, **more}))
        except BaseException as error:
            self.failure = error
            return {"raised": f"{name} raised {traceback.format_exception_only(type(error), error)[-1].strip()[:300]}"}
        if name not in self.judges:
            self.last["prompt"], self.last["completion"] = arguments.get("prompts", []), arguments.get("completions", [])
            self.last["rewards"][name] = result
            self.last["extra"].update(extra)
        return {"result": result, "extra": extra, "metrics": metrics}

    def result(self, function, arguments):
        """Of a function, or of what an async one gives in the end."""
        inner = function if inspect.isroutine(function) else getattr(function, "__call__", function)
        if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(inner):
            return self._awaited(lambda: function(**arguments))
        result = function(**arguments)
        return self._awaited(lambda: result) if inspect.isawaitable(result) else result

    def _awaited(self, make):
        """In a thread with a loop of its own: a notebook's main thread has one that runs."""
        if self._thread is None:
            self._thread = concurrent.futures.ThreadPoolExecutor(1, "hone-async-rewards")
            self._loop = asyncio.new_event_loop()

        async def wait():
            return await make()

        def run():
            asyncio.set_event_loop(self._loop)
            return self._loop.run_until_complete(wait())

        return self._thread.submit(run).result()

    def close(self):
        if self._thread is not None:
            self._thread.submit(self._loop.close)
            self._thread.shutdown()
            self._thread = self._loop = None
