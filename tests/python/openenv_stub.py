"""A server of OpenEnv's protocol on this machine, and the little of the package websockets that hone uses where it is not installed: the standard
library's sockets only."""
import base64
import hashlib
import json
import os
import socket
import struct
import threading

GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

# ---- frames of RFC 6455: texts of one frame each


def exactly(end, count):
    data = b""
    while len(data) < count:
        part = end.recv(count - len(data))
        if not part:
            raise ConnectionError("closed")
        data += part
    return data


def read_frame(end):
    """A text; None where the other end closes."""
    first, second = exactly(end, 2)
    size = second & 127
    if size == 126:
        size, = struct.unpack(">H", exactly(end, 2))
    elif size == 127:
        size, = struct.unpack(">Q", exactly(end, 8))
    mask = exactly(end, 4) if second & 128 else b"\0" * 4
    data = bytes(byte ^ mask[at % 4] for at, byte in enumerate(exactly(end, size)))
    return None if first & 15 == 8 else data.decode()


def write_frame(end, text, masked=False, code=1):
    data = text.encode()
    if len(data) < 126:
        size = bytes([len(data)])
    else:
        size = b"\x7e" + struct.pack(">H", len(data)) if len(data) < 65536 else b"\x7f" + struct.pack(">Q", len(data))
    if masked:
        size = bytes([size[0] | 128]) + size[1:] + b"\0" * 4
    end.sendall(bytes([128 | code]) + size + data)


# ---- the client

class Connection:
    def __init__(self, end):
        self.end = end

    def send(self, text):
        write_frame(self.end, text, masked=True)

    def recv(self, timeout=None):
        self.end.settimeout(timeout)
        text = read_frame(self.end)
        if text is None:
            raise ConnectionError("the server has closed")
        return text

    def close(self):
        try:
            write_frame(self.end, "", masked=True, code=8)
        except OSError:
            pass
        self.end.close()


def connect(uri, open_timeout=10, max_size=None, close_timeout=10, proxy=None):
    host, _, path = uri.partition("://")[2].partition("/")
    name, _, port = host.partition(":")
    end = socket.create_connection((name, int(port)), timeout=open_timeout)
    key = base64.b64encode(os.urandom(16)).decode()
    end.sendall(f"GET /{path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
                "Sec-WebSocket-Version: 13\r\n\r\n".encode())
    head = b""
    while b"\r\n\r\n" not in head:
        head += exactly(end, 1)
    if b" 101 " not in head.splitlines()[0]:
        raise ConnectionError(head.decode().splitlines()[0])
    return Connection(end)


# ---- the server

class Server:
    """`sessions`: how many it holds at once. A counter: `count` adds, its sum is the reward, and an episode is over at `limit`."""

    def __init__(self, sessions=8, has_mcp=True):
        self.most, self.has_mcp = sessions, has_mcp
        self.open, self.begun, self.rows = 0, 0, []
        self.lock = threading.Lock()
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        self.connections = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                end, _ = self.socket.accept()
            except OSError:
                return
            self.connections.append(end)
            threading.Thread(target=self.serve, args=(end,), daemon=True).start()

    def close(self):
        try:
            self.socket.shutdown(socket.SHUT_RDWR)  # ends accept(), which would otherwise take connections of the number's next socket
        except OSError:
            pass
        self.socket.close()
        self.drop()

    def drop(self):
        """Every connection is lost."""
        for end in self.connections:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self.connections.clear()

    def serve(self, end):
        try:
            head = b""
            while b"\r\n\r\n" not in head:
                head += exactly(end, 1)
            lines = head.decode().split("\r\n")
            path = lines[0].split()[1]
            if path != "/ws":
                return self.page(end, path)
            key = next(line.split(": ")[1] for line in lines if line.lower().startswith("sec-websocket-key"))
            accepted = base64.b64encode(hashlib.sha1((key + GUID).encode()).digest()).decode()
            end.sendall("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                        f"Sec-WebSocket-Accept: {accepted}\r\n\r\n".encode())
            self.session(end)
        except (OSError, StopIteration):
            pass
        finally:
            end.close()

    def page(self, end, path):
        action = {"type": "object", "description": "Counts.", "properties": {"by": {"type": "integer"}, "metadata": {"type": "object"}},
                  "required": ["by"]}
        found = {"/metadata": {"name": "Counter Server"}, "/schema": {"action": action, "observation": {}, "state": {}}}.get(path)
        body = json.dumps(found).encode() if found is not None else b"{}"
        status = "200 OK" if found is not None else "404 Not Found"
        end.sendall(f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)

    def session(self, end):
        with self.lock:
            full = self.open >= self.most
            self.open += not full
            self.begun += not full
        if full:
            error = {"message": f"Server at capacity: {self.most}/{self.most} sessions active", "code": "CAPACITY_REACHED", "max_sessions": self.most}
            write_frame(end, json.dumps({"type": "error", "data": error}))
            write_frame(end, "", code=8)
            read_frame(end)  # what the client has asked: closing without that would throw the answer away
            return
        state = {"count": 0, "limit": 3}
        try:
            while (text := read_frame(end)) is not None:
                write_frame(end, json.dumps(self.answer(text, state)))
        finally:
            with self.lock:
                self.open -= 1

    def answer(self, text, state):
        try:
            message = json.loads(text)
        except ValueError:
            return error("INVALID_JSON", "Invalid JSON")
        kind, data = message.get("type"), message.get("data") or {}
        if kind == "reset":
            self.rows.append(data)
            if "fails" in data:
                return error("EXECUTION_ERROR", "no such task")
            state.update(count=int(data.get("start", 0)), limit=int(data.get("limit", 3)))
            return observed({"message": f"Count to {state['limit']}.", "episode_id": None}, None, False)
        if kind == "state":
            return {"type": "state", "data": {"step_count": state["count"]}}
        if kind == "mcp" and self.has_mcp and data.get("method") == "tools/list":
            schema = {"type": "object", "properties": {"by": {"type": "integer"}}, "required": ["by"]}
            return mcp({"result": {"tools": [{"name": "count", "description": "Counts.", "inputSchema": schema}]}})
        if kind == "mcp":
            return mcp({"error": {"code": -32603, "message": "Environment does not support MCP"}})
        if kind != "step":
            return error("UNKNOWN_TYPE", f"Unknown message type: {kind}")
        arguments = data.get("arguments", {}) if self.has_mcp else data
        if not isinstance(arguments.get("by"), int):
            return error("VALIDATION_ERROR", "Invalid message") if not self.has_mcp else observed(
                {"tool_name": "count", "result": None, "error": {"error_type": "execution_error", "message": "by is no integer"}}, None, False)
        state["count"] += arguments["by"]
        done, reward = state["count"] >= state["limit"], float(state["count"])
        if not self.has_mcp:
            return observed({"message": f"at {state['count']}"}, reward, done)
        return observed({"tool_name": "count", "result": {"content": [{"type": "text", "text": f"at {state['count']}"}]}, "error": None}, reward, done)


def error(code, message):
    return {"type": "error", "data": {"code": code, "message": message}}


def observed(observation, reward, done):
    return {"type": "observation", "data": {"observation": observation, "reward": reward, "done": done}}


def mcp(answer):
    return {"type": "mcp", "data": {"jsonrpc": "2.0", "id": 1, **answer}}
