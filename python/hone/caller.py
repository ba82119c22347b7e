"""Functions of the program that called hone (hone.trl), as those of a worker: rewards `hone.caller.NAME`, tools `hone.caller:tools.NAME` and
environments `hone.caller:environments.NAME`.

The worker imports this module, which asks that program for its functions, over the Unix socket that HONE_CALLER names, and hands each
call on to it. Lines of JSON; NaN and infinities are written as Python writes them.

  {"ask": "functions"}                                    -> {"functions": [{"name", "parameters": [[name, kind, has default]] | null}]}
  {"ask": "call", "name", "arguments": {...}, "state"}    -> {"result": ..., "extra": [[column, values]], "metrics": [[name, value]]}
                                                             or {"raised": text}: hone ends the run, and the caller raises it
  in the reply to "functions": "rollout": bool, "tools": [{"name", "schema", "module", "qualname"}],
                               "environments": [{"key", "class", "reward": bool, "seed": bool, "tools": [as above]}]
  {"ask": "tool", "name", "arguments"}                    -> {"result": text or blocks}, {"error", "kind", "place"} or {"raised": text}
  {"ask": "rollout", "prompts", "about"}                  -> {"result": {...}} or {"raised": text}; before that, as often as it likes,
                                                             {"generate": {...}}, which {"rolled": {...}} answers
  {"ask": "make", "key", "number", "again"}               -> {"result": null} or {"raised": text}
  {"ask": "reset" | "method" | "reward", "key", "number", "name", "arguments"}  -> as above
"""
import inspect
import json
import os
import socket
import sys
import types

_channel = None


class CallerError(Exception):
    """Ends the run: `hone_fault` has the sentences of hone's error (expected, found, cause, what to do)."""

    def __init__(self, found, cause="", fix=""):
        super().__init__(found)
        self.hone_fault = ("an answer of the program that called hone", found, cause, fix)


class _Odd:
    """A value that is no number, with the text that the caller's value has."""

    def __init__(self, text):
        self.text = text

    def __repr__(self):
        return self.text


class _Channel:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.lines = self.socket.makefile("rb")

    def ask(self, message):
        self.socket.sendall(json.dumps(message, default=str).encode() + b"\n")
        line = self.lines.readline()
        if not line:
            raise CallerError("it has closed the connection", "it has ended, or was killed")
        return json.loads(line)


def _ask(message):
    global _channel
    if _channel is None:
        path = os.environ.get("HONE_CALLER")
        if not path:
            raise CallerError("no program has called hone", "hone.caller holds the functions of a Python program that runs hone.trl",
                              "start that program, or name a function of a file: path/to/file.py:function")
        try:
            _channel = _Channel(path)
        except OSError as error:
            raise CallerError(f"{path}: {error.strerror}", "the program that called hone has ended") from None
    return _channel.ask(message)


def _function(entry):
    name = entry["name"]

    def call(trainer_state, log_extra, log_metric, **arguments):
        reply = _ask({"ask": "call", "name": name, "arguments": arguments, "state": vars(trainer_state)})
        if "raised" in reply:
            raise CallerError(reply["raised"])
        for column, values in reply["extra"]:
            log_extra(column, values)
        for metric, value in reply["metrics"]:
            log_metric(metric, value)
        result = reply["result"]
        if isinstance(result, list):
            return [_Odd(value["odd"]) if isinstance(value, dict) else value for value in result]
        return result

    def judge(prompts, completions):
        reply = _ask({"ask": "call", "name": name, "arguments": {"prompts": prompts, "completions": completions}, "state": {}})
        if "raised" in reply:
            raise CallerError(reply["raised"])
        return reply["result"]

    out = judge if entry.get("judge") else call
    out.__name__ = out.__qualname__ = name
    if entry["parameters"] is not None and not entry.get("judge"):
        kinds = inspect.Parameter
        out.__signature__ = inspect.Signature([
            inspect.Parameter(parameter, getattr(kinds, kind), default=None if has_default else kinds.empty)
            for parameter, kind, has_default in entry["parameters"]])
    return out


# ---- tools and environments

def _result(reply):
    """What a tool gave, or its exception: of the caller's type by name, with its text."""
    if "raised" in reply:
        raise CallerError(reply["raised"])
    if "error" in reply:
        error = type(reply["kind"], (Exception,), {})(reply["error"])
        error.hone_place = reply["place"]
        raise error
    return reply["result"]


def _named(function, entry):
    """With the names that Python's own errors have for the caller's function."""
    function.__name__, function.__qualname__, function.__module__ = entry["name"], entry["qualname"], entry["module"]
    function.hone_schema = entry["schema"]
    return function


def _tool(entry):
    def call(**arguments):
        return _result(_ask({"ask": "tool", "name": entry["name"], "arguments": arguments}))

    return _named(call, entry)


def _environment(entry):
    """A factory of objects that stand for the caller's, each by its number."""
    def ask(self, what, **more):
        return _result(_ask({"ask": what, "key": entry["key"], "number": self._number, **more}))

    def start(self, number, again):
        self._number = number
        ask(self, "make", again=again)

    def method(tool):
        def call(self, **arguments):
            return ask(self, "method", name=tool["name"], arguments=arguments)

        return _named(call, tool)

    def reset(self, **row):
        return ask(self, "reset", arguments=row)

    if entry["seed"]:
        kinds = inspect.Parameter
        reset.__signature__ = inspect.Signature([kinds("self", kinds.POSITIONAL_ONLY), kinds("seed", kinds.KEYWORD_ONLY), kinds("row", kinds.VAR_KEYWORD)])

    def get_reward(self):
        return ask(self, "reward")

    members = {"__init__": start, "reset": reset, **{tool["name"]: method(tool) for tool in entry["tools"]}}
    if entry["reward"]:
        members["get_reward"] = get_reward
    return type(entry["class"], (), {**members, "hone_takes_place": True})


# ---- rollouts

def _rollout(prompts, trainer):
    """The caller's rollout_func, which that process has checked; what it asks for meanwhile goes to the program."""
    message = {"ask": "rollout", "prompts": prompts, "about": {name: value for name, value in trainer.hone_about.items() if name != "options"}}
    while True:
        reply = _ask(message)
        if "raised" in reply:
            raise CallerError(reply["raised"])
        if "generate" not in reply:
            return reply["result"]
        try:
            message = {"rolled": {"completions": trainer.hone_generated(reply["generate"])}}
        except ValueError as error:
            if not hasattr(error, "hone_refused"):
                raise
            message = {"rolled": {"refused": error.hone_refused}}


_rollout.hone_checked = True


def _load():
    told = _ask({"ask": "functions"})
    module = sys.modules[__name__]
    for entry in told["functions"]:
        setattr(module, entry["name"], _function(entry))
    if told.get("rollout"):
        module.rollout = _rollout
    module.tools = types.SimpleNamespace(**{entry["name"]: _tool(entry) for entry in told.get("tools", ())})
    module.environments = types.SimpleNamespace(**{entry["key"]: _environment(entry) for entry in told.get("environments", ())})


if os.environ.get("HONE_CALLER"):
    _load()
else:
    raise CallerError("no program has called hone", "hone.caller holds the functions of a Python program that runs hone.trl")
