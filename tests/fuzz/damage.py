"""Ways to damage a checkpoint's folder."""
import json
import shutil


def flip(path, chance):
    raw = bytearray(path.read_bytes())
    if not raw:
        path.write_bytes(b"\0")
        return "a byte where there was none"
    at = chance.randrange(len(raw))
    raw[at] ^= 1 << chance.randrange(8)
    path.write_bytes(raw)
    return f"a bit of byte {at} flipped"


def truncate(path, chance):
    raw = path.read_bytes()
    size = chance.choice((0, len(raw) - 1, chance.randrange(len(raw) + 1)))
    path.write_bytes(raw[:max(0, size)])
    return f"cut to {size} bytes"


def zeros(path, chance):
    raw = bytearray(path.read_bytes())
    at = chance.randrange(len(raw) + 1) // 512 * 512
    size = min(512, len(raw) - at)
    if raw[at:at + size] == bytes(size):
        return flip(path, chance)
    raw[at:at + size] = bytes(size)
    path.write_bytes(raw)
    return f"{size} zeros at {at}"


def noise(path, chance):
    path.write_bytes(chance.randbytes(chance.choice((1, 40, 4000))))
    return "replaced by noise"


def longer(path, chance):
    path.write_bytes(path.read_bytes() + chance.choice((b"\0", b" ", b"\n}", chance.randbytes(700))))
    return "made longer"


def delete(path, _):
    path.unlink()
    return "deleted"


def folder(path, _):
    path.unlink()
    path.mkdir()
    return "replaced by a folder"


def dangling(path, _):
    path.unlink()
    path.symlink_to("nowhere")
    return "replaced by a link to nothing"


def digit(path, chance):
    """One digit of a text, which goes on parsing: a step, a size, a checksum."""
    raw = bytearray(path.read_bytes())
    places = [i for i, byte in enumerate(raw) if 0x30 <= byte <= 0x39]
    if path.suffix == ".safetensors" or not places:
        return flip(path, chance)
    at = chance.choice(places)
    raw[at] = 0x30 + (raw[at] - 0x30 + 1 + chance.randrange(9)) % 10
    path.write_bytes(raw)
    return f"a digit at {at} changed"


def state_value(path, chance):
    """One value of a JSON file is of another type, huge, or gone."""
    if path.suffix != ".json":
        return flip(path, chance)
    tree = json.loads(path.read_text(encoding="utf-8"))
    places = []

    def walk(node):
        for key in list(node) if isinstance(node, dict) else range(len(node)):
            places.append((node, key))
            if isinstance(node[key], (dict, list)):
                walk(node[key])
    walk(tree)
    node, key = chance.choice(places)
    value = chance.choice((None, -1, 1e308, 2 ** 63, "", "x" * 5000, [], {}, True, [[[[]]]]))
    if value is None and isinstance(node, dict):
        del node[key]
    else:
        node[key] = value
    path.write_text(json.dumps(tree), encoding="utf-8")
    return f"{key} set to {str(value)[:20]}"


WAYS = (flip, flip, flip, truncate, zeros, noise, longer, delete, folder, dangling, digit, digit, state_value)


def spoil(run_folder, steps, older, chance):
    """Damages each of checkpoint-`steps`; in words. A file may also be swapped for another's, or the other checkpoint's."""
    said = []
    for step in steps:
        checkpoint = run_folder / f"checkpoint-{step}"
        files = sorted(path for path in checkpoint.iterdir() if path.is_file())
        # The state decides most, so it is hit most.
        file = checkpoint / "hone_state.json" if chance.random() < 0.35 else chance.choice(files)
        kind = chance.random()
        if kind < 0.1 and step != older:
            other = run_folder / f"checkpoint-{older}" / file.name
            if other.is_file() and other.read_bytes() != file.read_bytes():
                shutil.copyfile(other, file)
                said.append(f"checkpoint-{step}/{file.name} is that of checkpoint-{older}")
                continue
        if kind < 0.15:
            second = chance.choice([path for path in files if path != file])
            first_raw, second_raw = file.read_bytes(), second.read_bytes()
            file.write_bytes(second_raw)
            second.write_bytes(first_raw)
            said.append(f"checkpoint-{step}: {file.name} and {second.name} swapped")
            continue
        said.append(f"checkpoint-{step}/{file.name}: {chance.choice(WAYS)(file, chance)}")
    return "; ".join(said)


def without_moved_aside(found, expected):
    """Files without those that a resumed run has moved aside: the damaged checkpoint, with its metrics and completions."""
    return {name: value for name, value in found.items() if name in expected or not name.startswith("abandoned-")}
