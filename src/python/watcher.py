# What `python -c` is given (program.h): two processes, the watcher, which hone has started, and its child, the worker.
# Whatever the worker's code starts, the watcher is above it (a subreaper gets the orphans of its descendants), so that
# nothing outlives the worker or hone, also what has left the process group. The watcher runs no code of the user and
# has one thread, so that PR_SET_PDEATHSIG holds for the worker.
#
# Its descriptor LIFE: a byte says "end all at once"; the end of the stream, that hone has ended: the worker has two
# seconds for Python's own clean-up. PIPE, LIFE, SIZE, MOST_BYTES and ME are assigned above this text.
#
# Modules are looked for without the working folder and PYTHONPATH until the worker has imported its own. The first
# lines are also read by a Python 2, which they tell what is wrong.
import os, sys
if sys.version_info < (3, 8): sys.exit('this is Python ' + sys.version.split()[0])
os.closerange(LIFE + 1, 4096)
PATH = [p for p in sys.path if p]
LIBRARY = os.path.dirname(getattr(os, '__file__', '') or '')
added = [os.path.abspath(p) for p in os.environ.get('PYTHONPATH', '').split(os.pathsep) if p]
sys.path[:] = [p for p in PATH if os.path.abspath(p) not in added or (LIBRARY and p.startswith(LIBRARY))]

def control(*values):
    try:
        import ctypes
        ctypes.CDLL(None).prctl(*[ctypes.c_ulong(v) for v in values + (0,) * (5 - len(values))])
    except Exception:
        pass  # a Python without ctypes: its process group only

def descendants():
    parents = {}
    for name in os.listdir('/proc'):
        if name.isdigit():
            try:
                with open('/proc/' + name + '/stat', 'rb') as stat:
                    text = stat.read()
                parents[int(name)] = int(text[text.rindex(b')') + 2:].split()[1])
            except (OSError, ValueError, IndexError):
                pass
    found, fresh = set(), {os.getpid()}
    while fresh:
        fresh = {child for child, parent in parents.items() if parent in fresh} - found
        found |= fresh
    return found

def reap():
    """Statuses of children that have ended; None when there are no children."""
    ended = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended or None
        if pid == 0:
            return ended
        ended[pid] = status

def end_all():
    import time
    last = time.monotonic() + 2
    while time.monotonic() < last:
        for pid in descendants():
            try:
                os.kill(pid, 9)
            except OSError:
                pass
        if reap() is None:
            break
        time.sleep(0.002)

def watch(worker):
    import select, signal, time
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)
    told = []
    wake, woken = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda *_: told.append(True))
    watched, last = [LIFE, wake], None
    status = None
    while not told:
        ended = reap() or {}
        if worker in ended:
            status = ended[worker]
            break
        wait = None if last is None else last - time.monotonic()
        if wait is not None and wait <= 0:
            break
        ready = select.select(watched, [], [], wait)[0]
        if wake in ready:
            os.read(wake, 4096)
        if LIFE in ready:
            if os.read(LIFE, 1):
                break
            watched, last = [wake], time.monotonic() + 2
    end_all()
    if last is not None:
        os.killpg(os.getpgrp(), 9)
    if told:
        status = signal.SIGTERM
    if status is not None and os.WIFSIGNALED(status):
        try:
            import resource
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        except Exception:
            pass
        try:
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        except (OSError, ValueError):
            pass
        os.kill(os.getpid(), os.WTERMSIG(status))
        time.sleep(1)
    os._exit(0 if status is None else os.WEXITSTATUS(status))

def read_text():
    text = b''
    while len(text) < SIZE:
        part = os.read(PIPE, SIZE - len(text))
        if not part:
            os._exit(1)
        text += part
    return text

control(36, 1)  # PR_SET_CHILD_SUBREAPER
watcher = os.getpid()
worker = os.fork()
if worker:
    os.close(PIPE)
    try:
        watch(worker)
    finally:
        os._exit(1)
control(1, 9)  # PR_SET_PDEATHSIG
if os.getppid() != watcher: os._exit(1)
os.close(LIFE)
exec(compile(read_text(), ME, 'exec'),
     {'__name__': 'hone_worker', 'PIPE': PIPE, 'MOST_BYTES': MOST_BYTES, 'PATH': PATH, 'LIBRARY': LIBRARY, 'ME': ME})
