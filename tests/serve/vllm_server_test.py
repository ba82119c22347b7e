#!/usr/bin/env python3
"""hone verify-served beside vLLM on a CPU: eight faults are planted, each is named, and none on the healthy server.

usage: tests/serve/vllm_server_test.py [--hone PROGRAM] [--python PROGRAM] [--model FOLDER --adapter FOLDER] [--only WORD]

The server is that of the Python --python, else of the one that HONE_VLLM_PYTHON names, else of third_party/vllm-venv;
requirements-vllm.txt says how that is made.
"""
import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
import planted
from checks import holds, same
from server import TINY


class Vllm(planted.Loading):
    kind, load, unload = "vLLM", "/v1/load_lora_adapter", "/v1/unload_lora_adapter"

    def start(self, model, template, options):
        words = [self.python, "-m", "vllm.entrypoints.openai.api_server", "--model", model, "--served-model-name", "base", "--enforce-eager", "--max-model-len", 512]
        words += ["--enable-lora", *([] if "--dtype" in options else ["--dtype", "float32"]), *options, *(["--chat-template", template] if template else [])]
        return words, {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_CACHE_ROOT": str(self.folder / "cache"), "VLLM_CONFIG_ROOT": str(self.folder / "config"),
                       "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1"}


def test_not_asked(real):
    """a request that names the base is answered by the base, with the adapter beside it"""
    real.named("base_only", lora=real.adapter, name="base")


def test_other_prefix(real):
    """keys of a multimodal wrapper match no module of vLLM, which says nothing: the base alone"""
    wrapped = planted.rewritten(real.adapter, real.folder / "wrapped", lambda name: name.replace("model.layers.", "model.language_model.layers."))
    real.named("base_only", lora=wrapped)


def test_rules(real):
    """vLLM applies and refuses what the rules of its files say"""
    server = real.kept_server(real.model, None, ())
    for name, fate in (("adapter_rslora", "applied"), ("adapter_patterns", "applied"), ("adapter_dora", "refused"), ("adapter_saved", "refused"), ("adapter_tokens", "refused")):
        folder = TINY / name
        code, said = real.verify(server.url, adapter=folder, base=real.model)  # of the base: the rules ask for no adapter
        holds(isinstance(said, dict), said)
        same(said["keys"][0]["fate"], fate, name)
        if fate == "refused":
            status, text = server.ask("POST", real.load, lora_name=name, lora_path=str(folder))
            same(status >= 400, True, f"{name}: {status} {text}")
        else:
            real.named("applied", "--count", "24", lora=folder, adapter=folder)


def test_target_modules(real):
    """a server that was told of other modules drops those of the adapter"""
    real.named("attention_only", lora=real.adapter, options=("--lora-target-modules", "q_proj", "k_proj", "v_proj", "o_proj"))


def test_bfloat16(real):
    """a healthy server in bfloat16 is named applied, one without the adapter the base alone, and half of it half"""
    bits = ("--dtype", "bfloat16")
    said = real.named("applied", lora=real.adapter, options=bits)
    holds(said["distances"]["applied"] > 1e-4, said)  # it is in bfloat16
    real.named("base_only", options=bits)
    half = planted.rewritten(real.adapter, real.folder / "half_again", lambda name: "" if ".mlp." in name else name)
    planted.with_options(half, target_modules=["q_proj", "k_proj", "v_proj", "o_proj"])
    real.named("attention_only", lora=half, options=bits)


TESTS = [test_not_asked, test_other_prefix, test_rules, *planted.TESTS, test_target_modules, test_bfloat16]

if __name__ == "__main__":
    sys.exit(planted.run_loading(Vllm, TESTS, "vllm", sys.argv[1:]))
