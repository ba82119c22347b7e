"""One run of the program as a child of this process: its output, its questions, its end.

One thread, the caller's, does everything in turn: it forwards what the program prints, answers its events and calls of functions, and waits for
its end. The program has a session of its own, so that a Ctrl-C at the terminal reaches it once, from here.
"""
import codecs
import json
import os
import selectors
import shutil
import signal
import site
import socket
import subprocess
import sys
import tempfile
import threading

from hone import program

INTERRUPTED, PAUSED = 130, 3
GLANCE = 0.2   # seconds between looks at whether it has ended
GRACE = 10     # seconds that it has to end in, when this process's own code has raised
MOST_NAME = 100  # bytes of a socket's name


def own_folder():
    folder = tempfile.mkdtemp(prefix="hone-")  # 0700
    if len(os.fsencode(folder)) > MOST_NAME - 8:
        shutil.rmtree(folder)
        folder = tempfile.mkdtemp(prefix="hone-", dir="/tmp")
    return folder


def is_own_stream(stream, usual, descriptor):
    """Whether what the child writes to `descriptor` is seen where this stream is."""
    try:
        return stream is usual and stream.fileno() == descriptor
    except (OSError, ValueError, AttributeError):
        return False


def environment(socket_path, base=None):
    out = program.environment(base=base)
    out["HONE_CALLER"] = socket_path
    # The workers import hone.caller: from where this process has it, if it is not installed.
    here = str(program.PACKAGE.parent)
    installed = [os.path.realpath(folder) for folder in [*site.getsitepackages(), site.getusersitepackages()]]
    if os.path.realpath(here) not in installed:
        out["PYTHONPATH"] = os.pathsep.join([p for p in [out.get("PYTHONPATH")] if p] + [here])
    return out


class ProgramEnded(BaseException):
    """The program has gone while this process's own code waited for it: what it said is its error."""


class Output:
    """Bytes of a pipe as text for a stream. With `holds`, what comes after a line that begins with it is kept instead."""

    def __init__(self, stream, holds=None):
        self.stream, self.holds = stream, holds
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.line, self.held = "", None

    def take(self, data, end=False):
        text = self.decoder.decode(data, end)
        if self.held is not None:
            self.held += text
        elif self.holds is None:
            self.show(text)
        else:
            self.take_lines(text, end)

    def take_lines(self, text, end):
        *lines, self.line = (self.line + text).split("\n")
        if end and self.line:
            lines, self.line = lines + [self.line], ""
        for at, line in enumerate(lines):
            if line.startswith(self.holds):
                self.held = "\n".join(lines[at:] + [self.line])
                self.line = ""
                return
            self.show(line + "\n")

    def show(self, text):
        if text:
            self.stream.write(text)
            self.stream.flush()


class Connection:
    """Lines of JSON from a process of the run."""

    def __init__(self, end):
        self.socket = end
        self.data = b""
        self.is_asked = False  # it answers a question of ours: what comes is no question of its own
        self.answers = []

    def messages(self):
        """Those that are complete; None when the other end is closed."""
        try:
            data = self.socket.recv(1 << 20)
        except OSError:
            data = b""
        if not data:
            return None
        *lines, self.data = (self.data + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def answer(self, message):
        try:
            self.socket.sendall(json.dumps(message, default=str).encode() + b"\n")
        except OSError:
            pass  # it has ended; so does the loop


class Child:
    """`answer(message)` replies to each message of the run (caller_link.h, hone/caller.py); what it raises ends the run, and is raised here."""

    def __init__(self, arguments, answer):
        self.arguments = arguments
        self.answer = answer
        self.interrupts = 0
        self.process = None
        self.failure = None
        self.answering = None  # the connection whose question is being answered
        self.error = Output(sys.stderr, holds="hone: ")
        self.selector = None

    # ---- signals

    def interrupt(self, *_):
        """The first asks the program to finish its step and to save, the second ends it at once."""
        self.interrupts += 1
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        if self.interrupts > 1:
            raise KeyboardInterrupt

    # ---- the run

    def run(self):
        """Its exit code; KeyboardInterrupt after a Ctrl-C. Nothing of it is left when this returns."""
        folder = own_folder()
        in_main = threading.current_thread() is threading.main_thread()
        before = signal.signal(signal.SIGINT, self.interrupt) if in_main else None
        try:
            with selectors.DefaultSelector() as self.selector, socket.socket(socket.AF_UNIX) as listener:
                path = os.path.join(folder, "caller")
                listener.bind(path)
                listener.listen(64)
                self.selector.register(listener, selectors.EVENT_READ, self.accept)
                self.start(path)
                try:
                    self.serve()
                finally:
                    self.end()
        finally:
            if in_main:
                signal.signal(signal.SIGINT, before if before is not None else signal.default_int_handler)
            shutil.rmtree(folder, ignore_errors=True)
        if self.failure is not None:
            raise self.failure
        if self.interrupts:
            raise KeyboardInterrupt
        return self.process.returncode

    def start(self, socket_path):
        sys.stdout.flush()
        shares = is_own_stream(sys.stdout, sys.__stdout__, 1)
        self.process = subprocess.Popen(
            [program.path(), *self.arguments], env=environment(socket_path), stdin=subprocess.DEVNULL,
            stdout=None if shares else subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        self.watch(self.process.stderr, self.error)
        if not shares:
            self.watch(self.process.stdout, Output(sys.stdout))

    def watch(self, pipe, output):
        def take(_):
            data = os.read(pipe.fileno(), 1 << 16)
            output.take(data, end=not data)
            if not data:
                self.selector.unregister(pipe)

        self.selector.register(pipe, selectors.EVENT_READ, take)

    def accept(self, listener):
        end, _ = listener.accept()
        connection = Connection(end)

        def take(_):
            messages = connection.messages()
            if messages is None:
                self.selector.unregister(end)
                end.close()
            if connection.is_asked:
                connection.answers += [None] if messages is None else messages
                return
            for message in messages or ():
                before, self.answering = self.answering, connection
                try:
                    reply = self.reply(message)
                finally:
                    self.answering = before
                connection.answer(reply)

        self.selector.register(end, selectors.EVENT_READ, take)

    def reply(self, message):
        if self.failure is not None:
            return {"stop": True, "raised": "the caller has raised"}
        try:
            return self.answer(message)
        except ProgramEnded:
            return {"stop": True, "raised": "the program has ended"}
        except BaseException as error:
            self.failure = error
            return {"stop": True, "raised": f"{type(error).__name__}: {error}"[:300]}

    def ask(self, message):
        """From within an answer: asks the process that waits for it; what that says. ProgramEnded where it says nothing any more."""
        connection = self.answering
        connection.is_asked = True
        try:
            connection.answer(message)
            self.serve(until=lambda: connection.answers)
        finally:
            connection.is_asked = False
        answer = connection.answers.pop(0) if connection.answers else None
        if answer is None:
            raise ProgramEnded
        return answer

    def serve(self, until=lambda: False):
        while not until():
            ended = self.process.poll() is not None
            ready = self.selector.select(0 if ended else GLANCE)
            for key, _ in ready:
                key.data(key.fileobj)
            if ended and not ready:
                return

    def end(self):
        """Ends a program that still runs: this process's own code has raised."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(GRACE)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()
        for key in list(self.selector.get_map().values()):
            if isinstance(key.fileobj, socket.socket):
                self.selector.unregister(key.fileobj)
                key.fileobj.close()

    def error_text(self):
        text = (self.error.held or "").strip()
        return text.removeprefix("hone: ")
