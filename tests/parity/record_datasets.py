"""Writes data files of every format, and records the rows that datasets.load_dataset gives for each.

usage: python tests/parity/record_datasets.py tests/fixtures/data/datasets

The files are made by datasets and pyarrow themselves. datasets.json beside them holds the cases: what is asked for as
hone's options say it, and the rows, or of splits and mixtures the column `i` of the rows, in order.
"""

import gzip
import json
import pathlib
import shutil
import sys
import tempfile

import datasets
import pyarrow
import pyarrow.feather
import pyarrow.parquet
from datasets import Dataset, DatasetDict, load_dataset, load_from_disk
from trl import DatasetMixtureConfig, get_dataset

datasets.disable_progress_bars()
CACHE = tempfile.mkdtemp()
datasets.config.HF_DATASETS_CACHE = pathlib.Path(CACHE)
BUILDERS = {"jsonl": "json", "json": "json", "csv": "csv", "tsv": "csv", "parquet": "parquet", "arrow": "arrow"}


def rows(n, first=0):
    return [
        {
            "i": i,
            "prompt": f"Wie heißt {i}? 漢 \U0001f600 \"quoted\"\n",
            "score": i / 8,
            "good": i % 2 == 0,
            "tags": [f"t{k}" for k in range(i % 3)],
            "messages": [
                {"role": "user", "content": f"q{i}", "name": None},
                {"role": "assistant", "content": f"a{i}\tb", "name": "x" if i % 2 else None},
            ],
            "about": None if i % 4 == 3 else {"source": "s", "n": i},
        }
        for i in range(first, first + n)
    ]


def small(n, first=0):
    return [{"i": i, "text": f"row {i}"} for i in range(first, first + n)]


def write_jsonl(path, values):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(v, ensure_ascii=False) + "\n" for v in values))


def write_formats(out):
    values = rows(11)
    table = pyarrow.Table.from_pylist(values)
    write_jsonl(out / "rows.jsonl", values)
    (out / "list.json").write_text(json.dumps(values, indent=1))
    (out / "field.json").write_text(json.dumps({"version": [1, {"data": 2}], "data": values, "more": "]"}, indent=1))
    (out / "texts.json").write_text('["a, b", "c ] \\" d"]')
    with gzip.GzipFile(out / "rows.jsonl.gz", "wb", mtime=0) as f:
        f.write((out / "rows.jsonl").read_bytes())
    with pyarrow.output_stream(str(out / "rows.jsonl.zst"), compression="zstd") as f:
        f.write((out / "rows.jsonl").read_bytes())
    for codec in ["none", "snappy", "gzip", "zstd", "lz4"]:
        pyarrow.parquet.write_table(table, out / f"{codec}.parquet", compression=codec, row_group_size=4)
    pyarrow.parquet.write_table(
        table, out / "plain_v2.parquet", use_dictionary=False, data_page_version="2.0", data_page_size=64
    )
    with pyarrow.ipc.new_stream(out / "stream.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=5)
    with pyarrow.ipc.new_file(out / "file.arrow", table.schema) as writer:
        writer.write_table(table)
    for codec in ["lz4", "zstd"]:
        options = pyarrow.ipc.IpcWriteOptions(compression=codec)
        with pyarrow.ipc.new_stream(out / f"{codec}.arrow", table.schema, options=options) as writer:
            writer.write_table(table)
    # Other types of Arrow, of which some are text only in hone.
    wide = pyarrow.table(
        {
            "large": pyarrow.array(["a", None, "c"], pyarrow.large_string()),
            "view": pyarrow.array(["a", "a text that is longer than twelve bytes", None], pyarrow.string_view()),
            "word": pyarrow.array(["x", "y", "x"]).dictionary_encode(),
            "small": pyarrow.array([-1, None, 127], pyarrow.int8()),
            "huge": pyarrow.array([2**64 - 1, 0, None], pyarrow.uint64()),
            "half": pyarrow.array([0.5, None, -2.0], pyarrow.float32()),
            "three": pyarrow.array([[1, 2, 3], None, [4, 5, 6]], pyarrow.list_(pyarrow.int32(), 3)),
            "deep": pyarrow.array([[[1], []], [], None], pyarrow.large_list(pyarrow.list_(pyarrow.int64()))),
            "none": pyarrow.nulls(3),
        }
    )
    pyarrow.parquet.write_table(wide, out / "types.parquet")
    with pyarrow.ipc.new_stream(out / "types.arrow", wide.schema) as writer:
        writer.write_table(wide)
    # A struct of lists is what it is; datasets 5 no longer turns it around.
    columns = pyarrow.table({"turns": [{"from": ["human", "gpt"], "value": ["a", "b"]}]})
    pyarrow.parquet.write_table(columns, out / "struct_of_lists.parquet")
    # Values of several types: datasets stores them as JSON.
    mixed = [{"m": [{"role": "a", "content": "b"}, {"role": "t", "content": [{"type": "text"}]}]}, {"m": []}]
    write_jsonl(out / "mixed.jsonl", mixed)
    load("mixed.jsonl", out).to_parquet(out / "json_column.parquet")


CSV = """i,text,number,word,flag,code,missing,mixed
0,plain,1.5,a,True,007,,1
1,"quoted, with ""quotes""
and a line",2,NA,False,8,,x

2, padded ,-3e2,null,TRUE,12,,2.5
3,"",,"N/A",false,13,,
4,'single',inf2,b"c,True,14,,True
"""


def write_csv(out):
    (out / "rows.csv").write_text(CSV)
    (out / "rows.tsv").write_text("i\ttext\tn\n0\ta, b\t1\n1\t\t\n2\tc\t3\n")
    (out / "crlf.csv").write_bytes(b"\xef\xbb\xbfi,a,a,\r\n0,x,y,z\r\n1,\"p\r\nq\",,\r\n2,r\r\n")
    with gzip.GzipFile(out / "rows.csv.gz", "wb", mtime=0) as f:
        f.write(CSV.encode())


def write_folders(out):
    write_jsonl(out / "words" / "train-a.jsonl", small(3))
    write_jsonl(out / "words" / "my_train_2.jsonl", small(2, 3))
    write_jsonl(out / "words" / "training.jsonl", small(2, 5))
    write_jsonl(out / "words" / "val.jsonl", small(2, 100))
    write_jsonl(out / "words" / "eval-1.jsonl", small(1, 200))
    write_jsonl(out / "words" / "trainer.jsonl", small(1, 300))
    (out / "words" / "notes.txt").write_text("not a data file\n")
    write_jsonl(out / "folders" / "train" / "b.jsonl", small(2))
    write_jsonl(out / "folders" / "train" / "a.jsonl", small(2, 2))
    write_jsonl(out / "folders" / "test_set" / "c.jsonl", small(2, 100))
    write_jsonl(out / "folders" / "__more" / "train" / "d.jsonl", small(1, 300))
    for name, first in [("train-00000-of-00002", 0), ("train-00001-of-00002", 6), ("train_sft-00000-of-00001", 50)]:
        path = out / "shards" / "data" / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        Dataset.from_list(small(6, first)).to_parquet(path)
    write_jsonl(out / "plain" / "x.jsonl", small(2))
    write_jsonl(out / "plain" / "sub" / "w.jsonl", small(2, 2))
    write_jsonl(out / "configs" / "en" / "one.jsonl", small(3))
    write_jsonl(out / "configs" / "en" / "two.jsonl", small(3, 3))
    write_jsonl(out / "configs" / "de" / "one.jsonl", small(3, 100))
    (out / "configs" / "README.md").write_text(
        "---\nlicense: mit\nconfigs:\n- config_name: en\n  default: true\n  data_files:\n  - split: train\n"
        "    path: en/t*.jsonl\n  - split: extra\n    path: [en/one.jsonl, de/*]\n- config_name: de\n"
        "  data_dir: de\n---\n# A data set\n"
    )
    Dataset.from_list(rows(7)).save_to_disk(out / "saved", num_shards=2)
    DatasetDict(train=Dataset.from_list(small(5)), test=Dataset.from_list(small(2, 100))).save_to_disk(
        out / "saved_dict"
    )


def load(name, out, split="train", config=None):
    path = out / name
    if "*" in name or path.is_file():
        ending = next(e for e in reversed(name.split(".")) if e in BUILDERS)
        extra = {"sep": "\t"} if ending == "tsv" else {}
        extra |= {"field": "data"} if name == "field.json" else {}
        files = {"train": str(path)}
        return load_dataset(BUILDERS[ending], data_files=files, split=split, cache_dir=CACHE, **extra)
    return load_dataset(str(path), config, split=split, cache_dir=CACHE)


def listed(dataset):
    return [dict(row) for row in dataset]


def format_cases(out):
    names = ["rows.jsonl", "list.json", "field.json", "texts.json", "rows.jsonl.gz", "rows.jsonl.zst"]
    names += [f"{codec}.parquet" for codec in ["none", "snappy", "gzip", "zstd", "lz4", "plain_v2", "types"]]
    names += [f"{name}.arrow" for name in ["stream", "file", "lz4", "zstd", "types"]]
    names += ["struct_of_lists.parquet", "json_column.parquet", "rows.csv", "rows.tsv", "crlf.csv", "rows.csv.gz"]
    for name in names:
        # datasets reads zstd only where the package zstandard is installed.
        yield {"dataset_name": name, "rows": listed(load(name.removesuffix(".zst"), out))}
    yield {"dataset_name": "saved", "rows": listed(load_from_disk(str(out / "saved")))}


SPLITS = ["train[:10%]", "train[10:20]", "train[-3:]", "train[25%:75%]+train[:2]", "train[:33%]", "train[34%:]"]
SPLITS += ["train[:-1]", "train[5:3]+train[:1]", "train[:1_0]", "train[-150:2]", "train[50%:]", "train[:5%]+train[-5%:]"]


def split_cases(out):
    for name in ["rows.jsonl", "snappy.parquet", "stream.arrow"]:
        for split in SPLITS:
            yield {"dataset_name": name, "split": split, "i": load(name, out, split)["i"][:]}
    for split in ["train", "validation", "test", "train[:50%]+validation[:1]", "all"]:
        yield {"dataset_name": "words", "split": split, "i": load("words", out, split)["i"][:]}
    for split in ["train", "test", "train[1:3]"]:
        yield {"dataset_name": "folders", "split": split, "i": load("folders", out, split)["i"][:]}
    for split in ["train", "train_sft", "train[25%:75%]", "train[-7:-4]"]:
        yield {"dataset_name": "shards", "split": split, "i": load("shards", out, split)["i"][:]}
    yield {"dataset_name": "plain", "split": "train", "i": load("plain", out)["i"][:]}
    for config, split in [(None, "train"), ("en", "extra"), ("de", "train")]:
        found = load("configs", out, split, config)["i"][:]
        yield {"dataset_name": "configs", "config": config, "split": split, "i": found}
    for split in ["train", "test"]:
        yield {"dataset_name": "saved_dict", "split": split, "i": load_from_disk(str(out / "saved_dict"))[split]["i"][:]}
    for name in ["words/train-*.jsonl", "folders/**/a.jsonl", "words/[tv]*.jsonl"]:
        yield {"dataset_name": name, "split": "train", "i": load(name, out)["i"][:]}


MIXTURES = [
    [{"path": "plain"}, {"path": "words", "split": "train[:3]"}],
    [{"path": "shards", "split": "train[:50%]"}, {"path": "folders", "split": "test"}, {"path": "shards"}],
    [{"path": "json", "data_files": ["plain/x.jsonl", "words/val.jsonl"]}, {"path": "configs", "name": "de"}],
    [{"path": "rows_only", "columns": ["i"]}, {"path": "plain", "columns": ["i"]}],
    [{"path": "words", "fraction": 0.5}, {"path": "shards", "fraction": 0.25}, {"path": "folders", "fraction": 0.25}],
    [{"path": "words", "fraction": 3}, {"path": "shards", "fraction": 1}],
    [{"path": "words", "data_files": {"train": "val.jsonl"}}, {"path": "plain", "data_dir": "sub"}],
]


# open-r1's dataset_mixture, as hone's options say it: a share of each set after a shuffle, all shuffled, then split.
DRAWN = [
    ([{"path": "words", "weight": 0.5}, {"path": "shards", "weight": 1.0}, {"path": "folders", "split": "test"}], 0, None),
    ([{"path": "shards", "weight": 0.34}, {"path": "rows_only", "columns": ["i"], "weight": 0.8}], 7, 3),
    ([{"path": "configs", "name": "en", "split": "extra", "weight": 1}, {"path": "words"}], 42, 0.25),
]


def absolute(entry, out):
    entry = dict(entry)
    if entry["path"] == "json":
        entry["data_files"] = [str(out / file) for file in entry["data_files"]]
    else:
        entry["path"] = str(out / entry["path"])
    return entry


def mixture_cases(out):
    write_jsonl(out / "rows_only" / "train.jsonl", [{"i": r["i"], "prompt": r["prompt"]} for r in rows(4, 40)])
    for mixture in MIXTURES:
        found = get_dataset(DatasetMixtureConfig(datasets=[absolute(entry, out) for entry in mixture]))
        yield {"datasets": mixture, "i": found["train"]["i"][:]}
    for size in [0.25, 5, 0.01]:
        whole = get_dataset(DatasetMixtureConfig(datasets=[absolute(entry, out) for entry in MIXTURES[0]]))["train"]
        found = whole.train_test_split(test_size=size, seed=42)
        case = {"datasets": MIXTURES[0], "test_split_size": size, "seed": 42}
        yield {**case, "i": found["train"]["i"][:], "test": found["test"]["i"][:]}


def drawn_cases(out):
    for mixture, seed, size in DRAWN:
        parts = []
        for entry in mixture:
            part = load(entry["path"], out, entry.get("split", "train"), entry.get("name")).select_columns(["i"])
            if entry.get("weight") is not None:
                part = part.shuffle(seed=seed).select(range(int(len(part) * entry["weight"])))
            parts.append(part)
        whole = datasets.concatenate_datasets(parts).shuffle(seed=seed)
        case = {"datasets": [{**entry, "seed": seed} for entry in mixture]}
        if size is None:
            yield {**case, "i": whole["i"][:]}
            continue
        found = whole.train_test_split(test_size=size, seed=seed)
        yield {**case, "test_split_size": size, "i": found["train"]["i"][:], "test": found["test"]["i"][:]}


def main():
    out = pathlib.Path(sys.argv[1]).resolve()
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    write_formats(out)
    write_csv(out)
    write_folders(out)
    cases = [*format_cases(out), *split_cases(out), *mixture_cases(out), *drawn_cases(out)]
    versions = {"datasets": datasets.__version__, "pyarrow": pyarrow.__version__}
    body = ",\n".join(json.dumps(case, ensure_ascii=False, default=list, separators=(",", ":")) for case in cases)
    (out / "datasets.json").write_text(f'{{"versions": {json.dumps(versions)}, "cases": [\n{body}\n]}}\n')
    shutil.rmtree(CACHE)


main()
