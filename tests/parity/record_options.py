"""Records TRL's options for `sft`, `grpo`, `rloo`, `dpo`, `online-dpo`, `reward`, `kto`, `cpo`, `orpo` and `distill` from the wheels, without importing them.

    pip download --no-deps trl==1.16.0 transformers==5.23.0 -d wheels
    python tests/parity/record_options.py wheels tests/fixtures/config

writes trl_sft_options.json and its fellows. A site-packages folder does in the place of wheels.

The dataclasses are read as syntax trees, so neither torch nor transformers needs to be installed. Fields of a
subclass replace those of its base, as dataclasses do.
"""

import ast
import json
import pathlib
import sys
import zipfile

BEFORE = [  # (package, file, class, recorded as); later rows replace earlier ones of the same name
    ("transformers", "transformers/training_args.py", "TrainingArguments", "TrainingArguments"),
    ("trl", "trl/trainer/base_config.py", "_BaseConfig", "TrainingArguments"),
]
AFTER = [
    ("trl", "trl/trainer/model_config.py", "ModelConfig", "ModelConfig"),
    ("trl", "trl/scripts/utils.py", "ScriptArguments", "ScriptArguments"),
    ("trl", "trl/scripts/utils.py", "DatasetMixtureConfig", "DatasetMixtureConfig"),
]
METHODS = {
    "sft": [("trl", "trl/trainer/sft_config.py", "SFTConfig", "SFTConfig")],
    "dpo": [("trl", "trl/trainer/dpo_config.py", "DPOConfig", "DPOConfig")],
    "online-dpo": [("trl", "trl/experimental/online_dpo/online_dpo_config.py", "OnlineDPOConfig", "OnlineDPOConfig")],
    "reward": [("trl", "trl/trainer/reward_config.py", "RewardConfig", "RewardConfig")],
    "kto": [("trl", "trl/trainer/kto_config.py", "KTOConfig", "KTOConfig")],
    "cpo": [("trl", "trl/experimental/cpo/cpo_config.py", "CPOConfig", "CPOConfig")],
    "orpo": [("trl", "trl/experimental/orpo/orpo_config.py", "ORPOConfig", "ORPOConfig")],
    "distill": [("trl", "trl/trainer/distillation_config.py", "DistillationConfig", "DistillationConfig")],
    "grpo": [
        ("trl", "trl/trainer/grpo_config.py", "GRPOConfig", "GRPOConfig"),
        ("trl", "trl/scripts/grpo.py", "GRPOScriptArguments", "GRPOScriptArguments"),
    ],
    "rloo": [
        ("trl", "trl/trainer/rloo_config.py", "RLOOConfig", "RLOOConfig"),
        ("trl", "trl/scripts/rloo.py", "RLOOScriptArguments", "RLOOScriptArguments"),
    ],
}
PACKAGES = ("transformers", "trl")


class Package:
    """The files of one wheel, or of one package in site-packages."""

    def __init__(self, folder: pathlib.Path, name: str):
        wheels = list(folder.glob(f"{name}-*.whl"))
        self.folder = folder
        self.wheel = zipfile.ZipFile(wheels[0]) if wheels else None
        found = wheels[0] if wheels else next(folder.glob(f"{name}-*.dist-info"))
        self.version = found.name.removesuffix(".dist-info").split("-")[1]

    def read(self, file: str) -> str:
        return self.wheel.read(file).decode() if self.wheel else (self.folder / file).read_text()


def module_constants(tree: ast.Module) -> dict:
    """Names bound to literals anywhere at module level; the last wins (default_optim on torch >= 2.8)."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    found[target.id] = node.value.value
    return found


def default_of(node: ast.expr | None, constants: dict):
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "field":
        for keyword in node.keywords:
            if keyword.arg == "default":
                return default_of(keyword.value, constants)
            if keyword.arg == "default_factory":
                if isinstance(keyword.value, ast.Lambda):
                    return ast.literal_eval(keyword.value.body)
                return {"list": [], "dict": {}}[ast.unparse(keyword.value)]
        raise ValueError(ast.unparse(node))
    if isinstance(node, ast.Name):
        return constants[node.id]
    return ast.literal_eval(node)


def fields_of(source: str, class_name: str) -> list:
    tree = ast.parse(source)
    constants = module_constants(tree)
    body = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == class_name).body
    return [
        (n.target.id, ast.unparse(n.annotation), default_of(n.value, constants))
        for n in body
        if isinstance(n, ast.AnnAssign)
    ]


def options_of(packages: dict, sources: list) -> dict:
    options = {}
    for package, file, class_name, recorded in sources:
        for name, annotation, default in fields_of(packages[package].read(file), class_name):
            before = options.get(name, {}).get("class", recorded)
            options[name] = {"class": before, "type": annotation, "default": default}
    return options


def main() -> None:
    source, target = map(pathlib.Path, sys.argv[1:])
    packages = {name: Package(source, name) for name in PACKAGES}
    versions = {name: package.version for name, package in packages.items()}
    for method, own in METHODS.items():
        recorded = {"versions": versions, "options": options_of(packages, BEFORE + own + AFTER)}
        (target / f"trl_{method}_options.json").write_text(json.dumps(recorded, separators=(",", ":")).replace("},", "},\n") + "\n")


if __name__ == "__main__":
    main()
