"""LLaMA-Factory's own get_dataset over the ten runs of factory_cases.py."""
import tempfile
from importlib.metadata import version
from pathlib import Path

from masks import common
from masks.factory_cases import CASES, files

common.stub("torchaudio", "omegaconf")


def rows_of(case, folder):
    import yaml
    from llamafactory.data import get_dataset, get_template_and_fix_tokenizer
    from llamafactory.hparams import DataArguments, ModelArguments
    from transformers import AutoTokenizer, Seq2SeqTrainingArguments
    for name, text in files(case).items():
        (folder / name).write_text(text, encoding="utf-8")
    options = yaml.safe_load((folder / "run.yaml").read_text())
    stage = options.pop("stage")
    names = {name: value for name, value in options.items() if name in DataArguments.__dataclass_fields__}
    data = DataArguments(dataset_dir=str(folder), overwrite_cache=True, **names)
    if stage == "pt" and data.packing is None:
        data.packing = True  # hparams/parser.py
    model = ModelArguments(model_name_or_path=str(folder / "model"))
    tokenizer = AutoTokenizer.from_pretrained(folder / "model")
    training = Seq2SeqTrainingArguments(output_dir=str(folder / "out"), do_train=True, use_cpu=True, report_to=[])
    template = get_template_and_fix_tokenizer(tokenizer, data)
    rows = get_dataset(template, model, data, training, stage={"dpo": "rm"}.get(stage, stage), tokenizer=tokenizer)["train_dataset"]
    if stage == "dpo":
        return [{side: common.row_of(row[f"{side}_input_ids"], row[f"{side}_labels"]) for side in ("chosen", "rejected")} for row in rows]
    return [common.row_of(row["input_ids"], row.get("labels", row["input_ids"])) for row in rows]


def main(check):
    out = {}
    for name, case in CASES.items():
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            common.make_model(folder / "model")
            out[name] = {"files": files(case), "rows": rows_of(case, folder), **({"told": case["told"]} if "told" in case else {})}
    common.write_or_compare("llamafactory", version("llamafactory"), out, check)
