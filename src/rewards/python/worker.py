# A reward worker (worker_script.h). python/worker_base.py and endpoint.py come before this text.

LARGE = ("long values of log_extra", "log less")
GIVEN = ("prompts", "completions", "completion_ids", "trainer_state", "log_extra", "log_metric")


class BadAnswer(Exception):
    """An answer that is not one score a completion."""
    whole = True  # a function that gives one score to a batch would give one to each sample alone, too


class Later(Exception):
    """An endpoint that may answer when it is asked again: kinds and what becomes of them in endpoint.h."""

    def __init__(self, kind, what, seconds=0):
        super().__init__(what)
        self.text = {"kind": kind, "what": what, "seconds": seconds}


class Elsewhere:
    """An environment, which lives in a process of its own: a reward function of a file cannot look into it."""

    def __init__(self, named):
        self.__dict__["named"] = named

    def __repr__(self):
        return "environment " + " ".join(map(str, self.named)).strip()

    def __getattr__(self, name):
        raise AttributeError(f"{self!r} lives in a process of its own, so that its {name} cannot be read here: give its class a method get_reward, "
                             "or pass the environments and this function to GRPOTrainer of hone.trl")


def environments_for(function, named):
    """The argument `environments` as TRL passes it, for a function that takes it."""
    if named is None or not function.takes_environments:
        if function.wants_environments:
            raise Fault("environments, which " + function.name + " wants", "a run without environments", "", "name one: environment: env.py:Factory")
        return {}
    return {"environments": named if function.is_callers else [Elsewhere(one) for one in named]}


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


def columns_read(function):
    """Names that it looks up in its **keywords, and parameters whose default is None or empty: columns that it reads where the
    data have them. Of a function whose source is not there: none."""
    function = function if inspect.isroutine(function) else type(function).__call__
    try:
        parameters = inspect.signature(function).parameters.values()
        tree = own_import("ast").parse(own_import("textwrap").dedent(inspect.getsource(function)))
    except (OSError, TypeError, ValueError, SyntaxError):
        return []
    is_empty = lambda value: value is None or (isinstance(value, (str, list, tuple, dict)) and not value)  # noqa: E731
    found = [p.name for p in parameters if p.default is not inspect.Parameter.empty and is_empty(p.default)]
    keywords = {p.name for p in parameters if p.kind == inspect.Parameter.VAR_KEYWORD}
    for node in own_import("ast").walk(tree):
        found += [name for mapping, name in looked_up(node) if mapping in keywords and isinstance(name, str)]
    return [name for name in dict.fromkeys(found) if name not in GIVEN and name != "environments"]


def looked_up(node):
    """(name of a mapping, key) of `m.get("k")`, `m["k"]` and `"k" in m`."""
    name_of = lambda one: getattr(one, "id", None)  # noqa: E731
    value_of = lambda one: getattr(one, "value", None)  # noqa: E731
    kind = type(node).__name__
    if kind == "Call" and node.args and getattr(node.func, "attr", "") in ("get", "pop", "setdefault"):
        return [(name_of(node.func.value), value_of(node.args[0]))]
    if kind == "Subscript":
        return [(name_of(node.value), value_of(node.slice))]
    if kind == "Compare":
        return [(name_of(node.comparators[0]), value_of(node.left))]
    return []


class Function:
    takes_environments = wants_environments = is_callers = False

    def __init__(self, entry):
        self.file = ""
        self.reads = []
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
        self.call = find_function(import_module(entry), entry["function"], os.path.basename(where), self.judge)
        inner = unwrapped(self.call)
        self.name = getattr(inner, "__name__", type(inner).__name__)
        self.file = file_of(inner)
        self.is_async = inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(inner.__call__)
        given = ("prompts", "completions") if self.judge else GIVEN
        self.needed, self.taken = check_parameters(self.name, self.call, given)
        self.takes_environments = self.taken is None or "environments" in self.taken
        self.wants_environments = "environments" in self.needed
        self.needed = [name for name in self.needed if name != "environments"]  # no column
        self.is_callers = entry.get("module") == "hone.caller"
        self.reads = [] if self.judge else columns_read(inner)


def load(message):
    if any("url" in entry for entry in message["functions"]):  # before the user's own modules
        own_import("base64", "email.utils", "http.client", "ipaddress", "re", "socket", "ssl", "stringprep",
                   "encodings.idna", "urllib.error", "urllib.parse", "urllib.request")
    for index, entry in enumerate(message["functions"]):
        try:
            FUNCTIONS.append(Function(entry))
        except Fault as fault:
            return {"fault": fault.text, "function": index}
    return {"functions": [{"name": f.name, "needed": f.needed, "reads": f.reads, "file": f.file,
                           "environments": f.wants_environments} for f in FUNCTIONS]}


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
    else:
        given.update(environments_for(function, message.get("environments")))
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
        if hasattr(error, "hone_fault"):  # of a program that called hone: its function has raised, which ends the run
            raise Fault(*error.hone_fault)
        return {"raised": {"what": describe(error), "place": place_of(error, function.file), "trace": trace_of(error)}}
    finally:
        faulthandler.cancel_dump_traceback_later()
    checked = [number(value) for value in result]
    return {"rewards": [value for value, _ in checked], "bad": [[i, why] for i, (_, why) in enumerate(checked) if why],
            "extra": list(extra.items()), "metrics": metrics}


# ---- the loop

def answer(message):
    try:
        return load(message) if message["do"] == "load" else score(message)
    except Later as later:
        return {"later": later.text}


FUNCTIONS, LOOP = [], None
serve(answer)
