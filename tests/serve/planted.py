"""Faults that are planted into real servers of other makers, and what hone verify-served must call each."""
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

from checks import holds, same
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
