"""Recorded requests of real clients (tests/fixtures/serve/exchange.json), sent to a server of the tiny model: each answer has the
status, the fields and the types of the recorded one. Run by serve_test.py.
"""
import base64
import json
import tempfile

from checks import holds, same
from server import SOURCE, Server
from tinker_client import PROTO, read_fields, read_varint

RECORDED = SOURCE / "tests/fixtures/serve/exchange.json"
# What the recorded server said in other words, or did not know: a text and a null are both right.
EITHER = {"stop_reason", "content", "bos_token", "pad_token", "eos_token", "parent", "code", "user_metadata", "expires_at"}


def kind(value):
    return "number" if isinstance(value, (int, float)) and not isinstance(value, bool) else type(value).__name__


def compare(recorded, answered, where):
    """Every recorded field is there, with its type; the same for the first item of a list."""
    name = where.rsplit(".", 1)[-1]
    if recorded is None or (name in EITHER and answered is None):
        return
    holds(kind(recorded) == kind(answered) or name in EITHER, f"{where}: {kind(answered)} for {kind(recorded)}: {answered!r:.200}")
    if isinstance(recorded, dict) and isinstance(answered, dict):
        if name in ("user_metadata", "metrics") or where.endswith("top_logprobs.0"):  # their names are no fields
            holds(answered or not recorded, f"{where} is empty")
            return
        for field, value in recorded.items():
            holds(field in answered, f"{where}: no {field} in {answered!r:.300}")
            compare(value, answered[field], f"{where}.{field}")
    elif isinstance(recorded, list) and recorded and isinstance(answered, list):
        holds(answered, f"{where} is empty")
        chosen = next((one for one in recorded if one is not None), None)
        found = next((one for one in answered if one is not None), None)
        compare(chosen, found, f"{where}.0")


def fields(data):
    """The (number, wire type) of each field of a protobuf message, and the bytes of the first of each number."""
    found, first = set(), {}
    for number, wire, content in read_fields(data):
        found.add((number, wire))
        if content is not None:
            first.setdefault(number, content)
    return found, first


def compare_proto(recorded, answered, nested, where):
    """The same fields, and in those of `nested` again; what proto3 leaves out because it is 0 may be missing or there."""
    wanted, wanted_first = fields(recorded)
    found, found_first = fields(answered)
    holds({one for one in wanted if one[1] == 2} <= found, f"{where}: fields {sorted(found)} for {sorted(wanted)}")
    for number, below in nested.items():
        if number in wanted_first:
            compare_proto(wanted_first[number], found_first[number], below, f"{where}.{number}")


SAMPLE = {1: {}, 3: {}}
OUTPUT = {2: {2: {2: {}}}, 3: {}}


def recorded(one):
    if "poll" in one:
        return {"method": "POST", "path": "/api/v1/retrieve_future", "status": 200, "body": {"request_id": one["poll"], "allow_metadata_only": True}, **one}
    return {"status": 200, **one}


class Replay:
    def __init__(self, server):
        self.server, self.session = server, "s1"

    def here(self, text):
        """Names of this server in the place of the recorded ones."""
        for before, after in (("hone/tiny", "tiny"), ("run-1", "one"), ("151645", "2"), ("s1", self.session)):
            text = text.replace(before, after)
        return text

    def proto(self, recorded):
        """The first field of a request is its model's id."""
        data = base64.b64decode(recorded)
        size, begin = read_varint(data, 1)
        name = self.here(data[begin:begin + size].decode()).encode()
        return b"\x0a" + bytes([len(name)]) + name + data[begin + size:]

    def send(self, one):
        path = self.here(one["path"])
        if "proto" in one:
            return self.server.ask_bytes("POST", path, self.proto(one["proto"]), PROTO)
        body = self.here(json.dumps(one["body"])).encode() if "body" in one else None
        while True:
            status, answer = self.server.ask_bytes(one["method"], path, body, "application/json")
            if status != 408:
                return status, answer

    def step(self, number, one):
        where = f"{number}: {one['path']}"
        status, answer = self.send(one)
        same(status, one["status"], f"{where}: {answer[:300]!r}")
        if "answer_proto" in one:
            holds(not answer.startswith(b"{"), f"{where}: {answer[:300]!r}")
            nested = SAMPLE if "sample" in one["body"]["request_id"] else OUTPUT
            compare_proto(base64.b64decode(one["answer_proto"]), answer, nested, where)
        elif "events" in one:
            parts = [json.loads(part[6:]) for part in answer.decode().split("\n\n") if part.startswith("data: {")]
            assert parts or not one["events"], f"{where}: a stream without events"
            for recorded, said in zip(one["events"], parts):
                compare(recorded, said, where)
        elif "answer" in one:
            said = json.loads(answer)
            compare(json.loads(self.here(json.dumps(one["answer"]))), said, where)
            if one["path"].endswith("/create_session"):
                self.session = said["session_id"]
            elif "request_id" in said and "request_id" in one["answer"] and "/v1/gen" not in one["path"] and not one["path"].startswith("/inference"):
                same(said["request_id"], self.here(one["answer"]["request_id"]), where)


def test_replay(first, _):
    """the recorded requests of openai-python, renderers, lm-eval and the tinker SDK get answers of the recorded form"""
    exchange = [recorded(one) for one in json.loads(RECORDED.read_text(encoding="utf-8"))["exchange"]]
    holds(len(exchange) > 50, len(exchange))
    with tempfile.TemporaryDirectory() as root:
        with Server(first.program, "--root", root, "--adapters", f"one={first.adapter}") as server:
            replay = Replay(server)
            for number, one in enumerate(exchange):
                replay.step(number, one)
            same(server.stop(), 0, "the server's exit code")
