"""A server of the Model Context Protocol over stdin and stdout: what a coding agent asks hone about runs (AGENTS.md).

    python -m hone.mcp

Its tools are commands of the program that train nothing and change no file of a run: check, doctor, plan, options, faults, explain. Of these
only doctor calls code of the run, its rewards and tools, and it may keep the tokens of rows in hone's cache. Each call is a process of the
program, which ends when the client cancels the call or goes away. Messages are JSON-RPC 2.0, one a line.
"""
import contextlib
import difflib
import json
import os
import re
import signal
import subprocess
import sys
import threading

from hone import program
from hone.errors import HoneError

VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")  # of the protocol, the newest first
LONGEST = 200_000  # characters of an answer; no agent reads more
PARSE_ERROR, BAD_REQUEST, NO_METHOD, BAD_PARAMETERS, OWN_FAULT = -32700, -32600, -32601, -32602, -32603
PATIENCE = 5  # seconds that a program gets to end by itself

FILE = {"type": "string", "description": "the YAML file of a run; another trainer's file is read too"}
METHOD = {"type": "string", "description": "sft, dpo, kto, cpo, orpo, reward, grpo, rloo or online-dpo; without it the file's options say which"}
OVERRIDES = {"type": "object", "description": "options that are other than in the file: {\"learning_rate\": 1e-5}",
             "additionalProperties": {"type": ["string", "number", "boolean"]}}


def overrides(given):
    words = []
    for name, value in (given.get("options") or {}).items():
        words.append(f"--{name}={json.dumps(value) if isinstance(value, bool) else value}")
    return words


def of_file(command, flags=()):
    def words(given):
        method = [given["method"]] if "method" in given else []
        asked = [f"--{flag}" for flag in flags if given.get(flag)]
        return [command, *method, given["config"], *asked, *overrides(given)]
    return words


def plan_words(given):
    words = of_file("plan")(given)
    for name in ("nproc", "hosts", "memory"):
        if name in given:
            words.append(f"--{name}={given[name]}")
    return [*words, "--json"]


def options_words(given):
    return ["options", *(["--method", given["method"]] if "method" in given else []), "--json", *given.get("names", [])]


class Tool:
    """A command: what it is for, what it takes, and the words of its call."""

    def __init__(self, what, properties, required, words):
        self.what, self.words = what, words
        self.schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


RUN = {"config": FILE, "method": METHOD, "options": OVERRIDES}
TOOLS = {
    "check": Tool("What each option of a file becomes: kept, renamed, ignored with the reason, refused with what to do. Takes well under a "
                  "second, and loads no weights.", RUN, ["config"], of_file("check")),
    "doctor": Tool("Examines a run before its first step and trains nothing: verdicts on options, data, rewards, gradients, memory, each with "
                   "evidence, cause and fix. Loads the model and calls the rewards of the run; takes seconds to a minute, with deep minutes.",
                   {**RUN, "deep": {"type": "boolean", "description": "also sample, overfit a batch, save and load, resume"}}, ["config"],
                   lambda given: [*of_file("doctor", ("deep",))(given), "--json"]),
    "plan": Tool("Memory and time of a run on other numbers of processes and hosts. Loads the model and measures a short pass.",
                 {**RUN, "nproc": {"type": "string", "description": "processes of a host: 4, or 1,2,4"},
                  "hosts": {"type": "string", "description": "hosts, in the same form"},
                  "memory": {"type": "string", "description": "memory of a host: 64GB"}}, ["config"], plan_words),
    "options": Tool("The options of a method, or those that are named: type, default, and whether they are supported, ignored or refused.",
                    {"method": METHOD, "names": {"type": "array", "items": {"type": "string"}, "description": "names of options; none: all"}}, [],
                    options_words),
    "faults": Tool("What a class of fault means: symptom, cause, check, what to do. Without a code all classes.",
                   {"code": {"type": "string", "description": "RL-05"}}, [],
                   lambda given: ["faults", *([given["code"]] if "code" in given else []), "--json"]),
    "explain": Tool("Why a run ended, from what it left in its folder.",
                    {"run": {"type": "string", "description": "output_dir of the run"}}, ["run"], lambda given: ["explain", given["run"]]),
}


class Wrong(Exception):
    """A request that is answered with an error."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


CHANGES = ("fix", "write")  # options of the commands that write files
KINDS = {"string": str, "boolean": bool, "object": dict, "array": list}


def require_arguments(tool, given):
    """Wrong for what the schema does not have. A word that the program would take for an option is no name or path."""
    properties = tool.schema["properties"]
    for name in tool.schema["required"]:
        if name not in given:
            raise Wrong(BAD_PARAMETERS, f"expected the argument {name}")
    for name, value in given.items():
        if name not in properties:
            near = difflib.get_close_matches(name, properties, 1)
            raise Wrong(BAD_PARAMETERS, f"unknown argument {name}; " + (f"did you mean {near[0]}?" if near else f"there are {', '.join(properties)}"))
        if not isinstance(value, KINDS[properties[name]["type"]]):
            raise Wrong(BAD_PARAMETERS, f"expected {name} as {properties[name]['type']}")
        words = [value] if isinstance(value, str) else value if isinstance(value, list) else list(value) if isinstance(value, dict) else []
        for word in words:
            if not isinstance(word, str) or not word or word.startswith("-") or "\0" in word:
                raise Wrong(BAD_PARAMETERS, f"expected a name or a path in {name}; found {word!r}")
    for name, value in (given.get("options") or {}).items():
        if name in CHANGES or not re.fullmatch(r"[A-Za-z]\w*", name):
            raise Wrong(BAD_PARAMETERS, f"expected the name of an option of the run; found {name}, and these tools change no file")
        if not isinstance(value, (str, int, float)):
            raise Wrong(BAD_PARAMETERS, f"expected a text, a number, true or false as the option {name}")
        if isinstance(value, str) and "\0" in value:
            raise Wrong(BAD_PARAMETERS, f"expected a text without the character 0 as the option {name}")


def end(process):
    """Ends a program with the workers that it started, which would hold its output open."""
    for kind in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(subprocess.TimeoutExpired, ProcessLookupError):
            if process.poll() is None:
                os.killpg(process.pid, kind)
                process.wait(PATIENCE)


class Server:
    """One client. `read` gives lines, `write` takes one; calls of tools run at once, in threads of their own."""

    def __init__(self, read, write):
        self.read, self.write = read, write
        self.lock = threading.Lock()
        self.running = {}  # by the id of the request: its process, or None before it starts
        self.threads = []

    def send(self, message):
        with self.lock:
            self.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")

    def serve(self):
        try:
            for line in self.read:
                if line.strip():
                    self.take_line(line)
        finally:
            with self.lock:
                ids = list(self.running)
            for key in ids:
                self.cancel(key)
            for thread in self.threads:
                thread.join()

    def take_line(self, line):
        try:
            message = json.loads(line)
        except (ValueError, RecursionError) as error:
            self.send({"id": None, "error": {"code": PARSE_ERROR, "message": f"a line is no JSON: {error}"}})
            return
        for one in message if isinstance(message, list) and message else [message]:
            self.take(one)

    def take(self, message):
        if not isinstance(message, dict) or not isinstance(message.get("method"), str):
            if not (isinstance(message, dict) and ("result" in message or "error" in message)):  # nothing is asked of the client
                self.send({"id": None, "error": {"code": BAD_REQUEST, "message": "expected a request of JSON-RPC 2.0"}})
            return
        parameters = message.get("params") or {}
        if "id" not in message:
            if message["method"] == "notifications/cancelled" and isinstance(parameters, dict):
                self.cancel(json.dumps(parameters.get("requestId")))
            return
        try:
            result = self.answer(message["method"], parameters, message["id"])
        except Wrong as error:
            self.send({"id": message["id"], "error": {"code": error.code, "message": str(error)}})
            return
        except Exception as error:  # one request that cannot be answered ends no other
            self.send({"id": message["id"], "error": {"code": OWN_FAULT, "message": f"{type(error).__name__}: {error}"}})
            return
        if result is not None:
            self.send({"id": message["id"], "result": result})

    def answer(self, method, parameters, key):
        """The result of a request; None: it follows."""
        if not isinstance(parameters, dict):
            raise Wrong(BAD_PARAMETERS, "expected the parameters as an object")
        if method == "initialize":
            asked = parameters.get("protocolVersion")
            return {"protocolVersion": asked if asked in VERSIONS else VERSIONS[0], "capabilities": {"tools": {}},
                    "serverInfo": {"name": "hone", "version": program.version()},
                    "instructions": "hone post-trains language models. Call check on a run's file, then doctor; change the file only by what a "
                                    "fix says, and call doctor again. explain says why a run ended."}
        if method == "ping":
            return {}
        if method == "tools/list":
            return {"tools": [{"name": name, "description": tool.what, "inputSchema": tool.schema,
                               "annotations": {"readOnlyHint": name != "doctor", "openWorldHint": False}} for name, tool in TOOLS.items()]}
        if method == "tools/call":
            return self.call(parameters, json.dumps(key))
        raise Wrong(NO_METHOD, f"unknown method {method}")

    def call(self, parameters, key):
        name, given = parameters.get("name"), parameters.get("arguments") or {}
        if not isinstance(name, str) or name not in TOOLS:
            near = difflib.get_close_matches(str(name), TOOLS, 1)
            raise Wrong(BAD_PARAMETERS, f"unknown tool {name}; " + (f"did you mean {near[0]}?" if near else f"there are {', '.join(TOOLS)}"))
        if not isinstance(given, dict):
            raise Wrong(BAD_PARAMETERS, "expected the arguments as an object")
        require_arguments(TOOLS[name], given)
        with self.lock:
            if key in self.running:
                raise Wrong(BAD_REQUEST, "a call with this id is running")
            self.running[key] = None
        thread = threading.Thread(target=self.run, args=(TOOLS[name].words(given), key), daemon=True)
        self.threads = [one for one in self.threads if one.is_alive()] + [thread]
        thread.start()

    def run(self, words, key):
        try:
            text, failed = self.output(words, key)
        except (HoneError, OSError) as error:
            text, failed = str(error), True
        except Exception as error:  # every call has an answer
            text, failed = f"{type(error).__name__}: {error}", True
        with self.lock:
            ended = self.running.pop(key, None) != "cancelled"
        if ended:
            self.send({"id": json.loads(key), "result": {"content": [{"type": "text", "text": text}], "isError": failed}})

    def output(self, words, key):
        """(what the program says, whether it could not do what was asked)."""
        program.require()
        with self.lock:
            if self.running[key] == "cancelled":
                return "", True
            process = subprocess.Popen([program.path(), *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                       encoding="utf-8", errors="replace", env=program.environment(), start_new_session=True)
            self.running[key] = process
        said, errors = process.communicate()
        code = process.returncode
        text = said if len(said) <= LONGEST else said[:LONGEST] + f"\n... {len(said) - LONGEST} more characters\n"
        # 2 with something on stdout is an answer: lines that are refused, verdicts that fail.
        failed = code not in (0, 1, 2) or not said.strip()
        if errors.strip() and (failed or code):
            text += ("\n" if text else "") + errors
        return text + (f"\nexit code {code}\n" if code else ""), failed

    def cancel(self, key):
        with self.lock:
            process = self.running.get(key)
            if key in self.running:
                self.running[key] = "cancelled"
        if isinstance(process, subprocess.Popen):
            threading.Thread(target=end, args=(process,)).start()


def main():
    for stream in (sys.stdin, sys.stdout):
        stream.reconfigure(encoding="utf-8", errors="replace")
    # Nothing but messages may reach stdout.
    out = sys.stdout
    sys.stdout = sys.stderr

    def write(line):
        out.write(line)
        out.flush()
    try:
        Server(iter(sys.stdin.readline, ""), write).serve()
    except (BrokenPipeError, KeyboardInterrupt):
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
