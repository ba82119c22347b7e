# A script or a notebook: its text, what hone asks of it, and the answer.

MOST_CODE, MOST_DEPTH, MOST_SHOWN, MOST_ENCODED = 2 << 20, 12, 200, 20_000
ENCODED = []  # a place for each value that was told


def parses(text):
    try:
        return ast.parse(text) is not None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def cells_of(text):
    """The code of a notebook, the place of each line of it, and how many lines were left out."""
    book = json.loads(text)
    lines, places, left = [], [], 0
    cells = book["cells"] if isinstance(book, dict) and isinstance(book.get("cells"), list) else []
    code = [c for c in cells if isinstance(c, dict) and c.get("cell_type") == "code"]
    for number, cell in enumerate(code, 1):
        source = cell.get("source", "")
        body = ("".join(map(str, source)) if isinstance(source, list) else str(source)).splitlines()
        whole = next((line for line in body if line.strip()), "").startswith("%%")
        whole = whole and not body[0].startswith(("%%capture", "%%time"))
        # A cell that is Python has no magic lines, whatever its texts and comments look like.
        more, magic = False, not parses("\n".join(body))
        for n, line in enumerate(body, 1):
            word = line.strip()
            asked = word.rstrip("?")
            shell = magic and (whole or more or word.startswith(("!", "%", "?")) or asked != word and asked.replace(".", "").isidentifier())
            assigned = not shell and any(mark in line for mark in ("= !", "=!", "= %", "=%")) and not word.startswith("#")
            if shell and word:
                left += 1
                more = not whole and word.endswith("\\")
                indent = line[:len(line) - len(line.lstrip())]
                line = indent + 'exec("")' if word.startswith(("%run ", "%store -r")) else indent + "pass" if indent else ""
            elif assigned and word.split("=")[0].strip().isidentifier() and word.split("=", 1)[1].strip().startswith(("!", "%")):
                left += 1
                line = line.split("=")[0] + "= __shell__"
            lines.append(line)
            places.append(f"cell {number} line {n}")
    return "\n".join(lines) + "\n", places, left


def encoded(value, at, depth=0, seen=()):
    """A value as hone is told it: {"at", and one of "value", "list", "unknown", "name", "either", "made", "function"}."""
    out = {"at": at}
    ENCODED.append(at)
    if depth > MOST_DEPTH or id(value) in seen or len(ENCODED) > MOST_ENCODED:
        return {**out, "unknown": "it is nested too deeply"}
    inner = (*seen, id(value))
    if value is ABSENT:
        return {**out, "absent": True}
    if isinstance(value, Unknown):
        return {**out, "unknown": short(value.why, 300), "from": value.at}
    if isinstance(value, Either):
        return {"at": value.at, "either": [encoded(v, l, depth + 1, inner) for v, l in value.values]}
    if isinstance(value, External):
        return {**out, "name": short(value.name, MOST_SHOWN)}
    if isinstance(value, Made):
        args = {short(n, 80): encoded(v, l, depth + 1, inner) for n, (v, l) in list(value.args.items())[:400] if n not in ("options", "defaults")}
        out.update(at=value.at, made=short(value.name, MOST_SHOWN), args=args,
                   plain=[encoded(v, l, depth + 1, inner) for v, l in value.plain[:40]])
        if value.base is not None:
            out["base"] = encoded(value.base, value.at, depth + 1, inner)
        if value.own is not None:
            out["own"] = {"class": value.own[0], "methods": value.own[1][:40]}
        if value.touched is not None:
            out["touched"] = short(value.touched.why, 300)
        return out
    if isinstance(value, range):
        return {**out, "range": [value.start, value.stop, value.step]}
    if not is_light(value):
        return {**out, "unknown": "it is too large"}
    value = with_names(value)
    if isinstance(value, Function):
        return {**out, "function": short(value.name, 80)}
    if isinstance(value, (list, tuple)) and first_unknown(value) is not None and len(value) <= 64:
        return {**out, "list": [encoded(v, at, depth + 1, inner) for v in value]}
    bad = first_unknown(value)
    if bad is not None:
        return encoded(bad if isinstance(bad, Unknown) else why_not(bad, at), at, depth + 1, inner)
    try:
        return {**out, "value": as_json(value)}
    except ValueError as error:
        return {**out, "unknown": str(error)}


def with_names(value, depth=0):
    """{"dtype": torch.bfloat16} with "bfloat16"."""
    if isinstance(value, External) and value.name.startswith("torch."):
        return value.name.split(".")[-1]
    if depth < 20 and isinstance(value, dict) and len(value) < 2000:
        return {key: with_names(one, depth + 1) for key, one in value.items()}
    if depth < 20 and isinstance(value, (list, tuple)) and len(value) < 2000:
        return [with_names(one, depth + 1) for one in value]
    return value


def as_json(value, depth=0):
    if depth > 40 or isinstance(value, (bytes, type(...))):
        raise ValueError("it is no value of JSON")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"it is {value}")
    if isinstance(value, int) and not isinstance(value, bool) and not -2**63 <= value < 2**63:
        raise ValueError("it is too large a number")
    if size_of(value) > (2000 if isinstance(value, dict) else MOST_ENCODED) and not isinstance(value, str):
        raise ValueError("it has too many entries")
    if isinstance(value, dict):
        return {str(k): as_json(v, depth + 1) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, range)):
        return [as_json(v, depth + 1) for v in in_order(value)]
    return str(value) if isinstance(value, str) else value


def uncalled(reader, tree):
    """Functions that make a trainer and that nothing in the file calls: a launcher does."""
    for node in ast.walk(tree):
        makes = isinstance(node, ast.FunctionDef) and node not in reader.called and any(
            isinstance(one, ast.Call) and name_of(one.func).endswith("Trainer") for one in ast.walk(node))
        if makes and node in tree.body:
            yield node


def last_trained(reader):
    """The trainer that trains last, and where; those of several arms are an Either."""
    if not reader.trained:
        return (reader.trainers[-1], reader.trainers[-1].at) if reader.trainers else None
    found, line, unsure = reader.trained[-1]
    for trainer, at, maybe in reversed(reader.trained[:-1]):
        if not unsure:
            break
        found, unsure = merged(trainer, found, at, {}), maybe
    if reader.world is not None and isinstance(found, Made):
        found.touched = found.touched or reader.world
    return found, line


def folded(text, notebook, files, words=()):
    places, left = None, 0
    if notebook:
        text, places, left = cells_of(text)
    if len(text) > MOST_CODE:
        return {"broken": f"{len(text) >> 10} KB of code", "at": ""}
    place = (lambda n: places[min(max(n, 1), len(places)) - 1]) if places else str
    lines, broken = text.lstrip("\ufeff").split("\n"), []
    while True:
        try:
            tree = ast.parse("\n".join(lines))
            break
        except (SyntaxError, ValueError) as error:
            at, why = place(getattr(error, "lineno", None) or 1), short(getattr(error, "msg", error))
            cell = at.split(" line ")[0]
            if places is None or len(broken) == 20 or cell in broken:
                return {"broken": f"{why}; the text is not Python's", "at": at}
            broken.append(cell)  # it would not run either
            lines = ["" if n < len(places) and places[n].startswith(cell + " line ") else line for n, line in enumerate(lines)]
        except (RecursionError, MemoryError):
            return {"broken": "code that is nested too deeply", "at": ""}
    reader = Reader(files, place, words)
    for cell in broken:
        reader.note(cell, "it is no Python: it is left out")
    ended = ""
    try:
        try:
            reader.run(tree.body)
        except Raised as raised:
            ended = "" if reader.trained else f"the script ends in line {raised}"
        for node in [] if reader.trainers else uncalled(reader, tree):
            reader.note(place(node.lineno), f"nothing in the file calls {node.name}: it is read with its defaults")
            count = len(reader.trained)
            try:
                reader.call_own(Function(Code(node), node.name, [], reader.defaults_of(node.args)), [], {}, place(node.lineno))
            except Raised:
                pass
            reader.trained[count:] = [(trainer, at, True) for trainer, at, _ in reader.trained[count:]]
    except TooLong:
        ended = f"it runs for ever, or for too long to be read: {MOST_STATEMENTS:,} steps or {MOST_SECONDS} seconds"
    except (Returned, Jump):
        ended = "a statement outside a function ends it"
    if reader.words and not reader.words_read:
        reader.note("", "nothing in the file reads the arguments behind --")
    ENCODED.clear()
    last = last_trained(reader)
    imports = [one for one in ast.walk(tree) if isinstance(one, (ast.Import, ast.ImportFrom))]
    unsloth = any(name.split(".")[0] == "unsloth" for one in imports for name in ([one.module or ""] if isinstance(one, ast.ImportFrom) else [n.name for n in one.names]))
    return {"last": None if last is None else encoded(*last), "trained": [at for _, at, _ in reader.trained[-40:]], "unsloth": unsloth,
            "trainers": [{"name": short(v.name, MOST_SHOWN), "at": v.at} for v in reader.trainers[-40:]], "needs": reader.needs[:8], "ended": ended, "left_out": left,
            "notes": [{"at": at, "text": text} for at, text in list(reader.notes)[:60]]}


def answer(message):
    try:
        import resource
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    except (ImportError, ValueError, OSError):
        pass
    sys.setrecursionlimit(3000)
    try:
        return folded(message["text"], message["notebook"], message["files"], message.get("words", ()))
    except (ValueError, KeyError, TypeError) as error:
        return {"broken": describe(error), "at": ""}
    except (RecursionError, MemoryError):
        return {"broken": "code that is nested too deeply", "at": ""}


serve(answer)
