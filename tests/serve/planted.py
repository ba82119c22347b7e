"""Faults that are planted into real servers of other makers, and what hone verify-served must call each."""
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
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

from checks import Tests, holds, same
from server import SOURCE, TINY
from verify_served_test import Plant, change_tensors, read_tensors


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


class Started:
    """A server's process, when it lists its models on `port`."""

    def __init__(self, words, port, seconds, environment=None):
        self.port, self.url = port, f"http://127.0.0.1:{port}"
        self.log = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - it lives as long as the server
        self.process = subprocess.Popen([str(one) for one in words], stdout=self.log, stderr=subprocess.STDOUT, env=environment, start_new_session=True)
        end = time.monotonic() + seconds
        while self.ask("GET", "/v1/models")[0] != 200:
            if self.process.poll() is not None or time.monotonic() > end:
                text = self.told()
                self.stop()
                raise AssertionError(f"the server did not start: {text}")
            time.sleep(0.1)

    def ask(self, method, path, **fields):
        """(status, text); the status is 0 where nothing answers."""
        with contextlib.suppress(OSError, http.client.HTTPException):
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
            with contextlib.closing(connection):
                connection.request(method, path, body=json.dumps(fields) if fields else None, headers={"Content-Type": "application/json"})
                response = connection.getresponse()
                return response.status, response.read().decode()
        return 0, ""

    def told(self):
        self.log.seek(0)
        return self.log.read()[-3000:]

    def stop(self):
        """Ends it and all that it started."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(20)
        self.log.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class Real(Plant):
    """A model and its adapter, and servers of one kind that are started with faults."""

    kind = ""  # as hone verify-served calls the server

    def __init__(self, program, folder, model, adapter=None):
        self.program, self.folder, self.model = program, pathlib.Path(folder), pathlib.Path(model)
        if adapter:
            self.adapter = pathlib.Path(adapter)
        else:
            super().__init__(program, folder, model)
        self.rank = json.loads((self.adapter / "adapter_config.json").read_text())["r"]

    def started(self, model, lora=None, scale=1.0, template=None):
        """A context with the address of a server of `model` and options for hone verify-served."""
        raise NotImplementedError

    def run(self, *words):
        subprocess.run([self.program, *map(str, words)], check=True, capture_output=True, timeout=300)

    def named(self, wanted, *options, adapter=None, model=None, **server):
        """The server is verified once, in under a minute: its verdict is `wanted`."""
        with self.started(model or self.model, **server) as (url, more):
            begin = time.monotonic()
            code, said = self.verify(url, *more, *options, adapter=adapter, base=self.model)
            took = time.monotonic() - begin
        holds(isinstance(said, dict), said)
        same((code, said["verdict"]["code"]), (0 if wanted == "applied" else 2, wanted), said)
        same((said["server"], took < 60), (self.kind, True), (said["server"], took))
        near = sorted((round(far, 4), name) for name, far in said["distances"].items() if far is not None)[:2]
        print(f"# {wanted}: {took:.1f} s, nearest {near}", file=sys.__stdout__, flush=True)
        return said

    def copy(self, name, change):
        """A copy of the adapter with other tensors."""
        out = self.folder / name
        shutil.copytree(self.adapter, out)
        change_tensors(out / "adapter_model.safetensors", change)
        return out


class Loading(Real):
    """A server into which adapters are loaded one after another. It is kept for tests in a row that need the same."""

    load, unload = "/load_lora_adapter", "/unload_lora_adapter"

    def __init__(self, program, folder, python, model=None, adapter=None):
        super().__init__(program, folder, model or with_wide_heads(pathlib.Path(folder) / "wide"), adapter)
        self.python, self.kept, self.key, self.loaded = python, None, None, 0

    def start(self, model, template, options):
        """The words of a command, without its port, and variables of its environment."""
        raise NotImplementedError

    def kept_server(self, model, template, options):
        key = (model, template, options)
        if self.key != key:
            self.stop()
            port = free_port()
            words, variables = self.start(model, template, options)
            environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TMPDIR": str(self.folder), **variables}
            self.kept, self.key = Started([*words, "--host", "127.0.0.1", "--port", port], port, seconds=300, environment=environment), key
        return self.kept

    @contextlib.contextmanager
    def started(self, model, lora=None, scale=1.0, template=None, options=(), name=None):
        server, more = self.kept_server(model, template, options), ["--served_model_name", name] if name else []
        if not lora:
            yield server.url, more
            return
        self.loaded += 1
        folder = self.folder / "loaded" / str(self.loaded)  # caches go by names and folders
        shutil.copytree(lora, folder)
        if scale != 1:
            with_options(folder, lora_alpha=json.loads((folder / "adapter_config.json").read_text())["lora_alpha"] * scale)
        same(server.ask("POST", self.load, lora_name="tuned", lora_path=str(folder))[0], 200, server.told())
        yield server.url, more
        same(server.ask("POST", self.unload, lora_name="tuned")[0], 200, server.told())

    def stop(self):
        if self.kept:
            self.kept.stop()
        self.kept = self.key = None


# Kernels of attention on a CPU have no heads of 16: the same weights as two heads of 32 are another model, and as good.
WIDE = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32}


def with_wide_heads(folder):
    folder.mkdir()
    for name in ("model.safetensors", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(TINY / name, folder)
    (folder / "config.json").write_text(json.dumps({**json.loads((TINY / "config.json").read_text()), **WIDE}))
    return folder


def with_options(folder, **changed):
    path = folder / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))


def rewritten(source, out, name_of):
    """A copy of an adapter whose tensors have the names that `name_of` gives them; those with none are left out."""
    shutil.copytree(source, out)
    header, body, _ = read_tensors(source / "adapter_model.safetensors")
    kept, data = {}, bytearray()
    for name, one in header.items():
        if name != "__metadata__" and name_of(name):
            begin, end = one["data_offsets"]
            kept[name_of(name)] = {**one, "data_offsets": [len(data), len(data) + end - begin]}
            data += body[begin:end]
    head = json.dumps(kept).encode()
    (out / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(head)) + head + bytes(data))
    return out


def shaken(drawn, values):
    size = math.sqrt(sum(one * one for one in values[:1000]) / min(len(values), 1000))
    noise = array.array("f", [drawn.gauss(0, size / 2) for _ in range(min(len(values), 4096))])
    return [one + noise[i % len(noise)] for i, one in enumerate(values)]


def shuffled(drawn, values):
    out = list(values)
    drawn.shuffle(out)
    return out


def test_applied(real):
    """a healthy server of base and adapter is named applied, with the model's template"""
    said = real.named("applied", lora=real.adapter)
    holds(said["distances"]["applied"] < 0.01 < said["distances"]["base_only"], said)
    same(said["template"]["state"], "equal", said["template"])


def test_half(real):
    """an adapter file without the modules of the MLPs is half applied"""
    half = rewritten(real.adapter, real.folder / "half", lambda name: "" if ".mlp." in name else name)
    with_options(half, target_modules=["q_proj", "k_proj", "v_proj", "o_proj"])
    real.named("attention_only", lora=half)


def test_base(real):
    """a server that was started without an adapter is the base alone"""
    real.named("base_only")


def test_rslora(real):
    """an rsLoRA adapter at alpha / r is named; at its own scale it is applied"""
    root = real.folder / "root"
    shutil.copytree(real.adapter, root)
    with_options(root, use_rslora=True, lora_alpha=json.loads((root / "adapter_config.json").read_text())["lora_alpha"] / math.sqrt(real.rank))
    real.named("applied", adapter=root, lora=root)
    real.named("rslora_ignored", adapter=root, lora=root, scale=1 / math.sqrt(real.rank))


def test_none(real):
    """another adapter of the same shape is none of these"""
    drawn = random.Random(11)
    real.named("none", lora=real.copy("drawn", lambda name, values: shuffled(drawn, values)))


def test_twice(real):
    """the adapter at the scale 2, and on the merged model, is applied twice"""
    real.named("twice", lora=real.adapter, scale=2)
    merged = real.folder / "merged"
    real.run("merge", "--model_name_or_path", real.model, "--adapter_name_or_path", real.adapter, "--output", merged, "--compare", "0")
    real.named("twice", model=merged, lora=real.adapter)


def test_wrong_base(real):
    """the adapter on another base is none of these, and is named where the user names that base"""
    other, drawn = real.folder / "other", random.Random(7)
    shutil.copytree(real.model, other)
    change_tensors(other / "model.safetensors", lambda name, values: shaken(drawn, values))
    real.named("none", model=other, lora=real.adapter)
    real.named("other_base_adapter", "--other_base", str(other), model=other, lora=real.adapter)


def test_template(real):
    """a server with another chat template is named"""
    template = real.folder / "other.jinja"
    template.write_text("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<answer>")
    real.named("wrong_template", lora=real.adapter, template=template)


# Those that need the same server stand together.
TESTS = [test_applied, test_half, test_base, test_rslora, test_none, test_twice, test_wrong_base, test_template]


def run_loading(kind, tests, name, arguments):
    """The exit code of a test of a kind of server, whose Python is an option, a variable, or in third_party."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--hone", default=str(SOURCE / "build/hone"))
    parser.add_argument("--python", default=os.environ.get(f"HONE_{name.upper()}_PYTHON") or str(SOURCE / f"third_party/{name}-venv/bin/python"))
    parser.add_argument("--model")
    parser.add_argument("--adapter")
    parser.add_argument("--only", default="")
    options = parser.parse_args(arguments)
    if not shutil.which(options.python):
        print(f"skip hone verify-served beside {kind.kind}: {options.python} is not there; tests/serve/requirements-{name}.txt says how to install it")
        return 0
    done = Tests()
    with tempfile.TemporaryDirectory() as folder:
        real = kind(options.hone, folder, options.python, options.model, options.adapter)
        try:
            done.run([test for test in tests if options.only in test.__name__], real)
        finally:
            real.stop()
    return 1 if done.failed else 0
