# Who has forks, and the loop that serves them.

class Instance:
    """One environment: its fork, and what is asked of it, in order."""

    def __init__(self, name, number, lost=""):
        self.name, self.number, self.lost = name, number, lost  # lost: why; until the next reset
        self.child, self.queue, self.made = None, collections.deque(), 0

    def title(self):
        return (f"environment {self.name}, instance {self.number}" if self.name else f"environment {self.number}")

    def named(self, note, message):
        return f"{self.title()}: {note}" if note else ""

    def start(self):
        """Whether the system gives a process for it."""
        entry, place = SETUP["environments"][self.name], (self.name, self.number, self.made)
        try:
            self.child = Child(self, lambda fork: load_environment(fork, entry, place, list(STANDALONE_NAMES)))
        except OSError as error:
            self.lost = why_no_fork(error)
            TOLD.setdefault(self.name, {"fault": {"expected": "a process that holds the environment", "found": self.lost, "cause": "", "fix": "",
                                                  "word": entry["word"]}})
            return False
        self.made += 1
        return True

    def ask(self, message):
        self.queue.append(message)
        self.advance()

    def waits(self):
        """Whether others are to start first: each imports the modules, and many at once would take the memory of all."""
        full = SETUP["imports"] and sum(isinstance(one.owner, Instance) and not one.ready for one in FORKS) >= SETUP["workers"]
        if full and self not in STARTS:
            STARTS.append(self)
        return full

    def is_async(self, message):
        tools = {tool["name"]: tool["is_async"] for tool in TOLD.get(self.name, {"tools": []})["tools"]}
        return message["do"] == "call" and tools.get(message["name"], False)

    def advance(self):
        while self.queue:
            message = self.queue[0]
            if message["do"] == "reset":
                if self.child is None and self.waits():
                    return
                if self.child is None and not self.start():
                    self.fail(self.queue.popleft(), f"the environment was lost: {self.lost}", f"failed: {self.lost}")
                    continue
                self.lost = ""
            elif self.child is None and not self.lost:
                self.lost = "it was never reset"
            if self.lost:
                self.fail(self.queue.popleft(), f"the environment was lost: {self.lost}", f"found it lost: {self.lost}")
                continue
            busy = [one for one, _ in self.child.running.values()]
            free = all(self.is_async(one) for one in busy) and (message["do"] == "call" or not busy)
            if not self.child.ready or not free:
                return
            self.queue.popleft()
            self.child.give(message, self.is_async(message))

    def fail(self, message, words, note, seconds=0.0, printed=""):
        failure_of(message, words, f"{self.title()}: {of_what(message)} {note}", seconds, printed)

    def is_ready(self, child, told):
        TOLD.setdefault(self.name, told)
        self.advance()
        start_waiting()

    def cannot_start(self, child, fault):
        child.end()
        TOLD.setdefault(self.name, {"fault": fault})
        self.give_up(child, "its factory failed: " + short((fault["found"].splitlines() or [""])[-1]))

    def ended(self, child, running, words, note, printed):
        if not child.ready:
            word = SETUP["environments"][self.name]["word"]
            TOLD.setdefault(self.name, {"fault": {"expected": "a factory that makes an environment", "found": f"it {note}", "cause": "",
                                                  "fix": "", "word": word}})
        for message in running:
            self.fail(message, words, note, child.seconds(), printed)
        self.give_up(child, f"{of_what(running[0]) if running else 'its process'} {note}")

    def give_up(self, child, why):
        """Until the next reset; the one that has waited for this fork fails with it."""
        self.child = None
        if not child.ready and self.queue and self.queue[0]["do"] == "reset":
            self.fail(self.queue.popleft(), f"the environment was lost: {why}", f"failed: {why}")
        self.lost = why
        self.advance()
        start_waiting()


class Standalone:
    """Forks that run standalone tools: up to `workers`, of one call each; one for all async functions."""

    def __init__(self):
        self.children, self.queue = [], collections.deque()
        self.loop, self.waiting = None, collections.deque()

    def named(self, note, message):
        return note

    def prepare(self, fork):
        if SETUP["imports"]:
            load_tools(SETUP["tools"])
        fork.functions = dict(STANDALONE)
        return {}

    def ask(self, message, is_async):
        (self.waiting if is_async else self.queue).append(message)
        self.advance()

    def advance(self):
        while self.queue:
            child = next((one for one in self.children if one.ready and not one.running), None)
            if child is None:
                coming = sum(1 for one in self.children if not one.ready)
                if len(self.children) < SETUP["workers"] and coming < len(self.queue):
                    try:
                        self.children.append(Child(self, self.prepare))
                    except OSError as error:
                        if not self.children:  # those that are there do the work
                            self.fail_all(why_no_fork(error), self.queue)
                break
            child.give(self.queue.popleft())
        self.advance_loop()

    def advance_loop(self):
        if self.waiting and self.loop is None:
            try:
                self.loop = Child(self, self.prepare)
            except OSError as error:
                self.fail_all(why_no_fork(error), self.waiting)
        while self.waiting and self.loop.ready:
            alone = self.waiting[0].get("again") or any(message.get("again") for message, _ in self.loop.running.values())
            if alone and self.loop.running:
                return
            self.loop.give(self.waiting.popleft(), True)

    def is_ready(self, child, told):
        self.advance()

    def cannot_start(self, child, fault):
        child.end()
        self.forget(child)
        self.fail_all(f"its module does not import: {short(fault['found'])}")

    def forget(self, child):
        if child is self.loop:
            self.loop = None
        else:
            self.children.remove(child)

    def fail_all(self, why, *queues):
        for waiting in queues or (self.queue, self.waiting):
            while waiting:
                message = waiting.popleft()
                failure_of(message, f"the tool cannot be called: {why}", f"{message['name']}: {why}")

    def ended(self, child, running, words, note, printed):
        self.forget(child)
        if not child.ready and not running:
            self.fail_all(f"its process {note}")
        for message in running:
            if len(running) > 1 and not message.get("again"):  # one of them has done it; by itself each tells
                self.waiting.append({**message, "again": True})
            else:
                failure_of(message, words, f"{message['name']} {note}", child.seconds(), printed)
        self.advance()


STARTS = []  # instances that wait to be started


def start_waiting():
    waiting, STARTS[:] = list(STARTS), []
    for one in waiting:  # as many start as may now; the others are put back
        one.advance()


INSTANCES, TOOLS, STANDALONE_NAMES = {}, Standalone(), {}  # (name, number) -> Instance; name -> is async


def take(message):
    """What hone asks for."""
    name, number = message["environment"], message["instance"]
    if message["do"] == "call":
        own = {tool["name"] for tool in TOLD[name]["tools"]} if name in TOLD else ()
        if message["name"] in STANDALONE_NAMES and message["name"] not in own:
            TOOLS.ask(message, STANDALONE_NAMES[message["name"]])
            return
        if message["name"] not in own:
            failure_of(message, f"Tool {message['name']} not found.", f"there is no tool {message['name']}")
            return
    elif name not in TOLD:
        failure_of(message, f"no environment {name}", f"there is no environment {name!r}")
        return
    if (name, number) not in INSTANCES:
        INSTANCES[name, number] = Instance(name, number)
    INSTANCES[name, number].ask(message)


# ---- the loop

LOOKS = {"next": 0.0}  # when forks are looked at again


def look_after():
    """Forks that are late, have ended, have too many processes or print too much; not after every message."""
    now = time.monotonic()
    if now < LOOKS["next"]:
        return
    LOOKS["next"] = now + GLANCE / 2
    facts = None
    for child in list(FORKS):
        how = ended_by_itself(child.pid)
        if how:
            child.take()  # its last answer
            if child in FORKS:
                child.stop(f"the tool {how}", how + child.quoted())
        elif now > child.deadline():
            limit = LIMITS["timeout"] if child.ready else max(SETUP["load_seconds"], LIMITS["timeout"])
            child.stop(f"timeout after {limit:g} s", f"did not end within {limit:g} s{child.where()}")
        elif os.fstat(child.prints).st_size > MOST_PRINTS:
            child.stop("the tool printed too much", f"printed more than {MOST_PRINTS >> 20} MB")
        elif has_children(child.pid):
            facts = facts or facts_of_processes()
            count = len(below(child.pid, facts))
            if count > MOST_PROCESSES:
                child.stop("the tool started too many processes", f"had {count} processes, of at most {MOST_PROCESSES}")


def has_children(pid):
    try:
        return bool(children_of(pid))
    except OSError:  # a kernel that does not list them
        return True


def wait_for_news():
    """Frames that hone has sent; None at its end."""
    selector = own_import("select").poll()
    by_file = {child.link.fileno(): child for child in FORKS}
    for file, child in by_file.items():
        selector.register(file, 1 | (4 if child.out else 0))  # POLLIN, POLLOUT
    selector.register(PIPE, 1 | (4 if OUT else 0))
    at_work = any(child.running or not child.ready for child in FORKS)
    frames = []
    for file, event in selector.poll((GLANCE if at_work else 1.0) * 1000):
        if file == PIPE:
            if event & 4:
                push_out()
            if event & ~4 and not read_some(frames):
                return None
        elif by_file[file] in FORKS:
            child = by_file[file]
            if event & 4:
                child.push()
            if event & ~4 and not child.take() and child in FORKS:
                LOOKS["next"] = 0.0
                child.broken()
    return frames


IN = bytearray()


def read_some(frames):
    try:
        data = os.read(PIPE, 1 << 20)
    except BlockingIOError:
        return True
    except OSError:
        return False
    IN.extend(data)
    while (frame := first_frame(IN, 1 << 30)) is not None:
        frames.append(json.loads(frame))
    return bool(data)


def push_out():
    try:
        while OUT:
            del OUT[:os.write(PIPE, OUT)]
    except BlockingIOError:
        pass
    except OSError:
        OUT.clear()


def serve_forks(handle):
    """Until `handle(frames)` says True, or hone ends."""
    while True:
        frames = wait_for_news()
        if frames is None:
            os._exit(0)
        look_after()
        if handle(frames):
            return
        for child in list(FORKS):
            child.push()
        push_out()


# ---- the start

def threads():
    return len(os.listdir("/proc/self/task"))


def spare():
    """A copy of this process as it is now, without the user's modules: (pid, where to tell it to go on, None), or in it (0, None, what it was
    told)."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid:
        os.close(ours)
        return pid, theirs, None
    os.close(theirs)
    with os.fdopen(ours, "rb") as told:
        text = told.read()
    if not text:
        os._exit(0)
    return 0, None, json.loads(text)


def begin(message):
    """Imports and describes the standalone tools; returns in the process that serves, with their descriptions."""
    LIMITS.update(timeout=message["timeout"], most=message["most"])
    SETUP.update({name: message[name] for name in ("tools", "environments", "workers", "load_seconds")},
                 sessions=message.get("sessions", 0))
    pid, theirs, told = spare()
    if pid == 0:  # the user's modules have started threads, which a fork would not have: each fork imports them itself
        SETUP["imports"] = True
        NOTES.extend(told["notes"])
        return told["tools"]
    tools = load_tools(message["tools"])
    for entry in message["environments"].values():
        with of_word(entry):
            find_function(import_module(entry), entry["names"][0], os.path.basename(entry.get("file") or entry["module"]), classes=True)
    if any(tool["is_async"] for tool in tools):
        own_import("asyncio")
    if threads() > 1:
        with os.fdopen(theirs, "wb") as file:
            file.write(json.dumps({"tools": tools, "notes": NOTES}).encode())
        os.close(PIPE)
        _, status = os.waitpid(pid, 0)
        os._exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 1)
    os.close(theirs)
    os.waitpid(pid, 0)
    return tools


def main():
    os.set_inheritable(PIPE, False)
    sys.stdout.reconfigure(errors="backslashreplace", line_buffering=True)
    sys.stderr.reconfigure(errors="backslashreplace")
    faulthandler.enable(file=2)
    faulthandler.register(signal.SIGUSR2, file=2, all_threads=False)  # where a function hangs
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")  # several forks run at once; NumPy would start threads when it is imported
    add_folder(os.getcwd())
    frame = read_exactly(4)
    frame = frame and read_exactly(struct.unpack("<I", frame)[0])
    if not frame:
        return
    message = json.loads(frame)
    try:
        tools = begin(message)
    except Fault as fault:
        send({"fault": fault.text})
        return
    raise_limits()
    os.set_blocking(PIPE, False)
    own_import("gc").freeze()
    STANDALONE_NAMES.update({tool["name"]: tool["is_async"] for tool in tools})
    for name, number in message["lost"]:
        INSTANCES[name, number] = Instance(name, number, "the process of the tools had to be started again")
    for name in message["environments"]:
        INSTANCES.setdefault((name, 0), Instance(name, 0)).start()
    early = []

    def probed(frames):
        early.extend(frames)
        return len(TOLD) == len(message["environments"])

    if message["environments"]:
        serve_forks(probed)
    fault = next((told["fault"] for told in TOLD.values() if "fault" in told), None)
    tell({"fault": fault} if fault else {"tools": tools, "environments": TOLD, "notes": NOTES})
    for one in early:
        take(one)
    serve_forks(lambda frames: [take(one) for one in frames] and False)


main()
os._exit(0)
