#!/usr/bin/env python3
"""hone serve and damaged requests: the valid ones of real clients, in both protocols, damaged by seeded chance (tests/serve/mutations.py).

usage: tests/serve/hostile_requests.py [--hone PROGRAM] [--count 400] [--slow] [--seed 1] [--from 0]
--slow: 20,000 requests. A request is a function of the seed and its number: `--from N --count 1` sends one again. The server must give each a
whole answer below 500 in the protocol's own form, or close; it must end with 0, and say nothing of a sanitizer. Of hostile paths none may
leave the server's folder.
"""
import argparse
import base64
import contextlib
import json
import os
import pathlib
import random
import shutil
import socket
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
import mutations
from checks import Tests, holds, same
from replay import RECORDED, recorded
from server import SOURCE, Server
from tinker_client import PROTO, TinkerClient, datum, field, read_varint, varint

SESSION = "s" + "0" * 16  # in the place of a server's, which has as many characters
NEXT = 777000             # in the place of the model's next seq_id; in a message as three bytes
ROUND = 200               # requests for one session and its model; then come new ones
SAMPLE = {"num_samples": 1, "sampling_session_id": SESSION + ":sample:0", "seq_id": NEXT, "type": "sample", "prompt": {"chunks": [{"type": "encoded_text", "tokens": [5, 6, 7]}]},
          "sampling_params": {"max_tokens": 2, "temperature": 1.0}}

SCHEMA = {"type": "object", "properties": {"a": {"type": "string", "maxLength": 3}, "b": {"type": ["integer", "null"]}, "c": {"$ref": "#/$defs/d"}}, "required": ["a"],
          "$defs": {"d": {"type": "array", "items": {"anyOf": [{"enum": ["x", 1]}, {"type": "boolean"}]}, "maxItems": 2}}}
SHAPED = {"model": "tiny", "prompt": "a", "max_tokens": 4, "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}}


class Valid:
    """The recorded requests, with names of this server: (method, path, body), where a body is an object or bytes."""

    def __init__(self):
        self.all = []
        for one in map(recorded, json.loads(RECORDED.read_text(encoding="utf-8"))["exchange"]):
            body = proto_of(one["proto"]) if "proto" in one else json.loads(here(json.dumps(one["body"]))) if "body" in one else None
            if isinstance(body, dict) and "seq_id" in body:
                body["seq_id"] = NEXT
            if not one["path"].endswith(("/finish", "/retrieve_future")):  # one ends the session, the other waits 20 s
                self.all.append((one["method"], here(one["path"]), body))
        self.all += [("POST", "/v1/completions", SHAPED)] * 3
        self.all += [("POST", "/api/v1/asample", SAMPLE), ("POST", "/api/v1/retrieve_futures", {"request_ids": [SESSION + ":train:0:0"]})]
        self.objects = [body for _, _, body in self.all if isinstance(body, dict)]


def here(text):
    for before, after in (("hone/tiny", "tiny"), ("run-1", "tiny"), ("151645", "2"), ("s1", SESSION)):
        text = text.replace(before, after)
    return text


def proto_of(text):
    """Its first field is the model's id, the next one its number."""
    data = base64.b64decode(text)
    size, begin = read_varint(data, 1)
    _, rest = read_varint(data, begin + size + 1)
    return field(1, here(data[begin:begin + size].decode()).encode()) + field(2, NEXT) + data[rest:]


def damaged(number, seed, valid):
    """(parts of bytes to send, whether the head is whole): of this number."""
    chance = random.Random(f"{seed}:{number}")
    method, path, body = chance.choice(valid.all)
    kind, head_is_whole = "application/json", True
    if isinstance(body, bytes):
        kind = PROTO
        data = mutations.message(chance, body) if chance.random() < 0.8 else mutations.bytes_of(chance, body)
    elif body is None:
        data = b""
        path = mutations.bytes_of(chance, path.encode()).decode("latin-1") if chance.random() < 0.7 else path
        head_is_whole = False
    else:
        way = chance.randrange(5)
        if way == 0:
            data = mutations.bytes_of(chance, json.dumps(body).encode())
        elif way == 1:
            data = json.dumps(mutations.fields_of(chance, body, valid.objects)).encode()
        elif way == 2:
            data = json.dumps(mutations.types_of(chance, body)).encode()
        elif way == 3:
            data = mutations.depth_of(chance, body)
        else:
            data = json.dumps(body).encode()
            path = chance.choice(valid.all)[1]
    lines = [f"{method} {path} HTTP/1.1".encode("latin-1"), b"Host: 127.0.0.1", b"Connection: close", b"Content-Type: " + kind.encode(), b"Content-Length: %d" % len(data)]
    if chance.random() < 0.15:
        lines, head_is_whole = mutations.head_of(chance, lines), False
    whole = b"\r\n".join(lines) + b"\r\n\r\n" + data
    parts = mutations.cuts(chance, whole) if chance.random() < 0.3 else [whole]
    return parts, head_is_whole and sum(map(len, parts)) == len(whole)


class Tinker:
    """A session with a model, in which requests go on; new ones each ROUND."""

    def __init__(self, server):
        self.server, self.client = server, None
        self.renew()

    def renew(self):
        if self.client:
            self.client.post_nothing(f"sessions/{self.client.session}/finish", {"reason": {"type": "success"}})
        self.client = Client(self.server)
        holds("error" not in self.client.made, self.client.made)
        self.client.sampler(0)

    def here(self, parts):
        """This session's name and the next number in the place of SESSION and NEXT, which have as many bytes."""
        number = self.client.seq + 1
        names = ((SESSION.encode(), self.client.session.encode()), (str(NEXT).encode(), b"%-6d" % number), (varint(NEXT), bytes([number & 127 | 128, number >> 7 | 128, 0])))
        for before, after in names:
            parts = [part.replace(before, after) for part in parts]
        return parts

    def see(self, said):
        """The number was taken where the answer has a future of it."""
        if f'"request_id":"{self.client.model}:{self.client.seq + 1}"'.encode() in said.replace(b" ", b""):
            self.client.seq += 1


class Client(TinkerClient):
    def post_nothing(self, path, body):
        return self.server.ask_bytes("POST", "/api/v1/" + path, json.dumps(body).encode(), "application/json")

    def works(self):
        """A whole step of the loop."""
        holds(not self.forward_backward([datum([5, 6, 7, 8], weights=[1.0] * 3)]).startswith(b"{"), "forward_backward")
        holds("metrics" in self.numbered("optim_step", adam_params={"learning_rate": 0.01}), "optim_step")


def send(server, parts, whole, timeout=120):
    """What the server says, until it closes. After less than a whole request nothing more is sent: the server takes that for a client that left."""
    said = b""
    with contextlib.closing(socket.create_connection(("127.0.0.1", server.port), timeout=timeout)) as one:
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(ConnectionError):
            for part in parts:
                one.sendall(part)
            if not whole:
                with contextlib.suppress(OSError):  # it may have closed
                    one.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionError):
            while part := one.recv(65536):
                said += part
    return said


def judged(said, whole, what):
    """The status; 0 for a connection that was closed without an answer."""
    if not said:
        holds(not whole, f"no answer to {what}")
        return 0
    head, _, body = said.partition(b"\r\n\r\n")
    words = head.split(b"\r\n")[0].split(b" ")
    holds(words[0].startswith(b"HTTP/1.") and len(words) > 1, f"{said[:200]!r} to {what}")
    status = int(words[1])
    holds(status < 500 or status == 501 or status == 505, f"{status}: {said[:2000]!r} to {what}")
    if whole and status >= 400:
        error = json.loads(body)
        holds("error" in error or "detail" in error or error.get("type") == "try_again", f"{said[:500]!r} to {what}")
    return status


@contextlib.contextmanager
def clean_server(program, *options):
    """A server that has to end with 0 and without a word of a sanitizer."""
    environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1", "UBSAN_OPTIONS": "print_stacktrace=1"}
    with Server(program, *options, environment=environment) as server:
        try:
            yield server
        except BaseException:
            if server.process.poll() is not None:
                server.reader.join(5)
                print("the server is gone:", server.process.returncode, *server.errors[-60:])
            raise
        same(server.stop(), 0, "the server's exit code")
        bad = [line for line in server.errors if "runtime error" in line or "Sanitizer" in line]
        holds(not bad, "".join(bad[:5]))


def test_damaged(o):
    """damaged requests of both protocols get answers below 500 in the protocol's form, and a step of training goes on beside them"""
    valid, statuses = Valid(), {}
    with tempfile.TemporaryDirectory() as root, clean_server(o.hone, "--root", root, "--kv_memory", "64MB") as server:
        tinker = Tinker(server)
        for number in range(o.first, o.first + o.count):
            parts, whole = damaged(number, o.seed, valid)
            what = f"--seed {o.seed} --from {number} --count 1: {bytes().join(parts)[:900]!r}"
            try:
                said = send(server, tinker.here(parts), whole)
                status = judged(said, whole, what)
                tinker.see(said)
            except (OSError, ValueError) as why:
                raise AssertionError(f"{type(why).__name__}: {why}; {what}") from why
            statuses[status] = statuses.get(status, 0) + 1
            if number % ROUND == ROUND - 1:
                tinker.renew()
                tinker.client.works()
        tinker.renew()
        tinker.client.works()
        same(server.ask("GET", "/healthz")[0], 200)
    print(statuses)
    holds(o.count < 100 or (statuses.get(200, 0) > o.count // 20 and statuses.get(400, 0) > o.count // 4), statuses)


PATH_PARTS = ["..", ".", "", "%2e%2e", "..%2f..", "\\..\\..", "a/../../..", "~", "~root", "a b", "a\u0000b", "a" * 129, "\u00e9", "\n", "$HOME", ".hidden", "+", "a+b", "decoy", "/etc", "C:", "a;b", "\u2025",
              "\uff0e\uff0e", "..;", "%00", "*", "weights", "a\\b", "-rf", "link", "link/.."]


def listing(folder):
    """Every path below with its size and its time."""
    out = {}
    for path in sorted(folder.rglob("*")):
        stat = path.lstat()
        out[str(path)] = (stat.st_size, stat.st_mtime_ns, stat.st_mode)
    return out


def test_paths(o):
    """of 300 hostile paths and more none is opened, none is written, and none leaves the root, where a checkpoint lies beside it"""
    with tempfile.TemporaryDirectory() as outside:
        outside = pathlib.Path(outside)
        root = outside / "in" / "root"
        with clean_server(o.hone, "--root", str(root)) as server:
            client = Client(server)
            client.works()
            path = client.numbered("save_weights", path="good")["path"]
            holds(path.startswith("tinker://"), path)
            saved = root / client.model.replace(":", "+")
            for name in ("decoy", "in/decoy"):
                shutil.copytree(saved, outside / name)
            (root / "link").symlink_to(outside / "decoy")
            before, runs = listing(outside), 0
            for number, one in enumerate(PATH_PARTS):
                for other in (one, "good", PATH_PARTS[(number * 7 + 3) % len(PATH_PARTS)]):
                    for text in (f"tinker://{one}/weights/{other}", f"tinker://{client.model}/{one}/{other}", f"tinker://../{one}/weights/good",
                                 f"tinker://link/weights/{other}"):
                        if text == path:
                            continue
                        runs += 1
                        for where, body in (("load_weights", {"session_id": client.session, "model_seq_id": 1000 + runs, "path": text, "optimizer": True}),
                                            ("create_sampling_session", {"session_id": client.session, "sampling_session_seq_id": 1000 + runs, "model_path": text})):
                            status, said = client.post_nothing(where, body)
                            said = json.loads(said)
                            if status == 200 and "request_id" in said:
                                said = client.result(said)
                            holds(status >= 400 or "error" in said, f"{where} of {text!r}: {status}, {said}")
                    if other == one:
                        said = client.numbered("save_weights", path=one)
                        holds("error" in said or one in ("decoy", "weights", "link", "-rf", "", "C:"), f"saved as {one!r}: {said}")
            for text in ("..", "%2e%2e", "../../decoy", "%2e%2e%2fdecoy", "link", "..%2f..%2fdecoy"):
                for end in ("weights/good", "weights/%2e%2e", "../good"):
                    status = server.ask("DELETE", f"/api/v1/training_runs/{text}/checkpoints/{end}")[0]
                    holds(status >= 400, f"DELETE of {text}, {end}: {status}")
            holds(runs >= 300, runs)
            after = listing(outside)
            inside = {name for name in after if name.startswith(str(saved) + "/")}
            changed = {name for name in set(before) | set(after) if before.get(name) != after.get(name)} - inside - {str(saved), str(root)}
            holds(not changed, f"other files: {sorted(changed)[:5]}")
            names = {pathlib.Path(name).relative_to(saved).parts[1] for name in inside if len(pathlib.Path(name).relative_to(saved).parts) > 1}
            holds(names and all(not name.startswith(".") and "/" not in name for name in names), names)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hone", default=str(SOURCE / "build/hone"))
    parser.add_argument("--slow", action="store_true")
    parser.add_argument("--count", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--from", type=int, default=0, dest="first")
    o = parser.parse_args()
    o.count = o.count or (20000 if o.slow else 400)
    tests, began = Tests(), time.monotonic()
    tests.run([test_damaged, test_paths], o)
    print(f"# {o.count} requests of seed {o.seed}, {time.monotonic() - began:.0f} s")
    return 1 if tests.failed else 0


if __name__ == "__main__":
    sys.exit(main())
