"""What hone raises in Python. The text has the sentences of the program's own errors: expected, found, likely cause, what to do."""


class HoneError(RuntimeError):
    """The program ended with an error; `code` is its exit code."""

    def __init__(self, text, code=None):
        super().__init__(text)
        self.code = code


class Refused(HoneError, ValueError):
    """Something that cannot be carried into the program, named before anything starts."""

    def __init__(self, where, expected, found, fix=""):
        self.parts = (where, expected, found, fix)
        super().__init__(f"[{where}] expected {expected}\n  found:  {found}" + (f"\n  do:     {fix}" if fix else ""))


class RefusedType(Refused, TypeError):
    """Where TRL raises a TypeError."""


class RefusedMissing(Refused, NotImplementedError):
    """Where TRL raises a NotImplementedError."""


class RefusedName(Refused, AttributeError):
    """Of a class of hone.trl: a name that TRL's has. hasattr() says False, as of any name that is not there."""
