#!/usr/bin/env python3
"""hone verify-served beside SGLang on a CPU: eight faults are planted, each is named, and none on the healthy server.

usage: tests/serve/sglang_server_test.py [--hone PROGRAM] [--python PROGRAM] [--model FOLDER --adapter FOLDER] [--only WORD]

The server is that of the Python --python, else of the one that HONE_SGLANG_PYTHON names, else of third_party/sglang-venv;
requirements-sglang.txt says how that is made. SGLang's own kernels are for GPUs: its operators in torch compute here, and
sglang_kernels stands in the place of the kernels' package.
"""
import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
import planted
from checks import holds, same

KERNELS = pathlib.Path(__file__).resolve().parent / "sglang_kernels"
MODULES = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


class Sglang(planted.Loading):
    kind = "SGLang"

    def start(self, model, template, options):
        words = [self.python, "-m", "sglang.launch_server", "--model-path", model, "--served-model-name", "base", "--device", "cpu", "--dtype", "float32"]
        words += ["--attention-backend", "torch_native", "--lora-backend", "torch_native", "--enable-lora", "--max-lora-rank", 16]
        words += ["--disable-overlap-schedule", "--disable-cuda-graph", "--mem-fraction-static", 0.1, "--max-total-tokens", 4096, "--skip-server-warmup"]
        words += [*(options or ("--lora-target-modules", *MODULES)), *(["--chat-template", template] if template else [])]
        return words, {"SGLANG_USE_CPU_ENGINE": "1", "PYTHONPATH": str(KERNELS)}


def test_rslora_not_read(real):
    """SGLang does not read use_rslora: its rules say so, and its answers"""
    root = planted.rewritten(real.adapter, real.folder / "rslora", lambda name: name)
    planted.with_options(root, use_rslora=True)
    said = real.named("rslora_ignored", lora=root, adapter=root)
    same(said["keys"][0]["fate"], "scaled wrongly", said["keys"])


def test_name(real):
    """a name of SGLang's own list is answered by the base in OpenAI's form, and that is told"""
    said = real.named("applied", lora=real.adapter)
    holds("write 'base:tuned'" in said["name"], said)
    real.named("base_only", lora=real.adapter, name="base")


TESTS = [test_name, test_rslora_not_read, *(test for test in planted.TESTS if test is not planted.test_rslora)]

if __name__ == "__main__":
    sys.exit(planted.run_loading(Sglang, TESTS, "sglang", sys.argv[1:]))
