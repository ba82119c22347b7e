"""PEFT's own adapter_config.json for the settings of check_adapters.py, for hone to write the same.

Writes FIXTURES/peft_configs.json: {settings: {options: hone's, config: PEFT's}} for tiny_llama; target_modules and
exclude_modules, sets in PEFT, sorted. `many` has 4 layers, so that all-linear stands for more than 20 modules and PEFT keeps their last parts."""
import json
import tempfile
from pathlib import Path

from check_adapters import SETTINGS, peft_config
from common import FIXTURES, options, versions, write_json

from peft import get_peft_model
from transformers import AutoConfig, AutoModelForCausalLM


def record(layers, peft_options):
    config = AutoConfig.from_pretrained(FIXTURES / "tiny_llama")
    config.num_hidden_layers = layers
    model = AutoModelForCausalLM.from_config(config)
    model.name_or_path = "some/base"
    with tempfile.TemporaryDirectory() as folder:
        get_peft_model(model, peft_config(peft_options)).save_pretrained(folder)
        written = json.loads((Path(folder) / "adapter_config.json").read_text())
    for key in ("target_modules", "exclude_modules"):
        if isinstance(written[key], list):
            written[key].sort()
    return written


def main():
    arguments = options(__doc__)
    cases = {name: {"options": mine, "layers": 2, "config": record(2, theirs)} for name, (mine, theirs) in SETTINGS.items()}
    for name in ("all-linear", "rslora, exclude list"):
        cases[f"{name}, many"] = {"options": SETTINGS[name][0], "layers": 4, "config": record(4, SETTINGS[name][1])}
    write_json(arguments.out / "peft_configs.json", {"versions": versions(), "cases": cases})


main()
