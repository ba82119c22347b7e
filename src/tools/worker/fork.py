# What runs the tools of a run: a fork of the host (host.py), which holds one environment, or runs standalone tools. python/worker_base.py
# comes before this text. Frames over LINK, as between hone and the host:
#   after the start -> {"ready": {"class", "tools": [...], "reward": bool, "seed": bool} or {}}; {"fault": {...}}: it cannot start
#   {"do": "call", "id", "name", "arguments"} | {"do": "reset", "id", "row", "seed"} | {"do": "reward", "id"}
#   -> {"id", "text", "failed", "reward": number or null, "seconds", "note", "printed"} or {"fault": {...}}: it ends the run
# One is run after the other, in the order of their coming; async functions side by side, and they stand still while another one runs.

own_import("collections", "ctypes", "enum", "errno", "random", "resource", "selectors", "socket", "tempfile", "typing")
import collections, ctypes, errno, random, resource, selectors, socket, tempfile  # noqa: E401, F401 - these modules, whatever the user's folders hold

LIMITS = {"timeout": 30.0, "most": 1 << 20}  # of a call, of a result
MOST_PRINTED = 1 << 16                       # bytes that are told of one call
TIMEOUT_GRACE = 2                            # seconds that a loop of async functions has beyond the limit


def pack(message):
    data = json.dumps(message, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
    return struct.pack("<I", len(data)) + data


def control(*values):
    try:
        ctypes.CDLL(None).prctl(*[ctypes.c_ulong(v) for v in values + (0,) * (5 - len(values))])
    except Exception:
        pass


# ---- texts

def cut(text):
    most = LIMITS["most"]
    if not most or len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters left out ...\n{text[len(text) - half:]}"


def result_text(value):
    """As TRL shows a result to the model; of blocks their texts."""
    if isinstance(value, list) and value and all(isinstance(part, dict) and "type" in part for part in value):
        other = [part["type"] for part in value if part["type"] != "text"]
        if other:
            raise TypeError(f"a result with a block of type {short_repr(other[0])}: the model is shown text only")
        return "".join(str(part.get("text", "")) for part in value)
    return str(value)


def observation_text(value):
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, list) and all(isinstance(part, dict) and "type" in part for part in value):
        return result_text(value) if value else ""
    raise TypeError(f"reset returned a {type(value).__name__}, where None, a text or a list of blocks is wanted")


def reward_of(value):
    if value is None:
        return None
    if not hasattr(type(value), "__float__") and not hasattr(type(value), "__index__"):
        raise TypeError(f"get_reward returned {short_repr(value)}, where a number or None is wanted")
    value = float(value)
    if math.isinf(value):
        raise ValueError(f"get_reward returned {value}, where a finite number or None is wanted")
    return None if math.isnan(value) else value


def error_text(error):
    try:
        words = str(error)
    except BaseException:
        words = "an exception without text"
    if not isinstance(error, Exception):
        words = type(error).__name__ + (": " + words if words else "")
    return str({"error": cut(words)})


# ---- one thing to do

class Task:
    """`call()` gives the value; `told(value)` what the answer says of it."""

    def __init__(self, message, what, file, call, told):
        self.message, self.what, self.file, self.call, self.told = message, what, file, call, told
        self.began = time.monotonic()

    def answer(self, **more):
        return {"id": self.message["id"], "text": "", "failed": False, "reward": None, "note": "", "printed": "",
                "seconds": time.monotonic() - self.began, **more}

    def done(self, value):
        try:
            return self.answer(**self.told(value))
        except BaseException as error:
            return self.raised(error)

    def raised(self, error):
        if hasattr(error, "hone_fault"):  # of a program that called hone: its function has raised, which ends the run
            return {"fault": Fault(*error.hone_fault).text}
        place = getattr(error, "hone_place", None) or place_of(error, self.file)
        note = f"{self.what} raised {describe(error)}" + (f" ({place})" if place else "")
        return self.answer(text=error_text(error), failed=True, note=note)

    def late(self):
        words = f"timeout after {LIMITS['timeout']:g} s"
        return self.answer(text=str({"error": words}), failed=True, note=f"{self.what} did not end within {LIMITS['timeout']:g} s")

    def run(self):
        try:
            value = self.call()
        except BaseException as error:
            return self.raised(error)
        return self.done(value)

    async def run_async(self):
        asyncio = own_import("asyncio")

        async def caught():
            try:
                return True, await self.call()
            except (asyncio.CancelledError, Exception):
                raise
            except BaseException as error:  # SystemExit would end the loop
                return False, error

        inner = asyncio.ensure_future(caught())
        await asyncio.wait({inner}, timeout=LIMITS["timeout"])
        if not inner.done():
            inner.cancel()
            await asyncio.wait({inner}, timeout=1)
            return self.late()
        try:
            fine, value = inner.result()
        except BaseException as error:
            return self.raised(error)
        return self.done(value) if fine else self.raised(value)


# ---- the process

class Fork:
    def __init__(self, link):
        self.link, self.loop, self.tasks, self.pid = link, None, set(), os.getpid()
        self.functions, self.instance = {}, None  # name -> a tool; an environment
        self.zombies = set()                      # children that had ended when the last task did
        self.takes_seed = False                   # whether the environment's reset names a parameter `seed`

    def send(self, message):
        if os.getpid() != self.pid:  # a copy of this process, which a tool has made and let go
            os._exit(0)
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except BaseException:
                pass
        if not self.tasks and "id" in message:
            message["printed"] = taken_prints()
            self.reap()
        try:
            data = pack(message)
        except Exception as error:
            data = pack({**message, "text": str({"error": describe(error)}), "failed": True, "printed": ""})
        self.link.sendall(data)

    def reap(self):
        """Takes away what tools have started and left, and what has ended since: this process has adopted it (PR_SET_CHILD_SUBREAPER). What a
        tool may still wait for stays: processes of Popen objects, and those that have ended in this task only."""
        try:
            zombies = {pid for pid in children_of("self") if is_zombie(pid)}
        except OSError:  # a kernel that does not list them
            return
        old, self.zombies = zombies & self.zombies, zombies
        if not old:
            return
        held = {getattr(one, "pid", None) for one in own_import("gc").get_objects() if type(one).__name__ == "Popen"}
        for pid in old - held:
            try:
                os.waitpid(pid, os.WNOHANG)
            except OSError:  # a thread of the tool has waited for it
                pass

    def receive(self):
        head = self.exactly(4)
        return head and json.loads(self.exactly(struct.unpack("<I", head)[0]))

    def exactly(self, count):
        parts = []
        while count:
            part = self.link.recv(min(count, 1 << 20))
            if not part:
                os._exit(0)  # the host has ended, or is done with us
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def serve(self):
        while True:
            if not self.tasks or self.loop.run_until_complete(self.news()):
                self.take(self.receive())

    async def news(self):
        """Until a message comes (True) or an async function has ended."""
        asyncio = own_import("asyncio")
        comes = self.loop.create_future()
        self.loop.add_reader(self.link.fileno(), lambda: comes.done() or comes.set_result(True))
        try:
            await asyncio.wait({comes, *self.tasks}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.loop.remove_reader(self.link.fileno())
        for task in [task for task in self.tasks if task.done()]:
            self.tasks.discard(task)
            self.send(task.result())
        return comes.done()

    def take(self, message):
        task, is_async = self.task_of(message)
        if not is_async:
            self.send(task.run())
            return
        if self.loop is None:
            asyncio = own_import("asyncio")
            self.loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self.loop)
        self.tasks.add(self.loop.create_task(task.run_async()))

    def reset(self, row, seed):
        """What the environment's reset gives. A column `seed` of the row goes before the number of hone."""
        seed_generators(seed)
        return self.instance.reset(**({"seed": seed % 2 ** 32, **row} if self.takes_seed else row))

    def task_of(self, message):
        if message["do"] == "call":
            function, arguments = self.functions[message["name"]], message["arguments"]
            return Task(message, message["name"], file_of(unwrapped(function)), lambda: function(**arguments),
                        lambda value: {"text": cut(result_text(value))}), inspect.iscoroutinefunction(function)
        if message["do"] == "reset":
            function = self.instance.reset
            return Task(message, "reset", file_of(function), lambda: self.reset(message["row"], message["seed"]),
                        lambda value: {"text": observation_text(value)}), inspect.iscoroutinefunction(function)
        function = self.instance.get_reward
        return Task(message, "get_reward", file_of(function), function,
                    lambda value: {"reward": reward_of(value)}), inspect.iscoroutinefunction(function)


def children_of(pid):
    """Its processes, of all of its threads; OSError where the kernel does not list them."""
    out = []
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/children") as file:
            out += map(int, file.read().split())
    return out


def is_zombie(pid):
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] == b"Z"
    except (OSError, IndexError):
        return False


def seed_generators(number):
    """Those that code uses without a seed of its own."""
    random.seed(number)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(random.getrandbits(32))
        random.seed(number)


def taken_prints():
    """What was printed since the last time, the first of it."""
    try:
        text = os.pread(1, MOST_PRINTED, 0).decode("utf-8", "replace")
        if text:
            os.ftruncate(1, 0)
        return text
    except OSError:  # the tool has closed it
        return ""


def become_fork(link, prints, host):
    """In the new process: a session of its own, its prints in a file without a name, the kernel's first choice when memory runs out."""
    os.setsid()
    control(36, 1)  # PR_SET_CHILD_SUBREAPER: what its tools start stays below it
    control(1, 9)   # PR_SET_PDEATHSIG
    if os.getppid() != host:
        os._exit(0)
    os.dup2(prints, 1)
    os.dup2(prints, 2)
    os.close(prints)
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        pass
    caller = sys.modules.get("hone.caller")
    if caller is not None:
        caller._channel = None  # a connection of its own
    return Fork(link)
