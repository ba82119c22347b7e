#!/usr/bin/env python3
"""hone verify-served: faults that are planted into a server are named, and a healthy server is not.

usage: tests/serve/verify_served_test.py [--hone PROGRAM] [--slow]
"""
import argparse
import array
import json
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
import stand_ins
from checks import Tests, holds, same
from server import SOURCE, TINY, Server


def read_tensors(path):
    data = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8:8 + size]), bytearray(data[8 + size:]), data[:8 + size]


def change_tensors(path, change):
    """Each float32 tensor becomes change(name, array)."""
    header, body, head = read_tensors(path)
    for name, one in header.items():
        if name == "__metadata__":
            continue
        assert one["dtype"] == "F32", one
        begin, end = one["data_offsets"]
        values = array.array("f", bytes(body[begin:end]))
        body[begin:end] = array.array("f", change(name, values)).tobytes()
    pathlib.Path(path).write_bytes(head + bytes(body))


def adapter_of(plant, name, config=None, change=None):
    """A copy of the adapter with other options or tensors."""
    out = plant.folder / name / "one"
    shutil.copytree(plant.adapter, out)
    if config:
        path = out / "adapter_config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **config}))
    if change:
        change_tensors(out / "adapter_model.safetensors", change)
    return out


def zeroed(part):
    return lambda name, values: [0.0] * len(values) if part(name) else values


class Plant:
    """An adapter of all linears, with values that change every answer."""

    def __init__(self, program, folder, model=TINY):
        self.program, self.folder = program, pathlib.Path(folder)
        rows = self.folder / "rows.jsonl"
        rows.write_text("".join(json.dumps({"text": text}) + "\n" for text in ("one two three", "four five six") * 4), encoding="utf-8")
        self.adapter = self.folder / "one"
        subprocess.run([program, "sft", "--use_peft", "--model_name_or_path", str(model), "--dataset_name", str(rows), "--output_dir", str(self.adapter), "--max_steps", "1",
                        "--lora_target_modules", "all-linear", "--lora_r", "8", "--lora_alpha", "16", "--skip_doctor", "--threads", "1", "--report_to", "none", "--bf16", "false"],
                       check=True, capture_output=True, timeout=300)
        drawn = random.Random(5)
        change_tensors(self.adapter / "adapter_model.safetensors", lambda name, values: [drawn.gauss(0, 0.15) for _ in values])

    def verify(self, url, *options, adapter=None, base=TINY):
        """(exit code, the result as JSON or what was printed)."""
        ended = subprocess.run([self.program, "verify-served", url, "--adapter", str(adapter or self.adapter), "--base", str(base), "--count", "4", "--tokens", "8", "--threads", "1",
                                "--json", *options], capture_output=True, text=True, timeout=120)
        if ended.returncode in (0, 2) and ended.stdout:
            return ended.returncode, json.loads(ended.stdout)
        return ended.returncode, ended.stderr

    def serve(self, *options, **words):
        return Server(self.program, "--bf16", "false", *options, **words)

    def found(self, server, *options, **words):
        code, said = self.verify(server.url, *options, **words)
        holds(isinstance(said, dict), said)
        same(code, 0 if said["verdict"]["code"] == "applied" else 2)
        return said["verdict"]["code"], said

    def error(self, url, *parts, options=()):
        code, said = self.verify(url, *options)
        same(code, 2, said)
        holds(isinstance(said, str) and said.startswith("hone: ") and all(part in said for part in parts), said)


# ---- quick

def test_healthy(plant):
    """a server that applies the adapter is named as such, by each of three kinds of answer"""
    with plant.serve("--adapters", f"one={plant.adapter}") as server:
        code, said = plant.found(server)
        same((code, said["server"], said["model"], said["template"]["state"]), ("applied", "hone serve", "one", "equal"), said)
        holds(said["distances"]["applied"] < 1e-4 < 0.05 < said["distances"]["base_only"], said)
        same([(one["fate"], one["tensors"]) for one in said["keys"]], [("applied", 28)], said["keys"])
        code, said = plant.found(server, "--served_model_name", "tiny")
        same(code, "base_only", said)
        for stub, wanted in ((stand_ins.llama_server(server, "one"), "applied"), (stand_ins.llama_server(server, "one", without=3), "applied"), (stand_ins.ollama(server, "tiny"), "base_only")):
            with stub:
                same(plant.found(stub)[0], wanted)


def test_half(plant):
    """an adapter whose MLP tensors are zero is named as half applied"""
    half = adapter_of(plant, "half", change=zeroed(lambda name: ".mlp." in name and "lora_B" in name))
    with plant.serve("--adapters", f"one={half}") as server:
        same(plant.found(server)[0], "attention_only")


def test_wrong_servers(plant):
    """servers that are slow, absent, of another kind or of another model are errors of the house"""
    with stand_ins.slow(3) as stub:
        begin = time.monotonic()
        plant.error(stub.url, "no whole answer within 1 s", "--timeout", options=("--timeout", "1"))
        holds(time.monotonic() - begin < 15, "it waited")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    plant.error(f"http://127.0.0.1:{port}", "a server that listens")
    with stand_ins.constant(200, "<html>hello</html>") as stub:
        plant.error(stub.url, "a JSON object", "<html>hello")
    with stand_ins.constant(401, "who are you") as stub:
        plant.error(stub.url, "401", "--api_key_env")
    with stand_ins.constant(200, {"data": []}) as stub:
        plant.error(stub.url, "a list of models")
    with stand_ins.after_models({"error": {"message": "token id 4999 is out of vocabulary"}}, 400) as stub:
        plant.error(stub.url, "400", "out of vocabulary")
    with stand_ins.after_models({"choices": [{"logprobs": None}]}) as stub:
        plant.error(stub.url, "with echo", "--server")
    with stand_ins.after_models({"choices": [{"logprobs": {"token_logprobs": [None] * 500}}]}) as stub:
        plant.error(stub.url, "a number for each token")
    with stand_ins.after_models("x" * 500_000) as stub:
        plant.error(stub.url, "more than 400,000 bytes")
        plant.error(stub.url, "'ona'", "Did you mean 'one'", options=("--served_model_name", "ona"))


QUICK = [test_healthy, test_half, test_wrong_servers]


# ---- slow

def test_scales(plant):
    """twice the alpha, and rsLoRA that is ignored or invented, are told apart"""
    for name, served, mine, wanted in (("double", {"lora_alpha": 32}, {}, "twice"), ("plain", {"use_rslora": False}, {"use_rslora": True}, "rslora_ignored"),
                                       ("root", {"use_rslora": True}, {"use_rslora": False}, "rslora_invented")):
        there, here = adapter_of(plant, name + "_there", served), adapter_of(plant, name + "_here", mine)
        with plant.serve("--adapters", f"one={there}") as server:
            code, said = plant.found(server, adapter=here)
            same(code, wanted, said)


def test_other_halves(plant):
    """MLPs alone and half of the layers alone are named"""
    for name, part, wanted in (("mlp", lambda key: ".self_attn." in key, "mlp_only"), ("lower", lambda key: ".layers.1." in key, "lower_layers_only"),
                               ("upper", lambda key: ".layers.0." in key, "upper_layers_only")):
        half = adapter_of(plant, name, change=zeroed(lambda key, part=part: part(key) and "lora_B" in key))
        with plant.serve("--adapters", f"one={half}") as server:
            same(plant.found(server)[0], wanted)


def test_merged(plant):
    """the merged model with the adapter on it is the adapter twice; alone it is applied"""
    merged = plant.folder / "merged"
    subprocess.run([plant.program, "merge", "--model_name_or_path", str(TINY), "--adapter_name_or_path", str(plant.adapter), "--output", str(merged), "--compare", "0"],
                   check=True, capture_output=True, timeout=120)
    with plant.serve("--adapters", f"one={plant.adapter}", model=merged) as server:
        code, said = plant.found(server)
        same(code, "twice", said)
        same(plant.found(server, "--served_model_name", "tiny")[0], "applied")


def test_other_base(plant):
    """another base is none of these, and is named where the user names it"""
    other = plant.folder / "other_base"
    shutil.copytree(TINY, other)
    drawn = random.Random(7)
    change_tensors(other / "model.safetensors", lambda name, values: [one + drawn.gauss(0, 0.1) for one in values])
    with plant.serve("--adapters", f"one={plant.adapter}", model=other) as server:
        code, said = plant.found(server)
        same(code, "none", said)
        holds(min(said["distances"].values()) > 0.1, said)
        same(plant.found(server, "--other_base", str(other))[0], "other_base_adapter")
        same(plant.found(server, "--other_base", str(other), "--served_model_name", "tiny")[0], "other_base")


def test_template(plant):
    """a server with another chat template is named, also by its number of tokens"""
    other = plant.folder / "other.jinja"
    other.write_text("{% for m in messages %}<|im_start|>{{ m.role }}: {{ m.content }}<|im_end|>{% endfor %}<|im_start|>assistant")
    with plant.serve("--adapters", f"one={plant.adapter}", "--chat_template_path", str(other)) as server:
        code, said = plant.found(server)
        same((code, said["template"]["state"]), ("wrong_template", "differs"), said)
        same(plant.found(server, "--chat_template_path", str(other))[0], "applied")
        with stand_ins.llama_server(server, "one") as stub:
            same(plant.found(stub)[0], "wrong_template")
        for other in (stand_ins.sglang(server), stand_ins.proxy(server)):
            with other as stub:
                same(plant.found(stub, "--served_model_name", "one")[0], "wrong_template")


def test_weak(plant):
    """an adapter that changes nothing cannot be told from its base"""
    zero = adapter_of(plant, "zero", change=zeroed(lambda name: "lora_B" in name))
    with plant.serve("--adapters", f"one={zero}") as server:
        code, said = plant.found(server, adapter=zero)
        same(code, "not_told_apart", said)
        holds("CKPT-01" in said["verdict"]["cause"], said)


def test_stand_ins(plant):
    """SGLang applies the adapter where the request names it, and not its rsLoRA"""
    with plant.serve("--adapters", f"one={plant.adapter}") as server:
        with stand_ins.sglang(server) as stub:
            code, said = plant.found(stub)
            same(code, "applied")
            holds("write 'tiny:one'" in said["name"], said)
            same(plant.found(stub, "--served_model_name", "tiny")[1]["name"], "")
        with stand_ins.sglang(server, adapters=()) as stub:
            same(plant.found(stub, "--served_model_name", "one")[0], "applied")
            same(plant.found(stub)[0], "base_only")
        root = adapter_of(plant, "rslora", {"use_rslora": True})
        with stand_ins.sglang(server) as stub:  # as SGLang reads such an adapter: alpha / r
            code, said = plant.found(stub, "--served_model_name", "one", adapter=root)
            same((code, said["keys"][0]["fate"]), ("rslora_ignored", "scaled wrongly"), said)


SLOW = [test_scales, test_other_halves, test_merged, test_other_base, test_template, test_weak, test_stand_ins]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hone", default=str(SOURCE / "build/hone"))
    parser.add_argument("--slow", action="store_true")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    tests = Tests()
    with tempfile.TemporaryDirectory() as folder:
        plant = Plant(options.hone, folder)
        tests.run([test for test in QUICK + (SLOW if options.slow or options.only else []) if options.only in test.__name__], plant)
    return 1 if tests.failed else 0


if __name__ == "__main__":
    sys.exit(main())
