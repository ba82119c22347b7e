"""What the front page has to have, and what pages quote of the cases of tests/faults: findings `FILE:LINE: what`."""
import re

from pages import in_order

QUICKSTART_YAML = "examples/quickstart.yaml"
TOLD = "tests/faults/told.txt"
PEERS = ("TRL", "Unsloth", "axolotl", "verl", "hone")
README_LINES, SYMPTOM_LINES = (60, 90), 60


def wrong_front(page):
    """What README has to have: its length, one picture, and a table of the programs beside hone without an empty cell."""
    found = []
    if not README_LINES[0] <= len(page.lines) <= README_LINES[1]:
        found.append(f"{page.name}: {len(page.lines)} lines, {README_LINES[0]} to {README_LINES[1]} are meant")
    pictures = sum(line.count("![") for _, line in page.prose())
    if pictures != 1:
        found.append(f"{page.name}: {pictures} pictures, one is meant")
    tables = [[cell.strip() for cell in line.strip("|").split("|")] for _, line in page.prose() if line.startswith("|")]
    peers = [cells for cells in tables if len(cells) == 1 + len(PEERS)]
    if not peers or tuple(peers[0][1:]) != PEERS or any(not cell for cells in peers[1:] for cell in cells):
        found.append(f"{page.name}: no whole table of {', '.join(PEERS)}")
    return found


def wrong_yaml_quotes(page, example):
    """Ten lines or fewer of YAML, each of which stands in the example, up to its comment."""
    whole = {line.partition("  #")[0].rstrip() for line in example.splitlines()}
    blocks = page.fenced("yaml")
    found = [f"{page.name}:{first}: {len(lines)} lines of YAML, ten are meant" for first, lines in blocks if len(lines) != 10]
    found += [f"{page.name}:{first + k}: {QUICKSTART_YAML} does not have `{line}`"
              for first, lines in blocks for k, line in enumerate(lines) if line not in whole]
    return found if blocks else [f"{page.name}: quotes no YAML"]


def told_cases(text):
    """{`== CODE CASE`: lines of its verdict} of tests/faults/told.txt."""
    cases = {}
    for line in text.splitlines():
        if line.startswith("== "):
            cases[line] = []
        elif cases:
            cases[next(reversed(cases))].append(line)
    return cases


def wrong_told(page, cases):
    """Blocks of kind `told`: each `== CODE CASE` is a case of tests/faults, and is told the lines below it (`in_order`)."""
    found = []
    for first, lines in page.fenced("told"):
        starts = [k for k, line in enumerate(lines) if line.startswith("== ")]
        if not starts or starts[0] != 0:
            found.append(f"{page.name}:{first}: a block of what is told begins with `== CODE CASE`")
        for begin, end in zip(starts, [*starts[1:], len(lines)]):
            if lines[begin] not in cases:
                found.append(f"{page.name}:{first + begin}: no case {lines[begin].removeprefix('== ')}")
            elif (missing := in_order(lines[begin + 1:end], cases[lines[begin]])) is not None:
                found.append(f"{page.name}:{first + begin}: {TOLD} does not have: {missing.strip()}")
    return found


def unknown_classes(page, classes):
    """Codes of faults that `hone faults` does not list, in prose and in what is quoted."""
    return [f"{page.name}:{i}: no class {code}" for i, line in enumerate(page.lines, 1)
            for code in re.findall(r"\b[A-Z]{2,5}-\d\d\b", line) if code not in classes]


def long_symptom(page):
    found = [f"{page.name}: {len(page.lines)} lines, at most {SYMPTOM_LINES}"] if len(page.lines) > SYMPTOM_LINES else []
    return found if page.fenced("told") and any(re.match(r"- Elsewhere: ", line) for line in page.lines) else [
        *found, f"{page.name}: quotes no verdict, or says nothing of other programs"]
