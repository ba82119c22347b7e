"""Reward functions of the program that called hone (hone.trl), as functions of a reward worker: `hone.caller.NAME`.

The worker imports this module, which asks that program for its functions, over the Unix socket that HONE_CALLER names, and hands each
call on to it. Lines of JSON; NaN and infinities are written as Python writes them.

  {"ask": "functions"}                                    -> {"functions": [{"name", "parameters": [[name, kind, has default]] | null}]}
  {"ask": "call", "name", "arguments": {...}, "state"}    -> {"result": ..., "extra": [[column, values]], "metrics": [[name, value]]}
                                                             or {"raised": text}: hone ends the run, and the caller raises it
"""
import inspect
import json
import os
import socket
import sys

_channel = None


class CallerError(Exception):
    """Ends the run: `hone_fault` has the sentences of hone's error (expected, found, cause, what to do)."""

    def __init__(self, found, cause="", fix=""):
        super().__init__(found)
        self.hone_fault = ("a score for each completion, from the program that called hone", found, cause, fix)


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


def _load():
    functions = _ask({"ask": "functions"})["functions"]
    for entry in functions:
        setattr(sys.modules[__name__], entry["name"], _function(entry))


if os.environ.get("HONE_CALLER"):
    _load()
else:
    raise CallerError("no program has called hone", "hone.caller holds the functions of a Python program that runs hone.trl")
