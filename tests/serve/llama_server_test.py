#!/usr/bin/env python3
"""hone verify-served beside llama.cpp's own server: eight faults are planted, each is named, and none on the healthy server.

usage: tests/serve/llama_server_test.py [--hone PROGRAM] [--llama_server PROGRAM] [--model FOLDER --adapter FOLDER]

The server is --llama_server, else the program that HONE_LLAMA_SERVER names, else that of xllamacpp in third_party/parity-venv.
"""
import argparse
import array
import contextlib
import http.client
import json
import math
import os
import pathlib
import random
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
from checks import Tests, holds, same
from server import SOURCE, TINY
from verify_served_test import Plant, change_tensors, read_tensors

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


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


class LlamaServer:
    """llama.cpp's server of a GGUF file, with an adapter at a scale, and a template of its own."""

    def __init__(self, program, model, lora=None, scale=1.0, template=None):
        port = free_port()
        if program:
            words = [program, "-m", model, "--host", "127.0.0.1", "--port", port, "-c", 512, "-t", 2, "-fa", "off", "-ctk", "f32", "-ctv", "f32", "--no-warmup", "--jinja"]
            words += ["--lora-scaled", f"{lora}:{scale}"] if lora else []
            words += ["--chat-template-file", template] if template else []
        else:
            words = [PARITY, "-c", INSIDE, model, port, lora or "", scale, template or ""]
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - it lives as long as the server
        self.process = subprocess.Popen([str(one) for one in words], stdout=self.log, stderr=subprocess.STDOUT)
        self.url = f"http://127.0.0.1:{port}"
        end = time.monotonic() + 120
        while not self.answers(port):
            if self.process.poll() is not None or time.monotonic() > end:
                self.log.seek(0)
                text = self.log.read()[-2000:]
                self.stop()
                raise AssertionError(f"the server did not start: {text}")
            time.sleep(0.1)

    @staticmethod
    def answers(port):
        with contextlib.suppress(OSError, http.client.HTTPException):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            with contextlib.closing(connection):
                connection.request("GET", "/v1/models")
                return connection.getresponse().status == 200
        return False

    def stop(self):
        self.process.kill()
        self.process.wait(30)
        self.log.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def attention_alone(source, out):
    """A copy of an adapter without the modules of its MLPs."""
    shutil.copytree(source, out)
    header, body, _ = read_tensors(source / "adapter_model.safetensors")
    kept, data = {}, bytearray()
    for name, one in header.items():
        if name != "__metadata__" and ".mlp." not in name:
            begin, end = one["data_offsets"]
            kept[name] = {**one, "data_offsets": [len(data), len(data) + end - begin]}
            data += body[begin:end]
    head = json.dumps(kept).encode()
    (out / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(head)) + head + bytes(data))
    path = out / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "target_modules": ["q_proj", "k_proj", "v_proj", "o_proj"]}))


class Real(Plant):
    """A model and its adapter, and GGUF files of both."""

    def __init__(self, options, folder):
        self.program, self.llama, self.folder = options.hone, options.llama_server, pathlib.Path(folder)
        self.model = pathlib.Path(options.model or TINY)
        if options.adapter:
            self.adapter = pathlib.Path(options.adapter)
        else:
            super().__init__(options.hone, folder)
        self.rank = json.loads((self.adapter / "adapter_config.json").read_text())["r"]
        self.base = self.gguf("base.gguf")
        self.lora = self.gguf("adapter.gguf", self.adapter)

    def gguf(self, name, adapter=None, model=None):
        out = self.folder / name
        words = ["--adapter_name_or_path", adapter, "--adapter_only"] if adapter else ["--outtype", "f32", "--compare", 0]
        self.run("export", "--model_name_or_path", model or self.model, "--output", out, *words)
        return out

    def run(self, *words):
        subprocess.run([self.program, *map(str, words)], check=True, capture_output=True, timeout=300)

    def named(self, wanted, *options, adapter=None, **server):
        """The server is verified once, in under a minute: its verdict is `wanted`."""
        with LlamaServer(self.llama, server.pop("model", self.base), **server) as one:
            begin = time.monotonic()
            code, said = self.verify(one.url, *options, adapter=adapter, base=self.model)
            took = time.monotonic() - begin
        holds(isinstance(said, dict), said)
        same((code, said["verdict"]["code"]), (0 if wanted == "applied" else 2, wanted), said)
        same((said["server"], took < 60), ("llama-server", True), (said["server"], took))
        near = sorted((round(far, 4), name) for name, far in said["distances"].items() if far is not None)[:2]
        print(f"# {wanted}: {took:.1f} s, nearest {near}", file=sys.__stdout__, flush=True)
        return said


def test_applied(real):
    """a healthy server of base and adapter is named applied, with the model's template"""
    said = real.named("applied", lora=real.lora)
    holds(said["distances"]["applied"] < 0.01 < said["distances"]["base_only"], said)


def test_half(real):
    """an adapter file without the modules of the MLPs is half applied"""
    attention_alone(real.adapter, real.folder / "half")
    real.named("attention_only", lora=real.gguf("half.gguf", real.folder / "half"))


def test_base(real):
    """a server without --lora, and one with the scale 0, is the base alone"""
    real.named("base_only")
    real.named("base_only", lora=real.lora, scale=0)


def test_wrong_base(real):
    """the adapter on another base is none of these, and is named where the user names that base"""
    other, drawn = real.folder / "other", random.Random(7)
    shutil.copytree(real.model, other)
    change_tensors(other / "model.safetensors", lambda name, values: shaken(drawn, values))
    file = real.gguf("other.gguf", model=other)
    real.named("none", model=file, lora=real.lora)
    real.named("other_base_adapter", "--other_base", str(other), model=file, lora=real.lora)


def test_twice(real):
    """the adapter on the merged model, and at the scale 2, is applied twice"""
    merged = real.folder / "merged"
    real.run("merge", "--model_name_or_path", real.model, "--adapter_name_or_path", real.adapter, "--output", merged, "--compare", "0")
    real.named("twice", model=real.gguf("merged.gguf", model=merged), lora=real.lora)
    real.named("twice", lora=real.lora, scale=2)


def test_rslora(real):
    """an rsLoRA adapter at alpha / r is named; at its own scale it is applied"""
    root = real.folder / "root"
    shutil.copytree(real.adapter, root)
    path = root / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "use_rslora": True, "lora_alpha": json.loads(path.read_text())["lora_alpha"] / math.sqrt(real.rank)}))
    file = real.gguf("root.gguf", root)
    real.named("applied", adapter=root, lora=file)
    real.named("rslora_ignored", adapter=root, lora=file, scale=1 / math.sqrt(real.rank))


def test_template(real):
    """a server with another chat template is named"""
    template = real.folder / "other.jinja"
    template.write_text("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<answer>")
    real.named("wrong_template", lora=real.lora, template=template)


def test_none(real):
    """another adapter of the same shape is none of these"""
    drawn = random.Random(11)
    other = real.folder / "drawn"
    shutil.copytree(real.adapter, other)
    change_tensors(other / "adapter_model.safetensors", lambda name, values: shuffled(drawn, values))
    real.named("none", lora=real.gguf("drawn.gguf", other))


def shaken(drawn, values):
    size = math.sqrt(sum(one * one for one in values[:1000]) / min(len(values), 1000))
    noise = array.array("f", [drawn.gauss(0, size / 2) for _ in range(min(len(values), 4096))])
    return [one + noise[i % len(noise)] for i, one in enumerate(values)]


def shuffled(drawn, values):
    out = list(values)
    drawn.shuffle(out)
    return out


TESTS = [test_applied, test_half, test_base, test_wrong_base, test_twice, test_rslora, test_template, test_none]


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
        tests.run([test for test in TESTS if options.only in test.__name__], Real(options, folder))
    return 1 if tests.failed else 0


if __name__ == "__main__":
    sys.exit(main())
