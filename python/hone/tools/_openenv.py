"""Servers of OpenEnv (openenv 0.10) as environments: `environment: ws://host:port`, or environment_factory=hone.tools.openenv("http://...").

A session is one WebSocket on /ws with JSON messages: {"type": "reset" | "step" | "state" | "close" | "mcp", "data": ...} and answers of type
observation ({"observation", "reward", "done"}), state, mcp (JSON-RPC) and error ({"message", "code"}). Each environment has one, and keeps it
over resets. Tools are those of MCP's tools/list; a server without has one tool, `step`, whose arguments are its action's.
"""
import json
import re
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

CONNECT, ANSWER, LARGEST = 10, 60, 100 << 20  # seconds, seconds, bytes: OpenEnv's own
WAITS = (0.1, 0.3, 1, 2)                        # seconds after which a server that is full is asked again
CALL = "call_tool"
BESIDE = ("metadata", "reward", "done")         # of an observation: not for the model
OWN = ("reset", "get_reward")                 # names that an environment's tools cannot have


class ServerRefused(ValueError):
    """What is wrong with the server, before step 1: the sentences of an error, as hone's processes hand them on."""

    def __init__(self, expected, found, fix="", cause=""):
        self.hone_fault = (expected, found, cause, fix)
        super().__init__(f"expected {expected}; found: {found}" + (f"; {fix}" if fix else ""))


class ServerError(RuntimeError):
    """An answer of type error; `code` is one of OpenEnv's."""

    def __init__(self, data):
        self.code = str(data.get("code", "UNKNOWN"))
        self.data = data
        errors = data.get("errors")
        super().__init__(f"{self.code}: {data.get('message', 'no message')}" + (f" {json.dumps(errors, default=str)[:300]}" if errors else ""))


def client():
    """websockets' client without asyncio."""
    try:
        from websockets.sync import client as found
    except ImportError as error:
        raise ServerRefused("the package websockets, by which hone speaks to servers of OpenEnv", str(error),
                            "pip install 'websockets>=13'") from None
    return found


def addresses(url):
    """(http, ws) of what the user wrote."""
    scheme, _, rest = str(url).partition("://")
    rest = rest.rstrip("/")
    rest = rest[:-len("/ws")] if rest.endswith("/ws") else rest
    if scheme not in ("http", "https", "ws", "wss") or not rest:
        raise ServerRefused("the address of a server of OpenEnv: ws://host:port or http://host:port", repr(url))
    secure = "s" if scheme in ("https", "wss") else ""
    return f"http{secure}://{rest}", f"ws{secure}://{rest}/ws"


def is_near(address):
    return urllib.parse.urlsplit(address).hostname in ("localhost", "127.0.0.1", "::1")


class Session:
    """One WebSocket."""

    def __init__(self, address):
        self.address = address
        ours = {"open_timeout": CONNECT, "max_size": LARGEST, "close_timeout": 2}
        sync = client()
        try:
            try:
                self.socket = sync.connect(address, **ours, **({"proxy": None} if is_near(address) else {}))
            except TypeError:  # before websockets 15 there were no proxies
                self.socket = sync.connect(address, **ours)
        except Exception as error:
            raise ConnectionError(f"no connection to {address}: {error}") from None

    def ask(self, kind, data=None):
        message = {"type": kind} if data is None else {"type": kind, "data": data}
        try:
            self.send(json.dumps(message))
            answer = json.loads(self.socket.recv(timeout=ANSWER))
        except TimeoutError:
            self.end()
            raise TimeoutError(f"the server {self.address} gave no answer to {kind} within {ANSWER} s") from None
        except ValueError as error:
            self.end()
            raise ConnectionError(f"the server {self.address} answered {kind} with what is no JSON: {error}") from None
        except Exception as error:  # websockets' ConnectionClosed, and those of sockets
            self.end()
            raise ConnectionError(f"the connection to {self.address} was lost at {kind}: {error}") from None
        if not isinstance(answer, dict) or not isinstance(answer.get("data", {}), dict):
            raise ConnectionError(f"the server {self.address} answered {kind} in a form that OpenEnv does not have")
        if answer.get("type") == "error":
            if answer["data"].get("code") in ("CAPACITY_REACHED", "FACTORY_ERROR", "SESSION_ERROR"):
                self.end()  # the server closes it behind these
            raise ServerError(answer["data"])
        return answer.get("data", {})

    def send(self, text):
        try:
            self.socket.send(text)
        except Exception:
            pass  # closed: what the server said before that, such as CAPACITY_REACHED, is still to be read, and else recv() raises

    def end(self):
        socket, self.socket = self.socket, None
        if socket is not None:
            try:
                socket.close()
            except Exception:
                pass

    def is_open(self):
        return self.socket is not None


# ---- what a server has

def get(address):
    """JSON of a GET, or None where the server has no such page."""
    opener = urllib.request.build_opener(*([urllib.request.ProxyHandler({})] if is_near(address) else []))
    try:
        with opener.open(address, timeout=CONNECT) as reply:
            return json.loads(reply.read(LARGEST))
    except (urllib.error.HTTPError, ValueError):
        return None
    except OSError as error:
        raise ConnectionError(f"no connection to {address}: {error}") from None


def tool(name, description, parameters):
    return {"type": "function", "function": {"name": name, "description": description or name, "parameters": parameters}}


def listed_tools(session):
    """Of MCP's tools/list; none where the server has no MCP."""
    try:
        answer = session.ask("mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}})
    except ServerError as error:
        if not session.is_open():
            raise
        if error.code not in ("UNKNOWN_TYPE", "VALIDATION_ERROR", "EXECUTION_ERROR", "INVALID_JSON"):
            raise
        return []
    out = []
    for one in (answer.get("result") or {}).get("tools") or []:
        schema = one.get("inputSchema") or one.get("input_schema") or {"type": "object", "properties": {}}
        out.append(tool(str(one["name"]), one.get("description"), schema))
    return out


def action_tool(http):
    """The one tool of a server without MCP: its action, of /schema."""
    told = get(http + "/schema") or {}
    action = told.get("action")
    if not isinstance(action, dict) or not isinstance(action.get("properties"), dict):
        raise ServerRefused(f"tools of {http}: MCP's tools/list, or an action in /schema", "neither",
                            "name the address of a server of OpenEnv 0.2 or later")
    properties = {name: value for name, value in action["properties"].items() if name != "metadata"}
    parameters = {"type": "object", "properties": properties, "required": [name for name in action.get("required", []) if name in properties]}
    if "$defs" in action:
        parameters["$defs"] = action["$defs"]
    return tool("step", action.get("description") or "Acts in the environment.", parameters)


# ---- what the model is shown

def text_of(value):
    """An observation: its text where it is one, else JSON without what is empty."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        kept = {name: one for name, one in value.items() if name not in BESIDE and one not in (None, "", [], {})}
        if len(kept) == 1 and isinstance(next(iter(kept.values())), str):
            return next(iter(kept.values()))
        return json.dumps(kept, ensure_ascii=False) if kept else ""
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def tool_text(result):
    """A tool's result as MCP writes it: the texts of its content, or its value."""
    if isinstance(result, dict):
        content = result.get("content")
        if isinstance(content, list):
            texts = [str(part.get("text", "")) for part in content if isinstance(part, dict) and part.get("type", "text") == "text"]
            if texts:
                return "\n".join(texts)
        for name in ("data", "structured_content", "structuredContent", "result"):
            if result.get(name) is not None:
                return tool_text(result[name])
    return text_of(result)


# ---- environments

def patient(ask):
    """What ask() gives. A server that is full is asked again for some seconds: it notices late that a session has ended."""
    for seconds in WAITS:
        try:
            return ask()
        except ServerError as error:
            if error.code != "CAPACITY_REACHED":
                raise
        time.sleep(seconds)
    return ask()


class Environment:
    """What all environments of a server share; a class for each server has its tools as methods."""

    _address = _http = ""
    _steps = False  # one tool, the action itself

    def __init__(self):
        self._session = None
        self._reward, self._done = None, False
        self._by_mcp = False

    def _open(self):
        if self._session is None or not self._session.is_open():
            self._session = Session(self._address)
        return self._session

    def _ask(self, kind, data=None):
        try:
            return self._open().ask(kind, data)
        except ServerError as error:
            if error.code == "CAPACITY_REACHED":
                advice = "Raise the server's max_concurrent_envs: each completion that is sampled or evaluated at once has a session."
                raise ServerError({**error.data, "message": f"{error.data.get('message', '')} {advice}"}) from None
            raise

    def _observed(self, answer):
        if answer.get("reward") is not None:
            self._reward = answer["reward"]
        self._done = bool(answer.get("done"))
        return answer.get("observation")

    def reset(self, seed=None, **row):
        """The row's columns go to the server, which takes those that its reset names."""
        data = {name: value for name, value in row.items() if name != "prompt"}
        if seed is not None:
            data["seed"] = seed
        self._reward, self._done = None, False
        return text_of(self._observed(self._begun(data))) or None

    def _begun(self, data):
        """The answer to a reset."""
        return patient(lambda: self._ask("reset", data))

    def get_reward(self):
        """Of the last observation that has one."""
        return None if self._reward is None else float(self._reward)

    def _call(self, name, arguments):
        if self._done:
            raise RuntimeError("the episode is over: the environment takes no more actions")
        if self._session is None or not self._session.is_open():
            raise ConnectionError(f"the session with {self._address} is lost until the next reset")
        if self._steps:
            return text_of(self._observed(self._ask("step", arguments)))
        if not self._by_mcp:
            try:
                observation = self._observed(self._ask("step", {"type": CALL, "tool_name": name, "arguments": arguments}))
            except ServerError as error:
                if error.code != "VALIDATION_ERROR":
                    raise
                self._by_mcp = True  # its actions are others: its tools are called beside step(), and have no rewards
            else:
                failed = observation.get("error") if isinstance(observation, dict) else None
                if failed:
                    raise RuntimeError(str(failed.get("message", failed) if isinstance(failed, dict) else failed))
                return tool_text(observation.get("result") if isinstance(observation, dict) and "result" in observation else observation)
        answer = self._ask("mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}})
        if answer.get("error"):
            raise RuntimeError(str(answer["error"].get("message", answer["error"])))
        result = answer.get("result") or {}
        if isinstance(result, dict) and (result.get("isError") or result.get("is_error")):
            raise RuntimeError(tool_text(result))
        return tool_text(result)

    def _hone_capacity(self, count):
        """ServerRefused where the server does not hold `count` sessions at once, this one among them."""
        sessions = []

        def state(number):
            del sessions[number - 1:]
            sessions.append(self._open() if number == 1 else Session(self._address))
            return sessions[-1].ask("state")

        try:
            for number in range(1, count + 1):
                try:
                    patient(lambda number=number: state(number))
                except ServerError as error:
                    if error.code != "CAPACITY_REACHED":
                        continue  # it has a session, whose state is not there before a reset
                    raise ServerRefused(
                        f"a server that holds {count} sessions at once, one for each completion that is sampled together",
                        f"{self._address} holds {error.data.get('max_sessions', number - 1)}: CAPACITY_REACHED at session {number}",
                        f"start the server with max_concurrent_envs={count} (its environment class needs SUPPORTS_CONCURRENT_SESSIONS = True), or "
                        "lower generation_batch_size, which is per_device_train_batch_size times steps_per_generation",
                        "servers take one session by default") from None
        finally:
            for one in sessions[1:]:
                one.end()


def method(name, schema):
    def call(self, **arguments):
        return self._call(name, arguments)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = schema["function"]["description"]
    call.hone_schema = schema
    return call


_CLASSES, _LOCK = {}, threading.Lock()


def openenv(url):
    """A factory of environments of the server at `url`, ws://host:port or http://host:port: the argument environment_factory, or a value of it."""
    http, address = addresses(url)
    with _LOCK:
        if address in _CLASSES:
            return _CLASSES[address]
    try:
        session = Session(address)
        try:
            tools = listed_tools(session)
        finally:
            session.end()
        steps = not tools
        tools = tools or [action_tool(http)]
        told = get(http + "/metadata") or {}
    except (ConnectionError, TimeoutError, ServerError) as error:
        raise ServerRefused(f"a server of OpenEnv at {url}", str(error), "start it, or correct the address; `curl URL/health` shows whether it runs",
                            "it does not run, or is not ready yet") from None
    members = {"_address": address, "_http": http, "_steps": steps}
    for one in tools:
        name = one["function"]["name"]
        if name in OWN or name.startswith("_"):
            raise ServerRefused(f"tools of other names than {' and '.join(OWN)}, and without _ before them", f"{url} has one called {name}",
                                "rename it")
        members[name] = method(name, one)
    title = re.sub(r"\W", "", str(told.get("name") or "OpenEnv"), flags=re.ASCII) or "OpenEnv"
    with _LOCK:
        return _CLASSES.setdefault(address, type(title, (Environment,), members))
