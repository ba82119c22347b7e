"""Records TRL's options for `sft` from the wheels, without importing them.

    pip download --no-deps trl==1.16.0 transformers==5.23.0 -d wheels
    python tests/parity/record_options.py wheels > tests/fixtures/config/trl_sft_options.json

The dataclasses are read as syntax trees, so neither torch nor transformers needs to be installed. Fields of a
subclass replace those of its base, as dataclasses do.
"""

import ast
import json
import pathlib
import sys
import zipfile

SOURCES = [  # (wheel, file, class, recorded as); later rows replace earlier ones of the same name
    ("transformers", "transformers/training_args.py", "TrainingArguments", "TrainingArguments"),
    ("trl", "trl/trainer/base_config.py", "_BaseConfig", "TrainingArguments"),
    ("trl", "trl/trainer/sft_config.py", "SFTConfig", "SFTConfig"),
    ("trl", "trl/trainer/model_config.py", "ModelConfig", "ModelConfig"),
    ("trl", "trl/scripts/utils.py", "ScriptArguments", "ScriptArguments"),
    ("trl", "trl/scripts/utils.py", "DatasetMixtureConfig", "DatasetMixtureConfig"),
]


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


def main() -> None:
    wheels = {p.name.split("-")[0]: p for p in pathlib.Path(sys.argv[1]).glob("*.whl")}
    versions = {name: path.name.split("-")[1] for name, path in sorted(wheels.items()) if name in ("trl", "transformers")}
    options = {}
    for wheel, file, class_name, recorded in SOURCES:
        source = zipfile.ZipFile(wheels[wheel]).read(file).decode()
        for name, annotation, default in fields_of(source, class_name):
            before = options.get(name, {}).get("class", recorded)
            options[name] = {"class": before, "type": annotation, "default": default}
    json.dump({"versions": versions, "options": options}, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
