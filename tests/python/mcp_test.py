#!/usr/bin/env python3
"""python -m hone.mcp: its answers line by line, hostile lines, a call that is cancelled; and the real client of PyPI's mcp, where it is installed.

usage: tests/python/mcp_test.py [--hone PROGRAM]   third_party/mcp-venv has the client (tests/parity/setup)
"""
import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from checks import SOURCE, Skip, Tests

CLIENT = SOURCE / "third_party/mcp-venv/bin/python"
RUN = """model_name_or_path: tests/fixtures/faults/llama
dataset_name: tests/fixtures/data/rows/chat_pairs.jsonl
output_dir: {folder}/out
use_peft: true
max_lenght: 64
"""


class Talk:
    """The server as a child; ask() sends a request and returns the message with its id."""

    def __init__(self):
        self.child = subprocess.Popen([sys.executable, "-m", "hone.mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8",
                                      cwd=SOURCE, env=os.environ | {"PYTHONPATH": str(SOURCE / "python")})
        self.last = 0

    def line(self, text):
        self.child.stdin.write(text + "\n")
        self.child.stdin.flush()

    def read(self):
        return json.loads(self.child.stdout.readline())

    def ask(self, method, **parameters):
        self.last += 1
        self.line(json.dumps({"jsonrpc": "2.0", "id": self.last, "method": method, "params": parameters}))
        said = self.read()
        assert said["jsonrpc"] == "2.0" and said["id"] == self.last, said
        return said

    def call(self, name, **given):
        return self.ask("tools/call", name=name, arguments=given)

    def end(self):
        self.child.stdin.close()
        assert self.child.wait(timeout=20) == 0
        rest = self.child.stdout.read()
        assert not rest, rest


@contextlib.contextmanager
def talk():
    one = Talk()
    try:
        yield one
        one.end()
    finally:
        one.child.kill()
        one.child.wait()
        one.child.stdout.close()


def text_of(said):
    [content] = said["result"]["content"]
    return content["text"]


def test_begins():
    """hone.mcp speaks the version that a client asks for, and lists its tools"""
    with talk() as server:
        said = server.ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "test", "version": "1"})
        assert said["result"]["protocolVersion"] == "2025-06-18", said
        assert server.ask("initialize", protocolVersion="1999-01-01")["result"]["protocolVersion"] == "2025-11-25"
        server.line('{"jsonrpc": "2.0", "method": "notifications/initialized"}')
        assert server.ask("ping")["result"] == {}
        tools = {tool["name"]: tool for tool in server.ask("tools/list")["result"]["tools"]}
        assert sorted(tools) == ["check", "doctor", "explain", "faults", "options", "plan"], sorted(tools)
        assert tools["check"]["inputSchema"]["required"] == ["config"]


def test_examines():
    """its tools give what the commands print: a refused line, the run with it put right, an option, a class of fault"""
    with talk() as server, tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "run.yaml")
        path.write_text(RUN.format(folder=folder), encoding="utf-8")
        said = server.call("check", config=str(path), method="sft")
        assert not said["result"]["isError"] and "Did you" in text_of(said) and "exit code 2" in text_of(said), said
        path.write_text(RUN.format(folder=folder).replace("lenght", "length"), encoding="utf-8")
        said = server.call("check", config=str(path), method="sft", options={"learning_rate": 1e-5, "packing": False})
        assert "0 refused" in text_of(said) and "exit code" not in text_of(said), said
        verdicts = json.loads(text_of(server.call("doctor", config=str(path), method="sft")).split("\nexit code")[0])
        assert verdicts["result"] in ("ok", "warn", "fail") and verdicts["parts"], verdicts
        assert json.loads(text_of(server.call("options", method="grpo", names=["num_generations"])))
        assert "RL-05" in text_of(server.call("faults", code="RL-05"))
        said = server.call("explain", run=folder)
        assert "no files of a hone run" in text_of(said), said


def test_refuses():
    """it refuses what is no call: unknown tools and arguments, words that begin as options, options that write files"""
    with talk() as server:
        for name, given, words in (("chekc", {}, "did you mean check"), ("check", {}, "the argument config"),
                                   ("check", {"config": 3}, "as string"), ("check", {"config": "--fix"}, "a name or a path"),
                                   ("check", {"confg": "a", "config": "a"}, "did you mean config"),
                                   ("check", {"config": "a", "options": {"fix": True}}, "change no file"),
                                   ("check", {"config": "a", "options": {"write": "b"}}, "change no file"),
                                   ("options", {"names": ["--json"]}, "a name or a path")):
            said = server.call(name, **given)
            assert said["error"]["code"] == -32602 and words in said["error"]["message"], said
        assert server.ask("tools/throw")["error"]["code"] == -32601
        said = server.call("check", config="a", options={"seed": "a\0b"})
        assert said["error"]["code"] == -32602 and "without the character 0" in said["error"]["message"], said
        server.last += 1
        server.line(json.dumps({"id": server.last, "method": "tools/call", "params": {"name": ["check"]}}))
        assert server.read()["error"]["code"] == -32602
        assert server.call("\ud800")["error"]["code"] == -32602, "a name that is half a character"
        assert server.call("check", config="\ud800")["result"]["isError"], "a path that is half a character"
        server.line('{"method": "notifications/cancelled", "params": [7]}')
        for line, code in (("{", -32700), ("[" * 200_000, -32700), ("[]", -32600), ('"text"', -32600), ('{"id": 1}', -32600)):
            server.line(line)
            said = server.read()
            assert said["id"] is None and said["error"]["code"] == code, said
        server.line('{"jsonrpc": "2.0", "id": 9, "result": {}}')
        assert server.ask("ping")["result"] == {}, "it went on"


def test_cancels():
    """a call that is cancelled ends its process and is not answered, and so does a client that goes away"""
    with tempfile.TemporaryDirectory() as folder:
        slow = pathlib.Path(folder, "slow")
        # The worker that it starts holds its output open.
        slow.write_text(f"#!/bin/sh\necho $$ >>{folder}/begun\nsleep 60 &\nexec sleep 60\n", encoding="utf-8")
        slow.chmod(0o755)
        given = os.environ["HONE_PROGRAM"]
        os.environ["HONE_PROGRAM"] = str(slow)
        try:
            with talk() as server:
                for number in (7, 8):
                    server.line(json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call",
                                            "params": {"name": "faults", "arguments": {}}}))
                begun = wait_for(pathlib.Path(folder, "begun"), 2)
                server.line('{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}')
                assert server.ask("ping")["result"] == {}
                alive = [pid for pid in begun if running(pid)]
                deadline = time.monotonic() + 10
                while len(alive) != 1 and time.monotonic() < deadline:
                    time.sleep(0.02)
                    alive = [pid for pid in begun if running(pid)]
                assert len(alive) == 1, alive
            assert not any(running(pid) for pid in begun), "the client went away"
        finally:
            os.environ["HONE_PROGRAM"] = given


def wait_for(path, lines):
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if path.is_file() and len(path.read_text(encoding="utf-8").split()) >= lines:
            return [int(word) for word in path.read_text(encoding="utf-8").split()]
        time.sleep(0.02)
    raise AssertionError("the calls did not begin")


def running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_real_client():
    """PyPI's mcp as the client: it begins, lists the tools, and calls check, options and doctor"""
    if not CLIENT.is_file():
        raise Skip("there is no third_party/mcp-venv")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "run.yaml")
        path.write_text(RUN.format(folder=folder).replace("lenght", "length"), encoding="utf-8")
        ended = subprocess.run([str(CLIENT), str(SOURCE / "tests/python/mcp_client.py"), sys.executable, str(path)], cwd=SOURCE, timeout=120,
                               capture_output=True, encoding="utf-8", env=os.environ | {"PYTHONPATH": str(SOURCE / "python")})
        assert ended.returncode == 0 and "all answers were right" in ended.stdout, ended.stdout + ended.stderr


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hone", default=str(SOURCE / "build/hone"))
    os.environ["HONE_PROGRAM"] = str(pathlib.Path(parser.parse_args().hone).resolve())
    tests = Tests()
    tests.run([test_begins, test_examines, test_refuses, test_cancels, test_real_client])
    sys.exit(1 if tests.failed else 0)


main()
