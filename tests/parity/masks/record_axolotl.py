"""axolotl's own prepare_datasets over the runs of axolotl_cases.py."""
import os
import tempfile
from importlib.metadata import version
from pathlib import Path

from masks import common
from masks.axolotl_cases import CASES, files

common.stub("bitsandbytes", "wandb", "posthog", "fire", "liger_kernel", "mistral_common", "flash_attn", "xformers", "lm_eval", "schedulefree", "torchao",
            "modal", "kernels", "axolotl_contribs", "optimum", "art", "hf_transfer", "trackio", "gradio", "numba", "adlfs", "s3fs", "gcsfs", "ocifs", "evaluate",
            "openenv", "ray", "deepspeed", "fla", "nvidia", "pynvml", "zstandard", "fastcore", "immutabledict", "langdetect")


def rows_of(case, folder):
    import yaml
    from axolotl.loaders import load_tokenizer
    from axolotl.utils.config import normalize_config, validate_config
    from axolotl.utils.data import prepare_datasets
    from axolotl.utils.dict import DictDefault
    written = files(case)
    (folder / "rows.json").write_text(written["rows.json"], encoding="utf-8")
    text = written["run.yml"].replace("MODEL", str(folder / "model")).replace("ROWS", str(folder / "rows.json"))
    options = {**yaml.safe_load(text), "dataset_prepared_path": str(folder / "prepared"), "shuffle_merged_datasets": False, "dataset_num_proc": 1}
    options["learning_rate"] = float(options["learning_rate"])
    cfg = validate_config(DictDefault(options), capabilities={"bf16": False, "fp8": False, "n_gpu": 1, "compute_capability": "sm_90", "tf32": False},
                          env_capabilities={"torch_version": "2.11.0"})
    normalize_config(cfg)
    rows, _, _, _ = prepare_datasets(cfg, load_tokenizer(cfg))
    return [common.row_of(row["input_ids"], row["labels"]) for row in rows]


def main(check):
    os.environ["AXOLOTL_DO_NOT_TRACK"] = "1"
    out = {}
    for name, case in CASES.items():
        with tempfile.TemporaryDirectory() as scratch, common.working_in(scratch):
            folder = Path(scratch)
            common.make_model(folder / "model")
            out[name] = {"files": files(case), "rows": rows_of(case, folder), **({"told": case["told"]} if "told" in case else {})}
    common.write_or_compare("axolotl", version("axolotl"), out, check)
