"""Python code of a model, in a process of its own with limits. Not a wall: code that is meant to break out may; the limits are for mistakes."""
import os
import shutil
import signal
import subprocess
import sys
import tempfile

SECONDS, MEGABYTES, FILE_MEGABYTES, PROCESSES, MOST_CHARACTERS = 10, 1024, 16, 64, 20000

# What the process runs before the code: limits, no network where the system lets it be shut, and the value of a last expression is shown.
_RUNNER = r'''
import ast, ctypes, os, resource, sys
seconds, megabytes, file_megabytes, processes, shut = map(int, sys.argv[1:6])
if shut:
    library = ctypes.CDLL(None, use_errno=True)
    if library.unshare(0x40000000) != 0:             # CLONE_NEWNET
        library.unshare(0x40000000 | 0x10000000)     # CLONE_NEWUSER
for name, value in (("CPU", seconds), ("AS", megabytes << 20), ("FSIZE", file_megabytes << 20), ("CORE", 0), ("NPROC", processes)):
    limit = getattr(resource, "RLIMIT_" + name)
    try:
        hard = resource.getrlimit(limit)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(limit, (value, value + (name == "CPU" and value != hard)))
    except (OSError, ValueError):
        pass
text = sys.stdin.read()
sys.stdin = open(os.devnull)
sys.argv[:] = ["code.py"]
del seconds, megabytes, file_megabytes, processes, shut, limit, value, hard, name
import linecache, traceback
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


def _counts(uid):
    """Threads that this user has by now: RLIMIT_NPROC is of the user."""
    count = 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if os.stat("/proc/" + name).st_uid == uid:
                    count += len(os.listdir("/proc/" + name + "/task"))
            except OSError:
                pass
    return count


def _cut(text):
    if len(text) <= MOST_CHARACTERS:
        return text
    half = MOST_CHARACTERS // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters left out ...\n{text[len(text) - half:]}"


def network_is_shut():
    """Whether the code has no network here: it is shut off by a namespace of its own, which not every system gives."""
    test = ("import ctypes, os; c = ctypes.CDLL(None, use_errno=True); "
            "os._exit(0 if c.unshare(0x40000000) == 0 or c.unshare(0x50000000) == 0 else 1)")
    return subprocess.run([sys.executable, "-I", "-c", test], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL).returncode == 0


def python(code: str) -> str:
    """Runs Python code in a fresh process and returns what it prints, and the value of its last line.

    Args:
        code: The code. It runs for at most 10 seconds, in an empty folder, without network; nothing is kept between calls.

    Returns:
        What the code has printed.
    """
    folder = tempfile.mkdtemp(prefix="hone-python-")
    output = tempfile.TemporaryFile()
    limits = [SECONDS, MEGABYTES, FILE_MEGABYTES, _counts(os.getuid()) + PROCESSES, 1]
    environment = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": folder, "TMPDIR": folder, "LANG": "C.UTF-8", "PYTHONHASHSEED": "0",
                   "PYTHONIOENCODING": "utf-8:replace", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    try:
        process = subprocess.Popen([sys.executable, "-I", "-X", "utf8", "-c", _RUNNER, *map(str, limits)], cwd=folder, env=environment,
                                   stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        late = False
        try:
            process.communicate(code.encode("utf-8", "replace"), timeout=SECONDS)
        except subprocess.TimeoutExpired:
            late = True
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)  # with what it has started
            except OSError:
                pass
            process.wait()
        output.seek(0)
        text = _cut(output.read(FILE_MEGABYTES << 20).decode("utf-8", "replace"))
    finally:
        output.close()
        shutil.rmtree(folder, ignore_errors=True)
    if late or process.returncode == -signal.SIGXCPU:
        raise TimeoutError(f"{text}\nthe code did not end within {SECONDS} s".strip())
    if process.returncode < 0:
        raise RuntimeError(f"{text}\nthe code was ended by {signal.Signals(-process.returncode).name}".strip())
    if process.returncode:
        raise RuntimeError(text.strip() or f"the code ended with status {process.returncode}")
    return text


def _note():
    return "" if network_is_shut() else "hone.tools.python: this system does not let the network be shut off: the code can reach it"


python.hone_note = _note
