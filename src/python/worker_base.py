# What the programs of hone's Python workers begin with (program.h). PATH, LIBRARY, PIPE, MOST_BYTES and ME are set by watcher.py.
#
# User code runs in the main thread (signal handlers and alarms work there); a second thread reads the frames, so that
# the end of hone is seen while a function runs. A function that never lets go of the interpreter is ended by
# faulthandler's own timer, which needs no interpreter.
import faulthandler, functools, importlib, importlib.util, inspect, json, math, os, queue, signal, struct, sys
import threading, time, traceback, types  # noqa: F401 - asyncio and difflib, which are slow to import, where they are needed

LIBRARY_PATH, sys.path[:] = list(sys.path), PATH  # what follows is the user's
sys.dont_write_bytecode = True  # nothing is written beside the user's files


def add_folder(folder):
    """Its modules come before installed packages and never before the standard library's."""
    if folder in sys.path:
        return
    library = [i for i, p in enumerate(sys.path) if LIBRARY and p.startswith(LIBRARY) and not p.endswith("-packages")]
    sys.path.insert(library[-1] + 1 if library else 0, folder)


class Fault(Exception):
    """What is wrong with the function itself: the sentences of an error."""

    def __init__(self, expected, found, cause="", fix=""):
        super().__init__(found)
        self.text = {"expected": expected, "found": found, "cause": cause, "fix": fix}
        self.passing = False


def own_import(*names):
    """Modules of the standard library, whatever the user's folders hold; the last one is returned."""
    now = list(sys.path)
    sys.path[:] = LIBRARY_PATH
    try:
        return [importlib.import_module(name) for name in names][-1]
    finally:
        sys.path[:] = now


# ---- frames: four bytes of length, little-endian, then JSON

def read_exactly(count):
    parts = []
    while count:
        try:
            part = os.read(PIPE, min(count, 1 << 20))
        except OSError:
            return None
        if not part:
            return None
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def read_frames(frames):
    while True:
        head = read_exactly(4)
        frame = head and read_exactly(struct.unpack("<I", head)[0])
        frames.put(frame)
        if frame is None:  # hone has ended or is done with us: the main thread may finish, and the watcher sees
            return         # to it that this does not take long


LARGE = ("large values", "return less")  # why an answer may be too long, and what to do


def send(message):
    data = json.dumps(message, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
    if len(data) > MOST_BYTES:
        fault = Fault(f"an answer of at most {MOST_BYTES >> 20} MB", f"{len(data) >> 20} MB",
                      *LARGE)
        data = json.dumps({"fault": fault.text}).encode()
    data = memoryview(struct.pack("<I", len(data)) + data)
    while data:
        data = data[os.write(PIPE, data):]


# ---- words for errors

SECRETS = {}  # value -> what is written in its place


def hidden(text):
    for value, name in SECRETS.items():
        text = text.replace(value, name)
    return text


def short(text, most=300):
    text = " ".join(hidden(str(text)[:100000]).split())
    text = "".join(c if c.isprintable() else "?" for c in text[:most + 1])
    return text if len(text) <= most else text[:most] + "..."


def short_repr(value, most=80):
    try:
        return short(repr(value), most)
    except BaseException:  # nested too deeply, or of the user's own making
        return "a " + type(value).__name__


def describe(error):
    try:
        text = short(error)
    except BaseException:
        text = ""
    return type(error).__name__ + (": " + text if text else "")


def place_of(error, file):
    """The deepest frame in the function's own file, or else the deepest one."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename != ME]
    own = [f for f in frames if f.filename == file]
    if not frames:
        return ""
    last = (own or frames)[-1]
    return f"{os.path.basename(last.filename)}:{last.lineno} in {last.name}"


def trace_of(error):
    """Python's traceback without our frames and importlib's."""
    told = traceback.TracebackException(type(error), error, error.__traceback__, limit=-20)
    ours = (ME, "<frozen importlib._bootstrap>", "<frozen importlib._bootstrap_external>")
    importer = os.path.join("importlib", "__init__.py")
    told.stack[:] = [f for f in told.stack if f.filename not in ours and not f.filename.endswith(importer)]
    try:
        text = hidden("".join(told.format(chain=False)).rstrip())
    except BaseException:
        text = describe(error)
    return text if len(text) <= 3000 else "..." + text[-3000:]


def unwrapped(function):
    while isinstance(function, functools.partial):
        function = function.func
    return function


# ---- loading

def load_module(entry):
    if "file" not in entry:
        name = entry["module"]
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name and (name == error.name or name.startswith(error.name + ".")):
                raise Fault(f"a module {name} that this Python can import", describe(error),
                            f"Python is {sys.executable}, working folder {os.getcwd()}",
                            "install the package there, name another Python with --python, start hone in its folder, or name the file: "
                            "path/to/file.py:function")
            raise
    path = entry["file"]
    real = os.path.realpath(path)
    for module in list(sys.modules.values()):  # two functions of one file share it, as do files that import it
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and file.endswith(".py") and os.path.realpath(file) == real:
            return module
    folder, base = os.path.split(path)
    add_folder(folder)
    name = os.path.splitext(base)[0]
    if name in sys.modules or name in getattr(sys, "stdlib_module_names", ()) or not name.isidentifier():
        name = "hone_user_" + "".join(c if c.isalnum() else "_" for c in name) + f"_{len(sys.modules)}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None:
        raise Fault("a Python file", f"{base}, which Python cannot import", "its name does not end in .py", "rename it")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def find_function(module, name, where, judge=False, classes=False):
    found = module
    for part in name.split("."):
        if not hasattr(found, part):
            names = [n for n, v in vars(found).items()
                     if callable(v) and not n.startswith("_") and (classes or not isinstance(v, type))] if hasattr(found, "__dict__") else []
            near = own_import("difflib").get_close_matches(part, names, 3, 0.5)
            listed = ", ".join(names[:12])
            raise Fault(f"a {'class or ' * classes}function {name} in {where}", "no such name" + (f"; it has {listed}" if names else ""),
                        "", "did you mean " + " or ".join(near) + "?" if near else "")
        found = getattr(found, part)
    if judge and not isinstance(found, type) and callable(getattr(found, "judge", None)):
        return found.judge  # an object as TRL's judges are
    if (isinstance(found, type) and not classes) or not callable(found):
        kind = "a class" if isinstance(found, type) else f"something of type {type(found).__name__}" if classes else f"a {type(found).__name__}"
        raise Fault(f"a {'class or ' * classes}function {name} in {where}", kind, "", "name a function, or an instance that can be called")
    return found


def import_module(entry):
    """load_module; whatever the module raises is a Fault."""
    try:
        return load_module(entry)
    except Fault:
        raise
    except BaseException as error:
        raise Fault(f"{os.path.basename(entry.get('file') or entry['module'])} imports without an error", trace_of(error),
                    f"Python is {sys.executable}", "correct the file, install what it lacks, or name another Python with --python")


def file_of(function):
    """That its code is in, as tracebacks name it; may be empty."""
    code = getattr(function, "__code__", None) or getattr(getattr(function, "__call__", None), "__code__", None)
    return code.co_filename if code else ""


# ---- the loop

def serve(answer, frames=None):
    """answer(message) gives the reply to each message; never returns before hone ends. `frames`: where messages arrive, for an answer that
    takes some of them itself."""
    os.set_inheritable(PIPE, False)
    sys.stdout.reconfigure(errors="backslashreplace", line_buffering=True)
    sys.stderr.reconfigure(errors="backslashreplace")
    faulthandler.enable(file=2)
    faulthandler.register(signal.SIGUSR2, file=2, all_threads=False)  # hone asks where a function hangs
    add_folder(os.getcwd())
    frames = queue.Queue() if frames is None else frames
    threading.Thread(target=read_frames, args=(frames,), daemon=True).start()
    while True:
        frame = frames.get()
        if frame is None:
            break
        try:
            reply = answer(json.loads(frame))
        except Fault as fault:
            reply = {"fault": fault.text, "passing": fault.passing}
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except BaseException:
                pass
        send(reply)


