"""What a case is, and how the modules of cases list theirs."""
import dataclasses
import typing


@dataclasses.dataclass
class Fault:
    code: str     # the class that must be named
    name: str     # how it is injected, for the table
    build: typing.Callable
    command: tuple = ("doctor",)
    level: str = "fail"    # at least
    exactly: bool = False  # no worse either
    before: tuple = ()     # commands that come first and must succeed, or functions of the place
    broken: str = ""        # HONE_BREAK: the kernel that dies on this machine
    cause: str = ""        # what the verdict's cause or text holds: the neighbor case has the same code and another cause
    varies: bool = False   # its numbers depend on the machine
    excluded: bool = False  # by design: no way to inject it; the doctor says so, and the catalogue names the test that proves it


@dataclasses.dataclass
class Healthy:
    name: str
    build: typing.Callable
    family: str = "llama"
    deep: tuple = ()
    before: tuple = ()
    slow: bool = False
    quiet: bool = True  # no warning either
    without: str = ""   # no verdict of these classes, of no level


class Outcome:
    """A line of TAP, and a row of the table."""

    def __init__(self, ok, name, row=None, detail=""):
        self.ok, self.name, self.row, self.detail = ok, name, row, detail

    def text(self):
        return ("ok " if self.ok else "not ok ") + self.name + (f"\n{self.detail}" if not self.ok and self.detail else "")


class Cases(list):
    """`@CASES.fault("GRAD-06", "...")` on a function of a Scene adds it."""

    def fault(self, code, name, *command, level="fail", exactly=False, before=(), broken="", cause="", varies=False):
        def add(build):
            self.append(Fault(code, name, build, command or ("doctor",), level, exactly, before, broken, cause, varies))
            return build
        return add

    def exclude(self, code, name):
        self.append(Fault(code, name, None, excluded=True))

    def healthy(self, name, family="llama", deep=(), before=(), slow=False, quiet=False, without=""):
        def add(build):
            self.append(Healthy(name, build, family, deep, before, slow, quiet, without))
            return build
        return add
