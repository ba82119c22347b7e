#!/usr/bin/env python3
"""Makes an offline cache of the hub with what TRL's tests open: TRL's own generators run here, and what they would push becomes files.

The generators open published models only for their tokenizers and a few numbers, which are replaced by local ones. A family whose tokenizer
npm does not have gets another's, with the family's own chat template of TRL's package. README.md says which.

usage: third_party/parity-venv/bin/python tests/python/trl_suite/make_cache.py      into third_party/trl-suite/cache
"""
import hashlib
import json
import pathlib
import runpy
import shutil
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[3]
SUITE = SOURCE / "third_party/trl-suite"
CACHE = SUITE / "cache"
GENERATORS = "scripts.generate_tiny_models"

QWEN = {"bos_token_id": 151643, "pad_token_id": 151643, "eos_token_id": [151645, 151643], "do_sample": True, "top_k": 20}
# The published model of a generator: (tokenizer, chat template of TRL's package, end of a turn, what its generation_config has beside).
PUBLISHED = {
    "Qwen/Qwen2.5-": ("qwen2_5", "qwen2_5", None, {**QWEN, "temperature": 0.7, "top_p": 0.8, "repetition_penalty": 1.05}),
    "Qwen/Qwen3-4B-Instruct-2507": ("qwen3", "qwen3_instruct_2507", None, {**QWEN, "temperature": 0.7, "top_p": 0.8}),
    "Qwen/Qwen3-8B": ("qwen3", "qwen3_training", None, {**QWEN, "temperature": 0.6, "top_p": 0.95}),  # the generator pins such a template
    "Qwen/Qwen3-": ("qwen3", "qwen3", None, {**QWEN, "temperature": 0.6, "top_p": 0.95}),
    "meta-llama/Meta-Llama-3-": ("llama3", "llama3", "<|eot_id|>", {"do_sample": True, "temperature": 0.6, "top_p": 0.9}),
    "meta-llama/Llama-3.1-": ("llama3", "llama3_1", "<|eot_id|>", {"do_sample": True, "temperature": 0.6, "top_p": 0.9}),
    "meta-llama/Llama-3.2-": ("llama3", "llama3_2", "<|eot_id|>", {"do_sample": True, "temperature": 0.6, "top_p": 0.9}),
    "google/gemma-": ("gemma3", "gemma", None, {}),
    "openai/gpt-oss-20b": ("gptoss", "gptoss", "<|return|>", {"do_sample": True}),
    "deepseek-ai/DeepSeek-R1": ("deepseek_v3", "deepseekv3", None, {}),
    "mistralai/": ("llama2", "MISTRAL", None, {}),
    "microsoft/Phi-3-": ("qwen2_5", "phi3", None, {}),
    "microsoft/Phi-3.5-": ("qwen2_5", "phi3_5", None, {}),
    "EleutherAI/": ("llama3", "NONE", None, {}),
    "CohereLabs/aya": ("qwen2_5", "cohere", None, {}),
    "CohereLabs/tiny-aya": ("qwen2_5", "cohere2", None, {}),
    "LiquidAI/LFM2-": ("llama2", "lfm2", None, {}),
    "LiquidAI/LFM2.5-": ("llama2", "lfm2_2_5", None, {}),
    "zai-org/GLM-4.5": ("llama3", "glm4moe", None, {}),
    "nvidia/NVIDIA-Nemotron-3-Nano": ("qwen2_5", "nemotron_3_nano", None, {}),
    "google/flan-t5-small": ("llama2", "NONE", None, {"decoder_start_token_id": 0}),
    "allenai/Olmo-3-7B-Think": ("qwen2_5", None, None, {}),
}
# The mark of Mistral's first instruct models: turns that alternate, the system's text refused.
MISTRAL = ("{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
           "{{ raise_exception('Roles must alternate') }}{% endif %}{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}"
           "{% else %}{{ message['content'] + eos_token }}{% endif %}{% endfor %}")
SKIPPED = ("bart", "opt_", "falcon", "gpt2", "gemma4", "nemotron_3_super", "nemotron_3_ultra")


def published(name):
    """The row with the longest beginning of a name."""
    found = [key for key in PUBLISHED if name.startswith(key)]
    if not found:
        raise LookupError(f"no tokenizer for {name}")
    return PUBLISHED[max(found, key=len)]


def tokenizer_of(name, **_):
    import transformers
    folder, template, end, _ = published(name)
    path = next(root / folder for root in (SOURCE / "third_party/tokenizers", SUITE / "tokenizers") if (root / folder / "complete").is_file())
    with tempfile.TemporaryDirectory() as scratch:
        for file in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(path / file, scratch)
        made = transformers.AutoTokenizer.__wrapped_from__(scratch)
    made.name_or_path = name
    made.init_kwargs.pop("name_or_path", None)
    if end:
        made.eos_token = end
    if folder == "llama3":
        made.pad_token = None
    if name.startswith("google/flan-t5"):
        made.pad_token = made.unk_token
    if template == "NONE":
        made.chat_template = None
    elif template == "MISTRAL":
        made.chat_template = MISTRAL
    elif template:
        made.chat_template = (SOURCE / f"third_party/trl-templates/{template}.jinja").read_text(encoding="utf-8")
    return made


def generation_of(name, **_):
    import transformers
    tokenizer, more = tokenizer_of(name), dict(published(name)[3])
    for key in ("bos_token_id", "eos_token_id", "pad_token_id"):
        if getattr(tokenizer, key) is not None:
            more.setdefault(key, getattr(tokenizer, key))
    return transformers.GenerationConfig(**more)


def config_of(name, **more):
    """What the classifiers' generators begin with: the family's configuration."""
    import transformers
    kinds = {"Qwen/Qwen2.5-": "Qwen2Config", "Qwen/Qwen3-30B": "Qwen3MoeConfig", "Qwen/Qwen3-": "Qwen3Config", "meta-llama/": "LlamaConfig",
             "EleutherAI/": "GPTNeoXConfig", "google/flan-t5": "T5Config"}
    kind = next(value for key, value in kinds.items() if name.startswith(key))
    return getattr(transformers, kind)(**{"vocab_size": len(tokenizer_of(name)), "num_hidden_layers": 2, **more})


# ---- the cache

def repository(kind, name):
    """A new snapshot's folder, in the layout of huggingface_hub."""
    root = CACHE / "hub" / f"{kind}--{name.replace('/', '--')}"
    commit = hashlib.sha1(name.encode()).hexdigest()
    shutil.rmtree(root, ignore_errors=True)
    (root / "refs").mkdir(parents=True)
    (root / "refs/main").write_text(commit)
    folder = root / "snapshots" / commit
    folder.mkdir(parents=True)
    return folder


def save_model(model, tokenizer, generation_config, prefix=None, suffix=None, create_pr=None):
    name = "-".join(part for part in (prefix, type(model).__name__ if not hasattr(model, "peft_config") else "PeftModel", suffix) if part)
    folder = repository("models", f"trl-internal-testing/{name}")
    model.save_pretrained(folder)
    if tokenizer is not None:
        tokenizer.save_pretrained(folder)
    if generation_config is not None:
        generation_config.save_pretrained(folder)
    print("made", name, flush=True)


def save_rows(data, repo_id, config_name="default", **_):
    root = CACHE / "data" / repo_id / config_name
    root.mkdir(parents=True, exist_ok=True)
    splits = data if isinstance(data, dict) else {"train": data}
    for split, rows in splits.items():
        rows.to_parquet(root / f"{split}.parquet")


def make_models():
    import transformers
    sys.path.insert(0, str(SUITE))
    transformers.AutoTokenizer.__wrapped_from__ = transformers.AutoTokenizer.from_pretrained
    transformers.AutoTokenizer.from_pretrained = tokenizer_of
    transformers.GenerationConfig.from_pretrained = generation_of
    opened = transformers.AutoConfig.from_pretrained
    transformers.AutoConfig.from_pretrained = lambda name, **more: opened(name, **more) if pathlib.Path(str(name)).is_dir() else config_of(name, **more)
    import importlib
    common = importlib.import_module(f"{GENERATORS}._common")
    common.push_to_hub = save_model
    for check in ("check_transformers_version", "check_dtype_pattern", "print_config_diff"):
        setattr(common, check, lambda *_, **__: None)
    left = {}
    for path in sorted((SUITE / "scripts/generate_tiny_models").glob("for_[cs]*/*.py")):
        if path.name.startswith(("_", "peft")) or (path.parent.name == "for_conditional_generation" and not path.name.startswith("t5")):
            continue
        if path.name.startswith(SKIPPED):
            left[path.stem] = "no test here opens it, or its tokenizer is not here"
            continue
        if any(word in path.name for word in sys.argv[1:]) or not sys.argv[1:]:
            try:
                import torch
                torch.manual_seed(0)
                runpy.run_module(f"{GENERATORS}.{path.parent.name}.{path.stem}", run_name="__main__")
            except Exception as error:
                left[path.stem] = f"{type(error).__name__}: {error}"
                print("left out", path.stem, left[path.stem], flush=True)
    return left


def make_data():
    import datasets
    datasets.DatasetDict.push_to_hub = datasets.Dataset.push_to_hub = save_rows
    for script in ("zen", "toolcall", "harmony"):
        made = runpy.run_path(str(SUITE / f"scripts/generate_{script}_dataset.py"))
        made["main"](0.1, True, f"trl-internal-testing/{script}")


def main():
    left = make_models()
    make_data()
    (CACHE / "left_out.json").write_text(json.dumps(left, indent=1) + "\n")


if __name__ == "__main__":
    main()
