"""tests/faults/told.txt: the whole text of each case's verdict, compared in every run. What depends on the machine is a #.

A block is `== CODE CASE`, then the verdict's lines. `run.py --write` writes the blocks of the cases that it ran.
"""
import pathlib
import re

import scene

FILE = pathlib.Path(__file__).resolve().parent / "told.txt"
HEAD = "Made by tests/faults/run.py --write: what each case of tests/faults is told, whole. # is a number that depends on the machine.\n\n"
FIELDS = ("evidence", "cause", "not_this", "fix", "cost")
NUMBER = r"\d(?:[\d,]*\d)?(?:\.\d+)?(?:e[-+]?\d+)?"
# Losses, norms and rates differ in their last digits with the kernels; bytes, seconds and processors with the machine.
OF_KERNELS = re.compile(r"\d+\.\d+(?:e[-+]?\d+)?|\d+e[-+]?\d+|\b(?:inf|nan)\b")
OF_MACHINE = re.compile(NUMBER + r"(?= (?:us|ms|s|min|h|B|KB|MB|GB|KiB|MiB|GiB|processors?|threads?)\b)")


def masked(text, folder, all_numbers):
    for path, name in ((str(folder), "{folder}"), (str(scene.SOURCE), "{source}")):
        text = text.replace(path, name)
    text = re.sub(r"\s+", " ", text).strip()
    if all_numbers:  # of a run: which step it is found in follows from every bit before
        return re.sub(r"(?<![\w.])(?<![A-Z]-)" + NUMBER + r"|\b(?:inf|nan)\b", "#", text)
    return OF_MACHINE.sub("#", OF_KERNELS.sub("#", text))


def block(level, what, details, folder, all_numbers):
    """The text of a verdict; `details`: pairs of a field and its text."""
    lines = [f"{level}  {what}", *(f"  {name}: {text}" for name, text in details if text)]
    return "\n".join(("  " if at else "") + masked(line, folder, all_numbers) for at, line in enumerate(lines))


def read():
    if not FILE.exists():
        return {}
    blocks = FILE.read_text(encoding="utf-8").split("\n== ")[1:]
    return {one.partition("\n")[0]: one.partition("\n")[2].rstrip("\n") for one in blocks}


def write(blocks):
    FILE.write_text(HEAD + "\n".join(f"== {name}\n{blocks[name]}\n" for name in sorted(blocks)), encoding="utf-8")
