"""The Tinker API by plain requests: one model of a server, and protobuf by hand."""
import json
import struct

PROTO = "application/x-protobuf"


def varint(value):
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def field(number, content):
    """A field of bytes or of a whole number."""
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    return varint(number << 3 | 2) + varint(len(content)) + content


def tensor(numbers, kind):
    """`kind` f: fp32; q: int64."""
    return field(1, struct.pack(f"<{len(numbers)}{kind}", *numbers)) + field(3, 1 if kind == "f" else 2)


def datum(tokens, **inputs):
    """All but the last token predict the next ones; `inputs` are lists of numbers, one a target."""
    out = field(1, field(1, field(1, struct.pack(f"<{len(tokens) - 1}i", *tokens[:-1]))))
    out += field(2, field(1, b"target_tokens") + field(2, tensor(tokens[1:], "q")))
    for name, numbers in inputs.items():
        out += field(2, field(1, name.encode()) + field(2, tensor(numbers, "f")))
    return out


def read_varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 128:
            return value, at


def read_fields(data):
    """[(number, wire type, content)]; the content of what is no bytes is None."""
    out, at = [], 0
    while at < len(data):
        tag, at = read_varint(data, at)
        content = None
        if tag & 7 == 0:
            _, at = read_varint(data, at)
        elif tag & 7 == 2:
            size, at = read_varint(data, at)
            content = data[at:at + size]
            at += size
        else:
            at += 8 if tag & 7 == 1 else 4
        out.append((tag >> 3, tag & 7, content))
    return out


def sequences(answer):
    """(ids, log-probabilities) of each sample of an asample's result."""
    out = []
    for number, _, content in read_fields(answer):
        if number == 1:
            parts = {one: bytes_ for one, _, bytes_ in read_fields(content)}
            count = len(parts[2]) // 4
            out.append((list(struct.unpack(f"<{count}i", parts[2])), list(struct.unpack(f"<{count}f", parts[3]))))
    return out


class TinkerClient:
    """A session of a server, with one model: a new LoRA, or one of `path`."""

    def __init__(self, server, path=None, **lora):
        self.server, self.seq = server, 0
        self.session = self.post("create_session", {"tags": [], "sdk_version": "0.38.0"})["session_id"]
        self.model = self.session + ":train:0"
        if path:
            made = self.post("load_weights", {"session_id": self.session, "model_seq_id": 0, "path": path, "optimizer": True})
        else:
            made = self.post("create_model", {"session_id": self.session, "model_seq_id": 0, "base_model": "tiny", "lora_config": {"rank": 2, "seed": 0, **lora}})
        self.made = self.result(made)  # with `error`, where it was not

    def post(self, path, body):
        status, said = self.server.ask_bytes("POST", "/api/v1/" + path, json.dumps(body).encode(), "application/json")
        assert status == 200, f"{path}: {status}, {said}"
        return json.loads(said)

    def poll(self, submitted):
        """The result as it came."""
        future = json.dumps({"request_id": submitted["request_id"], "allow_metadata_only": False}).encode()
        while True:
            status, said = self.server.ask_bytes("POST", "/api/v1/retrieve_future", future, "application/json")
            if status != 408:
                return said

    def result(self, submitted):
        return json.loads(self.poll(submitted))

    def numbered(self, where, /, **fields):
        self.seq += 1
        return self.result(self.post(where, {"model_id": self.model, "seq_id": self.seq, **fields}))

    def forward_backward(self, datums, loss="cross_entropy", forward_only=False):
        """The result: its log-probabilities are bytes of it."""
        self.seq += 1
        body = field(1, self.model.encode()) + field(2, self.seq) + b"".join(field(3, one) for one in datums) + field(4, loss.encode())
        status, said = self.server.ask_bytes("POST", "/api/v1/forward_backward", body + (field(6, 1) if forward_only else b""), PROTO)
        assert status == 200, f"{status}, {said}"
        return self.poll(json.loads(said))

    def sampler(self, number):
        """A sampling session of the weights as they are."""
        return self.numbered("save_weights_for_sampler", sampling_session_seq_id=number)["sampling_session_id"]

    def sample(self, sampler, seq, prompt, count, **params):
        return sequences(self.poll(self.post("asample", {"sampling_session_id": sampler, "seq_id": seq, "num_samples": count, "type": "sample", "sampling_params": params,
                                                         "prompt": {"chunks": [{"type": "encoded_text", "tokens": prompt}]}})))
