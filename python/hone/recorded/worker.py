"""The process that runs a script, asked by the program: {"do": "run", ...} runs it until train(), {"do": "serve"} answers calls of its functions.

The program starts it as one of its workers (src/commands/recorded). The answer to "run" has {"config", "method", "trainer", "place", "socket",
"notes"} or {"stopped": the parts of an error}. Functions are called in the thread that called train().
"""
import os
import selectors
import signal
import socket
import sys
import types

from hone.recorded import record, script
from hone.trl import child, options


SHARE = 0.9  # of reward_timeout: a function that takes longer ends before the program stops waiting for it


def late(*_):
    raise TimeoutError("it took longer than reward_timeout")


class Served(child.Child):
    """The trainer's functions for the program, which is no child of this process but its parent."""

    def __init__(self, trainer):
        super().__init__([], trainer._answer)
        self.process = types.SimpleNamespace(poll=lambda: None)
        rows = options.rows(options.METHODS[trainer._name])
        self.limit = SHARE * float(trainer._settings.get("reward_timeout") or rows.get("reward_timeout", {}).get("default") or 60)
        signal.signal(signal.SIGALRM, late)
        folder = record.FOLDER if len(os.fsencode(record.FOLDER)) < child.MOST_NAME - 8 else child.own_folder()
        self.path = os.path.join(folder, "caller")
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(64)

    def serve_for_ever(self):
        with selectors.DefaultSelector() as self.selector:
            self.selector.register(self.listener, selectors.EVENT_READ, self.accept)
            self.serve()

    def reply(self, message):
        """Only questions are answered: events are of a run that trains. What a function raises does not end the calls."""
        if "ask" not in message:
            return {"stop": False}
        self.failure = None
        signal.setitimer(signal.ITIMER_REAL, self.limit)
        try:
            return super().reply(message)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)


class Worker:
    served = None

    def answer(self, message):
        if message["do"] == "run":
            return self.run(message)
        self.served.serve_for_ever()
        return {}

    def run(self, message):
        try:
            script.begin(message)
            reached = script.run(message["text"])
        except script.Stopped as stopped:
            return {"stopped": stopped.parts, "notes": record.NOTES}
        trainer = reached.trainer
        self.served = Served(trainer)
        trainer._program = self.served
        keep_quiet()
        return {"config": reached.path, "method": options.METHODS[trainer._name], "trainer": type(trainer).__name__, "place": record.TRAINERS[-1][1],
                "socket": self.served.path, "notes": record.NOTES}


def keep_quiet():
    """What functions print from now on goes to a file: nobody reads the pipe while the program examines the run."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    file = os.open(os.path.join(record.FOLDER, "printed.txt"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)
