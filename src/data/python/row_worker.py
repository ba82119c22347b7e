# A worker that runs row_function (data/files/row_function.h). python/worker_base.py comes before this text.

FUNCTION = None


class BadRow(Exception):
    """What the function returned is no row."""


def load(message):
    global FUNCTION
    entry = message["function"]
    where = os.path.basename(entry.get("file") or entry["module"])
    FUNCTION = find_function(import_module(entry), entry["function"], where)
    inner = unwrapped(FUNCTION)
    if inspect.iscoroutinefunction(inner):
        raise Fault("a function that returns a row", "an async function", "", "def row(row): ... return row")
    try:
        inspect.signature(FUNCTION).bind({})
    except TypeError as error:
        raise Fault("a function of one row", describe(error), "", "def row(row): ... return row")
    except ValueError:  # a builtin does not say
        pass
    return {"file": file_of(inner)}


def plain(value, place):
    """As JSON; numpy's and torch's scalars and arrays as numbers and lists, tuples as lists."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        if not -2**63 <= value < 2**64:
            raise BadRow(f"{place} is an integer of more than 64 bits")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise BadRow(f"{place} is {value}, which JSON does not have")
        return float(value)
    if isinstance(value, dict):
        wrong = [key for key in value if not isinstance(key, str)]
        if wrong:
            raise BadRow(f"{place} has the key {short_repr(wrong[0])}, which is no text")
        return {key: plain(one, f"{place}.{key}" if place != "the row" else f"column {key!r}") for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one, f"{place}[{i}]") for i, one in enumerate(value)]
    if callable(getattr(value, "tolist", None)):
        return plain(value.tolist(), place)
    raise BadRow(f"{place} is a {type(value).__name__}, which is neither text, number, list nor dict")


def rows_of(result):
    if result is None:
        return []
    if isinstance(result, dict):
        return [plain(result, "the row")]
    if isinstance(result, (list, tuple)) and all(isinstance(one, dict) for one in result):
        return [plain(one, "the row") for one in result]
    raise BadRow(f"a {type(result).__name__}: {short_repr(result)}")


def call(message):
    try:
        return {"rows": rows_of(FUNCTION(message["row"]))}
    except BadRow as error:
        return {"bad": short(error, 600)}
    except RecursionError:
        return {"bad": "a value nested too deeply"}
    except BaseException as error:
        file = file_of(unwrapped(FUNCTION))
        return {"raised": {"what": describe(error), "place": place_of(error, file), "trace": trace_of(error)}}


def answer(message):
    return load(message) if message["do"] == "load" else call(message)


serve(answer)
