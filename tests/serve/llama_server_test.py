#!/usr/bin/env python3
"""hone verify-served beside llama.cpp's own server: eight faults are planted, each is named, and none on the healthy server.

usage: tests/serve/llama_server_test.py [--hone PROGRAM] [--llama_server PROGRAM] [--model FOLDER --adapter FOLDER]

The server is --llama_server, else the program that HONE_LLAMA_SERVER names, else that of xllamacpp in third_party/parity-venv.
"""
import argparse
import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
import planted
from checks import Tests
from server import SOURCE, TINY

PARITY = SOURCE / "third_party/parity-venv/bin/python"
# The same server, inside of Python.
INSIDE = """
import sys, time, xllamacpp
p = xllamacpp.CommonParams()
p.model.path, p.hostnames, p.port, p.n_ctx, p.warmup, p.verbosity = sys.argv[1], ["127.0.0.1"], int(sys.argv[2]), 512, False, -1
p.cache_type_k = p.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
p.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
if sys.argv[3]:
    p.lora_adapters = [xllamacpp.CommonAdapterLoraInfo(sys.argv[3], float(sys.argv[4]))]
if sys.argv[5]:
    p.chat_template = open(sys.argv[5]).read()
server = xllamacpp.Server(p)
print(server.listening_address, flush=True)
time.sleep(600)
"""


class Llama(planted.Real):
    """llama.cpp's server of GGUF files, with an adapter at a scale, and a template of its own."""

    kind = "llama-server"

    def __init__(self, options, folder):
        super().__init__(options.hone, folder, options.model or TINY, options.adapter)
        self.server, self.files = options.llama_server, {}

    def gguf(self, folder, is_adapter):
        if folder not in self.files:
            out = self.files[folder] = self.folder / f"{len(self.files)}.gguf"
            words = ["--adapter_name_or_path", folder, "--adapter_only"] if is_adapter else ["--outtype", "f32", "--compare", 0]
            self.run("export", "--model_name_or_path", self.model if is_adapter else folder, "--output", out, *words)
        return self.files[folder]

    @contextlib.contextmanager
    def started(self, model, lora=None, scale=1.0, template=None):
        port, model, lora = planted.free_port(), self.gguf(model, False), self.gguf(lora, True) if lora else None
        if self.server:
            words = [self.server, "-m", model, "--host", "127.0.0.1", "--port", port, "-c", 512, "-t", 2, "-fa", "off", "-ctk", "f32", "-ctv", "f32", "--no-warmup", "--jinja"]
            words += ["--lora-scaled", f"{lora}:{scale}"] if lora else []
            words += ["--chat-template-file", template] if template else []
        else:
            words = [PARITY, "-c", INSIDE, model, port, lora or "", scale, template or ""]
        with planted.Started(words, port, seconds=120) as one:
            yield one.url, []


def test_scale_0(real):
    """an adapter at the scale 0 is the base alone"""
    real.named("base_only", lora=real.adapter, scale=0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hone", default=str(SOURCE / "build/hone"))
    parser.add_argument("--llama_server", default=os.environ.get("HONE_LLAMA_SERVER", ""))
    parser.add_argument("--model")
    parser.add_argument("--adapter")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    if not options.llama_server and subprocess.run([PARITY, "-c", "import xllamacpp"], capture_output=True, check=False).returncode if PARITY.exists() else not options.llama_server:
        print("skip hone verify-served beside llama.cpp's server: HONE_LLAMA_SERVER names none, and third_party/parity-venv has no xllamacpp")
        return 0
    tests = Tests()
    with tempfile.TemporaryDirectory() as folder:
        tests.run([test for test in [*planted.TESTS, test_scale_0] if options.only in test.__name__], Llama(options, folder))
    return 1 if tests.failed else 0


if __name__ == "__main__":
    sys.exit(main())
