"""Records what TRL's SFTTrainer makes of rows that are tokenized already: ids and labels after preparation, or that it refuses them.

usage: python tests/parity/record_token_rows.py
Writes tests/fixtures/data/token_rows.json: of each set of columns the rows, and of each set of options what comes of them.
"""

import itertools
import json
import pathlib
import tempfile

import datasets
import transformers
import trl
from datasets import Dataset, disable_progress_bars
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM
from trl import SFTConfig, SFTTrainer

FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "fixtures"
TINY = FIXTURES / "text" / "tiny"
disable_progress_bars()
transformers.logging.set_verbosity_error()

IDS = [[3, 50, 60, 70, 80, 2], [3, 51, 61, 2], [3, 52, 62, 72, 82, 92, 102, 2], [3, 53]]
CHAT = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]


def labels(ids):
    return [token if i >= len(ids) // 2 else -100 for i, token in enumerate(ids)]


COLUMNS = {  # what stands beside input_ids
    "labels": labels,
    "completion_mask": lambda ids: [int(i >= 2) for i in range(len(ids))],
    "assistant_masks": lambda ids: [int(i % 3 != 1) for i in range(len(ids))],
    "attention_mask": lambda ids: [int(i + 2 < len(ids)) for i in range(len(ids))],
}
MORE = {  # other sets of columns
    "text": {"text": lambda ids: "something else"},
    "text and labels": {"text": lambda ids: "something else", "labels": labels},
    "messages": {"messages": lambda ids: CHAT, "assistant_masks": COLUMNS["assistant_masks"]},
    "pair": {"prompt": lambda ids: "q", "completion": lambda ids: "a", "completion_mask": COLUMNS["completion_mask"]},
    "shifted": {"labels": lambda ids: ids[1:] + [-100]},
    "other": {"labels": lambda ids: [-100] + [99 - i for i in range(len(ids) - 1)]},
    "none": {"labels": lambda ids: [-100] * len(ids)},
    "first": {"labels": lambda ids: ids[:1] + [-100] * (len(ids) - 1)},
    "no target in one": {"labels": lambda ids: labels(ids) if len(ids) > 4 else [-100] * len(ids)},
    "booleans": {"assistant_masks": lambda ids: [i % 2 == 0 for i in range(len(ids))]},
}
OPTIONS = [
    {},
    {"completion_only_loss": True},
    {"completion_only_loss": False},
    {"assistant_only_loss": True},
    {"max_length": 4},
    {"max_length": 4, "truncation_mode": "keep_end", "completion_only_loss": True},
    {"max_length": 3, "completion_only_loss": True},
    {"max_length": None, "completion_only_loss": True},
    {"max_length": 6, "packing": True, "completion_only_loss": True},
    {"max_length": 6, "packing": True, "packing_strategy": "bfd_split"},
    {"max_length": 6, "packing": True, "packing_strategy": "wrapped", "completion_only_loss": True},
    {"dataset_kwargs": {"skip_prepare_dataset": True}, "max_length": 4},
]


def rows_of(columns):
    return [{"input_ids": ids, **{name: make(ids) for name, make in columns.items()}} for ids in IDS]


def sets():
    for size in range(len(COLUMNS) + 1):
        for names in itertools.combinations(COLUMNS, size):
            yield " ".join(names) or "alone", rows_of({name: COLUMNS[name] for name in names})
    for name, columns in MORE.items():
        yield name, rows_of(columns)


def prepare(rows, options, streams):
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=400, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1, num_key_value_heads=1))
    with tempfile.TemporaryDirectory() as folder:
        data = Dataset.from_list(rows)
        args = SFTConfig(folder, report_to="none", use_cpu=True, bf16=False, max_steps=1, **options)
        try:
            trainer = SFTTrainer(model, args, train_dataset=data.to_iterable_dataset() if streams else data,
                                 processing_class=AutoTokenizer.from_pretrained(TINY))
        except (ValueError, TypeError, KeyError) as error:
            return {"refused": type(error).__name__}
        made = [dict(row) for row in trainer.train_dataset]
        # What the collator hands to the model: attention_mask and masks are no part of it.
        return {"rows": [{"input_ids": row["input_ids"], "labels": row.get("labels", row["input_ids"]),
                          **({"seq_lengths": row["seq_lengths"]} if "seq_lengths" in row else {})} for row in made]}


def main():
    out = []
    for name, rows in sets():
        cases = []
        for options in OPTIONS:
            made = prepare(rows, options, streams=False)
            if "refused" not in made and made["rows"] and not options.get("packing"):
                assert prepare(rows, options, streams=True) == made, (name, options)
            cases.append({"options": options, **made})
        out.append({"name": name, "rows": rows, "cases": cases})
    versions = {"trl": trl.__version__, "transformers": transformers.__version__, "datasets": datasets.__version__}
    text = json.dumps({"versions": versions, "sets": out}, separators=(",", ":"))
    (FIXTURES / "data" / "token_rows.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
