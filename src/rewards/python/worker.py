# A reward worker (worker_script.h). PATH, LIBRARY, PIPE and MOST_BYTES are set by watcher.py.
#
# User code runs in the main thread (signal handlers and alarms work there); a second thread reads the frames, so that
# the end of hone is seen while a function runs. A function that never lets go of the interpreter is ended by
# faulthandler's own timer, which needs no interpreter.
import faulthandler, functools, importlib, importlib.util, inspect, json, math, os, queue, signal, struct, sys
import threading, time, traceback, types  # asyncio and difflib, which are slow to import, where they are needed

LIBRARY_PATH, sys.path[:] = list(sys.path), PATH  # what follows is the user's


def add_folder(folder):
    """Its modules come before installed packages and never before the standard library's."""
    if folder in sys.path:
        return
    library = [i for i, p in enumerate(sys.path) if LIBRARY and p.startswith(LIBRARY) and not p.endswith("-packages")]
    sys.path.insert(library[-1] + 1 if library else 0, folder)

ME = "<hone reward worker>"
GIVEN = ("prompts", "completions", "completion_ids", "trainer_state", "log_extra", "log_metric")


class Fault(Exception):
    """What is wrong with the function itself: the sentences of an error."""

    def __init__(self, expected, found, cause="", fix=""):
        super().__init__(found)
        self.text = {"expected": expected, "found": found, "cause": cause, "fix": fix}
        self.passing = False


class BadAnswer(Exception):
    """An answer that is not one score a completion."""
    whole = True  # a function that gives one score to a batch would give one to each sample alone, too


class Later(Exception):
    """An endpoint that may answer when it is asked again: kinds and what becomes of them in endpoint.h."""

    def __init__(self, kind, what, seconds=0):
        super().__init__(what)
        self.text = {"kind": kind, "what": what, "seconds": seconds}


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


def send(message):
    data = json.dumps(message, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
    if len(data) > MOST_BYTES:
        fault = Fault(f"an answer of at most {MOST_BYTES >> 20} MB", f"{len(data) >> 20} MB",
                      "long values of log_extra", "log less")
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
                            "install the package there, start hone in its folder, or name the file: path/to/file.py:function")
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
        name = "hone_reward_" + "".join(c if c.isalnum() else "_" for c in name) + f"_{len(sys.modules)}"
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


def find_function(module, name, where, judge=False):
    found = module
    for part in name.split("."):
        if not hasattr(found, part):
            names = [n for n, v in vars(found).items()
                     if callable(v) and not n.startswith("_") and not isinstance(v, type)] if hasattr(found, "__dict__") else []
            near = own_import("difflib").get_close_matches(part, names, 3, 0.5)
            listed = ", ".join(names[:12])
            raise Fault(f"a function {name} in {where}", "no such name" + (f"; it has {listed}" if names else ""),
                        "", "did you mean " + " or ".join(near) + "?" if near else "")
        found = getattr(found, part)
    if judge and not isinstance(found, type) and callable(getattr(found, "judge", None)):
        return found.judge  # an object as TRL's judges are
    if isinstance(found, type) or not callable(found):
        raise Fault(f"a function {name} in {where}", f"a {'class' if isinstance(found, type) else type(found).__name__}",
                    "", "name a function, or an instance that can be called")
    return found


def check_parameters(name, function, given=GIVEN):
    """Columns that it wants, and whether it takes any; a Fault for a function that TRL could not call."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a builtin does not say
        return [], None
    kinds = inspect.Parameter
    wants = f"a function that takes {', '.join(given)} by name, as TRL passes them"
    fix = f"def {name}(prompts, completions, **kwargs)"
    taken = {p.name for p in parameters if p.kind in (kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY)}
    unnamed = [p.name for p in parameters if p.kind == kinds.POSITIONAL_ONLY and p.default is kinds.empty]
    if unnamed:
        raise Fault(wants, f"{name} takes {', '.join(unnamed)} by position only", "", fix)
    takes_any = any(p.kind == kinds.VAR_KEYWORD for p in parameters)
    refused = [] if takes_any else [g for g in given if g not in taken]
    if refused:
        raise Fault(wants, f"{name} does not take {', '.join(refused)}", "**kwargs is missing", fix)
    needed = [p.name for p in parameters if p.name in taken and p.default is kinds.empty and p.name not in GIVEN]
    for singular in ("prompt", "completion"):
        if singular in needed:
            raise Fault(wants, f"{name} wants {singular!r}", f"TRL passes the whole batch, as {singular + 's'!r}", fix)
    return needed, None if takes_any else taken


class Function:
    def __init__(self, entry):
        self.file = ""
        self.judge = "judge" in entry
        if "url" in entry and self.judge:
            self.call, self.name, self.needed, self.taken = http_judge(entry["url"], entry["secret"], **entry["judge"])
            self.is_async = False
            return
        if "url" in entry:
            self.call, self.name, self.needed, self.taken = http_reward(entry["url"], entry["secret"])
            self.is_async = False
            return
        where = entry.get("file") or entry["module"]
        try:
            module = load_module(entry)
        except Fault:
            raise
        except BaseException as error:
            raise Fault(f"{os.path.basename(where)} imports without an error", trace_of(error),
                        f"Python is {sys.executable}", "correct the file, install what it lacks, or choose another Python")
        self.call = find_function(module, entry["function"], os.path.basename(where), self.judge)
        inner = unwrapped(self.call)
        self.name = getattr(inner, "__name__", type(inner).__name__)
        code = getattr(inner, "__code__", None) or getattr(getattr(inner, "__call__", None), "__code__", None)
        self.file = code.co_filename if code else ""
        self.is_async = inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(inner.__call__)
        given = ("prompts", "completions") if self.judge else GIVEN
        self.needed, self.taken = check_parameters(self.name, self.call, given)


def load(message):
    if any("url" in entry for entry in message["functions"]):  # before the user's own modules
        own_import("base64", "email.utils", "http.client", "ipaddress", "re", "socket", "ssl", "stringprep",
                   "encodings.idna", "urllib.error", "urllib.parse", "urllib.request")
    for index, entry in enumerate(message["functions"]):
        try:
            FUNCTIONS.append(Function(entry))
        except Fault as fault:
            return {"fault": fault.text, "function": index}
    return {"functions": [{"name": f.name, "needed": f.needed, "file": f.file} for f in FUNCTIONS]}


# ---- calling

def number(value):
    """(number or None, what is wrong with it or None)"""
    if value is None:
        return None, None
    if not hasattr(type(value), "__float__") and not hasattr(type(value), "__index__"):
        return None, f"not a number: {short_repr(value)}"
    try:
        value = float(value)
    except BaseException as error:
        return None, f"not a number: {describe(error)}"
    if math.isfinite(value):
        return value, None
    return None, "NaN" if math.isnan(value) else "infinity" if value > 0 else "-infinity"


MOST_KEYS = 1000  # of an object for the table of completions; larger ones are shown as text


def plain(value, depth=0):
    """For the table of completions: as JSON, if that is what it is, or else as text."""
    if value is None or isinstance(value, (bool, str)):
        return value if type(value) in (type(None), bool, str) else str(value)
    if isinstance(value, int):
        return int(value) if -2**63 <= value < 2**63 else str(value)
    if depth < 16 and isinstance(value, (list, tuple)):
        return [plain(v, depth + 1) for v in value]
    if depth < 16 and isinstance(value, dict) and len(value) <= MOST_KEYS:
        return {str(k): plain(v, depth + 1) for k, v in value.items()}
    if hasattr(type(value), "__float__"):
        try:
            value = float(value)
            return value if math.isfinite(value) else None
        except BaseException:
            pass
    try:
        return short(value, 2000)
    except BaseException:
        return "a " + type(value).__name__


async def awaited(call):
    result = call()
    return await result if inspect.isawaitable(result) else result


def finished(call):
    """What an asynchronous call gives; always in one loop, since clients stay bound to theirs."""
    global LOOP
    asyncio = own_import("asyncio")
    if LOOP is None:
        LOOP = asyncio.new_event_loop()
        asyncio.set_event_loop(LOOP)
    return LOOP.run_until_complete(awaited(call))


def run(function, call):
    if function.is_async:
        return finished(call)
    result = call()
    return finished(lambda: result) if inspect.isawaitable(result) else result


SECONDS = 60  # that the call under way may take


def score(message):
    global SECONDS
    SECONDS = message["seconds"]
    function = FUNCTIONS[message["function"]]
    count = len(message["completions"])
    columns = message["columns"]
    extra, metrics = {}, []

    def log_extra(column, values):
        if isinstance(values, str):
            raise TypeError(f"log_extra({column!r}, ...) wants a list, one value per completion, not a string")
        extra.setdefault(str(column), []).extend(plain(v) for v in values)

    def log_metric(name, value):
        value = float(value)
        metrics.append([str(name), value if math.isfinite(value) else None])

    clashing = [c for c in columns if c in GIVEN]
    if clashing:
        raise Fault("columns whose names TRL does not use itself", ", ".join(map(repr, clashing)), "", "rename them in the data")
    missing = [c for c in function.needed if c not in columns]
    if missing:
        raise Fault(f"a column {' and '.join(map(repr, missing))}, which {function.name} wants",
                    "the data have " + (", ".join(map(repr, columns)) or "no other columns"))
    refused = [] if function.taken is None or function.judge else [c for c in columns if c not in function.taken]
    if refused:
        raise Fault("a function that takes the data's columns", f"{function.name} does not take {', '.join(refused)}",
                    "**kwargs is missing", f"def {function.name}(prompts, completions, **kwargs)")
    given = dict(prompts=message["prompts"], completions=message["completions"], completion_ids=message["completion_ids"],
                 **columns, trainer_state=types.SimpleNamespace(**message["trainer_state"]), log_extra=log_extra,
                 log_metric=log_metric)
    if function.judge:  # completions are pairs; it is given what it takes
        del given["completion_ids"]
        given = {name: value for name, value in given.items() if function.taken is None or name in function.taken}
    call = functools.partial(function.call, **given)
    faulthandler.dump_traceback_later(3 * message["timeout"] + 60, exit=True, file=2)
    try:
        result = run(function, call)
        if isinstance(result, (str, bytes, dict)) or not hasattr(type(result), "__iter__"):
            a_return = ": a `return` is missing" if result is None else ""
            raise BadAnswer(f"{function.name} returned {'None' if result is None else 'a ' + type(result).__name__}, "
                            f"where a list of {count} scores is wanted, one per completion{a_return}")
        result = list(result)
        if len(result) != count:
            raise BadAnswer(f"{function.name} returned {len(result)}, where a list of {count} scores is wanted, one "
                            "per completion")
        for column, values in extra.items():
            if len(values) != count:
                raise BadAnswer(f"log_extra({column!r}, ...) wants {count} values, one per completion, and had "
                                f"{len(values)} values")
    except (Fault, Later):
        raise
    except (BadAnswer, HttpAnswer) as error:
        return {"raised": {"what": short(error, 600), "place": "", "trace": "", "whole": error.whole}}
    except BaseException as error:
        return {"raised": {"what": describe(error), "place": place_of(error, function.file), "trace": trace_of(error)}}
    finally:
        faulthandler.cancel_dump_traceback_later()
    checked = [number(value) for value in result]
    return {"rewards": [value for value, _ in checked], "bad": [[i, why] for i, (_, why) in enumerate(checked) if why],
            "extra": list(extra.items()), "metrics": metrics}


# ---- the loop

def main():
    os.set_inheritable(PIPE, False)
    sys.stdout.reconfigure(errors="backslashreplace", line_buffering=True)
    sys.stderr.reconfigure(errors="backslashreplace")
    faulthandler.enable(file=2)
    faulthandler.register(signal.SIGUSR2, file=2, all_threads=False)  # hone asks where a function hangs
    add_folder(os.getcwd())
    frames = queue.Queue()
    threading.Thread(target=read_frames, args=(frames,), daemon=True).start()
    while True:
        frame = frames.get()
        if frame is None:
            break
        message = json.loads(frame)
        try:
            reply = load(message) if message["do"] == "load" else score(message)
        except Fault as fault:
            reply = {"fault": fault.text, "passing": fault.passing}
        except Later as later:
            reply = {"later": later.text}
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except BaseException:
                pass
        send(reply)


FUNCTIONS, LOOP = [], None
main()
