"""Records what TRL's pack_dataset(strategy="bfd") does with rows of given lengths.

usage: python tests/parity/record_packing.py > tests/fixtures/data/packing_bfd.json
Row i is [i] * length, so the packed ids name the members of each bin.
"""

import json
import random

import datasets
import pyarrow
import trl
from datasets import Dataset
from trl import pack_dataset

datasets.disable_progress_bars()


def bins(lengths, max_length):
    packed = pack_dataset(Dataset.from_dict({"input_ids": [[i] * n for i, n in enumerate(lengths)]}), max_length)
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


random.seed(7)
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
versions = {"trl": trl.__version__, "datasets": datasets.__version__, "pyarrow": pyarrow.__version__}
print(json.dumps({"versions": versions, "cases": cases}, separators=(",", ":")))
