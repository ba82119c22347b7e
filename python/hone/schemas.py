"""The JSON schema of a tool, as transformers' get_json_schema makes it of a function's type hints and its docstring in Google's style.

Standard library only: the program has this text too, for its workers (src/tools/worker). tests/tools/schemas_test.py compares it with what
transformers has made.
"""
import enum
import inspect
import json
import re
import sys
import types
import typing

_SCALARS = {int: "integer", float: "number", str: "string", bool: "boolean", type(None): "null"}
_NAMES = {**_SCALARS, list: "array", tuple: "array", dict: "object"}
_UNIONS = (typing.Union, getattr(types, "UnionType", typing.Union))
_SECTIONS = r"Args:|Returns:|Raises:|\Z"

DOCSTRING = '''a docstring in Google's style:
          """What the tool does.

          Args:
              name: What the argument is.
          """'''


class BadTool(ValueError):
    """A function that cannot be a tool: the sentences of an error. `where`: "function, argument"."""

    def __init__(self, where, expected, found, fix=""):
        self.where, self.expected, self.found, self.fix = where, expected, found, fix
        super().__init__(f"{where}: expected {expected}, found {found}")


def name_of(function):
    return getattr(function, "__name__", "operation")


# ---- type hints

def _is(hint, module, name):
    """Whether it is that class, where somebody has imported its module."""
    found = getattr(sys.modules.get(module), name, None)
    return found is not None and hint is found


def _plain(hint):
    """Of a hint without arguments; None for what the schema has no word for."""
    if hint is typing.Any:
        return {}
    if _is(hint, "PIL.Image", "Image"):
        return {"type": "image"}
    if _is(hint, "torch", "Tensor"):
        return {"type": "audio"}
    try:
        name = _NAMES.get(hint)
    except TypeError:  # not hashable
        return None
    return None if name is None else {"type": name}


def _choices(values, shown):
    if not values or any(type(value) not in _SCALARS for value in values):
        raise ValueError(f"{shown}, which has {'no values' if not values else 'values that are no text, number, bool or None'}")
    kinds = list(dict.fromkeys(_SCALARS[type(value)] for value in values))
    return {"type": kinds[0] if len(kinds) == 1 else kinds, "enum": values}


def _union(parts):
    kinds = [schema_of_hint(part) for part in parts if part is not type(None)]
    if len(kinds) == 1:
        out = kinds[0]
    elif all(kind.keys() == {"type"} and isinstance(kind["type"], str) for kind in kinds):
        names = sorted({kind["type"] for kind in kinds})
        out = {"type": names[0] if len(names) == 1 else names}
    else:
        out = {"anyOf": kinds}
    if type(None) in parts:
        out["nullable"] = True
    return out


def schema_of_hint(hint):
    """ValueError with what the hint is, where no schema can say it."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    shown = getattr(hint, "__qualname__", None) if isinstance(hint, type) and origin is None else str(hint).replace("typing.", "")
    if origin is None:
        if isinstance(hint, type) and issubclass(hint, enum.Enum):
            return _choices([member.value for member in hint], shown)
        out = _plain(hint)
        if out is None:
            raise ValueError(f"{shown}, which has no JSON schema")
        return out
    if origin in _UNIONS:
        return _union(parts)
    if origin is typing.Literal and parts:
        return _choices(list(parts), shown)
    if origin is list:
        return {"type": "array", "items": schema_of_hint(parts[0])} if parts else {"type": "array"}
    if origin is tuple and not parts:
        return {"type": "array"}
    if origin is tuple and len(parts) > 1 and ... not in parts:
        return {"type": "array", "prefixItems": [schema_of_hint(part) for part in parts]}
    if origin is dict:
        return {"type": "object", **({"additionalProperties": schema_of_hint(parts[1])} if len(parts) == 2 else {})}
    raise ValueError(f"{shown}, which has no JSON schema" + (": list[...] has one" if origin is tuple else ""))


def _parameters(function):
    name = name_of(function)
    try:
        hints, signature = typing.get_type_hints(function), inspect.signature(function)
    except Exception as error:
        raise BadTool(name, "a function whose type hints can be read", f"{type(error).__name__}: {error}",
                      "import what the hints name, in the tool's own file") from None
    receiver = next(iter(signature.parameters), None)
    if receiver not in ("self", "cls") or signature.parameters[receiver].annotation is not inspect.Parameter.empty:
        receiver = None
    required = []
    for parameter in signature.parameters.values():
        if parameter.name == receiver:
            continue
        if parameter.annotation is inspect.Parameter.empty:
            raise BadTool(f"{name}, argument {parameter.name}", "a type hint", "none: the model is told the type of each argument",
                          f"def {name}({parameter.name}: str, ...)")
        if parameter.default is inspect.Parameter.empty:
            required.append(parameter.name)
    properties, result = {}, None
    for argument, hint in hints.items():
        if argument == receiver:
            continue
        try:
            kind = schema_of_hint(hint)
        except ValueError as error:
            if argument == "return":  # the model makes no return value
                continue
            raise BadTool(f"{name}, argument {argument}", "a type hint that a JSON schema can say", str(error),
                          "use int, float, str, bool, list, dict, tuple, Enum, Literal, or unions of them") from None
        if argument == "return":
            result = kind
        else:
            properties[argument] = kind
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}, result


# ---- the docstring

def _sections(text):
    """(description, {argument: description}, description of the result or None)"""
    found = re.search(rf"^(.*?)[\n\s]*({_SECTIONS})", text, re.DOTALL)
    description = found.group(1).strip() if found else None
    block = re.search(r"\n\s*Args:\n(.*?)[\n\s]*(Returns:|Raises:|\Z)", text, re.DOTALL)
    result = re.search(r"\n\s*Returns:\n\s*(.*?)[\n\s]*(Raises:|\Z)", text, re.DOTALL)
    arguments = {}
    if block:
        lines = "\n".join(line for line in block.group(1).split("\n") if line.strip())
        # "name: text" up to the next "name:" that is indented no deeper
        one = r"(?:^|\n)([ \t]*)(\w+):\s*(.*?)\s*(?=\n(?!\1[ \t])[ \t]*\w+:|\Z)"
        for _, argument, words in re.findall(one, lines, re.DOTALL):
            arguments[argument] = re.sub(r"\s*\n+\s*", " ", words.strip())
    return description, arguments, result.group(1).strip() if result else None


def _described(name, argument, kind, words):
    """`kind` with the argument's description, and the choices that it may end in."""
    choices = re.search(r"\(choices:\s*(.*?)\)\s*$", words, re.IGNORECASE)
    if choices:
        try:
            kind["enum"] = [one.strip() if isinstance(one, str) else one for one in json.loads(choices.group(1))]
        except (ValueError, TypeError):
            raise BadTool(f"{name}, argument {argument}", 'choices as a list of JSON: (choices: ["tea", "coffee"])',
                          f"(choices: {choices.group(1)})") from None
        words = words[:choices.start()].strip()
    kind["description"] = words


def schema_of(function):
    """{"type": "function", "function": {...}}; BadTool without docstring, type or description of an argument."""
    name, text = name_of(function), inspect.getdoc(function)
    if not text:
        raise BadTool(name, DOCSTRING, "no docstring: the model is told what it says", "write one")
    description, arguments, told = _sections(text.strip())
    parameters, result = _parameters(function)
    for argument, kind in parameters["properties"].items():
        if argument not in arguments:
            raise BadTool(f"{name}, argument {argument}", DOCSTRING, f"a docstring that does not describe {argument}",
                          f"a line `{argument}: ...` below `Args:`")
        _described(name, argument, kind, arguments[argument])
    out = {"name": name, "description": description, "parameters": parameters}
    if result is not None:
        out["return"] = {**result, **({"description": told} if told is not None else {})}
    return {"type": "function", "function": out}


# ---- environments

def methods_of(instance):
    """(names of its tools, whether it has reset, whether it has get_reward): functions of the class, as TRL finds them."""
    names = [name for name, _ in inspect.getmembers(type(instance), predicate=inspect.isfunction)]
    own = ("reset", "get_reward")
    return [name for name in names if name not in own and not name.startswith("_")], own[0] in names, own[1] in names


def names_seed(function):
    """Whether it has a parameter `seed`: a reset is given one only then, since TRL gives none."""
    try:
        return "seed" in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False
