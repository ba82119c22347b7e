#!/usr/bin/env python3
"""hone serve with the real tinker SDK, in third_party/serve-venv (tests/serve/requirements.txt).

usage: tests/serve/tinker_test.py [--hone PROGRAM]
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
from checks import Tests, holds, same
from server import SOURCE, Server

PYTHON = SOURCE / "third_party/serve-venv/bin/python"
QUIET = {"HF_HUB_OFFLINE": "1", "TINKER_TELEMETRY": "0", "PYTHONDONTWRITEBYTECODE": "1"}


def sdk(server, *more):
    """What tests/serve/tinker_sdk.py prints."""
    words = [PYTHON, SOURCE / "tests/serve/tinker_sdk.py", server.url, "tiny", *more]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, env={**os.environ, **QUIET}, check=False)
    same(done.returncode, 0, done.stdout + done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def test_sdk(program):
    """the loop, losses as torch's, sampled log-probabilities == forward's; after kill -9 the saved run goes on in the same bits"""
    with tempfile.TemporaryDirectory() as root:
        server = Server(program, "--root", root)
        first = sdk(server)
        holds(first["losses"][-1] < first["losses"][0], first["losses"])
        server.process.send_signal(signal.SIGKILL)
        server.process.wait(30)
        again = Server(program, "--root", root)
        same(sdk(again, first["path"])["further"], first["further"])
        again.process.send_signal(signal.SIGTERM)
        same(again.process.wait(60), 0, "the exit code")


def main():
    program = sys.argv[sys.argv.index("--hone") + 1] if "--hone" in sys.argv else str(SOURCE / "build/hone")
    if not PYTHON.exists():
        print(f"skip the tinker SDK: no {PYTHON.relative_to(SOURCE)}: python3 -m venv, and pip install -r tests/serve/requirements.txt")
        return 0
    tests = Tests()
    tests.run([test_sdk], program)
    return 1 if tests.failed else 0


if __name__ == "__main__":
    sys.exit(main())
