"""ms-swift's own arguments, sets and templates over the runs of swift_cases.py."""
import os
import shlex
import tempfile
from importlib.metadata import version
from pathlib import Path

from masks import common
from masks.swift_cases import CASES, files

common.stub("cryptography", "cpm_kernels", "rouge", "nltk", "attrdict", "binpacking", "oss2", "aiohttp", "fastapi", "uvicorn", "gradio")


def rows_of(case, folder):
    from swift.arguments import SftArguments
    from swift.template.base import MaxLengthError
    from swift.utils import parse_args
    from transformers import AutoTokenizer
    written = files(case)
    (folder / "rows.json").write_text(written["rows.json"], encoding="utf-8")
    words = shlex.split(written["run.sh"].replace("MODEL", str(folder / "model")).replace("ROWS", str(folder / "rows.json")))
    pairs = words[1] == "rlhf"
    words = words[2:]
    if pairs:  # RLHFArguments needs an older TRL; of the tokens they decide this default alone
        at = words.index("--rlhf_type")
        words = words[:at] + words[at + 2:] + ["--loss_scale", "last_round"]
    args, rest = parse_args(SftArguments,
                            words + ["--output_dir", str(folder / "out"), "--add_version", "false", "--load_from_cache_file", "false",
                                         "--report_to", "none", "--dataset_shuffle", "false"])
    assert not rest
    processor = AutoTokenizer.from_pretrained(folder / "model")
    processor.model_info, processor.model_meta = args.model_info, args.model_meta
    template = args.get_template(processor)
    template.set_mode("rlhf" if pairs else "train")
    train, _ = args.load_dataset()
    out = []
    for row in train:
        try:
            one = template.encode(dict(row))
        except MaxLengthError:
            continue  # truncation_strategy delete: EncodePreprocessor leaves such rows out
        if pairs:
            out.append({side: common.row_of(one[f"{side}_input_ids"], one[f"{side}_labels"]) for side in ("chosen", "rejected")})
        else:
            assert all(scale in (0, 1) for scale in one.get("loss_scale") or [])
            labels = one["labels"] if not one.get("loss_scale") else [a if b else -100 for a, b in zip(one["labels"], one["loss_scale"])]
            out.append(common.row_of(one["input_ids"], labels))
    return out


def main(check):
    os.environ.update(USE_HF="1")
    out = {}
    for name, case in CASES.items():
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            common.make_model(folder / "model")
            os.environ.update(MODELSCOPE_CACHE=str(folder / "cache"))
            out[name] = {"files": files(case), "rows": rows_of(case, folder), **({"told": case["told"]} if "told" in case else {})}
    common.write_or_compare("swift", version("ms_swift"), out, check)
