#!/usr/bin/env python3
"""hone serve, driven by Python's http.client: fields, streams, equal tokens, limits, stops.

usage: tests/serve/serve_test.py [--hone PROGRAM] [--slow]
"""
import argparse
import concurrent.futures
import contextlib
import json
import math
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
from checks import Tests, holds, same
from replay import test_replay
from server import SOURCE, TINY, Server

TEXT = "The quick brown fox jumps over the lazy dog. "
CHAT = "/v1/chat/completions"
WORDS = "/v1/completions"


def talk(text="What is two and three?"):
    return [{"role": "user", "content": text}]


def sampled(server, **fields):
    """Ids and log-probabilities of the first choice."""
    one = server.post(WORDS, model="tiny", return_token_ids=True, logprobs=0, **fields)["choices"][0]
    return one["token_ids"], one["logprobs"]["token_logprobs"]


# ---- what clients ask first

def test_models(server, _):
    """/v1/models names the base and the adapters, with the context length; others are 404"""
    _, _, said = server.ask("GET", "/v1/models")
    same(said["object"], "list")
    rows = {row["id"]: row for row in said["data"]}
    same(sorted(rows), ["one", "tiny"])
    same((rows["tiny"]["parent"], rows["one"]["parent"], rows["tiny"]["max_model_len"]), (None, "tiny", 512))
    same(server.ask("GET", "/v1/models/one")[2]["id"], "one")
    status, _, said = server.ask("GET", "/v1/models/on")
    same((status, said["error"]["code"]), (404, "model_not_found"))
    holds("one" in said["error"]["message"], said)
    status, error = server.refused(WORDS, {"model": "tinny", "prompt": "a"})
    same((status, error["code"], error["param"]), (404, "model_not_found", "model"))
    holds("'tiny'" in error["message"], error)


def test_health(server, _):
    """/healthz, /version and /metrics answer; wrong paths and methods are told"""
    same(server.ask("GET", "/healthz")[2], {"status": "ok"})
    holds("version" in server.ask("GET", "/version")[2], "version")
    server.post(WORDS, model="tiny", prompt=TEXT, max_tokens=3)
    for _ in range(50):  # an answer is sent before the facts of its step are known
        status, headers, text = server.ask("GET", "/metrics")
        if "hone_running 0" in text:
            break
        time.sleep(0.1)
    holds(status == 200 and headers["content-type"].startswith("text/plain"), headers)
    for name in ("hone_requests_total{", "hone_tokens_total{kind=\"sampled\"}", "hone_running 0", "hone_kv_bytes", "hone_time_to_first_token_seconds_count"):
        holds(name in text, f"{name} in {text}")
    same(server.ask("GET", "/nothing")[0], 404)
    status, headers, _ = server.ask("GET", WORDS)
    same((status, headers["allow"]), (405, "POST"))
    same(server.ask("POST", WORDS, "{}", {"Content-Type": "text/plain"})[0], 415)


def test_an_answer_without_a_body(server, _):
    """a 204 is sent, and the server goes on when its client has left"""
    for _ in range(3):
        status, _, _ = server.ask("POST", "/api/v1/sessions/none/finish", "{}", {"Content-Type": "application/json"})
        same(status, 204)
    same(server.ask("GET", "/healthz")[2], {"status": "ok"})
    same(server.ask("POST", "/api/v1/create_session", "{}", {"Content-Type": "text/plain"})[0], 415)


def test_tokens(server, _):
    """/tokenize, /detokenize and /tokenizer_info are inverse, and know special tokens"""
    ids = server.post("/tokenize", prompt=TEXT, add_special_tokens=False)
    same((ids["count"], ids["max_model_len"]), (len(ids["tokens"]), 512))
    same(server.post("/detokenize", tokens=ids["tokens"]), {"prompt": TEXT})
    chat = server.post("/tokenize", messages=talk("a"), return_token_strs=True)
    holds("<|im_start|>" in chat["token_strs"], chat)
    info = server.ask("GET", "/tokenizer_info")[2]
    same(info["eos_token"], "<|im_end|>")
    holds("<|im_start|>" in info["chat_template"], info)
    same(server.refused("/detokenize", {"tokens": [10 ** 6]})[1]["param"], "tokens")


# ---- completions

def test_completion(server, _):
    """a completion has the fields that clients read; texts and ids give the same"""
    ids = server.post("/tokenize", prompt=TEXT)["tokens"]
    by_text = server.post(WORDS, model="tiny", prompt=TEXT, max_tokens=6, temperature=0, logprobs=2, return_token_ids=True)
    by_ids = server.post(WORDS, model="tiny", prompt=ids, max_tokens=6, temperature=0, logprobs=2, return_token_ids=True)
    same(by_text["choices"], by_ids["choices"])
    same(by_text["object"], "text_completion")
    one = by_text["choices"][0]
    same(one["prompt_token_ids"], ids)
    holds(one["finish_reason"] in ("length", "stop") and one["index"] == 0, one)
    said = one["logprobs"]
    same({len(said[name]) for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset")}, {len(one["token_ids"])})
    for token, logprob, top in zip(said["tokens"], said["token_logprobs"], said["top_logprobs"]):
        holds(2 <= len(top) <= 3 and top[token] == logprob == max(top.values()), (token, logprob, top))
    same(by_text["usage"]["total_tokens"], len(ids) + len(one["token_ids"]))
    both = server.post(WORDS, model="tiny", prompt=[ids, [5, 6, 7]], max_tokens=6, temperature=0, logprobs=2, return_token_ids=True)
    same([row["index"] for row in both["choices"]], [0, 1])
    same(both["choices"][0], one)


def test_echo(server, _):
    """echo scores the prompt as the sampler scored it, with one more token; max_tokens 0 is the prompt alone"""
    ids, logprobs = sampled(server, prompt=TEXT, max_tokens=8, temperature=1, seed=3, ignore_eos=True)
    prompt = server.post("/tokenize", prompt=TEXT)["tokens"]
    said = server.post(WORDS, model="tiny", prompt=prompt + ids, echo=True, logprobs=1, max_tokens=1, temperature=0)["choices"][0]["logprobs"]
    same(len(said["tokens"]), len(prompt) + len(ids) + 1)
    same(said["token_logprobs"][0], None)
    same(said["token_logprobs"][len(prompt):-1], logprobs, "the trainer's and the sampler's")
    for token, logprob, top in list(zip(said["tokens"], said["token_logprobs"], said["top_logprobs"]))[1:]:
        holds(top[token] <= max(top.values()) and (top[token] == logprob or len(set(top)) < 2), (token, logprob, top))
    alone = server.post(WORDS, model="tiny", prompt=TEXT, echo=True, logprobs=1, max_tokens=0)["choices"][0]
    same((alone["text"], alone["finish_reason"]), (TEXT, "length"))
    same(alone["logprobs"]["token_logprobs"], said["token_logprobs"][:len(prompt)])


def test_stops(server, _):
    """stop strings, stop tokens, min_tokens and ignore_eos end a text where they say"""
    whole = server.post(WORDS, model="tiny", prompt=TEXT, max_tokens=24, temperature=0, ignore_eos=True, return_token_ids=True)["choices"][0]
    same((len(whole["token_ids"]), whole["finish_reason"]), (24, "length"))
    text = server.post("/detokenize", tokens=whole["token_ids"][4:6])["prompt"]
    cut = server.post(WORDS, model="tiny", prompt=TEXT, max_tokens=24, temperature=0, ignore_eos=True, stop=[text])["choices"][0]
    same((cut["finish_reason"], cut["stop_reason"]), ("stop", text))
    holds(text not in cut["text"] and whole["text"].startswith(cut["text"]), (cut, whole))
    kept = server.post(WORDS, model="tiny", prompt=TEXT, max_tokens=24, temperature=0, ignore_eos=True, stop=text, include_stop_str_in_output=True)["choices"][0]
    holds(kept["text"].startswith(cut["text"] + text), (kept, cut))
    last = whole["token_ids"][3]
    first = whole["token_ids"].index(last) + 1
    by_id = server.post(WORDS, model="tiny", prompt=TEXT, max_tokens=24, temperature=0, ignore_eos=True, stop_token_ids=[last], return_token_ids=True)["choices"][0]
    same((by_id["token_ids"], by_id["stop_reason"]), (whole["token_ids"][:first], last))
    later = server.post(WORDS, model="tiny", prompt=TEXT, max_tokens=24, temperature=0, ignore_eos=True, stop_token_ids=[last], min_tokens=10, return_token_ids=True)["choices"][0]
    holds(len(later["token_ids"]) >= 10, later)


def test_choices(server, _):
    """n gives different samples, each the one of its place; biases and allowed tokens decide"""
    four = server.post(WORDS, model="tiny", prompt=TEXT, n=4, max_tokens=8, seed=5, temperature=1.5, return_token_ids=True)["choices"]
    two = server.post(WORDS, model="tiny", prompt=TEXT, n=2, max_tokens=8, seed=5, temperature=1.5, return_token_ids=True)["choices"]
    same([one["token_ids"] for one in four[:2]], [one["token_ids"] for one in two])
    same(len({str(one["token_ids"]) for one in four}), 4)
    only = server.post(WORDS, model="tiny", prompt=TEXT, allowed_token_ids=[40, 41], max_tokens=6, return_token_ids=True)["choices"][0]["token_ids"]
    holds(set(only) <= {40, 41} and len(only) == 6, only)
    biased = server.post(WORDS, model="tiny", prompt=TEXT, logit_bias={"77": 100}, max_tokens=4, temperature=0, return_token_ids=True)["choices"][0]["token_ids"]
    same(biased, [77] * 4)
    other = server.post(WORDS, model="tiny", prompt=TEXT, logit_bias={"77": 50}, presence_penalty=2, frequency_penalty=2, max_tokens=40, temperature=0,
                        return_token_ids=True)["choices"][0]["token_ids"]
    holds(other[0] == 77 and set(other) != {77}, other)


def test_logprobs_of_temperature(server, _):
    """log-probabilities are those of temperature 1, whatever the temperature; the adapter's differ from the base's"""
    ids, logprobs = sampled(server, prompt=TEXT, max_tokens=6, temperature=0.5, seed=3, ignore_eos=True)
    prompt = server.post("/tokenize", prompt=TEXT)["tokens"]
    said = server.post(WORDS, model="tiny", prompt=prompt + ids, echo=True, logprobs=0, max_tokens=0)["choices"][0]["logprobs"]["token_logprobs"]
    holds(all(math.isclose(a, b, abs_tol=2e-6) for a, b in zip(said[len(prompt):], logprobs)), (said, logprobs))
    other = server.post(WORDS, model="one", prompt=prompt + ids, echo=True, logprobs=0, max_tokens=0)["choices"][0]["logprobs"]["token_logprobs"]
    holds(other != said, "the adapter changes nothing")


# ---- chat

def test_chat(server, _):
    """a chat answer has a message, and log-probabilities with bytes; it is the completion of its rendered prompt"""
    said = server.post(CHAT, model="tiny", messages=talk(), max_tokens=8, temperature=0, logprobs=True, top_logprobs=2, return_token_ids=True)
    one = said["choices"][0]
    same((said["object"], one["message"]["role"]), ("chat.completion", "assistant"))
    same(said["prompt_token_ids"], server.post("/tokenize", messages=talk())["tokens"])
    content = one["logprobs"]["content"]
    same(len(content), len(one["token_ids"]))
    for token in content:
        holds(token["logprob"] == max(top["logprob"] for top in token["top_logprobs"]) and isinstance(token["bytes"], list), token)
    plain = server.post(WORDS, model="tiny", prompt=said["prompt_token_ids"], max_tokens=8, temperature=0, return_token_ids=True)["choices"][0]
    same((plain["token_ids"], plain["text"]), (one["token_ids"], one["message"]["content"]))
    parts = server.post(CHAT, model="tiny", messages=[{"role": "user", "content": [{"type": "text", "text": talk()[0]["content"]}]}], max_tokens=8, temperature=0)
    same(parts["choices"][0]["message"], one["message"])
    long = server.post(CHAT, model="tiny", messages=talk(), temperature=0, seed=1)
    holds(long["choices"][0]["finish_reason"] in ("stop", "length"), long)
    same(server.refused(CHAT, {"model": "tiny", "messages": [{"role": "nobody", "content": "a"}]})[0], 400)


def test_generate(server, _):
    """renderers' generate: one entry for each token, each finite, texts as ids"""
    prompt = server.post("/tokenize", prompt=TEXT)["tokens"]
    said = server.post("/inference/v1/generate", model="tiny", token_ids=prompt, cache_salt="x", priority=0,
                       sampling_params={"temperature": 1.0, "max_tokens": 5, "seed": 3, "stop_token_ids": [2], "logprobs": 1, "skip_special_tokens": False})
    one = said["choices"][0]
    content = one["logprobs"]["content"]
    same([token["token"] for token in content], [f"token_id:{n}" for n in one["token_ids"]])
    holds(all(math.isfinite(token["logprob"]) for token in content) and said["request_id"], said)
    same(sampled(server, prompt=prompt, max_tokens=5, seed=3, temperature=1)[0], one["token_ids"])


# ---- streams

def test_streams(server, _):
    """streams say what one answer says: texts, tokens, log-probabilities, usage, with and without stop strings"""
    for seed in range(6):
        for stop in ([], ["e", "an"]):
            fields = {"model": "tiny", "prompt": TEXT, "max_tokens": 20, "seed": seed, "temperature": 1.2, "stop": stop, "logprobs": 1, "return_token_ids": True, "n": 2}
            whole = server.post(WORDS, **fields)
            events = server.events(WORDS, stream_options={"include_usage": True}, **fields)
            same(events[-1]["choices"], [])
            same(events[-1]["usage"]["completion_tokens"], whole["usage"]["completion_tokens"])
            for index, one in enumerate(whole["choices"]):
                parts = [event["choices"][0] for event in events[:-1] if event["choices"][0]["index"] == index]
                same("".join(part["text"] for part in parts), one["text"], f"seed {seed}, stop {stop}")
                same(sum((part["token_ids"] for part in parts), []), one["token_ids"])
                same(sum((part["logprobs"]["token_logprobs"] for part in parts), []), one["logprobs"]["token_logprobs"])
                same(sum((part["logprobs"]["text_offset"] for part in parts), []), one["logprobs"]["text_offset"])
                same([part["finish_reason"] for part in parts], [None] * (len(parts) - 1) + [one["finish_reason"]])
    fields = {"model": "one", "messages": talk(), "max_tokens": 12, "seed": 4}
    whole = server.post(CHAT, **fields)["choices"][0]
    deltas = [event["choices"][0] for event in server.events(CHAT, **fields)]
    same(deltas[0]["delta"]["role"], "assistant")
    same("".join(one["delta"].get("content", "") for one in deltas), whole["message"]["content"])
    same((deltas[-1]["delta"], deltas[-1]["finish_reason"]), ({}, whole["finish_reason"]))


# ---- equal tokens

def test_equal_tokens(server, slow):
    """a seed gives equal tokens alone, beside 63 others, cold and warm, for prompts of 1 to 200 tokens"""
    base = server.post("/tokenize", prompt=TEXT * 9, add_special_tokens=False)["tokens"][:200]
    holds(len(base) == 200, len(base))
    lengths = list(range(1, 201)) if slow else [1, 2, 31, 63, 64, 65, 127, 128, 129, 192, 200]

    def ask(length):
        return sampled(server, prompt=base[:length], max_tokens=6, seed=length, temperature=1, ignore_eos=True)

    cold = {length: ask(length) for length in lengths}
    same({length: ask(length) for length in lengths}, cold, "warm")
    # 64 at a time: those that are compared, and others of any length, seed and temperature.
    with concurrent.futures.ThreadPoolExecutor(64) as pool:
        for turn in range(2):
            others = [pool.submit(server.post, WORDS, model="tiny", prompt=base[n:3 * n + 5], max_tokens=12, seed=n, temperature=n / 20, ignore_eos=True)
                      for n in range(max(0, 64 - len(lengths)))]
            same(dict(zip(lengths, pool.map(ask, lengths))), cold, f"beside others, {turn}")
            holds(all(other.result()["choices"] for other in others), "the others")
    cached = server.post(WORDS, model="tiny", prompt=base, max_tokens=1)["usage"]["prompt_tokens_details"]["cached_tokens"]
    same(cached, 192)
    adapters = [sampled(server, prompt=base[:70], max_tokens=6, seed=1, temperature=1)]
    same(server.post(WORDS, model="one", prompt=base, max_tokens=1)["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
    same(adapters[0], sampled(server, prompt=base[:70], max_tokens=6, seed=1, temperature=1))


def test_own_seed(server, _):
    """requests without a seed differ from each other, and a server's are repeated by its seed"""
    def texts(program):
        with Server(program, "--seed", "9") as other:
            return [other.post(WORDS, model="tiny", prompt=TEXT, max_tokens=8, temperature=1)["choices"][0]["text"] for _ in range(3)]
    found = texts(server.program)
    same(len(set(found)), 3)
    same(texts(server.program), found)


# ---- refusals

def test_refused_fields(server, _):
    """a field that is unknown, of a wrong type, out of range or not supported is a 400 that names it"""
    for field, value in (("tempratur", 1), ("temperature", "hot"), ("temperature", -1), ("top_p", 0), ("top_p", 2), ("n", 0), ("n", 1000), ("stop", 5), ("stop", ["a"] * 17),
                         ("seed", 1.5), ("logprobs", 1000), ("max_tokens", -1), ("echo", "yes"), ("suffix", "x"), ("best_of", 3), ("logit_bias", {"x": 1}),
                         ("logit_bias", {"99999": 1}), ("prompt_logprobs", 1), ("response_format", {"type": "json_schema", "json_schema": {"schema": {"oneOf": []}}}), ("guided_json", {}),
                         ("stream_options", 3), ("allowed_token_ids", []), ("top_k", "a"), ("prompt", {"a": 1}), ("prompt", [[]]), ("prompt", [[-1]]), ("prompt", ["a", 5]),
                         ("prompt", None), ("min_p", 3), ("stop_token_ids", [4000]), ("max_tokens", 0)):
        status, error = server.refused(WORDS, {"model": "tiny", "prompt": "a", field: value})
        same((status, error["param"]), (400, field), f"{field}: {value}")
    holds("'temperature'" in server.refused(WORDS, {"prompt": "a", "temperatur": 1})[1]["message"], "a suggestion")
    for field, value in (("tools", 5), ("tool_choice", "required"), ("top_logprobs", 3), ("messages", []), ("chat_template", "x"), ("chat_template_kwargs", 3),
                         ("functions", []), ("max_completion_tokens", 0), ("echo", True), ("audio", {})):
        status, error = server.refused(CHAT, {"model": "tiny", "messages": talk(), field: value})
        same((status, error["param"]), (400, field), f"{field}: {value}")
    server.post(WORDS, model="tiny", prompt="a", max_tokens=1, suffix=None, best_of=1, user="me", logit_bias={}, presence_penalty=0, response_format={"type": "text"}, stop=None)
    same(server.refused(WORDS, "[]")[0], 400)
    same(server.refused(WORDS, '{"prompt": "a"')[0], 400)
    same(server.refused(WORDS, "[" * 5000 + "]" * 5000)[0], 400)
    status, error = server.refused(WORDS, {"prompt": list(range(10, 300)) * 2, "max_tokens": 5})
    same((status, error["code"]), (400, "context_length_exceeded"))
    holds("maximum context length" in error["message"], error)


def test_host_and_key(server, _):
    """other Host headers are refused; with a key, requests without it are 401"""
    same(server.ask("GET", "/v1/models", headers={"Host": "evil.example"})[0], 421)
    same(server.ask("GET", "/v1/models", headers={"Host": f"localhost:{server.port}"})[0], 200)
    with Server(server.program, key="tml-secret") as closed:
        same(closed.ask("GET", "/v1/models")[0], 200)
        same(closed.ask("GET", "/v1/models", headers={"Authorization": "", "X-API-Key": "tml-secret"})[0], 200)
        for wrong in ("Bearer tml-secre", "Bearer tml-secret2", "Bearer ", "tml-secret", ""):
            same(closed.ask("GET", "/v1/models", headers={"Authorization": wrong})[0], 401, wrong)
        same(closed.ask("GET", "/healthz", headers={"Authorization": ""})[0], 200)
    said = subprocess.run([server.program, "serve", str(TINY), "--host", "0.0.0.0", "--port", "0"], capture_output=True, text=True, timeout=60)
    holds(said.returncode == 2 and "api_key_env" in said.stderr, said)


def raw(server, data, timeout=20):
    """What the server says to these bytes."""
    with contextlib.closing(socket.create_connection(("127.0.0.1", server.port), timeout=timeout)) as one:
        with contextlib.suppress(ConnectionError):
            one.sendall(data)
        said = b""
        with contextlib.suppress(ConnectionError, TimeoutError):
            while part := one.recv(65536):
                said += part
        return said


def test_limits(server, _):
    """bodies and heads above the limits are refused at once; a client that leaves frees its request"""
    head = b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    begin = time.monotonic()
    holds(raw(server, head + b"Content-Length: 99999999999\r\n\r\n").startswith(b"HTTP/1.1 413"), "a stated length")
    holds(time.monotonic() - begin < 10, "it was waited for")
    holds(raw(server, head + b"X: " + b"a" * 100_000 + b"\r\n\r\n").startswith(b"HTTP/1.1 431"), "a long head")
    holds(raw(server, head + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n").startswith(b"HTTP/1.1 400"), "a bad chunk")
    with contextlib.closing(socket.create_connection(("127.0.0.1", server.port))) as one:
        body = json.dumps({"prompt": TEXT, "max_tokens": 400, "ignore_eos": True, "stream": True, "n": 64}).encode()
        one.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        holds(one.recv(15) == b"HTTP/1.1 200 OK", "the stream begins")
    deadline = time.monotonic() + 30
    while True:
        text = server.ask("GET", "/metrics")[2]
        if "hone_running 0\n" in text and "hone_waiting 0\n" in text:
            break
        holds(time.monotonic() < deadline, text)
        time.sleep(0.05)


def test_many_connections(server, slow):
    """500 (--slow: 10,000) idle connections do not keep others waiting, and take little memory"""
    def memory():
        return int(pathlib.Path(f"/proc/{server.process.pid}/status").read_text(encoding="utf-8").split("VmRSS:")[1].split()[0]) / 1024

    with contextlib.ExitStack() as stack:
        kept, before = server.connect(), memory()
        stack.enter_context(contextlib.closing(kept))
        kept.request("GET", "/healthz")
        same(kept.getresponse().read(), b'{"status":"ok"}')
        for _ in range(10_000 if slow else 500):
            one = stack.enter_context(contextlib.closing(socket.socket()))
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", server.port))
        for connection in (kept, server.connect()):
            begin = time.monotonic()
            connection.request("GET", "/healthz")
            same(connection.getresponse().status, 200)
            holds(time.monotonic() - begin < 5, time.monotonic() - begin)
        holds(memory() - before < 200, f"{memory() - before:.0f} MB more")


def test_too_many(server, _):
    """more than max_waiting requests get 429 with Retry-After"""
    with Server(server.program, "--max_waiting", "2", "--max_batch_size", "1") as small:
        def ask(_):
            return small.ask("POST", WORDS, {"prompt": TEXT, "max_tokens": 300, "ignore_eos": True})
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            found = list(pool.map(ask, range(12)))
        statuses = [status for status, _, _ in found]
        holds(200 in statuses and 429 in statuses and set(statuses) <= {200, 429}, statuses)
        refused = next(one for one in found if one[0] == 429)
        same((refused[1]["retry-after"], refused[2]["error"]["type"]), ("1", "overloaded"))


# ---- stops

def test_stop(server, _):
    """SIGTERM lets a stream end and exits with 0; requests that take too long are cut after --drain"""
    with Server(server.program) as one, concurrent.futures.ThreadPoolExecutor(1) as pool:
        running = pool.submit(one.events, WORDS, prompt=TEXT, max_tokens=200, ignore_eos=True, return_token_ids=True)
        while "hone_running 1\n" not in one.ask("GET", "/metrics")[2] and not running.done():
            time.sleep(0.01)
        same(one.stop(), 0)
        same(sum(len(event["choices"][0]["token_ids"]) for event in running.result(60)), 200)
    with Server(server.program, "--drain", "0") as one, concurrent.futures.ThreadPoolExecutor(1) as pool:
        running = pool.submit(one.ask, "POST", WORDS, {"prompt": TEXT, "max_tokens": 450, "ignore_eos": True, "n": 64})
        while "hone_running 0\n" in one.ask("GET", "/metrics")[2] and not running.done():
            time.sleep(0.01)
        same(one.stop(signal.SIGINT), 0)
        with contextlib.suppress(Exception):
            running.result(60)
    with Server(server.program) as one:
        with contextlib.closing(socket.create_connection(("127.0.0.1", one.port))):
            begin = time.monotonic()
            same(one.stop(), 0)
            holds(time.monotonic() - begin < 10, "an idle connection kept it")


TESTS = [test_models, test_health, test_an_answer_without_a_body, test_tokens, test_completion, test_echo, test_stops, test_choices, test_logprobs_of_temperature, test_chat, test_generate, test_streams,
         test_equal_tokens, test_own_seed, test_refused_fields, test_host_and_key, test_limits, test_many_connections, test_too_many, test_replay, test_stop]


def make_adapter(program, folder):
    """An adapter of one step on the tiny model, which changes its logits."""
    rows = pathlib.Path(folder) / "rows.jsonl"
    rows.write_text("".join(json.dumps({"text": text}) + "\n" for text in ("one two three", "four five six") * 4), encoding="utf-8")
    out = pathlib.Path(folder) / "one"
    subprocess.run([program, "sft", "--use_peft", "--model_name_or_path", str(TINY), "--dataset_name", str(rows), "--output_dir", str(out), "--max_steps", "2", "--learning_rate", "0.05",
                    "--skip_doctor", "--threads", "1", "--report_to", "none"], check=True, capture_output=True, timeout=300)
    return out


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hone", default=str(SOURCE / "build/hone"))
    parser.add_argument("--slow", action="store_true")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    tests = Tests()
    with tempfile.TemporaryDirectory() as folder:
        adapter = make_adapter(options.hone, folder)
        with Server(options.hone, "--adapters", f"one={adapter}") as server:
            server.program, server.adapter = options.hone, adapter
            tests.run([test for test in TESTS if options.only in test.__name__], server, options.slow)
            same(server.stop(), 0, "the server's exit code")
    return 1 if tests.failed else 0


if __name__ == "__main__":
    sys.exit(main())
