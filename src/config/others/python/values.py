# What a script's names hold, found by reading it. python/worker_base.py comes before this text, changes.py to script.py after it.
# Nothing of the script is imported or executed: every operation on a value is one of this file, on plain values of bounded size.
ast, copy = own_import("ast"), own_import("copy")

MOST_TEXT, MOST_ITEMS, MOST_BITS = 1 << 20, 100_000, 4096


class Unknown:
    """A value that reading does not give: `why`, and `at`, the line of the reason."""

    def __init__(self, why, at):
        self.why, self.at = why, at


class Either:
    """What the arms of a condition leave in one place."""

    def __init__(self, values, at):
        self.values, self.at = values, at


class Absent:
    """In Either: an arm that sets nothing. One object."""

    def __deepcopy__(self, memo):
        return self


ABSENT = Absent()


class External:
    """A name of another module: "trl.SFTConfig"."""

    def __init__(self, name):
        self.name = name

    def __deepcopy__(self, memo):
        return self


class Made:
    """What a call of another module's function gives, a method of such a thing (".map", with `base`), its attribute
    (".config"), its entry ("[]"). `args`: name -> (value, line); `plain`: those without a name."""

    def __init__(self, name, at, args=None, plain=None, base=None):
        self.name, self.at, self.base = name, at, base
        self.args, self.plain = args or {}, plain or []
        self.own = None      # the script's own class: what it overrides
        self.touched = None  # why its values may be others
        self.parts = {}      # its attributes and entries that were looked at or set: ".config", "train"


class Code:
    """A node of the script, which copies share."""

    def __init__(self, node):
        self.node = node

    def __deepcopy__(self, memo):
        return self


class Function:
    def __init__(self, code, name, closure, defaults, decorators=()):
        self.code, self.name, self.closure, self.defaults, self.decorators = code, name, closure, defaults, list(decorators)


class Method:
    def __init__(self, function, of):
        self.function, self.of = function, of


class Class:
    def __init__(self, code, name, bases, names, fields, is_data):
        self.code, self.name, self.bases, self.names, self.fields, self.is_data = code, name, bases, names, fields, is_data


class Instance:
    def __init__(self, of):
        self.of, self.names = of, {}


class FileText:
    """The text of a file, or the open file."""

    def __init__(self, path):
        self.path = path


class PathText(str):
    """A pathlib.Path."""


class Raised(Exception):
    """The script ends here, or raises."""


class Returned(Exception):
    def __init__(self, value):
        super().__init__()
        self.value = value


class Jump(Exception):
    """break and continue."""


class TooLong(Exception):
    pass


def is_plain(value):
    return value is None or isinstance(value, (bool, int, float, str, bytes, list, tuple, dict, set, range, type(...)))


def first_unknown(value, depth=0, seen=None):
    """The Unknown, Either or object in a value; None where all of it is plain. A part that is there often is looked at once."""
    seen = set() if seen is None else seen
    if isinstance(value, (list, tuple, set, dict)):
        if id(value) in seen:
            return None
        seen.add(id(value))
    if isinstance(value, (list, tuple, set)):
        values = value
    elif isinstance(value, dict):
        values = list(value.values()) + list(value)
    else:
        return None if is_plain(value) else value
    if depth > 60:
        return Unknown("it is nested too deeply", "")
    for one in values:
        found = first_unknown(one, depth + 1, seen)
        if found is not None:
            return found
    return None


def is_light(value):
    """Whether its text stays small: a list of itself, ten times over, is small and has a text without end."""
    left, rest = MOST_ITEMS, [value]
    while rest and left > 0:
        one = rest.pop()
        left -= 1 + (len(one) if isinstance(one, (list, tuple, set, dict)) else 0)
        if left > 0 and isinstance(one, dict):
            rest += [*one.values(), *one]
        elif left > 0 and isinstance(one, (list, tuple, set)):
            rest += one
        elif isinstance(one, str):
            left -= len(one) >> 6
    return left > 0


def why_not(value, at):
    """The Unknown that an operation on `value` gives."""
    if isinstance(value, Unknown):
        return value
    if isinstance(value, Either):
        return Unknown(f"it differs between the arms of a condition in line {value.at}", value.at)
    if isinstance(value, Made):
        return Unknown(f"it comes from {shown_call(value)} in line {value.at}", value.at)
    if isinstance(value, External):
        return Unknown(f"it comes from {value.name}", at)
    if isinstance(value, (Function, Method, Class)):
        return Unknown("it is a function or a class of the script", at)
    return Unknown("reading does not give it", at)


def shown_call(made):
    names = []
    while made is not None and len(names) < 4:
        names.append(made.name)
        made = made.base if isinstance(made.base, Made) else None
    return "".join(reversed(names)) + ("" if names[0].startswith("[") else "()")


def in_order(value):
    """The entries of a set in an order that is the same each time."""
    return sorted(value, key=str) if isinstance(value, set) and first_unknown(value) is None else list(value)


def size_of(value):
    return len(value) if isinstance(value, (str, bytes, list, tuple, dict, set, range)) else 1


def checked(value):
    """`value`, or an Unknown where it is too large to go on with."""
    if isinstance(value, (str, bytes)) and len(value) > MOST_TEXT:
        return Unknown("it is too long", "")
    if isinstance(value, (list, tuple, dict, set)) and len(value) > MOST_ITEMS:
        return Unknown("it has too many entries", "")
    if isinstance(value, range) and max(map(abs, (value.start, value.stop, value.step))) >= 1 << 53:
        return Unknown("it is too large", "")
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        return Unknown("it is too large a number", "")
    return value


def bounded(op, left, right):
    """Whether `left op right` stays small enough to be computed."""
    if isinstance(op, ast.Pow):
        return not isinstance(left, int) or not isinstance(right, int) or abs(left) < 2 or 0 <= right <= MOST_BITS // left.bit_length()
    if isinstance(op, ast.LShift):
        return isinstance(right, int) and 0 <= right <= MOST_BITS
    if isinstance(op, ast.Mult):
        for count, of in ((left, right), (right, left)):
            if isinstance(count, int) and not isinstance(of, (int, float)):
                return count * size_of(of) <= MOST_ITEMS
        return not (isinstance(left, int) and isinstance(right, int)) or left.bit_length() + right.bit_length() <= MOST_BITS
    if isinstance(op, ast.Mod) and isinstance(left, (str, bytes)):
        return no_wide_format(left) and is_light(right)
    return size_of(left) + size_of(right) <= MOST_TEXT


def no_wide_format(text):
    """No field of a format is wider than 9,999, and none takes its width from a value."""
    digits = 0
    for c in text if isinstance(text, str) else "*":
        digits = digits + 1 if c.isdigit() else 0
        if digits > 4 or c == "*":
            return False
    fields = text.replace("{{", "").replace("}}", "") if isinstance(text, str) else ""
    return all("}" in field for field in fields.split("{")[1:-1])  # no field inside another


BINARY = {ast.Add: lambda a, b: a + b, ast.Sub: lambda a, b: a - b, ast.Mult: lambda a, b: a * b,
          ast.Div: lambda a, b: a / b, ast.FloorDiv: lambda a, b: a // b, ast.Mod: lambda a, b: a % b,
          ast.Pow: lambda a, b: a ** b, ast.LShift: lambda a, b: a << b, ast.RShift: lambda a, b: a >> b,
          ast.BitOr: lambda a, b: {**a, **b} if isinstance(a, dict) else a | b, ast.BitAnd: lambda a, b: a & b,
          ast.BitXor: lambda a, b: a ^ b}
UNARY = {ast.USub: lambda a: -a, ast.UAdd: lambda a: +a, ast.Invert: lambda a: ~a, ast.Not: lambda a: not a}
COMPARE = {ast.Eq: lambda a, b: a == b, ast.NotEq: lambda a, b: a != b, ast.Lt: lambda a, b: a < b,
           ast.LtE: lambda a, b: a <= b, ast.Gt: lambda a, b: a > b, ast.GtE: lambda a, b: a >= b,
           ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
           ast.Is: lambda a, b: a is b or (a == b and type(a) is type(b)),
           ast.IsNot: lambda a, b: not (a is b or (a == b and type(a) is type(b)))}

# Methods of plain values that only look, or change the value itself.
METHODS = {
    str: {"strip", "lstrip", "rstrip", "split", "rsplit", "lower", "upper", "title", "startswith", "endswith", "find", "count",
          "isdigit", "splitlines", "partition", "rpartition", "capitalize", "removeprefix", "removesuffix"},
    list: {"append", "extend", "insert", "pop", "remove", "index", "count", "copy", "reverse", "clear", "sort"},
    dict: {"get", "items", "keys", "values", "copy", "update", "pop", "setdefault", "clear"},
    tuple: {"index", "count"}, set: {"add", "union", "update", "discard", "copy", "remove", "clear"}}


def call_method(value, name, given, named, at):
    """value.name(*given, **named) of a plain value; an Unknown where it is not one of METHODS."""
    kind = next((k for k in METHODS if isinstance(value, k)), None)
    if kind is str and name == "join" and len(given) == 1 and first_unknown(given[0]) is None:
        parts = list(given[0]) if size_of(given[0]) <= MOST_ITEMS else []
        if all(isinstance(p, str) for p in parts) and sum(map(len, parts)) + len(value) * len(parts) <= MOST_TEXT:
            return value.join(parts)
    elif kind is str and name == "replace" and len(given) == 2 and all(isinstance(g, str) for g in given):
        if (value.count(given[0]) + 1) * len(given[1]) + len(value) <= MOST_TEXT:
            return value.replace(*given)
    elif kind is str and name == "format" and no_wide_format(value) and is_light([*given, *named.values()]) and first_unknown([*given, *named.values()]) is None:
        if sum(map(size_of, [*given, *named.values()])) * (value.count("{") + 1) <= MOST_TEXT:
            return checked(value.format(*given, **named))
    elif kind is not None and name in METHODS[kind]:
        changes = name in ("append", "extend", "insert", "update", "setdefault", "add")
        if kind is str and first_unknown([*given, *named.values()]) is not None:
            return why_not(first_unknown([*given, *named.values()]), at)
        if changes and size_of(value) + sum(map(size_of, given)) > MOST_ITEMS:
            return Unknown("it has too many entries", at)
        if name in ("update", "extend", "union") and any(not is_plain(g) for g in given):
            return why_not(next(g for g in given if not is_plain(g)), at)
        found = getattr(value, name)(*given, **named)
        return list(found) if name in ("items", "keys", "values") else found
    return Unknown(f"the method {short(name, 40)} is not read", at)


def plain_call(name, given, named, at):
    """A function of Python's own on plain values; NotImplemented where it is not one that is read."""
    if name in ("dict", "list", "tuple", "set") and not named and len(given) == 1 and isinstance(given[0], (list, tuple, dict, set, range)):
        if isinstance(given[0], set) and first_unknown(given[0]) is not None:
            return why_not(first_unknown(given[0]), at)
        if size_of(given[0]) > MOST_ITEMS:
            return Unknown("it has too many entries", at)
        return {"dict": dict, "list": list, "tuple": tuple, "set": set}[name](in_order(given[0]) if isinstance(given[0], set) else given[0])
    if name == "dict" and all(isinstance(g, dict) for g in given) and len(given) < 2:
        return {**(given[0] if given else {}), **named}
    if name in ("list", "tuple", "set") and not given:
        return {"list": list, "tuple": tuple, "set": set}[name]()
    if name == "len" and len(given) == 1 and is_plain(given[0]):
        return len(given[0])
    if name in ("zip", "enumerate", "reversed", "sorted") and all(isinstance(g, (list, tuple, range, str, dict) + ((set,) if name == "sorted" else ())) for g in given[:1] + (given if name == "zip" else [])):
        if not named and sum(map(size_of, given)) <= MOST_ITEMS and (name != "sorted" or first_unknown(given) is None):
            return list({"zip": zip, "enumerate": enumerate, "reversed": lambda v: reversed(list(v)), "sorted": sorted}[name](*given))
        return Unknown(f"{name} of these values is not read", at)
    simple = {"int": int, "float": float, "str": str, "bool": bool, "min": min, "max": max, "abs": abs, "round": round,
              "sum": sum, "range": range, "any": any, "all": all}
    if name not in simple:
        return NotImplemented
    bad = first_unknown([*given, *named.values()])
    if bad is not None:
        return why_not(bad, at)
    numbers = name != "sum" or len(given) == 1 and all(isinstance(one, (int, float)) for one in given[0])
    if named or not numbers or not is_light(given) or (name == "int" and given and isinstance(given[0], str) and len(given[0]) > 1000):
        return Unknown(f"{name} of these values is not read", at)
    return checked(simple[name](*given))
