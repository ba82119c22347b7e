"""Records what TRL's pack_dataset does with rows of given lengths, for each strategy.

usage: python tests/parity/record_packing.py > tests/fixtures/data/packing_bfd.json
       python tests/parity/record_packing.py cut > tests/fixtures/data/packing_cut.json
For bfd row i is [i] * length, so the packed ids name the members of each bin. For bfd_split and wrapped, which cut rows,
ids count up over all rows, so that every place is told apart: a packed row is a list of [first id, tokens].
"""

import json
import random
import sys

import datasets
import pyarrow
import trl
from datasets import Dataset
from trl import pack_dataset

datasets.disable_progress_bars()


def packed_rows(rows, max_length, strategy="bfd"):
    """Packed, after asserting that streamed rows (an IterableDataset) are packed alike."""
    data = Dataset.from_dict({"input_ids": rows})
    packed = pack_dataset(data, max_length, strategy=strategy)
    streamed = pack_dataset(data.to_iterable_dataset(), max_length, strategy=strategy)
    assert [list(row["input_ids"]) for row in streamed] == [list(ids) for ids in packed["input_ids"]]
    return packed


def bins(lengths, max_length):
    packed = packed_rows([[i] * n for i, n in enumerate(lengths)], max_length)
    out = []
    for ids, sizes in zip(packed["input_ids"], packed["seq_lengths"]):
        at, members = 0, []
        for size in sizes:
            members.append(ids[at])
            at += size
        out.append(members)
    return out


def case(name, lengths, max_length):
    return {"name": name, "max_length": max_length, "lengths": lengths, "bins": bins(lengths, max_length)}


def cut(name, lengths, max_length, strategy):
    at, rows = 0, []
    for length in lengths:
        rows.append(list(range(at, at + length)))
        at += length
    packed = packed_rows(rows, max_length, strategy)
    out = []
    for i, ids in enumerate(packed["input_ids"]):
        sizes = packed["seq_lengths"][i] if strategy == "bfd_split" else [len(ids)]
        begins = [sum(sizes[:k]) for k in range(len(sizes))]
        assert all(ids[a:a + n] == list(range(ids[a], ids[a] + n)) for a, n in zip(begins, sizes))
        out.append([[ids[a], n] for a, n in zip(begins, sizes)])
    return {"name": name, "strategy": strategy, "max_length": max_length, "lengths": lengths, "rows": out}


versions = {"trl": trl.__version__, "datasets": datasets.__version__, "pyarrow": pyarrow.__version__}
random.seed(7)
if sys.argv[1:] == ["cut"]:
    cases = [cut(name, lengths, size, strategy) for strategy in ("bfd_split", "wrapped") for name, lengths, size in (
        ("trl's own example", [5, 2, 3, 1], 4), ("empty rows", [0, 3, 0, 13, 1], 6), ("whole multiples", [8, 16, 4, 4], 4),
        ("random", [random.randint(1, 150) for _ in range(60)], 37),
        ("three chunks", [random.randint(1, 40) for _ in range(2100)], 24))]
    print(json.dumps({"versions": versions, "cases": cases}, separators=(",", ":")))
    sys.exit()
cases = [
    case("trl's own example, cut", [4, 2, 3, 1], 4),
    case("all equal", [3] * 10, 7),
    case("exact fits", [8, 8, 4, 4, 2, 2, 2, 2], 8),
    case("empty rows", [0, 3, 0, 5, 1], 6),
    case("many ties", [random.choice([5, 10, 20]) for _ in range(60)], 40),
    case("random", [random.randint(1, 64) for _ in range(120)], 64),
    case("odd max_length", [random.randint(1, 37) for _ in range(120)], 37),
    case("three chunks", [random.randint(1, 24) for _ in range(2100)], 24),
]
print(json.dumps({"versions": versions, "cases": cases}, separators=(",", ":")))
