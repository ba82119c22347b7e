"""A process of its own for code that a model has written, with limits. The code reward of the program uses this text too: standard library only.

Not a wall against code that is made to break out: what holds depends on what the system gives (what_is_open).
"""
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile

FOLDERS = "hone-python-"  # what the names of folders begin with; then comes the process that has made it, whose end may leave it behind

REACHED = {"network": "the network", "processes": "your processes, which it can end, and whose environment variables (API keys) it can read",
           "files": "your files, which it can change"}

# What the process runs before the code. What root may do by itself needs CLONE_NEWUSER from others.
_SPACES = r'''
import ctypes, os, resource, signal, sys
library = ctypes.CDLL(None, use_errno=True)
library.mount.argtypes = [ctypes.c_char_p] * 3 + [ctypes.c_ulong, ctypes.c_char_p]
library.syscall.restype = ctypes.c_long
NETWORK, PROCESSES, MOUNTS, SHARED, USER = 0x40000000, 0x20000000, 0x20000, 0x08000000, 0x10000000

def without_network():
    return library.unshare(NETWORK) == 0 or library.unshare(NETWORK | USER) == 0

def alone():
    """Goes on in a process that sees and reaches none but those that it starts, which end with it, and has no network. The process that was
    called ends as that one does. False: the system does not give that."""
    spaces = NETWORK | PROCESSES | MOUNTS | SHARED
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
    if hidden and kernel() >= (6, 14):  # before that the number is the whole system's
        try:
            with open("/proc/sys/kernel/pid_max", "w") as file:
                file.write("400")
        except OSError:
            pass
    return hidden

def kernel():
    try:
        return tuple(map(int, os.uname().release.split("-")[0].split(".")[:2]))
    except ValueError:
        return (0, 0)

class Attributes(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "user")]

def change_mount(path, given, taken, flags):  # mount_setattr, of Linux 5.12
    attributes = Attributes(given, taken, 0, 0)
    return library.syscall(ctypes.c_long(442), ctypes.c_long(-100), ctypes.c_char_p(path), ctypes.c_long(flags), ctypes.byref(attributes),
                           ctypes.c_size_t(32)) == 0

def closed_folder(path):
    """The first folder of the path that only its owner can enter; None: there is none."""
    parts = path.strip("/").split("/")
    above = ["/" + "/".join(parts[:count]) for count in range(1, len(parts) + 1)]
    return next((one for one in above if not os.stat(one).st_mode & 1), None)

def open_python():
    """After alone(), as root: where Python lies in a folder that only root can enter, such as /root, that folder shows Python and nothing else."""
    folder = os.getcwd()
    places = sorted({os.path.realpath(one) for one in (sys.prefix, sys.base_prefix, *sys.path, folder) if os.path.isdir(one)})
    places = [one for one in places if not any(one.startswith(other + "/") for other in places)]
    closed = {}
    for place in places:
        closed.setdefault(closed_folder(place), []).append((place, os.open(place, os.O_PATH | os.O_DIRECTORY)))
    for top, inside in closed.items():
        if top is not None and any(place not in (top, folder) for place, _ in inside):
            library.mount(b"none", top.encode(), b"tmpfs", 6, b"size=1m,mode=0755")
            for place, file in inside:
                os.makedirs(place, exist_ok=True)
                library.mount(f"/proc/self/fd/{file}".encode(), place.encode(), None, 0x1000 | 0x4000, None)  # MS_BIND | MS_REC
        for _, file in inside:
            os.close(file)
    os.chdir(folder)

def only_this_folder(megabytes):
    """After alone(): the working folder, of so many megabytes in memory, is all that can be written. False: the system does not give that."""
    if os.getuid() == 0:
        try:
            open_python()
        except OSError:
            pass
    here = os.getcwd().encode()
    options = f"size={megabytes}m,nr_inodes=10000,mode=0777".encode()
    own = []
    for folder in (b"/dev/shm", here):  # in this order: the working folder may be in the other one
        os.makedirs(folder, exist_ok=True)
        if library.mount(b"none", folder, b"tmpfs", 6, options) == 0:  # MS_NOSUID | MS_NODEV
            own.append(folder)
    os.chdir(here)
    return change_mount(b"/", 1, 0, 0x8000) and all(change_mount(folder, 0, 1, 0) for folder in own) and here in own

def as_nobody(user):
    """Root becomes a user who owns nothing: the kernel limits the processes of any user but root. False: not root, or the system does not
    let it, or that user could not read Python's modules."""
    if os.getuid() != 0:
        return False
    places = [place for place in sys.path if os.path.isdir(place)]
    try:
        os.chmod(".", 0o777)
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, 0)
        for place in places:
            os.close(os.open(place, os.O_RDONLY | os.O_DIRECTORY))
        os.setresuid(user, user, user)
        return True
    except OSError:
        try:
            os.setresuid(0, 0, 0)
            os.setresgid(0, 0, 0)
        except OSError:
            pass
        return False

def without_rights():
    """Neither this process nor what it starts can have a capability, or trace a process that had one."""
    library.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
    if hasattr(library, "capset"):
        library.capset((ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)())

def limited(limits):
    """`limits`: {"CPU": seconds, "AS": bytes, ...}, never above what the system has set. The second of CPU more is for SIGXCPU to be seen."""
    for name, value in limits.items():
        limit = getattr(resource, "RLIMIT_" + name)
        try:
            hard = resource.getrlimit(limit)[1]
            value = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(limit, (value, value + (name == "CPU" and value != hard)))
        except (OSError, ValueError):
            pass

def shut_in(megabytes):
    """What the process reaches all the same: some of "network", "processes", "files"; and whether its user is its own."""
    user = 62000 + os.getpid() % 3000
    inside = alone()
    network = inside or without_network()
    files = inside and only_this_folder(megabytes)
    nobody = as_nobody(user)
    without_rights()
    shut = {"network": network, "processes": inside or nobody, "files": files or nobody}
    return [name for name, good in shut.items() if not good], nobody
'''

_LIMITED = _SPACES + r'''
code_file, seconds, megabytes, file_megabytes, folder_megabytes, processes, others = map(int, sys.argv[1:8])
try:
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
except OSError:
    pass
nobody = shut_in(folder_megabytes)[1]
limited({"CPU": seconds, "AS": megabytes << 20, "FSIZE": file_megabytes << 20, "CORE": 0,
         "NPROC": processes if nobody else others + processes})
with os.fdopen(code_file, "rb") as file:
    text = file.read().decode("utf-8", "surrogatepass")
del code_file, seconds, megabytes, file_megabytes, folder_megabytes, processes, others, nobody, file
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


def _wait(process, seconds):
    """Whether it has ended by then. Popen.wait looks at it at times only."""
    try:
        file = os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        try:
            process.wait(seconds)
            return True
        except subprocess.TimeoutExpired:
            return False
    try:
        poll = select.poll()
        poll.register(file, select.POLLIN)
        return bool(poll.poll(seconds * 1000))
    finally:
        os.close(file)


def _file(data):
    file = tempfile.TemporaryFile()
    os.chmod(file.fileno(), 0o666)  # for the user that the code gets: it may open /dev/stdout
    file.write(data)
    file.seek(0)
    return file


class Ended:
    """How the code has ended: `status` as subprocess has it, `late`, `output`, at most a file's bytes."""

    def __init__(self, status, late, output):
        self.status, self.late, self.output = status, late, output


def run(runner, code, *, seconds=10, megabytes=1024, file_megabytes=16, folder_megabytes=64, processes=64):
    """Runs `runner`, Python that finds the text `code` in `text`, behind all limits. Its stdin is empty."""
    folder = tempfile.mkdtemp(prefix=f"{FOLDERS}{os.getpid()}-")
    environment = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": folder, "TMPDIR": folder, "LANG": "C.UTF-8", "PYTHONHASHSEED": "0",
                   "PYTHONIOENCODING": "utf-8:replace", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    files = source, output = _file(code.encode("utf-8", "surrogatepass")), _file(b"")
    limits = [source.fileno(), int(seconds) + 1, megabytes, file_megabytes, folder_megabytes, processes, _counts(os.getuid())]
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-X", "utf8", "-c", _LIMITED + runner, *map(str, limits)], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
            stdout=output, stderr=subprocess.STDOUT, start_new_session=True, pass_fds=(source.fileno(),))
        late = True
        try:
            late = not _wait(process, seconds)
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)  # with what it has started
            except OSError:
                pass
            process.wait()
        output.seek(0)
        return Ended(process.returncode, late or process.returncode == -signal.SIGXCPU, output.read(file_megabytes << 20))
    finally:
        for file in files:
            file.close()
        shutil.rmtree(folder, ignore_errors=True)


def what_is_open():
    """What the code reaches on this system, which does not give every namespace: a list of texts, empty where it is shut in."""
    folder = tempfile.mkdtemp(prefix=f"{FOLDERS}{os.getpid()}-")
    try:
        done = subprocess.run([sys.executable, "-I", "-c", _SPACES + "print(*shut_in(1)[0])"], cwd=folder, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    found = done.stdout.decode().split() if done.returncode == 0 else list(REACHED)
    return [REACHED[name] for name in REACHED if name in found]
