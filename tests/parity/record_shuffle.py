"""Records the order that datasets.Dataset.shuffle(seed) gives.

usage: python tests/parity/record_shuffle.py > tests/fixtures/data/shuffle.json
"""

import json

import datasets
import numpy
from datasets import Dataset

datasets.disable_progress_bars()
CASES = [(1, 42), (2, 42), (10, 0), (10, 42), (37, 1), (257, 7), (100, 2**32 + 5), (64, 2**63)]


def order(n, seed):
    return Dataset.from_dict({"i": list(range(n))}).shuffle(seed=seed)["i"][:]


cases = [{"rows": n, "seed": seed, "order": list(order(n, seed))} for n, seed in CASES]
versions = {"datasets": datasets.__version__, "numpy": numpy.__version__}
print(json.dumps({"versions": versions, "cases": cases}, separators=(",", ":")))
