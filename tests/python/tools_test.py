#!/usr/bin/env python3
"""Tools: schemas beside transformers' own, the built-in ones, and those of a program that uses hone.trl, called as the program's workers call them.

usage: tests/python/tools_test.py [--hone PROGRAM]
"""
import argparse
import contextlib
import importlib.util
import json
import os
import pathlib
import re
import socket
import sqlite3
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
from checks import PROMPTS, QUICK, SOURCE, TINY, Tests, holds, raises, same

FIXTURES = SOURCE / "tests/fixtures/tools"


def fixture():
    spec = importlib.util.spec_from_file_location("fixture_tools", FIXTURES / "tools.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module.functions(), json.loads((FIXTURES / "schemas.json").read_text(encoding="utf-8"))["schemas"]


# ---- schemas

def test_schemas(_):
    """schemas are those that transformers makes, keys in the same order; what it refuses is refused, with the argument"""
    from hone import schemas
    functions, recorded = fixture()
    same(sorted(functions), sorted(recorded), "names")
    for name, function in functions.items():
        if recorded[name] is not None:
            same(json.dumps(schemas.schema_of(function)), json.dumps(recorded[name]), name)
        else:
            error = raises(schemas.BadTool, name, lambda function=function: schemas.schema_of(function))
            holds(error.expected and error.found and error.where.startswith(name), f"{name}: {error}")


# ---- built-in tools

CALCULATED = {
    "3*(4+5)/2": "13.5", "2**10": "1024", "-2**2": "-4", "2^-1": "0.5", "0.1+0.2": "0.3", "10/5": "2", "7//2": "3", "-7 % 3": "2", "5!": "120",
    "max(1, 2, 3)": "3", "round(2.5)": "3", "round(2.675, 2)": "2.68", "sqrt(16)": "4", "1e3": "1000", "2**3**2": "512", "3 × 4 ÷ 2": "6",
    "1/3": "0.333333333333", "factorial(20)": "2432902008176640000", "-(-3)": "3", "gcd(12, 18)": "6", "log(8, 2)": "3",
}
NOT_CALCULATED = {
    "1/0": "division by zero", "9**9**9**9": "too long", "((((": "ends where", "2 3": "not expected", "foo(1)": "not known", "sin()": "stands where",
    "(1": "closing", "import os": "not known", "": "empty", "1+" * 600 + "1": "characters", "(" * 100 + "1": "deeply", "__import__('os')": "no part",
    "(-8)**0.5": "not a real", "1e308*10": "too large", "-" * 900 + "(" * 90: "deeply", "factorial(501)": "factorial", "min(1)": "2 to 50",
    "2^" * 400 + "2": "deeply",
}


def test_calculator(_):
    """the calculator calculates, and refuses what is no expression, too long or too deep"""
    from hone.tools import calculator
    for text, value in CALCULATED.items():
        same(calculator(text), value, text)
    for text, words in NOT_CALCULATED.items():
        raises(Exception, words, lambda text=text: calculator(text))


def test_python(folder):
    """the python tool shows prints and the last value; limits of time, memory, files and output hold, and nothing stays"""
    from hone.tools import _python, _sandbox, python
    same(python("print('a')\nx = 6\nx * 7"), "a\n42\n")
    raises(RuntimeError, "ZeroDivisionError", lambda: python("1/0"))
    raises(RuntimeError, "SyntaxError", lambda: python("def"))
    raises(RuntimeError, "MemoryError", lambda: python("a = ' ' * (8 << 30)"))
    raises(RuntimeError, "status 3", lambda: python("import sys\nsys.exit(3)"))
    raises(RuntimeError, "SIGSEGV", lambda: python("import os\nos.kill(os.getpid(), 11)"))
    holds("left out" in python("print('x' * 100000)"), "long output is cut")
    raises(RuntimeError, "File too large", lambda: python("with open('f', 'wb') as f:\n  f.write(b'x' * (100 << 20))\n  f.flush()"))
    same(python("import os\nos.listdir(), os.environ.get('HOME') == os.getcwd(), 'SECRET' in os.environ"), "([], True, False)\n")
    same(python("import sys\nsys.stdin.read()"), "''\n")
    marker, length = folder / "started", f"1000.{os.getpid()}"
    seconds, _python.SECONDS = _python.SECONDS, 1
    try:
        begun = time.monotonic()
        raises(TimeoutError, "within 1 s", lambda: python(
            f"import subprocess, time\nsubprocess.Popen(['sleep', {length!r}], start_new_session=True)\ntry: open({str(marker)!r}, 'w')\n"
            "except OSError: pass\ntime.sleep(100)"))
        holds(time.monotonic() - begun < 8, "the limit of time")
    finally:
        _python.SECONDS = seconds
    if _sandbox.what_is_open():
        holds(marker.exists(), "the code has started a process")
    else:
        holds(not marker.exists(), "the code cannot write outside of its folder")
        ends_soon(length)
    raises(RuntimeError, "No space left", lambda: python("for n in range(10):\n  with open(str(n), 'wb') as f: f.write(bytes(15 << 20))"))


def ends_soon(argument):
    """Until no process has that argument."""
    def has(path):
        with contextlib.suppress(OSError):
            return argument.encode() in path.read_bytes().split(b"\0")
        return False

    for _ in range(100):
        if not any(has(path) for path in pathlib.Path("/proc").glob("[0-9]*/cmdline")):
            return
        time.sleep(0.05)
    raise AssertionError("what the code has started still runs")


def test_python_is_shut_in(folder):
    """the python tool's code can neither see nor end other processes, has no network, and leaves none; where the system lets it, a note says so"""
    from hone.tools import _python, _sandbox, python
    os.environ["HONE_TEST_SECRET"] = "a key"
    real = _sandbox._SPACES
    try:
        if _sandbox.what_is_open():
            holds("it reaches" in _python._note() and "API keys" in _python._note(), "the note")
            return
        same(_python._note(), "")
        # Its own, and the first of its namespace.
        same(python("import os\nlen([n for n in os.listdir('/proc') if n.isdigit()]) <= 2, os.getpid() < 5"), "(True, True)\n")
        same(python("import glob\ndef read(f):\n  try: return open(f, 'rb').read()\n  except OSError: return b''\n"
                    "any(b'HONE_TEST_SECRET' in read(f) for f in glob.glob('/proc/[0-9]*/environ'))"), "False\n")
        same(python("import os, signal\nfor number in range(2, 400):\n  try:\n    os.kill(number if number != os.getpid() else 2 ** 22, 0)\n"
                    "    print(number)\n  except OSError:\n    pass"), "")
        raises((OSError, RuntimeError), "unreachable", lambda: python("import socket\nsocket.create_connection(('192.0.2.1', 80), 2)"))
        length = f"1001.{os.getpid()}"
        same(python(f"import subprocess\nsubprocess.Popen(['sleep', {length!r}], start_new_session=True).pid > 0"), "True\n")
        ends_soon(length)
        folder.chmod(0o777)
        kept = folder / "kept"
        kept.write_text("kept")
        kept.chmod(0o666)
        hidden = str(kept).startswith("/dev/shm/")  # where the code has a folder of its own
        raises(RuntimeError, "No such file" if hidden else "Read-only", lambda: python(f"open({str(kept)!r}, 'w')"))
        raises(RuntimeError, "", lambda: python(f"import os\nos.remove({str(kept)!r})"))
        same(kept.read_text(), "kept")
        same(python("import multiprocessing\nwith open('x', 'w') as f: f.write('y')\nopen('x').read(), multiprocessing.Lock() is None"),
             "('y', False)\n")
        # What it may not do there is not won back.
        same(python("import ctypes\nctypes.CDLL(None).mount(None, b'/', None, 32 | 4096, None)"), "-1\n")
        raises(RuntimeError, "unavailable", lambda: python(
            "import os, time\nfor n in range(1000):\n  if os.fork() == 0:\n    time.sleep(20)\n    os._exit(0)"))
        without_processes = real.replace("library.unshare(spaces)", "1").replace("library.unshare(spaces | USER)", "1")
        _sandbox._SPACES = without_processes.replace("    nobody = as_nobody(user)", "    nobody = False")
        holds("whose environment variables" in _python._note() and "your files" in _python._note() and "network" not in _python._note(),
              "the note without a namespace of processes")
        everybody = all(place.stat().st_mode & 1 for place in pathlib.Path(sys.base_prefix).resolve().parents)
        if os.getuid() == 0 and everybody:  # another user is as good for processes and files
            _sandbox._SPACES = without_processes
            same(_python._note(), "")
        _sandbox._SPACES = without_processes.replace("library.unshare(NETWORK)", "1").replace("library.unshare(NETWORK | USER)", "1")
        holds("it reaches the network" in _python._note(), "the note without any")
    finally:
        _sandbox._SPACES = real
        del os.environ["HONE_TEST_SECRET"]


def judge_of_programs(change=lambda text: text):
    """What the code reward's process says when it has started, and then of a program; `change`: of its text."""
    read = lambda path: (SOURCE / path).read_text(encoding="utf-8")  # noqa: E731
    text = (read("src/python/worker_base.py") + "\nown_import('fcntl', 'select', 'shutil', 'socket', 'subprocess', 'tempfile')\n"
            + change(read("python/hone/tools/_sandbox.py")) + "\nRUNNER = " + json.dumps(read("src/rewards/code/runner.py")) + "\n"
            + read("src/rewards/code/judge.py"))
    start = ("import os, sys\nPATH, LIBRARY, PIPE, MOST_BYTES, ME = sys.path[1:], os.path.dirname(os.__file__), 3, 1 << 26, 'judge'\n"
             "os.dup2(int(sys.argv[1]), 3)\nexec(compile(sys.stdin.read(), ME, 'exec'))")
    ours, theirs = socket.socketpair()
    with ours, theirs, subprocess.Popen([sys.executable, "-c", start, str(theirs.fileno())], stdin=subprocess.PIPE, text=True,
                                        pass_fds=(theirs.fileno(),)) as process:
        theirs.close()
        process.stdin.write(text)
        process.stdin.close()
        ours.settimeout(60)

        def answer():
            head = ours.recv(4, socket.MSG_WAITALL)
            return json.loads(ours.recv(struct.unpack("<I", head)[0], socket.MSG_WAITALL))

        hello = answer()
        data = json.dumps({"programs": [{"code": "print(input())", "cases": [["1", "1"], ["2", "3"]]}], "parallel": 1, "seconds": 30, "total": 60,
                           "megabytes": 512}).encode()
        if "fault" not in hello:
            ours.sendall(struct.pack("<I", len(data)) + data)
            hello["first"] = answer()["results"][0]["passed"]
        ours.shutdown(socket.SHUT_RDWR)
        return hello


def test_code_reward_is_shut_in(_):
    """the code reward says what its programs reach on this system, and refuses to run them as root where nothing shuts them in"""
    from hone.tools import _sandbox
    same(judge_of_programs(), {"open": _sandbox.what_is_open(), "first": 1})

    def nothing(text):
        text = text.replace("library.unshare(spaces)", "1").replace("library.unshare(spaces | USER)", "1")
        return text.replace("    if os.getuid() != 0:\n        return False\n    places", "    return False\n    places")

    found = judge_of_programs(nothing)
    if os.getuid() == 0:
        holds("change every file" in found["fault"]["found"] and "not below /root" in found["fault"]["fix"], found)
    else:
        same(found["open"], [_sandbox.REACHED["processes"], _sandbox.REACHED["files"]])
        same(found["first"], 1)


def test_sqlite(folder):
    """the sqlite tool reads and never writes: no statement changes the file, opens another or runs for ever"""
    from hone.tools import sqlite
    path = folder / "data.db"
    with contextlib.closing(sqlite3.connect(path)) as made:
        made.executescript("create table t(a, b); insert into t values (1, 'x'), (2, null);"
                           "with recursive n(i) as (select 1 union all select i + 1 from n where i < 300) insert into t select i, 'many' from n;")
    before = path.read_bytes()
    os.environ["HONE_SQLITE"] = str(path)
    try:
        same(sqlite("select a, b from t where b is not 'many' order by a"), "a | b\n1 | x\n2 | NULL")
        holds(sqlite("select * from t").endswith("... more than 100 rows"), "rows are cut")
        for statement in ("delete from t", "insert into t values (3, 'y')", "create table u(a)", "attach database ':memory:' as m",
                          "pragma query_only = 0", "vacuum", "drop table t", "select load_extension('x')", "detach main"):
            raises(Exception, "", lambda statement=statement: sqlite(statement))
        raises(Exception, "", lambda: sqlite("select 1; select 2"))
        raises(TimeoutError, "did not end", lambda: sqlite("with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n"))
        same(path.read_bytes(), before, "the file")
        script = folder / "data.sql"
        script.write_text("create table s(a); insert into s values (7);")
        os.environ["HONE_SQLITE"] = str(script)
        sqlite.hone_check()
        same(sqlite("select a from s"), "a\n7")
        raises(Exception, "", lambda: sqlite("insert into s values (8)"))
        os.environ["HONE_SQLITE"] = str(folder / "none.db")
        raises(ValueError, "no file", sqlite.hone_check)
    finally:
        del os.environ["HONE_SQLITE"]
    raises(ValueError, "HONE_SQLITE", sqlite.hone_check)


# ---- a trainer's

def multiply(a: int, b: int) -> int:
    """Multiplies two numbers.

    Args:
        a: the first
        b: the second
    """
    if a < 0:
        raise KeyError("negative")
    return a * b


async def later(text: str) -> str:
    """Says it later.

    Args:
        text: what
    """
    return text.upper()


def ends(how: str):
    """Ends the run.

    Args:
        how: by what
    """
    raise KeyboardInterrupt(how)


class Counter:
    def __init__(self):
        self.count, self.rows = 0, []

    def reset(self, **row):
        self.rows.append(row)
        self.count = 0
        return f"count {row.get('start', 0)}"

    def increment(self, step: int) -> int:
        """Counts.

        Args:
            step: by how much
        """
        self.count += step
        return self.count

    def get_reward(self):
        return self.count / 10


class Echo:
    def reset(self, seed=None, **row):
        self.seed = seed

    async def echo(self, text: str) -> str:
        """Says it.

        Args:
            text: what
        """
        return text


def trainer_of(folder, **more):
    from hone import trl
    config = {"max_steps": 2, "num_generations": 2, **QUICK, **more.pop("config", {})}
    more = {"train_dataset": PROMPTS, **more}
    return trl.GRPOTrainer(TINY, args=trl.GRPOConfig(output_dir=str(folder / "out"), **config), **more)


def test_constructor(folder):
    """what TRL's constructor refuses about tools and environments is refused there, in its words; the options name what the program calls"""
    from hone import trl
    score = lambda completions, **kwargs: [0.0] * len(completions)  # noqa: E731
    made = trainer_of(folder, reward_funcs=score, tools=[multiply, later], environment_factory={"counter": Counter, "an echo": Echo},
                      train_dataset=[{"environment": "counter"}, {"environment": "an echo"}])
    same(made._settings["tools"], ["hone.caller:tools.multiply", "hone.caller:tools.later"])
    same(made._settings["environment"], {"counter": "hone.caller:environments.e_counter", "an echo": "hone.caller:environments.e_an_echo"})
    same([tool.__name__ for tool in made.tools], ["multiply", "later", "increment", "echo"])
    same(made.reward_func_names, [score.__name__, "Counter"])
    same({name: len(pool) for name, pool in made._environment_pool.items()}, {"counter": 1, "an echo": 1})
    same([[tool.__name__ for tool in made._env_tools[name]] for name in ("counter", "an echo")],
         [["multiply", "later", "increment"], ["multiply", "later", "echo"]], "tools by environment")
    same((list(made.reward_weights), len(made.reward_funcs), made.reward_processing_classes), ([1.0, 1.0], 2, [None, None]), "rewards")
    same(made.reward_funcs[-1](environments=[Counter(), Echo()]), [Counter().get_reward(), None], "a class's own reward")
    made.reward_weights = [0.5, 1.0]
    same((made.args.reward_weights, list(made.reward_weights)), ([0.5], [0.5, 1.0]), "of the trainer's functions alone")
    raises(ValueError, "stand last", lambda: setattr(made, "reward_weights", [1.0, 0.5]))
    plain = trainer_of(folder, reward_funcs=score)
    same((plain.tools, plain._standalone_tools, plain._multi_environment, hasattr(plain, "_env_tools")), ([], [], False, False), "without")
    owned = trainer_of(folder, environment_factory=Counter, train_dataset=None)
    same(owned.reward_func_names, ["Counter"])
    same(owned._settings["environment"], "hone.caller:environments.e_Counter")
    same(owned._train_rows[0], {"prompt": [{"role": "user", "content": ""}]})
    same(trainer_of(folder, reward_funcs=score, tools=[])._settings.get("tools"), None)
    for words, arguments in (
            ("No reward source provided", {"environment_factory": Echo}),
            ("`train_dataset` is required", {"reward_funcs": score, "train_dataset": None}),
            ("max_steps", {"environment_factory": Counter, "train_dataset": None, "config": {"max_steps": -1}}),
            ("requires a `train_dataset`", {"environment_factory": {"a": Counter, "b": Echo}, "train_dataset": None}),
            ("not among the environments", {"environment_factory": {"a": Counter}, "train_dataset": [{"environment": "unknown"}]}),
            ("must define a callable `reset`", {"environment_factory": dict}),
            ("no docstring", {"reward_funcs": score, "tools": [lambda a: a]}),
            ("two are called multiply", {"reward_funcs": score, "tools": [multiply, multiply]}),
            ("environment_factory takes classes", {"reward_funcs": score, "tools": [Counter]}),
            ("one call after the other", {"reward_funcs": score, "tools": [multiply], "config": {"tool_timeout": 30}})):
        raises(ValueError, words, lambda arguments=arguments: trainer_of(folder, **arguments))
    raises(ValueError, "GRPOTrainer(tools=[...])", lambda: trl.RLOOTrainer(TINY, score, train_dataset=PROMPTS, tools=[multiply]))


# ---- the workers' side

WORKER = ["src/python/worker_base.py", None, "src/tools/worker/fork.py", "python/hone/schemas.py", "src/tools/worker/loading.py",
          "src/tools/worker/host.py", "src/tools/worker/owners.py"]


class Host:
    """The process that the program starts for tools, spoken to in its frames."""

    def __init__(self, environment, **load):
        text = "".join("\nBUILT_IN = {}\n" if part is None else (SOURCE / part).read_text(encoding="utf-8") for part in WORKER)
        self.link, theirs = socket.socketpair()
        self.link.settimeout(60)
        start = (f"import os, sys\nPIPE, MOST_BYTES, ME = {theirs.fileno()}, 64 << 20, '<hone host of tools>'\nPATH = [p for p in sys.path if p]\n"
                 "LIBRARY = os.path.dirname(os.__file__)\nexec(compile(sys.stdin.read(), ME, 'exec'))")
        self.process = subprocess.Popen([sys.executable, "-c", start], stdin=subprocess.PIPE, pass_fds=[theirs.fileno()], text=True,
                                        env={**os.environ, **environment, "PYTHONPATH": str(SOURCE / "python")})
        theirs.close()
        self.process.stdin.write(text)
        self.process.stdin.close()
        self.count = 0
        self.send({"do": "load", "tools": [], "environments": {}, "workers": 2, "timeout": 20, "load_seconds": 60, "most": 1000, "lost": [], **load})
        self.loaded = self.receive()

    def send(self, message):
        data = json.dumps(message).encode()
        self.link.sendall(struct.pack("<I", len(data)) + data)

    def receive(self):
        def exactly(count):
            data = b""
            while len(data) < count:
                part = self.link.recv(count - len(data))
                holds(part, "the host has ended")
                data += part
            return data

        return json.loads(exactly(struct.unpack("<I", exactly(4))[0]))

    def ask(self, do, environment="", instance=0, **more):
        self.count += 1
        more = {"seed": 11, **more} if do == "reset" else more
        self.send({"do": do, "id": self.count, "environment": environment, "instance": instance, **more})
        return self.receive()

    def call(self, name, arguments, environment="", instance=0):
        return self.ask("call", environment, instance, name=name, arguments=arguments)

    def close(self):
        self.link.close()
        self.process.wait(20)


@contextlib.contextmanager
def called_by(trainer, folder):
    """A host whose hone.caller is this process, which answers as train() does."""
    from hone.trl.child import Connection
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / "caller"))
    listener.listen(64)

    def serve(connection):
        while (messages := connection.messages()) is not None:
            for message in messages:
                with lock:
                    connection.answer(trainer._answer(message))

    def accept():
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(Connection(listener.accept()[0]),), daemon=True).start()

    lock = threading.Lock()
    threading.Thread(target=accept, daemon=True).start()
    words = trainer._settings.get("environment") or {}
    words = words if isinstance(words, dict) else {"": words}
    entry = lambda word: {"word": word, "module": word.split(":")[0], "names": [word.split(":")[1]]}  # noqa: E731
    host = Host({"HONE_CALLER": str(folder / "caller")}, tools=[entry(word) for word in trainer._settings.get("tools", ())],
                environments={name: entry(word) for name, word in words.items()})
    try:
        yield host
    finally:
        host.close()
        listener.close()


def test_callers_tools(folder):
    """the caller's tools: schemas, results, exceptions as TRL renders them, async ones; what is no Exception ends the run"""
    trainer = trainer_of(folder, reward_funcs=lambda completions, **kwargs: [0.0] * len(completions), tools=[multiply, later, ends])
    with called_by(trainer, folder) as host:
        from hone import schemas
        same([tool["schema"] for tool in host.loaded["tools"]], [schemas.schema_of(tool) for tool in (multiply, later, ends)])
        same(host.call("multiply", {"a": 6, "b": 7})["text"], "42")
        same(host.call("later", {"text": "Ü"})["text"], "Ü")
        failed = host.call("multiply", {"a": -1, "b": 7})
        same((failed["text"], failed["failed"]), (str({"error": "'negative'"}), True))
        holds("multiply raised KeyError: 'negative' (tools_test.py:" in failed["note"], failed["note"])
        same(host.call("multiply", {"a": 1})["text"], str({"error": "multiply() missing 1 required positional argument: 'b'"}))
        holds("argument after ** must be a mapping, not list" in host.call("multiply", [1, 2])["text"], "no mapping")
        ended = host.call("ends", {"how": "Ctrl-C"})
        holds("KeyboardInterrupt" in ended["fault"]["found"], str(ended))
        same(type(trainer._functions.failure), KeyboardInterrupt)


def test_callers_environments(folder):
    """the caller's environments: each instance is one object of this process, its pool TRL's; rewards get the objects"""
    seen = []

    def score(completions, environments, **kwargs):
        seen.extend(environments)
        return [0.0] * len(completions)

    trainer = trainer_of(folder, reward_funcs=score, tools=[multiply], environment_factory={"counter": Counter, "echo": Echo},
                         train_dataset=[{"environment": "counter"}, {"environment": "echo"}])
    probe = trainer._environment_pool["counter"][0]
    with called_by(trainer, folder) as host:
        told = {name: (one["class"], [tool["name"] for tool in one["tools"]], one["reward"], one["seed"])
                for name, one in host.loaded["environments"].items()}
        same(told, {"counter": ("Counter", ["increment"], True, False), "echo": ("Echo", ["echo"], False, True)})
        for number in (0, 1):
            same(host.ask("reset", "counter", number, row={"start": number, "prompt": "p"})["text"], f"count {number}")
        for step in (1, 2):
            host.call("increment", {"step": step}, "counter", 1)
        same(host.call("increment", {"step": 5}, "counter", 0)["text"], "5")
        same(host.ask("reward", "counter", 1)["reward"], 0.3)
        same(host.call("multiply", {"a": 2, "b": 2}, "counter", 1)["text"], "4")
        same(host.call("increment", {"step": 5}, "echo", 0)["text"], str({"error": "Tool increment not found."}))
        same(host.ask("reset", "echo", 0, row={})["text"], "")
        same(trainer._environment_pool["echo"][0].seed, 11)
        same(host.call("echo", {"text": "hello"}, "echo", 0)["text"], "hello")
    pool = trainer._environment_pool["counter"]
    holds(pool[0] is probe and len(pool) == 2, "the first instance is the probe")
    same(([one.count for one in pool], pool[1].rows), ([5, 3], [{"start": 1, "prompt": "p"}]))
    same([type(one) for one in trainer.environments], [Counter, Counter, Echo])
    arguments = {"completions": ["a", "b"], "prompts": ["", ""], "completion_ids": [[], []], "environments": [["counter", 1], ["echo", 0]]}
    trainer._answer({"ask": "call", "name": "score", "arguments": arguments, "state": {}})
    holds(seen[0] is pool[1] and seen[1] is trainer._environment_pool["echo"][0], "environments of a reward")


def test_callers_images(folder):
    """a block that is no text is a failed call, and of reset the end of the run: the model is shown text only"""

    class Camera(Counter):
        def reset(self, shows=False, **row):
            return [{"type": "text", "text": "Look"}, *([{"type": "image", "image": b"x"}] if shows else [])]

        def look(self, zoom: int):
            """Looks.

            Args:
                zoom: how near
            """
            return [{"type": "image", "image": b"x"}]

    trainer = trainer_of(folder, environment_factory=Camera)
    with called_by(trainer, folder) as host:
        same(host.ask("reset", "", 0, row={})["text"], "Look")
        looked = host.call("look", {"zoom": 2}, "", 0)
        holds(looked["failed"] and "'image': the model is shown text only" in looked["text"], str(looked))
        began = host.ask("reset", "", 0, row={"shows": True})
        holds("the model is shown text only" in str(began) and (began.get("failed") or "fault" in began), str(began))


def test_callers_environment_fails(folder):
    """an environment of the caller's that raises in reset ends the run with its own exception, as in TRL"""

    class Broken(Counter):
        def reset(self, **row):
            raise ValueError("no such task")

    trainer = trainer_of(folder, environment_factory=Broken)
    with called_by(trainer, folder) as host:
        ended = host.ask("reset", "", 0, row={})
        holds("reset raised ValueError: no such task" in ended["fault"]["found"], str(ended))
        same(str(trainer._functions.failure), "no such task")


# ---- runs

# Calls in the form that most models use, so that the program knows how to read them.
TEMPLATE = """{%- if tools %}<|im_start|>system
<tools>{% for tool in tools %}
{{ tool | tojson }}{% endfor %}
</tools><|im_end|>
{% endif %}
{%- for message in messages %}
{%- if message.role == "tool" %}
{%- if loop.first or messages[loop.index0 - 1].role != "tool" %}{{ "<|im_start|>user" }}{% endif %}
{{- "\n<tool_response>\n" + message.content + "\n</tool_response>" }}
{%- if loop.last or messages[loop.index0 + 1].role != "tool" %}{{ "<|im_end|>\n" }}{% endif %}
{%- else %}{{ "<|im_start|>" + message.role }}
{%- if message.content %}{{ "\n" + message.content }}{% endif %}
{%- for call in message.tool_calls or [] %}
{{- '\n<tool_call>\n{"name": "' + call.function.name + '", "arguments": ' + (call.function.arguments | tojson) + "}\n</tool_call>" }}
{%- endfor %}{{ "<|im_end|>\n" }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ "<|im_start|>assistant\n" }}{% endif %}"""


def model_in(folder):
    """The tiny model with that template, and more places: its tokenizer has few words, and schemas are long."""
    out = folder / "model"
    out.mkdir()
    for name in ("config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"):
        (out / name).write_bytes((pathlib.Path(TINY) / name).read_bytes())
    for name, more in (("config.json", {"max_position_embeddings": 4096}),
                       ("tokenizer_config.json", {"chat_template": TEMPLATE, "eos_token": "<|im_end|>"})):
        (out / name).write_text(json.dumps({**json.loads((out / name).read_text(encoding="utf-8")), **more}), encoding="utf-8")
    return str(out)


def run_of(folder, **more):
    from hone import trl
    config = {"max_steps": 2, "num_generations": 2, "max_completion_length": 8, **QUICK, **more.pop("config", {}), "per_device_train_batch_size": 4}
    trainer = trl.GRPOTrainer(model_in(folder), args=trl.GRPOConfig(output_dir=str(folder / "out"), **config), **more)
    trainer.train()
    return trainer


def test_run_of_environment(folder):
    """a run whose data and reward are the environment's own: made once each, reset for each completion, scored under its class's name"""

    class Guess(Counter):
        def reset(self, **row):
            super().reset(**row)
            return "What is the word?"

        def get_reward(self):
            return float(len(self.rows))

    trainer = run_of(folder, environment_factory=Guess, tools=[multiply])
    same([len(one.rows) for one in trainer.environments], [2] * 4, "resets")
    same(trainer.environments[0].rows[0], {"prompt": [{"role": "user", "content": ""}]})
    logged = [entry for entry in trainer.state.log_history if "rewards/Guess/mean" in entry]
    same([entry["rewards/Guess/mean"] for entry in logged], [1.0, 2.0])
    same(logged[0]["tools/call_frequency"], 0.0)


def test_run_of_distillation(folder):
    """DistillationTrainer takes tools too: the model is shown their schemas"""
    from hone import trl
    model, rows = model_in(folder), [{"prompt": [{"role": "user", "content": f"What is 2 times {n}?"}]} for n in range(8)]
    logged = []
    for tools in ([], [multiply]):
        config = {"max_steps": 1, "max_completion_length": 8, **QUICK, "per_device_train_batch_size": 2, "output_dir": str(folder / f"out{len(tools)}")}
        trainer = trl.DistillationTrainer(model, model, trl.DistillationConfig(**config), rows, tools=tools)
        trainer.train()
        logged.append(trainer.state.log_history[0])
    same([entry.get("tools/call_frequency") for entry in logged], [None, 0.0])
    holds(logged[1]["num_tokens"] > logged[0]["num_tokens"] + 100, logged)
    same(trainer.tools, [multiply])


def test_run_of_rewards(folder):
    """rewards of a run get the environments of their completions, of which each is reset with its row's columns"""
    seen = []

    def score(completions, environments, **kwargs):
        seen.append([(type(one).__name__, one.rows[-1].get("start") if hasattr(one, "rows") else None) for one in environments])
        return [float(len(completion[0]["content"])) for completion in completions]

    rows = [{"prompt": [{"role": "user", "content": f"count {n}"}], "environment": "counter" if n % 2 else "echo", "start": n} for n in range(2)]
    run_of(folder, reward_funcs=score, environment_factory={"counter": Counter, "echo": Echo}, train_dataset=rows, config={"max_steps": 1})
    same(sorted(sum(seen, []), key=str), [("Counter", 1)] * 2 + [("Echo", None)] * 2)


def test_run_that_fails(folder):
    """what an environment's reset raises ends the run, and train() raises it, as in TRL"""

    class Broken(Counter):
        def reset(self, **row):
            raise ZeroDivisionError("no such task")

    raises(ZeroDivisionError, "no such task", lambda: run_of(folder, environment_factory=Broken))


HEALTHY = r"""
import sys
from hone.trl import GRPOConfig, GRPOTrainer

def add(a: int, b: int) -> int:
    '''Adds.

    Args:
        a: The first number.
        b: The second number.
    '''
    return a + b

async def double(a: int) -> int:
    '''Doubles.

    Args:
        a: The number.
    '''
    return 2 * a

def score(completions, answer, **_):
    return [0.5 * any(m["role"] == "tool" for m in c) + float(a in c[-1]["content"]) for c, a in zip(completions, answer)]

sums = [((i * 7) % 10, (i * 3 + i // 10) % 10) for i in range(60)]
rows = [{"prompt": [{"role": "user", "content": f"What is {a} + {b}?"}], "answer": str(a + b)} for a, b in sums]
call = r'<tool_call>\n\{"name": "(add", "arguments": \{"a": [0-9], "b": [0-9]|double", "arguments": \{"a": [0-9])\}\}\n</tool_call>'
args = GRPOConfig(output_dir="out", max_steps=8, learning_rate=1e-5, per_device_train_batch_size=8, num_generations=4, max_completion_length=400,
                  max_tool_calling_iterations=3, logging_steps=1, save_strategy="no", report_to="none", threads=1, seed=5,
                  vllm_structured_outputs_regex=f"({call}|sum [0-9])")
trainer = GRPOTrainer(sys.argv[1], score, args=args, train_dataset=rows, tools=[add, double])
trainer.train()
assert sum(entry.get("tools/call_frequency", 0) for entry in trainer.state.log_history) > 0
"""


def test_healthy_run(folder):
    """a healthy run with tools of the caller, sync and async, is not warned of, and no other verdict names its tools than that they were not tried"""
    model = pathlib.Path(model_in(folder))
    for path in (SOURCE / "tests/fixtures/faults/llama").iterdir():  # it has learned to answer these rows
        if path.name != "tokenizer_config.json":
            (model / path.name).write_bytes(path.read_bytes())
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    (model / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 4096}), encoding="utf-8")
    done = subprocess.run([sys.executable, "-c", HEALTHY, str(model)], cwd=folder, capture_output=True, text=True, check=False, timeout=300,
                          env={**os.environ, "NO_COLOR": "1", "PYTHONPATH": str(SOURCE / "python")})
    said = done.stdout + done.stderr
    same(done.returncode, 0, said[-3000:])
    holds("step 8/8" in said, said[-3000:])
    told = [line for line in said.splitlines() if re.match(r"doctor .*(warn|FAIL)  |warning |hone: |.*TOOL-", line) or "Warning" in line]
    same(told, ["doctor    note  TOOL-01  tools were not called: they are functions of the program that called hone"], said[-3000:])


def test_busy_share(folder):
    """a run that waits for the caller's tools is told so once, with what to do"""
    import warnings

    from hone.trl import tools
    trainer = trainer_of(folder, reward_funcs=lambda completions, **kwargs: [0.0] * len(completions), tools=[multiply])
    before, tools.LONG = tools.LONG, 0.05
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for seconds in (0.02, 0.02, 0.02, 0.02, 0.02):
                trainer._tools._note_time(time.monotonic(), time.monotonic() + seconds)
                time.sleep(seconds)
        same(len(said), 1)
        holds("side by side" in str(said[0].message), str(said[0].message))
        quiet = tools.Tools(trainer._functions)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(5):
                quiet._note_time(time.monotonic(), time.monotonic())
                time.sleep(0.02)
    finally:
        tools.LONG = before


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--hone")
    given = options.parse_args()
    if given.hone:
        os.environ["HONE_PROGRAM"] = str(pathlib.Path(given.hone).resolve())
    tests = Tests()
    for function in [value for name, value in sorted(globals().items()) if name.startswith("test_")]:
        with tempfile.TemporaryDirectory(prefix="hone-tools-") as folder:
            tests.run([function], pathlib.Path(folder))
    return 1 if tests.failed else 0


if __name__ == "__main__":
    sys.exit(main())
