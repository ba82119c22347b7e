"""Runs a program with file_calls.c before it: counts its calls that change files, and meddles with one of them."""
import atexit
import dataclasses
import errno
import os
import pathlib
import shutil
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
LIMIT_S = 120


@dataclasses.dataclass
class Done:
    """How a program ended. `calls` are (name, path), in order."""
    code: int
    out: str
    err: str
    calls: list

    def said(self):
        return f"exit {self.code}\n{self.out[-1500:]}\n{self.err[-1500:]}"


class Meddler:
    """The built library, and a folder for its logs."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="hone_calls_"))
        atexit.register(shutil.rmtree, self.folder, ignore_errors=True)
        self.library = self.folder / "file_calls.so"
        subprocess.run([os.environ.get("CC", "gcc"), "-shared", "-fPIC", "-O1", "-o", self.library, HERE / "file_calls.c", "-ldl"],
                       check=True)
        self.count = 0

    def run(self, words, below, act="count", at=0, error=errno.ENOSPC, short=False):
        """Runs `words`; only calls on the folder `below` and in it count."""
        log, environment = self.environment(words[0], below, act, at, error)
        if short:
            environment["HONE_CALLS_SHORT"] = "1"
        done = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False, env=environment,
                              timeout=LIMIT_S, stdin=subprocess.DEVNULL)
        return Done(done.returncode, done.stdout, done.stderr, self.calls(log))

    def environment(self, program, below, act="count", at=0, error=errno.ENOSPC):
        """A log that is not there yet, and the environment of a `program` that writes it."""
        self.count += 1
        log = self.folder / f"{os.getpid()}_{self.count}.log"
        return log, {**os.environ, "NO_COLOR": "1", "LD_PRELOAD": str(self.library), "HONE_CALLS_FOLDER": str(below),
                     "HONE_CALLS_PROGRAM": str(pathlib.Path(program).resolve()), "HONE_CALLS_LOG": str(log), "HONE_CALLS_AT": str(at),
                     "HONE_CALLS_ACT": act, "HONE_CALLS_ERRNO": str(error), "XDG_CACHE_HOME": str(self.folder / "cache")}

    @staticmethod
    def calls(log):
        """The (name, path) of each line of a log, which is removed."""
        if not log.exists():
            return []
        calls = [tuple(line.split(" ", 2)[1:]) for line in log.read_text(errors="replace").splitlines()]
        log.unlink()
        return calls
