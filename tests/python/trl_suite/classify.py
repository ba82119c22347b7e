"""What came of TRL's tests with hone, beside TRL itself: a table by trainer and by reason, and the list of failures."""
import collections
import json
import pathlib
import re

KINDS = ("passed", "refused", "failed")
APART = "no model or data here"


def rows_of(path):
    """{test: row}; a test with an error in its teardown has two rows, and the worse counts."""
    out = {}
    if not pathlib.Path(path).is_file():
        return out
    for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row["test"] not in out or row["outcome"] == "failed":
            out[row["test"]] = row
    return out


def first_line(row):
    chain = row.get("chain") or [{"text": row.get("why", "")}]
    return " ".join(chain[0]["text"].split())


def reason_of(row):
    """(kind, reason): a refusal is an exception of hone's own that reaches the test, not one that an assertion has swallowed."""
    if row["outcome"] == "passed":
        return "passed", ""
    chain = row.get("chain") or []
    kinds = chain[0]["kinds"] if chain else []
    text = first_line(row)
    if any(kind.startswith("hone.errors.") for kind in kinds):
        return "refused", shape_of(text)
    return "failed", shape_of(text)


def shape_of(text):
    """Reasons that differ in a name or a number only are the same."""
    text = re.sub(r"'?trl-internal-testing/[\w.-]+'?", "MODEL", text)
    text = re.sub(r"(/[\w.-]+){2,}", "FOLDER", text)
    text = re.sub(r"0x[0-9a-f]+", "ADDRESS", text)
    text = re.sub(r"\b(SFT|DPO|KTO|Reward|GRPO|RLOO|OnlineDPO|CPO|ORPO)(Trainer|Config)\b", r"X\2", text)
    return re.sub(r"\d+(\.\d+)?", "N", text)[:230]


def is_without_model(row):
    return row["outcome"] == "failed" and any("couldn't connect to" in one["text"] or "ConnectionError" in "".join(one["kinds"]) or
                                              "OfflineMode" in "".join(one["kinds"]) for one in row.get("chain") or [])


def compared(trl, hone):
    """{test: (kind, reason, row)} of the tests that TRL passes; and the counts of the others."""
    out, apart = {}, collections.Counter()
    for test, row in trl.items():
        if row["outcome"] == "apart":
            apart[row["why"]] += 1
        elif row["outcome"] != "passed":
            apart[APART if is_without_model(row) else f"TRL: {row['outcome']}"] += 1
        elif test in hone:
            out[test] = (*reason_of(hone[test]), hone[test])
        else:
            out[test] = ("failed", "it did not run", {"outcome": "failed", "chain": []})
    return out, apart


def short(test):
    return test.split("::", 1)[1] if "::" in test else test


def trainer_of(test):
    return re.search(r"test_(\w+)_trainer", test)[1]


def text_of(found, apart):
    """The table by trainer, then the reasons, the most frequent first, with three tests each."""
    table = collections.defaultdict(collections.Counter)
    reasons = collections.defaultdict(list)
    for test, (kind, reason, row) in found.items():
        table[trainer_of(test)][kind] += 1
        if kind != "passed":
            reasons[kind, reason].append((test, row))
    total = collections.Counter(kind for kind, *_ in found.values())
    lines = [f"{'trainer':12} {'TRL':>5} " + " ".join(f"{kind:>8}" for kind in KINDS)]
    for name, counts in [*table.items(), ("all", total)]:
        lines.append(f"{name:12} {sum(counts.values()):5} " + " ".join(f"{counts[kind]:8}" for kind in KINDS))
    lines += ["", "left out: " + ", ".join(f"{why} {count}" for why, count in apart.most_common()), ""]
    for (kind, reason), tests in sorted(reasons.items(), key=lambda one: (-len(one[1]), one[0])):
        lines.append(f"{len(tests):4} {kind}: {reason}")
        for test, row in tests[:3]:
            lines.append(f"         {trainer_of(test)} {short(test)}   {row.get('place', '')[:140]}")
    return "\n".join(lines) + "\n"


def failures_of(found):
    return "".join(f"{kind} {test}\n    {first_line(row)[:400]}\n" for test, (kind, _, row) in sorted(found.items()) if kind != "passed")
