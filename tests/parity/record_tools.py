"""Records the schemas that transformers makes of functions.

usage: python tests/parity/record_tools.py tests/fixtures/tools

tools.py in that folder holds the functions; schemas.json beside it what get_json_schema makes of each, or null where it raises.
"""
import importlib.util
import json
import pathlib
import sys

import transformers
from transformers.utils import get_json_schema


def functions(folder):
    spec = importlib.util.spec_from_file_location("fixture_tools", folder / "tools.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module.functions()


def main():
    folder = pathlib.Path(sys.argv[1])
    schemas = {}
    for name, function in functions(folder).items():
        try:
            schemas[name] = get_json_schema(function)
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {str(error)[:100]}")
            schemas[name] = None
    lines = [f"{json.dumps(name)}: {json.dumps(schema, ensure_ascii=False)}" for name, schema in schemas.items()]
    text = f'{{"transformers": {json.dumps(transformers.__version__)}, "schemas": {{\n' + ",\n".join(lines) + "\n}}"
    (folder / "schemas.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
