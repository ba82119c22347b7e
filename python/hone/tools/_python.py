"""Python code of a model, in a process of its own with limits. Not a wall: code that is meant to break out may; the limits are for mistakes."""
import os
import shutil
import signal
import subprocess
import sys
import tempfile

SECONDS, MEGABYTES, FILE_MEGABYTES, PROCESSES, MOST_CHARACTERS = 10, 1024, 16, 64, 20000

# Namespaces of the process. What root may do by itself needs CLONE_NEWUSER from others.
_SPACES = r'''
import ctypes, os, resource, signal
library = ctypes.CDLL(None, use_errno=True)
library.mount.argtypes = [ctypes.c_char_p] * 3 + [ctypes.c_ulong, ctypes.c_char_p]
NETWORK, PROCESSES, MOUNTS, USER = 0x40000000, 0x20000000, 0x20000, 0x10000000

def without_network():
    return library.unshare(NETWORK) == 0 or library.unshare(NETWORK | USER) == 0

def alone():
    """Goes on in a process that sees and reaches none but those that it starts, which end with it, and has no network. The process that was
    called ends as that one does. False: the system does not give that."""
    spaces = NETWORK | PROCESSES | MOUNTS
    if library.unshare(spaces) != 0 and library.unshare(spaces | USER) != 0:
        return False
    ours, theirs = os.pipe()
    first = os.fork()
    if first:
        os.close(theirs)
        status = int(os.read(ours, 64) or signal.SIGKILL)  # nothing: the first process of the namespace was killed
        os.waitpid(first, 0)
        if os.WIFSIGNALED(status):
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            if os.WTERMSIG(status) != signal.SIGKILL:
                signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
            os.kill(os.getpid(), os.WTERMSIG(status))
        os._exit(os.WEXITSTATUS(status))
    os.close(ours)
    library.prctl(1, 9, 0, 0, 0)  # PR_SET_PDEATHSIG; all of a namespace end with its first process
    # MS_REC | MS_PRIVATE, so that nothing outside is mounted over; then MS_NOSUID | MS_NODEV | MS_NOEXEC.
    hidden = library.mount(None, b"/", None, 0x4000 | 0x40000, None) == 0 and (
        library.mount(b"proc", b"/proc", b"proc", 14, None) == 0 or library.mount(b"none", b"/proc", b"tmpfs", 14, None) == 0)
    code = os.fork()
    if code:
        ended = 0
        while ended != code:
            ended, status = os.wait()
        os.write(theirs, str(status).encode())
        os._exit(0)
    os.close(theirs)
    return hidden
'''

# What the process runs before the code: limits, a namespace of its own where the system gives one, and the value of a last expression is shown.
_RUNNER = _SPACES + r'''
import ast, sys
seconds, megabytes, file_megabytes, processes, shut = map(int, sys.argv[1:6])
if shut and not alone():
    without_network()
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


def what_is_open():
    """What the code reaches on this system, which does not give every namespace: a list of texts, empty where it is shut in."""
    test = _SPACES + "os._exit(0 if alone() else 3 if without_network() else 4)"
    status = subprocess.run([sys.executable, "-I", "-c", test], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL).returncode
    processes = "your processes, which it can end, and whose environment variables (API keys) it can read"
    return {0: [], 3: [processes]}.get(status, ["the network", processes])


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
    reached = what_is_open()
    return f"hone.tools.python: this system does not let the code be shut in: it reaches {', and '.join(reached)}" if reached else ""


python.hone_note = _note
