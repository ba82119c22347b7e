# What runs the programs of the code reward: a process without the environment and the data of the run, which forks a process for each
# program, behind the limits of tools/_sandbox.py, and that one forks a process for each test case. _SPACES of that file comes before this
# text. Tests' outputs never come here, so that a program that looks around in its process finds no answer.
#
# Over descriptor 3, for each program: one byte with a socket. A program's process tells its number (four bytes, all integers are
# little-endian), is sent the length of a JSON text and the text, {"code", "inputs", "folder", "seconds", "megabytes", "others"}. It sends a
# byte of what the system gives (1: a namespace of processes, 2: no network, 4: only the folder can be written), and for each input a byte (1: it was
# late, 2: its process was another user's), 4 bytes of status as os.wait gives it, 4 bytes of length, and the output. Then it ends. "e" with a number on
# descriptor 3: all that the program's process has left is to be ended; answered by one byte.
HONE_RUNS_PROGRAMS = True  # by which the process is known
import array, json, select, socket, struct, time

FILE_MEGABYTES, FOLDER_MEGABYTES, MOST_PROCESSES = 16, 64, 64


def received(link, count):
    parts = []
    while count:
        part = link.recv(min(count, 1 << 20))
        if not part:
            os._exit(0)
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def memory_file(data):
    file = os.memfd_create("data")
    os.fchmod(file, 0o666)  # for the user that the program gets: it may open /dev/stdin
    view = memoryview(data)
    while view:
        view = view[os.write(file, view):]
    os.lseek(file, 0, os.SEEK_SET)
    return file


def ended_within(pid, seconds):
    """Its status, or None: it runs on."""
    last = time.monotonic() + seconds
    try:
        file = os.pidfd_open(pid)
    except (AttributeError, OSError):
        file = -1
    try:
        if file >= 0:
            poll = select.poll()
            poll.register(file, select.POLLIN)
            poll.poll(seconds * 1000)
        while True:
            found, status = os.waitpid(pid, os.WNOHANG)
            if found or time.monotonic() > last:
                return status if found else None
            time.sleep(0.002)
    finally:
        if file >= 0:
            os.close(file)


def run_case(task, text, inside, user):
    """(1: late + 2: another user, status, output); in the process that is to run the program, the program's text."""
    data, output = memory_file(text.encode("utf-8", "surrogatepass")), memory_file(b"")
    told, telling = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        nobody = as_nobody(user)
        without_rights()
        os.write(telling, bytes([2 * nobody]))
        nothing = os.open(os.devnull, os.O_RDWR)
        for file, number in ((data, 0), (output, 1), (nothing, 2)):
            os.dup2(file, number)
        os.closerange(3, 1 << 16)
        limited({"CPU": int(task["seconds"]) + 1, "AS": task["megabytes"] << 20, "FSIZE": FILE_MEGABYTES << 20, "CORE": 0,
                 "NPROC": MOST_PROCESSES if nobody else task["others"] + MOST_PROCESSES})
        return task["code"]
    os.close(telling)
    other = (os.read(told, 1) or b"\0")[0]
    os.close(told)
    status = ended_within(pid, task["seconds"])
    late = status is None
    if inside:
        try:
            os.kill(-1, signal.SIGKILL)  # all of this namespace but its first process and this one
        except OSError:
            pass
    else:
        try:
            os.killpg(pid, signal.SIGKILL)
        except OSError:
            pass
    if late:
        status = os.waitpid(pid, 0)[1]
    out = os.pread(output, FILE_MEGABYTES << 20, 0)
    os.close(data)
    os.close(output)
    late = late or (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU)
    return late + other, status, out


def run_program(link):
    """The text of a program, in the process that is to run it; does not return in others."""
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    link.sendall(struct.pack("<I", os.getpid()))
    task = json.loads(received(link, struct.unpack("<I", received(link, 4))[0]))
    user = 62000 + os.getpid() % 3000
    os.chdir(task["folder"])
    os.environ.update(HOME=task["folder"], TMPDIR=task["folder"])
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        pass
    inside = alone()
    given = inside + 2 * (inside or without_network()) + 4 * (inside and only_this_folder(FOLDER_MEGABYTES))
    library.prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE: a program cannot trace this process
    link.sendall(bytes([given]))
    for text in task["inputs"]:
        result = run_case(task, text, inside, user)
        if isinstance(result, str):
            return result
        how, status, output = result
        link.sendall(struct.pack("<BiI", how, status, len(output)) + output)
        if how & 1:
            break
    os._exit(0)


def children():
    """Numbers of this process's children; of a kernel that does not list them, none."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def end_program(pid, known):
    """Ends the process of a program, and what has left it: this process has adopted that."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except OSError:
        pass
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    except OSError:
        pass
    last = time.monotonic() + 2
    while time.monotonic() < last:
        left = [one for one in children() if one not in known]
        for one in left:
            try:
                os.kill(one, signal.SIGKILL)
                os.waitpid(one, 0)
            except OSError:
                pass
        if not left:
            return


def serve(channel):
    """The text of a program, in the process that is to run it; does not return in others."""
    library.prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    library.prctl(1, 9, 0, 0, 0)   # PR_SET_PDEATHSIG
    known = set()
    while True:
        what, extra, _, _ = channel.recvmsg(1, socket.CMSG_SPACE(4))
        if what == b"":
            os._exit(0)
        if what == b"e":
            pid = struct.unpack("<I", received(channel, 4))[0]
            known.discard(pid)
            end_program(pid, known)
            channel.sendall(b"e")
            continue
        files = array.array("i")
        files.frombytes(extra[0][2][:4])
        pid = os.fork()
        if pid == 0:
            channel.close()
            return run_program(socket.socket(fileno=files[0]))
        known.add(pid)
        os.close(files[0])


def become_main(text):
    """The namespace of the module __main__, as of `python -c`."""
    sys.argv[:] = ["-c"]
    made = type(sys)("__main__")
    sys.modules["__main__"] = made
    return compile(text, "<string>", "exec"), vars(made)


def begin():
    try:
        return become_main(serve(socket.socket(fileno=3)))
    except SyntaxError as error:
        raise SystemExit(f"SyntaxError: {error}") from None


exec(*begin())
