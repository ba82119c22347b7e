"""Records what datasets and TRL make of rows: names of columns, templates, functions, ShareGPT's messages.

usage: python tests/parity/record_row_forms.py tests/fixtures/data/row_forms

map.py in that folder holds the functions that both run; row_forms.json beside it the rows, what is asked for as hone's options say it, and
what comes of it.
"""

import importlib.util
import json
import pathlib
import sys

import datasets
import trl
from datasets import Dataset
from trl.data_utils import maybe_convert_to_chatml

datasets.disable_progress_bars()

ROWS = [
    {"i": i, "question": f"What is {i} + {{2}}?\n", "answer": f"{i + 2} \u6f22", "score": i / 8, "good": i % 2 == 0, "note": None}
    for i in range(7)
]
TEMPLATES = ["Q: {question}\nA:", "{i}|{answer}|{question}", "{{{answer}}} and {{}}", "{answer}{answer}", "{i} {score} {good}"]
CHATS = [
    {"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]},
    {"conversations": [{"from": "system", "value": "s"}, {"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]},
]


def functions(folder):
    spec = importlib.util.spec_from_file_location("row_functions", folder / "map.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def listed(dataset):
    return [dict(row) for row in dataset]


def flat(function):
    """A function of one row as datasets.map takes one that drops and adds rows: of a batch."""

    def batched(batch):
        names = list(batch)
        out = []
        for values in zip(*batch.values()):
            made = function(dict(zip(names, values)))
            out += [] if made is None else made if isinstance(made, list) else [made]
        columns = list(dict.fromkeys(key for row in out for key in row))
        return {column: [row.get(column) for row in out] for column in columns}

    return batched


def cases(folder):
    rows = Dataset.from_list(ROWS)
    names = {"question": "prompt", "answer": "completion"}
    yield {"rows": "rows", "dataset_columns": names, "expected": listed(rows.rename_columns(names))}
    for template in TEMPLATES:
        made = rows.map(lambda row, text=template: {"prompt": text.format(**row)})
        yield {"rows": "rows", "prompt_template": template, "expected": listed(made)}
    module = functions(folder)
    for name in ["one", "some", "several", "counting"]:
        made = rows.map(flat(getattr(module, name)), batched=True, remove_columns=rows.column_names)
        yield {"rows": "rows", "row_function": name, "expected": listed(made)}
    chats = [maybe_convert_to_chatml(json.loads(json.dumps(row))) for row in CHATS]
    yield {"rows": "chats", "roles": {"human": "user", "gpt": "assistant"}, "row_format": "sharegpt", "expected": chats}


def main():
    folder = pathlib.Path(sys.argv[1]).resolve()
    out = {
        "versions": {"datasets": datasets.__version__, "trl": trl.__version__},
        "rows": ROWS,
        "chats": CHATS,
        "cases": list(cases(folder)),
    }
    (folder / "row_forms.json").write_text(json.dumps(out, ensure_ascii=False, separators=(",", ":")).replace("},{", "},\n{") + "\n")


main()
