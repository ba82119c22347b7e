# The process that judges programs (code_reward.h): it holds the tests' outputs, and has runner.py run the programs. worker_base.py, _sandbox.py
# and RUNNER, the text of runner.py, come before this text. Frames with hone:
#   {"programs": [{"code", "cases": [[input, output]]}], "parallel", "seconds", "total", "megabytes"}
#     -> {"results": [{"passed", "what": "" or what went wrong first, "late", "failed"}]}; late: it is worth 0, whatever passed; failed: a case
#        ended in an error
# After the start -> {"open": [what programs reach on this system]} or {"fault": {...}}
import socket

GRACE = 5  # seconds that a program's process has beyond the limits that it keeps itself


class Runner:
    """The process of runner.py."""

    def __init__(self):
        ours, theirs = socket.socketpair()
        os.dup2(theirs.fileno(), 3)  # where hone's was, which has a higher number by now
        environment = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LANG": "C.UTF-8", "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1",
                       "OPENBLAS_NUM_THREADS": "1"}
        self.process = subprocess.Popen([sys.executable, "-I", "-X", "utf8", "-c", _SPACES + RUNNER], env=environment, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=(3,), cwd="/")
        os.close(3)
        theirs.close()
        self.channel = ours

    def start(self):
        """A socket to the process of a new program."""
        ours, theirs = socket.socketpair()
        with theirs:
            self.channel.sendmsg([b"p"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", theirs.fileno()))])
        return ours

    def end(self, pid):
        self.channel.sendall(b"e" + struct.pack("<I", pid))
        if not self.channel.recv(1):
            raise OSError("the process that runs programs has ended")


class Run:
    """One program under way."""

    def __init__(self, runner, task, cases, total):
        self.runner, self.cases, self.data, self.pid = runner, cases, bytearray(), 0
        self.passed, self.what, self.late, self.failed, self.at = 0, "", False, False, 0
        self.given, self.other = None, False  # by the system: runner.py
        self.link = runner.start()
        self.folder = tempfile.mkdtemp(prefix=f"{FOLDERS}{os.getpid()}-")
        os.chmod(self.folder, 0o777)
        self.deadline, self.total = time.monotonic() + total + GRACE, total
        self.stops = time.monotonic() + total
        self.task = json.dumps({**task, "folder": self.folder}).encode()

    def read(self):
        """Whether it has more to say."""
        try:
            data = self.link.recv(1 << 20)
        except OSError:
            data = b""
        self.data += data
        if not self.pid and len(self.data) >= 4:
            self.pid = struct.unpack("<I", self.take(4))[0]
            try:
                self.link.sendall(struct.pack("<I", len(self.task)) + self.task)
            except OSError:
                return False
        if self.pid and self.given is None and self.data:
            self.given = self.take(1)[0]
        while self.given is not None and self.at < len(self.cases) and not self.late and len(self.data) >= 9:
            how, status, size = struct.unpack("<BiI", self.data[:9])
            if len(self.data) < 9 + size:
                break
            self.take(9)
            self.other = bool(how & 2)
            self.judge(how & 1, status, bytes(self.take(size)))
        return bool(data) and not self.late and self.at < len(self.cases)

    def take(self, count):
        out = self.data[:count]
        del self.data[:count]
        return out

    def judge(self, late, status, output):
        self.at += 1
        if late:
            self.ends_late("did not end in time")
        elif status:
            self.failed = True
            self.say(f"was killed by {name_of_signal(os.WTERMSIG(status))}" if os.WIFSIGNALED(status) else
                     f"ended with status {os.WEXITSTATUS(status)}")
        else:
            right = is_right(output, self.cases[self.at - 1][1])
            if right is None:
                self.ends_late("printed what is no UTF-8")
            elif right:
                self.passed += 1
            else:
                self.say("printed something else")

    def say(self, what):
        self.what = self.what or f"case {self.at} {what}"

    def ends_late(self, what):
        """Worth nothing, as in open-r1, whatever the cases before."""
        self.late, self.what = True, f"case {self.at} {what}"

    def end(self):
        if self.pid:
            self.runner.end(self.pid)
        self.link.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.given is None:  # before the program was begun: nobody's fault here, and hone starts this process again
            raise OSError("the process that runs programs has ended")
        if not self.late and self.at < len(self.cases):
            over = time.monotonic() > self.stops
            self.at += 1
            self.ends_late(f"was under way when the program's {self.total:g} s were over" if over else "took the program's process with it")
        GIVEN[:] = self.given, self.other
        return {"passed": 0 if self.late else self.passed, "what": self.what, "late": self.late, "failed": self.failed}


def name_of_signal(number):
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def is_right(output, wanted):
    """Whether lines agree as far as both have them, blanks at their ends aside: open-r1's comparison. None: no UTF-8."""
    try:
        text = output.decode("utf-8")
    except UnicodeDecodeError:
        return None
    text = text.replace("\r\n", "\n").replace("\r", "\n").strip()
    return all(mine.strip() == theirs.strip() for mine, theirs in zip(text.split("\n"), wanted.split("\n")))


def judge_all(message):
    running = {}  # descriptor -> (number, Run)
    try:
        return judge_each(message, running)
    finally:  # where the process that runs programs has ended
        for _, run in running.values():
            shutil.rmtree(run.folder, ignore_errors=True)


def judge_each(message, running):
    results, waiting = [None] * len(message["programs"]), []
    others = _counts(os.getuid())
    for number, program in enumerate(message["programs"]):
        if not program["code"].strip():  # it would print nothing
            results[number] = {"passed": sum(is_right(b"", wanted) for _, wanted in program["cases"]), "what": "", "late": False, "failed": False}
        else:
            waiting.append(number)
    waiting.reverse()
    while waiting or running:
        while waiting and len(running) < message["parallel"]:
            number = waiting.pop()
            program = message["programs"][number]
            task = {"code": program["code"], "inputs": [given for given, _ in program["cases"]], "seconds": message["seconds"],
                    "megabytes": message["megabytes"], "others": others}
            run = Run(RUNNER_PROCESS[0], task, program["cases"], message["total"])
            running[run.link.fileno()] = number, run
        poll = select.poll()
        for file in running:
            poll.register(file, select.POLLIN)
        first = min(min(run.stops, run.deadline) for _, run in running.values())
        ready = {file for file, _ in poll.poll(max(0.0, first - time.monotonic()) * 1000)}
        for file, (number, run) in list(running.items()):
            more = run.read() if file in ready else True
            if not more or time.monotonic() >= run.stops:
                del running[file]
                results[number] = run.end()
    return {"results": results}


RUNNER_PROCESS, GIVEN = [], []  # the process; Run.given and Run.other of the last program


def what_programs_reach():
    """Of one that was run as all are; a Fault where none can be."""
    program = {"code": "print(1 + 1)", "cases": [["", "2"]]}
    found = judge_all({"programs": [program], "parallel": 1, "seconds": 30, "total": 60, "megabytes": 1024})["results"][0]
    if not found["passed"]:
        raise Fault("a program that prints a number", found["what"], f"Python is {sys.executable}", "name another Python with --python")
    given, other = GIVEN
    shut = {"network": given & 2, "processes": given & 1 or other, "files": given & 4 or other}
    if os.getuid() == 0 and not shut["processes"]:
        raise Fault("a system on which the model's programs can be shut in", "as root they could end every process and change every file here",
                    "this system gives no namespaces, and another user could not read this Python",
                    "use a Python that every user may read (not below /root), or start hone as another user than root")
    return [REACHED[name] for name in REACHED if not shut[name]]


def main():
    global PIPE
    faulthandler.enable(file=2)
    sys.stdout.reconfigure(errors="backslashreplace", line_buffering=True)
    PIPE = own_import("fcntl").fcntl(PIPE, own_import("fcntl").F_DUPFD_CLOEXEC, 10)
    faulthandler.register(signal.SIGUSR2, file=2, all_threads=False)  # hone asks where it hangs
    RUNNER_PROCESS.append(Runner())
    try:
        send({"open": what_programs_reach()})
    except Fault as fault:
        send({"fault": fault.text})
    while True:
        head = read_exactly(4)
        frame = head and read_exactly(struct.unpack("<I", head)[0])
        if not frame:
            os._exit(0)
        send(judge_all(json.loads(frame)))


main()
