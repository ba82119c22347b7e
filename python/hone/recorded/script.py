"""Runs a script or a notebook as Python runs it, until its trainer's train()."""
import builtins
import json
import linecache
import os
import re
import sys
import types

from hone.errors import HoneError, Refused
from hone.recorded import libraries, nothing, offline, record

AIM = "a script that reaches its trainer's train()"
OWN_FILE = "write the run into a file of hone's own: hone check SCRIPT --write run.yaml"


class Stopped(Exception):
    """Why a script did not reach train(): the parts of the program's error."""

    def __init__(self, found, where="", expected=AIM, cause="", fix=""):
        super().__init__(found)
        self.parts = {"where": where or os.path.basename(record.SCRIPT), "expected": expected, "found": found, "cause": cause, "fix": fix}


# ---- the code

def is_python(text):
    try:
        compile(text, "cell", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True


def without_magic(lines):
    """(code, lines that are left out) of a cell: shell and magic lines become lines that do nothing."""
    first = next((line for line in lines if line.strip()), "")
    whole = re.match(r"\s*%%(?!capture|time)", first) is not None
    out, left, goes_on = [], 0, False
    for line in lines:
        assigned = re.match(r"(\s*[A-Za-z_]\w*\s*=)\s*[!%]", line)
        gone = whole or goes_on or re.match(r"\s*[%!?]", line) is not None or re.fullmatch(r"\s*[\w.]+\?+\s*", line) is not None
        goes_on = gone and not whole and line.rstrip().endswith("\\")
        left += bool((gone or assigned) and line.strip())
        out.append(re.match(r"\s*", line)[0] + "pass" if gone and not assigned else f"{assigned[1]} []" if assigned else line)
    return "\n".join(out), left


def cells_of(text):
    """(number, code) of a notebook's cells of Python, and how many lines are left out. A cell that is Python has no magic."""
    try:
        cells = json.loads(text)["cells"]
    except (ValueError, KeyError, TypeError):
        raise Stopped("a file that is no notebook", expected="a notebook: JSON with cells") from None
    out, left = [], 0
    for number, cell in enumerate((one for one in cells if one.get("cell_type") == "code"), 1):
        source = cell.get("source") or ""
        code, gone = source if isinstance(source, str) else "".join(source), 0
        if not is_python(code):
            code, gone = without_magic(code.split("\n"))
        left += gone
        out.append((number, code))
    return out, left


def pieces_of(text):
    """[(name, code)] of the script or of a notebook's cells."""
    if not record.SCRIPT.endswith(".ipynb"):
        return [(record.file_name(), text)]
    cells, left = cells_of(text)
    if left:
        record.note("notebook", f"{left} shell or magic {'line is' if left == 1 else 'lines are'} left out")
    return [(record.file_name(number), code) for number, code in cells]


def compiled(name, code):
    try:
        return compile(code, name, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        raise Stopped(f"{type(error).__name__}: {getattr(error, 'msg', error)}", record.place_of(name, line) if line else "", "Python",
                      fix="correct the file") from None


def namespace():
    """The module __main__ of the script, as Python makes it."""
    main = types.ModuleType("__main__")
    main.__file__ = record.SCRIPT
    main.__builtins__ = builtins
    if record.SCRIPT.endswith(".ipynb"):
        main.display, main.get_ipython = print, nothing.Nothing()
    sys.modules["__main__"] = main
    return main


# ---- running it

def run(text):
    """Until train(): the trainer and the file of options. Stopped where that is not reached."""
    pieces = [(name, code, compiled(name, code)) for name, code in pieces_of(text)]
    main = namespace()
    libraries_of_run()
    try:
        for name, code, made in pieces:
            linecache.cache[name] = (len(code), None, code.splitlines(True), name)
            exec(made, main.__dict__)
    except record.Reached as reached:
        return reached
    except BaseException as error:
        if record.Ended.reached is None:
            raise told(error) from error
    if record.Ended.reached is not None:
        return record.Ended.reached
    raise absent()


def libraries_of_run():
    import hone.trl
    from hone.recorded import imports, trainers
    from hone.trl import options
    for method in options.METHODS:  # of scripts that import hone.trl itself
        setattr(hone.trl, f"{method}Trainer", trainers.recorded_class(method))
    imports.install(libraries.made(), libraries.CHANGED)


def absent():
    if record.TRAINERS:
        name, place = record.TRAINERS[-1]
        return Stopped(f"the script ended: it makes {name} ({place}), and does not call train()", fix="call train(), or give the file that calls it")
    return Stopped("the script ended before train(): it makes no trainer of TRL, Unsloth or transformers",
                   cause="its own loop, or a main() that is called only from elsewhere", fix="give the file that makes the trainer and calls train()")


def told(error):
    """An exception of the script as its own, with the place in the script."""
    where = record.place_of_error(error)
    if isinstance(error, SystemExit):
        code = error.code
        said = f", with the exit code {code}" if isinstance(code, int) and code else f": {code}" if code not in (None, 0) else ""
        return Stopped(f"the script ended before train(){said}", where, cause="a missing argument, or a condition of the script's",
                       fix="give its arguments behind --: hone doctor SCRIPT --run -- --name value")
    if isinstance(error, Refused):
        name, expected, found, fix = error.parts
        return Stopped(found, ", ".join(filter(None, (where, name))), expected, fix=fix or OWN_FILE)
    text = f"{type(error).__name__}: {error}".strip().rstrip(":")
    if isinstance(error, HoneError):
        return Stopped(str(error), where)
    cause, fix = "", ""
    offlines = ("offline", "couldn't connect", "connection error", "no network", "localentrynotfound")
    chain = error
    while chain is not None:
        if isinstance(chain, offline.NoNetwork) or any(word in f"{type(chain).__name__}: {chain}".lower() for word in offlines):
            cause, fix = "the script runs offline", "fetch what it reads first, as with `hf download`, or give it the network: --online"
        chain = chain.__cause__ or chain.__context__
    if isinstance(error, ModuleNotFoundError):
        cause, fix = f"Python is {sys.executable}", f"install {error.name} there, or activate the environment that the script runs in"
    return Stopped(text, where, "a script that runs until its trainer's train()", cause, fix or "correct the script; where it asks for what a recorder stands in for, a model or a trainer, write hone's own file")


def begin(message):
    """Of {"script", "folder", "arguments", "online"}: what the process and Python look like to the script."""
    record.SCRIPT, record.FOLDER = os.path.abspath(message["script"]), message["folder"]
    offline.begin(message["online"])
    sys.argv[:] = [message["script"], *message["arguments"]]
    sys.path.insert(0, os.path.dirname(record.SCRIPT))
