# Tools and environments by the words of the options. BUILT_IN, {module: text}, is assigned above; schemas.py comes before this text.

class BuiltIn:
    """Finds hone.tools where no installed package has it: the program's own texts."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name not in BUILT_IN and name != "hone":
            return None
        is_package = name in ("hone", "hone.tools")
        spec = importlib.util.spec_from_loader(name, BuiltIn, origin=f"<{name}>", is_package=is_package)
        return spec

    @staticmethod
    def create_module(spec):
        return None

    @staticmethod
    def exec_module(module):
        exec(compile(BUILT_IN.get(module.__name__, ""), f"<{module.__name__}>", "exec"), vars(module))


sys.meta_path.append(BuiltIn)
STANDALONE = {}  # name -> function
NOTES = []       # what the user should know of the tools


def file_line(function):
    code = getattr(unwrapped(function), "__code__", None)
    return f" ({os.path.basename(code.co_filename)}:{code.co_firstlineno})" if code else ""


def described(function):
    """{"name", "schema", "is_async"}; a Fault that names the function and the argument."""
    try:
        schema = getattr(function, "hone_schema", None) or schema_of(function)
    except BadTool as bad:
        fault = Fault(bad.expected, bad.found, "", bad.fix)
        fault.text["at"] = bad.where + file_line(function)
        raise fault
    check = getattr(function, "hone_check", None)
    if check is not None:
        try:
            check()
        except ValueError as error:
            raise Fault("a tool that can be called", str(error))
    note = getattr(function, "hone_note", None)
    if note is not None and note():
        NOTES.append(note())
    return {"name": schema["function"]["name"], "schema": schema, "is_async": inspect.iscoroutinefunction(function)}


def once(tools):
    """A Fault for two of one name."""
    seen = set()
    for tool in tools:
        if tool["name"] in seen:
            raise Fault("tools of different names", f"two are called {tool['name']}: the model could not choose", "",
                        "rename one of them, or leave it out")
        seen.add(tool["name"])
    return tools


def load_tools(entries):
    """Descriptions of all standalone tools; a Fault has the word of the option."""
    out = []
    for entry in entries:
        with of_word(entry):
            where = os.path.basename(entry.get("file") or entry["module"])
            module = import_module(entry)
            for name in entry["names"]:
                function = find_function(module, name, where)
                tool = described(function)
                out = once([*out, tool])
                STANDALONE[tool["name"]] = function
    return out


class of_word:
    """A Fault in it says which word of which option it is about."""

    def __init__(self, entry):
        self.entry = entry

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if isinstance(error, Fault):
            error.text.setdefault("word", self.entry["word"])
        return False


def require_capacity(instance, number):
    """Of a server that limits its sessions: a Fault where it does not hold one for each completion that is sampled at once."""
    check = getattr(instance, "_hone_capacity", None)
    if check is None or number != 0 or SETUP["sessions"] < 2:
        return
    try:
        check(SETUP["sessions"])
    except BaseException as error:
        raise Fault(*getattr(error, "hone_fault", ("a server that answers", trace_of(error))))


def load_environment(fork, entry, place, standalone):
    """Makes the environment that `fork` holds; what it is. What its factory draws is the same in each run; each reset has a seed of its own."""
    with of_word(entry):
        where = os.path.basename(entry.get("file") or entry["module"])
        factory = find_function(import_module(entry), entry["names"][0], where, classes=True)
        seed_generators("/".join(map(str, place)))
        try:
            if "url" in entry:  # of a server, which the class asks for its tools
                factory = factory(entry["url"])
            # The program that called hone has a place of its own for each.
            fork.instance = factory(*place[1:]) if getattr(factory, "hone_takes_place", False) else factory()
        except BaseException as error:
            if hasattr(error, "hone_fault"):
                raise Fault(*error.hone_fault)
            raise Fault(f"{entry['names'][0]}(), which makes an environment", trace_of(error))
        require_capacity(fork.instance, place[1])
        names, has_reset, has_reward = methods_of(fork.instance)
        title = type(fork.instance).__name__
        if not has_reset:
            raise Fault("an environment with a method `reset`", f"{title}, which has " + (", ".join(names) or "no methods"), "",
                        "def reset(self, **row): it gets the row's columns, and returns what the model is shown first, or None")
        methods = [getattr(fork.instance, name) for name in names]
        tools = [described(method) for method in methods]
        once([{"name": name} for name in standalone] + tools)
        fork.functions = {tool["name"]: method for tool, method in zip(tools, methods)}
        fork.takes_seed = names_seed(fork.instance.reset)
        return {"class": title, "tools": tools, "reward": has_reward, "seed": fork.takes_seed}

