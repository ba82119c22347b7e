"""runs.md: bounds of what runs cost. A cell is a number, or empty where nothing is asked."""
import math
import pathlib

PATH = pathlib.Path(__file__).resolve().parent / "runs.md"
COUNTS = ("launches", "waits", "copies", "allocations", "reserved")
# How much more than what was measured is still right. Launches are the same in each run: one more in each layer of a model has to fail.
SLACK = {"launches": 1.002, "waits": 1, "copies": 1, "allocations": 1, "reserved": 1.01}


def number(text):
    if not text.strip():
        return None
    return float(text) if "." in text else int(text.replace(",", ""))


def columns_of(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def read():
    lines = [line for line in PATH.read_text().splitlines() if line.startswith("|")]
    names = columns_of(lines[0])
    return [{name: cell if name == "run" else number(cell) for name, cell in zip(names, columns_of(line))} for line in lines[2:]]


def bound_of(column, value):
    exact = value * SLACK[column]
    return math.ceil(exact * 100) / 100 if column == "reserved" else math.ceil(exact)


def shown(value):
    return "" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:.2f}" if value >= 10 else f"{value}"


def tightened(row, found, loosen):
    for column in COUNTS:
        if column in found:
            bound, new = row[column], bound_of(column, found[column])
            if bound is None or new < bound or loosen:
                row[column] = new
    if "plan" in found:
        least, most = math.floor(found["plan"]) - 1, max(5, math.ceil(found["plan"]) + 1)
        row["plan least"] = least if row["plan least"] is None or loosen else max(row["plan least"], min(least, 0))
        row["plan most"] = most if row["plan most"] is None or loosen else min(row["plan most"], most)
    return row


def write(found, loosen):
    """`found`: run -> what was measured."""
    text = PATH.read_text().splitlines()
    first = next(i for i, line in enumerate(text) if line.startswith("|"))
    names = columns_of(text[first])
    rows = [tightened(row, found.get(row["run"], {}), loosen) for row in read()]
    body = ["| " + " | ".join([row["run"], *(shown(row[name]) for name in names[1:])]) + " |" for row in rows]
    PATH.write_text("\n".join(text[: first + 2] + body + text[first + 2 + len(rows):]) + "\n")
