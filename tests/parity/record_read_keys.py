"""Records which keys of files and columns of rows transformers, PEFT and TRL read, without importing them.

    python tests/parity/record_read_keys.py SITE-PACKAGES tests/fixtures/config/read_keys.json

Each list is what the reference's own source names: fields of its dataclasses, parameters of its classes, and the strings with
which it indexes a row. `tests/commands/read_keys_test.cpp` holds hone's tables of keys against them.
"""

import ast
import json
import pathlib
import sys

TRAINERS = {
    "sft": ["trl/trainer/sft_trainer.py"],
    "dpo": ["trl/trainer/dpo_trainer.py"],
    "kto": ["trl/trainer/kto_trainer.py"],
    "reward": ["trl/trainer/reward_trainer.py"],
    "grpo": ["trl/trainer/grpo_trainer.py"],
    "rloo": ["trl/trainer/rloo_trainer.py"],
    "cpo": ["trl/experimental/cpo/cpo_trainer.py"],
    "orpo": ["trl/experimental/orpo/orpo_trainer.py"],
    "online-dpo": ["trl/experimental/online_dpo/online_dpo_trainer.py"],
}
ROWS = {"example", "examples", "row", "x", "feature", "element", "column_names", "columns"}
TOKENIZERS = ["qwen2", "llama", "gemma", "gpt2", "cohere"]
# Arguments of calls (from_pretrained, save_pretrained, train_new_from_iterator, apply_chat_template), which no file has.
OF_CALLS = set("""_commit_hash _from_auto _from_pipeline _json_padding _json_truncation _spm_precompiled_charsmap add_generation_prompt
    cache_dir commit_message continuing_subword_prefix end_of_word_suffix force_download gguf_file initial_alphabet max_target_length
    proxies repo_id sanitize_control_tokens save_jinja_files subfolder token tokenizer unk_id use_source_tokenizer""".split())


def tree(site: pathlib.Path, file: str) -> ast.Module:
    return ast.parse((site / file).read_text())


def text_of(node: ast.AST):
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def name_of(node: ast.AST):
    """The last name of `example`, `dataset.column_names`, `self.columns`."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else None


def indexed(module: ast.Module, objects: set) -> set:
    """Strings with which one of `objects` is indexed, asked for or searched."""
    found = set()
    for node in ast.walk(module):
        if isinstance(node, ast.Subscript) and name_of(node.value) in objects:
            found.add(text_of(node.slice))
        elif isinstance(node, ast.Compare) and any(name_of(c) in objects for c in node.comparators):
            found.add(text_of(node.left))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            if node.func.attr in ("get", "pop", "setdefault") and name_of(node.func.value) in objects:
                found.add(text_of(node.args[0]))
    return {name for name in found if name}


def fields(site: pathlib.Path, file: str, class_name: str) -> set:
    body = next(n for n in ast.walk(tree(site, file)) if isinstance(n, ast.ClassDef) and n.name == class_name).body
    return {n.target.id for n in body if isinstance(n, ast.AnnAssign)}


def parameters(module: ast.Module) -> set:
    """Parameters of each __init__."""
    found = set()
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            found |= {a.arg for a in node.args.args + node.args.kwonlyargs}
    return found - {"self", "vocab", "merges"}


def strings_of_list(module: ast.Module, name: str) -> set:
    for node in ast.walk(module):
        if isinstance(node, ast.Assign) and name in map(name_of, node.targets):
            return {text_of(e) for e in node.value.elts}
    raise KeyError(name)


def tokenizer_config(site: pathlib.Path) -> set:
    keys = set()
    for file in ("transformers/tokenization_utils_base.py", "transformers/tokenization_utils_tokenizers.py"):
        module = tree(site, file)
        keys |= indexed(module, {"kwargs", "init_kwargs", "tokenizer_config"})
    keys |= strings_of_list(tree(site, "transformers/tokenization_utils_base.py"), "SPECIAL_TOKENS_ATTRIBUTES")
    for name in TOKENIZERS:
        keys |= parameters(tree(site, f"transformers/models/{name}/tokenization_{name}.py"))
    return keys - OF_CALLS


def main() -> None:
    site, out = map(pathlib.Path, sys.argv[1:])
    lists = {"adapter_config.json": fields(site, "peft/tuners/lora/config.py", "LoraConfig")
             | fields(site, "peft/config.py", "PeftConfigMixin") | fields(site, "peft/config.py", "PeftConfig"),
             "tokenizer_config.json": tokenizer_config(site)}
    for method, files in TRAINERS.items():
        keys = set()
        for file in files:
            keys |= indexed(tree(site, file), ROWS)
        lists[f"columns of {method}"] = keys
    with out.open("w") as file:
        json.dump({name: sorted(keys) for name, keys in lists.items()}, file, indent=1)
        file.write("\n")


main()
