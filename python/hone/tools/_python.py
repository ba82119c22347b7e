"""Python code of a model, in a process of its own with limits. Not a wall: code that is meant to break out may; the limits are for mistakes."""
import signal

from hone.tools import _sandbox

SECONDS, MEGABYTES, FILE_MEGABYTES, PROCESSES, MOST_CHARACTERS = 10, 1024, 16, 64, 20000

# Shows the value of a last expression; tracebacks begin in the code.
_RUNNER = r'''
import ast, linecache, traceback
sys.argv[:] = ["code.py"]
linecache.cache["code.py"] = (len(text), None, text.splitlines(True), "code.py")
try:
    tree = ast.parse(text, "code.py")
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    space = {"__name__": "__main__", "__builtins__": __builtins__}
    exec(compile(tree, "code.py", "exec"), space)
    if last is not None:
        value = eval(compile(ast.Expression(last.value), "code.py", "eval"), space)
        if value is not None:
            print(repr(value))
except SystemExit:
    raise
except BaseException as error:
    sys.stdout.flush()
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != "code.py":
        trace = trace.tb_next
    traceback.print_exception(type(error), error, trace)
    sys.exit(1)
'''


def _cut(text):
    if len(text) <= MOST_CHARACTERS:
        return text
    half = MOST_CHARACTERS // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters left out ...\n{text[len(text) - half:]}"


def python(code: str) -> str:
    """Runs Python code in a fresh process and returns what it prints, and the value of its last line.

    Args:
        code: The code. It runs for at most 10 seconds, in an empty folder, without network; nothing is kept between calls.

    Returns:
        What the code has printed.
    """
    ended = _sandbox.run(_RUNNER, code, seconds=SECONDS, megabytes=MEGABYTES, file_megabytes=FILE_MEGABYTES, processes=PROCESSES)
    text = _cut(ended.output.decode("utf-8", "replace"))
    if ended.late:
        raise TimeoutError(f"{text}\nthe code did not end within {SECONDS} s".strip())
    if ended.status < 0:
        raise RuntimeError(f"{text}\nthe code was ended by {signal.Signals(-ended.status).name}".strip())
    if ended.status:
        raise RuntimeError(text.strip() or f"the code ended with status {ended.status}")
    return text


def _note():
    reached = _sandbox.what_is_open()
    return f"hone.tools.python: this system does not let the code be shut in: it reaches {', and '.join(reached)}" if reached else ""


python.hone_note = _note
