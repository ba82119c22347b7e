# The process that imports the user's modules and forks what runs them (fork.py). It runs none of their functions itself, has one thread,
# and never waits: for hone, a fork, or the clock. Frames with hone:
#   {"do": "load", "tools": [entry], "environments": {name: entry}, "workers", "timeout", "load_seconds", "most", "lost": [[name, number]]}
#     entry: {"word", "file" | "module", "names"}
#     -> {"tools": [...], "environments": {name: {"class", "tools", "reward", "seed"}}, "notes": [...]} or {"fault": {..., "word", "at"}}
#   {"do": "call", "id", "environment", "instance", "name", "arguments"}, {"do": "reset", ..., "row", "seed"}, {"do": "reward", ...}
#     -> {"id", "text", "failed", "reward", "seconds", "note", "printed"} or {"fault": {...}}

MOST_PROCESSES = 256       # that one fork may have started
MOST_PRINTS = 64 << 20     # bytes that one call may print
GLANCE = 0.1               # seconds between looks at forks that are at work
SETUP = {"load_seconds": 120.0, "sessions": 0, "workers": 1, "imports": False, "tools": [], "environments": {}}
TOLD = {}                  # environment -> its description
OUT = bytearray()          # for hone
FORKS = []
FILES = resource.getrlimit(resource.RLIMIT_NOFILE)  # of forks; the host raises its own
SPARE_FILES = 16           # descriptors that the host keeps for /proc and the like


def tell(message):
    OUT.extend(pack(message))


def failure_of(message, words, note, seconds=0.0, printed=""):
    tell({"id": message["id"], "text": str({"error": words}) if words else "", "failed": True, "reward": None, "seconds": seconds, "note": note,
          "printed": printed})


def of_what(message):
    return message["name"] if message["do"] == "call" else "get_reward" if message["do"] == "reward" else "reset"


# ---- processes below a fork

def facts_of_processes():
    """{pid: (parent, session, is a zombie)}"""
    out = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    text = file.read()
                fields = text[text.rindex(b")") + 2:].split()
                out[int(name)] = int(fields[1]), int(fields[3]), fields[0] in (b"Z", b"X")
            except (OSError, ValueError, IndexError):
                pass
    return out


def below(pid, facts):
    """What it has started, also where that has left its parent or its session."""
    children = collections.defaultdict(list)
    for one, (parent, session, _) in facts.items():
        children[parent].append(one)
    found = {one for one, (_, session, _) in facts.items() if session == pid and one != pid}
    fresh = [pid, *found]
    while fresh:
        fresh = [child for one in fresh for child in children[one] if child not in found and child != pid]
        found.update(fresh)
    return {one for one in found if not facts[one][2]}


def signal_all(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except OSError:
            pass


def end_tree(pid):
    """Stops all of it, so that nothing new is started, and then kills it."""
    stopped, last = set(), time.monotonic() + 5
    while time.monotonic() < last:
        try:
            os.killpg(pid, signal.SIGSTOP)
        except OSError:
            pass
        found = below(pid, facts_of_processes())
        if found <= stopped:
            break
        signal_all(found - stopped, signal.SIGSTOP)
        stopped |= found
    signal_all(stopped, signal.SIGKILL)
    for kill in (os.killpg, os.kill):
        try:
            kill(pid, signal.SIGKILL)
        except OSError:
            pass


def remove_folders(pid):
    """Those that hone.tools has made in a process that was ended (tools/_sandbox.py)."""
    start = f"hone-python-{pid}-"
    try:
        left = [name for name in os.listdir(tempfile.gettempdir()) if name.startswith(start)]
    except OSError:
        return
    for name in left:
        own_import("shutil").rmtree(os.path.join(tempfile.gettempdir(), name), ignore_errors=True)


# ---- forks

def raise_limits():
    """Each fork holds two descriptors here, and an environment lives as long as the run."""
    hard = FILES[1]
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):  # more than the kernel gives
        pass


def why_no_fork(error):
    """For the user: the limit that is reached."""
    limit = {errno.EMFILE: f"a process may have {resource.getrlimit(resource.RLIMIT_NOFILE)[0]} open files here, and each environment needs 2: "
                           "raise the hard limit (ulimit -Hn), or take fewer completions a batch",
             errno.ENFILE: "the system has no more open files: raise fs.file-max, or take fewer completions a batch",
             errno.EAGAIN: "the limit of processes is reached: raise that of the user (ulimit -u) or of the container (pids.max), or take fewer "
                           "completions a batch",
             errno.ENOMEM: "there is no memory for it: take fewer completions a batch, or smaller environments"}.get(error.errno, "")
    return f"the system gives no process for it: {error}" + (f"; {limit}" if limit else "")


class Child:
    """A fork as the host sees it. `owner` is told what becomes of what it was given. OSError: the system gives none."""

    def __init__(self, owner, prepare):
        self.owner, self.running, self.ready = owner, {}, False  # id -> (message, deadline)
        self.out, self.data, self.began, self.given = bytearray(), bytearray(), time.monotonic(), time.monotonic()
        host = os.getpid()
        self.prints = self.link = theirs = None
        try:
            self.prints = memory_file()
            self.link, theirs = socket.socketpair()
            most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            if theirs.fileno() >= most - SPARE_FILES and most != resource.RLIM_INFINITY:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            self.pid = os.fork()
        except OSError:
            for end in (self.link, theirs):
                if end is not None:
                    end.close()
            if self.prints is not None:
                os.close(self.prints)
            raise
        if self.pid == 0:
            self.become(theirs, host, prepare)
        theirs.close()
        self.link.setblocking(False)
        FORKS.append(self)

    def become(self, theirs, host, prepare):
        try:
            os.close(PIPE)
            self.link.close()
            for other in FORKS:
                other.link.close()
                os.close(other.prints)
            resource.setrlimit(resource.RLIMIT_NOFILE, FILES)  # as without hone: a tool may go through all of its numbers
            fork = become_fork(theirs, self.prints, host)
            try:
                fork.send({"ready": prepare(fork)})
            except Fault as fault:
                fork.send({"fault": fault.text})
                os._exit(0)
            fork.serve()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(70)

    def give(self, message, is_async=False):
        seconds = LIMITS["timeout"] + (min(TIMEOUT_GRACE, LIMITS["timeout"]) if is_async else 0)
        self.given = time.monotonic()
        self.running[message["id"]] = message, self.given + seconds
        self.out += pack({name: value for name, value in message.items() if name != "again"})

    def deadline(self):
        if not self.ready:
            return self.began + max(SETUP["load_seconds"], LIMITS["timeout"])
        return min((deadline for _, deadline in self.running.values()), default=math.inf)

    def take(self):
        """Answers that have come; False at their end, and for what is none."""
        for _ in range(64):
            try:
                data = self.link.recv(1 << 20)
            except BlockingIOError:
                return True
            except OSError:
                return False
            self.data += data
            try:
                while (frame := first_frame(self.data)) is not None:
                    self.answered(json.loads(frame))
            except (ValueError, KeyError, TypeError, AttributeError):
                return False
            if not data or self not in FORKS:
                return False
        return True

    def broken(self):
        """It has closed its connection, or says what the worker's program does not say."""
        for _ in range(30):
            if ended_by_itself(self.pid):
                return  # look_after tells how
            time.sleep(0.01)
        self.stop("the tool broke the connection of its process", "broke the connection of its process")

    def answered(self, answer):
        if "ready" in answer:
            self.ready = True
            self.owner.is_ready(self, answer["ready"])
        elif "fault" in answer and not self.ready:
            self.owner.cannot_start(self, answer["fault"])
        elif "fault" in answer:
            tell({"fault": {name: str(answer["fault"][name]) for name in ("expected", "found", "cause", "fix")}})
        else:
            message, _ = self.running[answer["id"]]
            checked = checked_answer(answer)
            del self.running[answer["id"]]
            tell({**checked, "note": self.owner.named(checked["note"], message)})
            self.owner.advance()

    def push(self):
        try:
            while self.out:
                del self.out[:self.link.send(self.out)]
        except BlockingIOError:
            pass
        except OSError:
            self.out.clear()

    # ---- its end

    def last_words(self):
        """The end of what it has printed."""
        try:
            size = os.fstat(self.prints).st_size
            return os.pread(self.prints, 4096, max(0, size - 4096)).decode("utf-8", "replace")
        except OSError:
            return ""

    def quoted(self):
        lines = self.last_words().strip().splitlines()
        return f" (it printed: {short(lines[-1], 200)})" if lines else ""

    def seconds(self):
        return time.monotonic() - self.given

    def where(self):
        """Where Python stands in it, as faulthandler writes that: " (tools.py:12 in search)" or ""."""
        try:
            before = os.fstat(self.prints).st_size
            os.kill(self.pid, signal.SIGUSR2)
            for _ in range(20):
                time.sleep(0.01)
                if os.fstat(self.prints).st_size > before:
                    time.sleep(0.01)
                    break
            dump = os.pread(self.prints, 1 << 16, before).decode("utf-8", "replace")
        except OSError:
            return ""
        return place_in(dump)

    def end(self):
        """Kills it and what it has started; how it ended, if it had by itself."""
        FORKS.remove(self)
        how = ended_by_itself(self.pid)
        end_tree(self.pid)
        os.waitpid(self.pid, 0)
        remove_folders(self.pid)
        self.link.close()
        os.close(self.prints)
        return how

    def stop(self, words, note):
        """Ends it for what it does: `words` are for the model."""
        lost = list(self.running.values())
        printed = self.last_words()
        self.end()
        self.owner.ended(self, [message for message, _ in lost], words, note, printed)


def checked_answer(answer):
    """Of a fork, where the user's code may write what it likes."""
    kinds = {"id": int, "text": str, "failed": bool, "reward": (float, int, type(None)), "seconds": (float, int), "note": str, "printed": str}
    out = {name: answer[name] for name in kinds}
    wrong = [name for name, kind in kinds.items() if not isinstance(out[name], kind)]
    if wrong or len(out["text"]) > 2 * LIMITS["most"] + 1000 or not all(math.isfinite(out[name] or 0) for name in ("reward", "seconds")):
        raise ValueError("an answer that no fork gives")
    return out


def first_frame(data, most=MOST_BYTES):
    """Taken from the front of `data`; None: it is not whole yet."""
    if len(data) < 4:
        return None
    size = struct.unpack("<I", data[:4])[0]
    if size > most:
        raise ValueError("a frame that is too long")
    if len(data) < 4 + size:
        return None
    frame = bytes(data[4:4 + size])
    del data[:4 + size]
    return frame


def memory_file():
    try:
        file = os.memfd_create("prints")
    except (AttributeError, OSError):
        with tempfile.TemporaryFile() as named:
            file = os.dup(named.fileno())
    fcntl = own_import("fcntl")
    fcntl.fcntl(file, fcntl.F_SETFL, os.O_APPEND)
    return file


def ended_by_itself(pid):
    info = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if info is None:
        return ""
    if info.si_code == os.CLD_EXITED:
        return f"ended its process with status {info.si_status}"
    try:
        name = signal.Signals(info.si_status).name
    except ValueError:
        name = f"signal {info.si_status}"
    return f"was killed by {name}" + (", perhaps because memory ran out" if name == "SIGKILL" else "")


def place_in(dump):
    """The innermost frame of a dump that is the user's."""
    for line in dump.splitlines():
        line = line.strip()
        if line.startswith("File ") and ME not in line and "/lib/python" not in line:
            parts = line.split('"')
            if len(parts) == 3:
                return f" ({os.path.basename(parts[1])}:{parts[2].replace(', line ', '')})"
    return ""
