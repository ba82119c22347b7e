"""Damage to requests: of bytes, of fields, of types, of depth, of protobuf messages, of heads, and of how bytes are sent.

Each function takes a random.Random, from which alone its result comes.
"""
import copy
import json

from tinker_client import field, read_fields, varint

PIECES = [b"[", b"{", b'"', b"-1", b"1e999", b"null", b"\xff", b"\\u0000", b"\\ud800", b"99999999999999999999", b'"a":', b"true", b"]", b"}", b"\x00", b"NaN"]
VALUES = [None, True, False, 0, -1, 1, 2, 3, 0.5, -0.0, 1e308, 2**31, 2**53 + 1, -2**63, 2**64, "", "a", "\u0000", "\ud7ff" * 50, "a" * 3000, "../../etc/passwd", [], {}, [[]], [None],
          [5], ["a"], [2**40], {"a": 1}, {"type": "x"}, "NaN", "nan", "text", [[5, 6], [7]], list(range(200))]
NUMBERS = [0, 1, 2, 127, 128, 2**31 - 1, 2**31, 2**32, 2**53, 2**63, 2**64 - 1]
FLOATS = [b"\x00\x00\xc0\x7f", b"\x00\x00\x80\x7f", b"\x00\x00\x80\xff", b"\xff\xff\x7f\x7f", b"\x01\x00\x00\x00", b"\x00\x00\x00\x80"]


def bytes_of(random, data):
    """`data` with one to six damages."""
    data = bytearray(data)
    for _ in range(random.randint(1, 6)):
        place = random.randrange(len(data))
        kind = random.randrange(6)
        if kind == 0:
            data[place] = random.randrange(256)
        elif kind == 1:
            del data[place:place + random.randint(1, 20)]
        elif kind == 2:
            data[place:place] = random.choice(PIECES)
        elif kind == 3:
            data[place:place] = data[:random.randint(1, 30)]
        elif kind == 4:
            data[place] ^= 1 << random.randrange(8)
        else:
            data = data[:place + 1]
        if not data:
            data = bytearray(b"{")
    return bytes(data)


def places(value, where=()):
    """The paths of all values in `value`."""
    out = [where]
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in items:
        out += places(one, (*where, key))
    return out


def put(value, where, new):
    """`value` with `new` at that path."""
    if not where:
        return new
    inner = value
    for key in where[:-1]:
        inner = inner[key]
    inner[where[-1]] = new
    return value


def at(value, where):
    for key in where:
        value = value[key]
    return value


def fields_of(random, body, others):
    """A field is gone, has another name, is new, or has the value of a field of another request."""
    body = copy.deepcopy(body)
    for _ in range(random.randint(1, 3)):
        objects = [where for where in places(body) if isinstance(at(body, where), dict) and at(body, where)]
        if not objects:
            return body
        chosen = at(body, random.choice(objects))
        name, kind = random.choice(list(chosen)), random.randrange(4)
        if kind == 0:
            del chosen[name]
        elif kind == 1:
            chosen[name[:-1] if random.random() < 0.5 else name + "s"] = chosen.pop(name)
        else:
            other = random.choice(others)
            stranger = random.choice(list(other) or ["a"])
            chosen[stranger if kind == 2 else name] = copy.deepcopy(other.get(stranger))
    return body


def types_of(random, body):
    """One to three values of other types or sizes."""
    body = copy.deepcopy(body)
    for _ in range(random.randint(1, 3)):
        body = put(body, random.choice(places(body)), copy.deepcopy(random.choice(VALUES)))
    return body


def depth_of(random, body):
    """A value inside many lists and objects, as text."""
    marked = put(copy.deepcopy(body), random.choice(places(body)), "MARK")
    depth = random.choice([1, 2, 10, 61, 62, 63, 64, 65, 66, 200, 5000])
    opened, closed = (("[", "]"), ('{"a":', "}"))[random.randrange(2)]
    inner = random.choice(["", "1", "null"]) if opened == "[" else "1"
    if random.random() < 0.2:
        closed = ""
    return json.dumps(marked).replace('"MARK"', opened * depth + inner + closed * depth).encode()


def looks_like_message(content):
    try:  # and is written as spans() writes it: a tensor's bytes may read as numbers of more bytes than they need
        return bool(content) and all(0 < number < 20 for number, _, _ in read_fields(content)) and spans(content)[-1][2] == len(content)
    except IndexError:
        return False


def spans(data):
    """(begin, begin of the content, end) of each field."""
    out, begin = [], 0
    for number, wire, content in read_fields(data):
        size = len(content) if content is not None else None
        whole = field(number, content) if size is not None else None
        end = begin + len(whole) if whole is not None else begin + 9 if wire == 1 else begin + 5 if wire == 5 else None
        if end is None:  # a varint
            end = begin + 1
            while data[end] > 127:
                end += 1
            end += 1
        out.append((begin, end - size if size is not None else end, end))
        begin = end
    return out


def one_field(random, data, begin, inner, end):
    kind = random.randrange(8)
    whole = data[begin:end]
    if kind == 0:
        return b""
    if kind == 1:
        return whole * random.randint(2, 40)
    if kind == 2:  # another number, another wire type
        return varint(random.randint(0, 20) << 3 | random.randrange(8)) + whole[1:]
    if kind == 3:  # another length, or another whole number
        return whole[:1] + varint(random.choice(NUMBERS)) + data[inner:end]
    if kind == 4:
        return whole[:inner - begin] + bytes(random.randrange(256) for _ in range(end - inner))
    if kind == 5 and end - inner >= 4:  # a number of a tensor
        place = inner + random.randrange((end - inner) // 4) * 4
        return data[begin:place] + random.choice(FLOATS) + data[place + 4:end]
    if kind == 6:
        return field(random.randint(1, 8), random.choice(NUMBERS))
    return whole[:random.randint(0, len(whole))]


def message(random, data, depth=0):
    """A protobuf message with a damaged field, at any depth; lengths around it are right again."""
    all_of = spans(data)
    if not all_of:
        return bytes_of(random, data or b"\x0a")
    begin, inner, end = random.choice(all_of)
    content = data[inner:end]
    if depth < 8 and looks_like_message(content) and random.random() < 0.8:
        number = read_fields(data[begin:end])[0][0]
        new = field(number, message(random, content, depth + 1))
    else:
        new = one_field(random, data, begin, inner, end)
    return data[:begin] + new + data[end:]


def head_of(random, lines):
    """Lines of a head: gone, doubled, moved, with other values, or with damaged bytes."""
    lines = list(lines)
    for _ in range(random.randint(1, 3)):
        place = random.randrange(len(lines))
        kind = random.randrange(8)
        if kind == 0 and len(lines) > 1:
            del lines[place]
        elif kind == 1:
            lines.insert(place, random.choice(lines))
        elif kind == 2:
            lines.insert(place, random.choice([b"Transfer-Encoding: chunked", b"Expect: 100-continue", b"Content-Encoding: zstd", b"Upgrade: h2c", b" folded", b": none", b"A" * 9000 + b": 1",
                                               b"X: " + b"\xff" * 40, b"Content-Length: 0", b"Connection: keep-alive, close", b"X-API-Key: " + b"k" * 5000, b"Host:"]))
        elif kind == 3:
            lines[place] = lines[place].split(b":")[0] + b": " + random.choice([b"", b"-1", b"99999999999999999999", b"1, 2", b"\x00", b"text/plain", b"application/json; charset=utf-16"])
        elif kind == 4:
            lines[0] = random.choice([b"GET / HTTP/1.1", b"POST * HTTP/1.1", b"POST /v1/completions", b"POST /v1/completions HTTP/9.9", b"BREW /v1/models HTTP/1.1", b"PRI * HTTP/2.0",
                                      b"POST /" + b"a/" * 4000 + b" HTTP/1.1", b"POST /api/v1/%2e%2e/%2e%2e/x HTTP/1.1", b"POST http://127.0.0.1/v1/models HTTP/1.1"])
        elif kind == 5 and len(lines) > 2:
            lines.append(lines.pop(random.randrange(1, len(lines))))
        elif kind == 6:
            lines[place] = bytes_of(random, lines[place] or b"a")
        else:
            lines[place] += random.choice([b"\r", b"\n", b"\t", b" ", b"\x0b"])
    return lines


def cuts(random, data):
    """`data` in one to eight parts, at any byte; now and then its end is missing."""
    if random.random() < 0.1:
        data = data[:random.randrange(len(data) + 1)]
    places_ = sorted(random.randrange(len(data) + 1) for _ in range(random.choice([0, 0, 1, 2, 7])))
    return [data[begin:end] for begin, end in zip([0, *places_], [*places_, len(data)], strict=True)]
