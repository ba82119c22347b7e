"""Records transformers' order of rows of similar length (train_sampling_strategy group_by_length).

usage: python tests/parity/record_grouped.py > tests/fixtures/data/grouped.json
`permutation` is torch.randperm of a generator with `seed`, which the function draws from.
"""
import json
import random

import torch
import transformers
from transformers.trainer_pt_utils import get_length_grouped_indices


def case(rows, group_size, seed):
    lengths = [random.randint(1, 60) for _ in range(rows)]
    generator = lambda: torch.Generator().manual_seed(seed)
    return {"lengths": lengths, "group_size": group_size, "seed": seed,
            "permutation": torch.randperm(rows, generator=generator()).tolist(),
            "order": get_length_grouped_indices(lengths, group_size, generator=generator())}


random.seed(3)
cases = [case(3, 8, 0), case(40, 4, 1), case(41, 4, 7), case(300, 2, 42), case(1000, 1, 5), case(64, 16, 42)]
versions = {"transformers": transformers.__version__, "torch": torch.__version__}
print(json.dumps({"versions": versions, "cases": cases}, separators=(",", ":")))
