"""Mutations of whole inputs: bytes, JSON trees, JSONL, YAML, safetensors and GGUF files, chat templates."""
import copy
import json
import struct

PIECES = [b"\xff" * 8, b"\0" * 8, b"\xff\xff\xff\x7f", b"18446744073709551615", b"-9223372036854775808", b"2147483648", b"-1", b"0", b"1e999",
          b"NaN", b"null", b"[[[[", b'"\\u0000"', b"\\ud800", b"\xef\xbb\xbf", b"\xc0\x80", b"\xed\xa0\x80", b"../../", b"[" * 3000, b"(" * 3000,
          b"\n", b"\x1b[2J", b"a" * 4000, b'"', b"'", b",", b"{{", b"}}", b"{%", b": ", b"- ", b"&a [*a]", b"<<: *a", b"\x7f", b"\xe2\x80\xae"]
VALUES = [None, True, False, 0, 1, -1, 2, 255, 65536, 2 ** 31 - 1, 2 ** 31, 2 ** 32, 10 ** 9, 2 ** 62, 2 ** 63 - 1, 2 ** 63, 2 ** 64 - 1,
          -2 ** 63, 0.5, -0.0, 1e-320, 1e38, 1e308, "", "0", "-1", "none", "../../etc/passwd", "/dev/zero", "a\0b", "\x1b[2J\x07", "é漢😀\u202e",
          "x" * 5000, "(" * 5000, [], {}, [1, 2, 3], [None, "a", {}], {"a": 1, "": None}, [[[[[]]]]]]
TEMPLATES = [
    "{% set ns = namespace() %}{% set ns.me = ns %}{{ ns }}", "{{ " + "-" * 20000 + "1 }}", "{{ [1]" + " + [1]" * 20000 + " }}",
    "{{ 'a'.ljust(999999999999) }}", "{{ 'a'.center(999999999) }}", "{{ {'a': 1} | tojson(indent=999999999) }}",
    "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}", "{{ range(10**18) | list }}", "{{ 'a' * 10**12 }}",
    "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}", "{{ " + "(" * 20000 + "1" + ")" * 20000 + " }}", "{% if 1 %}" * 5000 + "{% endif %}" * 5000,
    "{{ messages[0].content.replace('', 'x' * 99999) }}", "{{ 2 ** 2 ** 2 ** 2 ** 2 ** 2 }}", "{{ 1 // 0 }}", "{{ 1 % 0 }}",
    "{% set x = 'ab' %}" + "{% set x = x ~ x %}" * 60 + "{{ x }}", "{{ '%999999999d' % 1 }}", "{{ '%s' | format(1, 2) }}",
    "{{ messages | join(messages | join(messages | string)) }}", "{{ 'x'.split('') }}", "{{ cycler }}{{ joiner() }}{{ lipsum(1000000) }}",
    "{% for m in messages recursive %}{{ loop(messages) }}{% endfor %}", "{{ raise_exception('\x1b[2J' * 3) }}", "{{ not " * 20000,
    "{% include 'x' %}{% extends 'y' %}", "{{ messages | sort(attribute='a.b.c') | map('upper') | list }}", "{{ [[]] | sum(start=[]) }}",
]
YAMLS = [
    "a: &a [*a]\n", "&a a: *a\n", "x: &x\n  <<: *x\n", "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
        f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 12)),
    "[" * 20000, "{a: " * 20000, "- " * 20000, "? " * 5000, "!!binary x: !!int a\n", "a: !!python/object:os.system x\n", "a: |999999999\n x\n",
    "\t- a\n", "%YAML 9.9\n---\na: 1\n", "--- a\n--- b\n", "'" * 10001, "a: *b\n", "threads: 2147483648\n", "threads: 1e400\n", "seed: -1\n",
    "learning_rate: [1]\n", "max_steps: {a: 1}\n", "lora_target_modules: [[q_proj]]\n", "{}\n", "", "\0", "\ufeffa: 1\n", "max_steps: 0x7fffffffffffffff\n",
]


def mutated_bytes(raw, chance):
    raw = bytearray(raw)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(raw) + 1)
        how = chance.randrange(7)
        if how == 0 and at < len(raw):
            raw[at] ^= 1 << chance.randrange(8)
        elif how == 1 and at < len(raw):
            raw[at] = chance.randrange(256)
        elif how == 2 and chance.random() < 0.3:
            del raw[at:]
        elif how == 3:
            begin = chance.randrange(len(raw) + 1)
            raw[at:at] = raw[begin:begin + chance.randrange(60)]
        elif how == 4:
            del raw[at:at + chance.randrange(16)]
        elif how == 5:
            raw[at:at] = chance.choice(PIECES)
        else:
            piece = chance.choice(PIECES)
            raw[at:at + len(piece)] = piece
    return bytes(raw)


def places(tree):
    """(container, key) of every value below `tree`."""
    found, waiting = [], [tree]
    while waiting:
        node = waiting.pop()
        for key in list(node) if isinstance(node, dict) else range(len(node)):
            found.append((node, key))
            if isinstance(node[key], (dict, list)):
                waiting.append(node[key])
    return found


def mutated_tree(tree, chance):
    """One to three values of a JSON tree changed, removed, doubled, moved, wrapped or replaced."""
    tree = copy.deepcopy(tree)
    for _ in range(chance.randint(1, 3)):
        found = places(tree) if isinstance(tree, (dict, list)) else []
        if not found:
            return chance.choice(VALUES)
        # Few places are at the top, where most is decided.
        top = [place for place in found if place[0] is tree]
        node, key = chance.choice(top if chance.random() < 0.4 else found)
        value, how = node[key], chance.randrange(8)
        if how == 0:
            node.pop(key)
        elif how == 1 and isinstance(value, (int, float)) and not isinstance(value, bool):
            node[key] = chance.choice((value + 1, value - 1, -value, value * 2 ** 40, value * 1e30, value / 3, str(value)))
        elif how == 2 and isinstance(value, str):
            node[key] = mutated_bytes(value.encode(), chance).decode("utf-8", "replace")
        elif how == 3:
            node[key] = [value]
        elif how == 4 and isinstance(node, dict):
            node[chance.choice((str(key) + "_", "", "x", "\x1b[31m"))] = copy.deepcopy(value)
        elif how == 5 and isinstance(node, list):
            node.extend(copy.deepcopy(value) for _ in range(chance.randrange(20)))
        elif how == 6:
            other, other_key = chance.choice(found)
            node[key] = copy.deepcopy(other[other_key]) if other_key in other or isinstance(other, list) and other_key < len(other) else None
        else:
            node[key] = copy.deepcopy(chance.choice(VALUES))
    return tree


def json_text(raw, chance):
    """A JSON file: mostly its structure is changed, sometimes its bytes."""
    kind = chance.random()
    if kind < 0.25:
        return mutated_bytes(raw, chance)
    if kind < 0.28:
        return chance.choice((b"[" * 100000, b'{"a":' * 100000, b'"' + b"\\u00" * 9, b"", b"\0", b"1" * 5000, b"{" + b'"a":1,' * 200000 + b'"b":2}'))
    try:
        tree = json.loads(raw)
    except ValueError:  # it was mutated before
        return mutated_bytes(raw, chance)
    return json.dumps(mutated_tree(tree, chance)).encode("utf-8", "surrogatepass")


def json_lines(raw, chance):
    """JSONL: some lines changed."""
    lines = raw.splitlines()
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(lines))
        lines[at] = json_text(lines[at], chance) if lines[at].strip() else b"{}"
    return chance.choice((b"\n", b"\n", b"\r\n", b"\n\n")).join(lines) + b"\n"


def yaml_text(raw, chance):
    kind = chance.random()
    if kind < 0.3:
        return chance.choice(YAMLS).encode() + (raw if chance.random() < 0.5 else b"")
    if kind < 0.6:
        return mutated_bytes(raw, chance)
    lines = raw.splitlines(keepends=True)
    at = chance.randrange(len(lines))
    name = lines[at].partition(b":")[0]
    lines[at] = name + b": " + json.dumps(chance.choice(VALUES)).encode() + b"\n"
    return b"".join(lines)


def safetensors(raw, chance):
    """The header's tree, its length, or any byte."""
    size = struct.unpack("<Q", raw[:8])[0]
    kind = chance.random()
    if kind < 0.2:
        return mutated_bytes(raw, chance)
    if kind < 0.3:
        return struct.pack("<Q", chance.choice((0, 1, size - 1, size + 1, len(raw), 2 ** 31, 2 ** 63, 2 ** 64 - 1))) + raw[8:]
    text = json_text(raw[8:8 + size], chance)
    return struct.pack("<Q", len(text)) + text + raw[8 + size:]


def gguf(raw, chance):
    """Mostly bytes of the header: counts, types, lengths."""
    raw = bytearray(raw)
    if chance.random() < 0.3:
        return mutated_bytes(bytes(raw), chance)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(8, min(len(raw) - 8, 6000))
        raw[at:at + 8] = chance.choice((b"\xff" * 8, b"\0" * 8, struct.pack("<Q", 2 ** 62), struct.pack("<Q", len(raw)), bytes([chance.randrange(256)]) + raw[at + 1:at + 8]))
    return bytes(raw)


def template(_, chance):
    text = chance.choice(TEMPLATES)
    if chance.random() < 0.4:
        text = mutated_bytes(text.encode(), chance).decode("utf-8", "replace")
    return text


def answer(_, chance):
    """Text that a model could write where a reward looks for a number."""
    pieces = ("\\boxed{", "}", "{", "\\frac{1}{2}", "\\sqrt[3]{8}", "+", "-", "1", "9" * 30, "^", "(", ")", "\\left(", "\\right)", "=", "x", ",", "\\text{a}", "$", "%",
              "<think>", "</think>", "<answer>", "</answer>", "\\pi", "1e99999", "1/0", "0^-1", "10^10^10", "!", "\\binom{100000}{5}", " ", "\n", "\u0661", "\x1b[2J")
    kind = chance.random()
    if kind < 0.2:
        piece = chance.choice(pieces)
        return "\\boxed{" + piece * chance.choice((10, 1000, 30000)) + "1}"
    if kind < 0.3:
        return "\\boxed{1}" * chance.choice((100, 20000))
    return "".join(chance.choice(pieces) for _ in range(chance.choice((5, 30, 300))))
