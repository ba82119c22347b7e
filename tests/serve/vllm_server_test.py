#!/usr/bin/env python3
"""hone verify-served beside vLLM on a CPU: eight faults are planted, each is named, and none on the healthy server.

usage: tests/serve/vllm_server_test.py [--hone PROGRAM] [--vllm_python PROGRAM] [--model FOLDER --adapter FOLDER] [--only WORD]

The server is that of the Python --vllm_python, else of the one that HONE_VLLM_PYTHON names, else of third_party/vllm-venv;
requirements-vllm.txt says how that is made. A server takes half a minute to start, and one is kept for tests in a row that need the same.
"""
import argparse
import contextlib
import json
import os
import pathlib
import shutil
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
import planted
from checks import Tests, holds, same
from server import SOURCE, TINY

PYTHON = SOURCE / "third_party/vllm-venv/bin/python"
# vLLM's attention on a CPU has no heads of 16: the same weights as two heads of 32 are another model, and as good.
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32}


def with_wide_heads(folder):
    folder.mkdir()
    for name in ("model.safetensors", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(TINY / name, folder)
    (folder / "config.json").write_text(json.dumps({**json.loads((TINY / "config.json").read_text()), **HEADS}))
    return folder


class Vllm(planted.Real):
    """vLLM's server of a model, into which adapters are loaded one after another."""

    kind = "vLLM"

    def __init__(self, options, folder):
        super().__init__(options.hone, folder, options.model or with_wide_heads(pathlib.Path(folder) / "wide"), options.adapter)
        self.python, self.kept, self.key, self.loaded = options.vllm_python, None, None, 0

    def kept_server(self, model, template, options):
        key = (model, template, options)
        if self.key != key:
            self.stop()
            port = planted.free_port()
            words = [self.python, "-m", "vllm.entrypoints.openai.api_server", "--model", model, "--served-model-name", "base", "--host", "127.0.0.1", "--port", port]
            words += ["--enforce-eager", "--max-model-len", 512, "--enable-lora", *([] if "--dtype" in options else ["--dtype", "float32"]), *options]
            words += ["--chat-template", template] if template else []
            environment = {**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_CACHE_ROOT": str(self.folder / "cache"),
                           "VLLM_CONFIG_ROOT": str(self.folder / "config"), "HF_HUB_OFFLINE": "1", "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1"}
            self.kept, self.key = planted.Started(words, port, seconds=300, environment=environment), key
        return self.kept

    @contextlib.contextmanager
    def started(self, model, lora=None, scale=1.0, template=None, options=(), name=None):
        server, more = self.kept_server(model, template, options), ["--served_model_name", name] if name else []
        if not lora:
            yield server.url, more
            return
        self.loaded += 1
        folder = self.folder / "loaded" / str(self.loaded)  # the caches of vLLM go by names and folders
        shutil.copytree(lora, folder)
        if scale != 1:
            planted.with_options(folder, lora_alpha=json.loads((folder / "adapter_config.json").read_text())["lora_alpha"] * scale)
        same(server.ask("POST", "/v1/load_lora_adapter", lora_name="tuned", lora_path=str(folder))[0], 200, server.told())
        yield server.url, more
        same(server.ask("POST", "/v1/unload_lora_adapter", lora_name="tuned")[0], 200, server.told())

    def stop(self):
        if self.kept:
            self.kept.stop()
        self.kept = self.key = None


def test_not_asked(real):
    """a request that names the base is answered by the base, with the adapter beside it"""
    real.named("base_only", lora=real.adapter, name="base")


def test_other_prefix(real):
    """keys of a multimodal wrapper match no module of vLLM, which says nothing: the base alone"""
    wrapped = planted.rewritten(real.adapter, real.folder / "wrapped", lambda name: name.replace("model.layers.", "model.language_model.layers."))
    real.named("base_only", lora=wrapped)


def test_target_modules(real):
    """a server that was told of other modules drops those of the adapter"""
    real.named("attention_only", lora=real.adapter, options=("--lora-target-modules", "q_proj", "k_proj", "v_proj", "o_proj"))


def test_bfloat16(real):
    """a healthy server in bfloat16 is named applied, and one without the adapter is the base alone"""
    said = real.named("applied", lora=real.adapter, options=("--dtype", "bfloat16"))
    holds(said["distances"]["applied"] > 1e-4, said)  # it is in bfloat16
    real.named("base_only", options=("--dtype", "bfloat16"))


TESTS = [test_not_asked, test_other_prefix, *planted.TESTS, test_target_modules, test_bfloat16]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hone", default=str(SOURCE / "build/hone"))
    parser.add_argument("--vllm_python", default=os.environ.get("HONE_VLLM_PYTHON") or str(PYTHON))
    parser.add_argument("--model")
    parser.add_argument("--adapter")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    if not shutil.which(options.vllm_python):
        print(f"skip hone verify-served beside vLLM: {options.vllm_python} is not there; tests/serve/requirements-vllm.txt says how to install it")
        return 0
    tests = Tests()
    with tempfile.TemporaryDirectory() as folder:
        real = Vllm(options, folder)
        try:
            tests.run([test for test in TESTS if options.only in test.__name__], real)
        finally:
            real.stop()
    return 1 if tests.failed else 0


if __name__ == "__main__":
    sys.exit(main())
