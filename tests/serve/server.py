"""A server of a tiny model for the tests, and a plain client."""
import contextlib
import http.client
import json
import os
import pathlib
import signal
import subprocess
import threading

SOURCE = pathlib.Path(__file__).resolve().parents[2]
TINY = SOURCE / "tests/fixtures/parity/tiny_llama"


class Server:
    """`hone serve` of the tiny model on a free port; with `key`, only for those that have it."""

    def __init__(self, program, *options, model=TINY, key=None, environment=None):
        environment = dict(environment or os.environ)
        words = [str(program), "serve", str(model), "--served_model_name", "tiny", "--port", "0", "--threads", "1", *options]
        if key:
            environment["TEST_SERVE_KEY"] = key
            words += ["--api_key_env", "TEST_SERVE_KEY"]
        self.key = key
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        self.errors = []
        self.reader = threading.Thread(target=lambda: self.errors.extend(self.process.stderr), daemon=True)
        self.reader.start()
        line = self.process.stdout.readline()
        if "http://" not in line:
            self.process.wait(30)
            self.reader.join(5)
            raise AssertionError(f"the server did not start: {line}{''.join(self.errors)}")
        self.port = int(line.rsplit(":", 1)[1])
        self.url = f"http://127.0.0.1:{self.port}"

    def connect(self, timeout=120):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def ask(self, method, path, body=None, headers=None):
        """(status, headers, body as JSON or text)."""
        given = {"Content-Type": "application/json"} if body is not None else {}
        if self.key:
            given["Authorization"] = "Bearer " + self.key
        given.update(headers or {})
        connection = self.connect()
        with contextlib.closing(connection):
            text = body if isinstance(body, (bytes, str, type(None))) else json.dumps(body)
            connection.request(method, path, body=text, headers=given)
            response = connection.getresponse()
            said = response.read().decode()
            kind = response.getheader("content-type") or ""
            return response.status, dict(response.getheaders()), json.loads(said) if said and kind.startswith("application/json") else said

    def ask_bytes(self, method, path, body, kind):
        """(status, body as it came)."""
        connection = self.connect()
        with contextlib.closing(connection):
            connection.request(method, path, body=body, headers={"Content-Type": kind} if body is not None else {})
            response = connection.getresponse()
            return response.status, response.read()

    def post(self, path, **fields):
        status, _, said = self.ask("POST", path, fields)
        assert status == 200, f"{status}: {said}"
        return said

    def refused(self, path, fields, headers=None):
        """(status, the error's object)."""
        status, _, said = self.ask("POST", path, fields, headers)
        assert status >= 400 and set(said) == {"error"} and set(said["error"]) == {"message", "type", "param", "code"}, f"{status}: {said}"
        return status, said["error"]

    def events(self, path, **fields):
        """The objects of a stream, which must end with [DONE]."""
        status, headers, said = self.ask("POST", path, {**fields, "stream": True})
        assert status == 200 and headers["content-type"].startswith("text/event-stream"), f"{status}: {said}"
        parts = said.split("\n\n")
        assert parts[-1] == "" and parts[-2] == "data: [DONE]", parts[-2:]
        assert all(part.startswith("data: ") for part in parts[:-1])
        return [json.loads(part[6:]) for part in parts[:-2]]

    def stop(self, number=signal.SIGTERM, timeout=60):
        """The exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(timeout)
        self.reader.join(5)
        self.process.stdout.close()
        self.process.stderr.close()
        return code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        if not self.process.stdout.closed:
            self.stop()
