#!/usr/bin/env python3
"""hone distill with a teacher behind `hone serve`: the losses are those of the same teacher in the process, and what does not fit is named.

usage: tests/serve/teacher_test.py [--hone PROGRAM]
"""
import argparse
import contextlib
import http.server
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
from checks import Tests, holds
from server import SOURCE, TINY, Server

TEACHER = SOURCE / "tests/fixtures/parity/tiny_gemma2"
PROMPTS = SOURCE / "tests/fixtures/parity/trl_grpo/prompts.jsonl"
OPTIONS = ("--model_name_or_path", TINY, "--dataset_name", PROMPTS, "--use_peft", "--bf16", "false", "--threads", "1", "--max_steps", "3",
           "--per_device_train_batch_size", "2", "--gradient_accumulation_steps", "2", "--max_completion_length", "6", "--learning_rate", "1e-2",
           "--logging_steps", "1", "--save_strategy", "no", "--skip_doctor", "true", "--lora_target_modules", "all-linear")


class Run:
    def __init__(self, program, folder):
        self.program, self.folder = program, pathlib.Path(folder)

    def ended(self, name, *more, **variables):
        words = [self.program, "distill", *OPTIONS, "--output_dir", self.folder / name, *more]
        return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=120, env={**os.environ, **variables})

    def records(self, name, *more, **variables):
        done = self.ended(name, *more, **variables)
        holds(done.returncode == 0, done.stderr[-2000:])
        lines = [json.loads(line) for line in (self.folder / name / "metrics.jsonl").read_text().splitlines()]
        return [line for line in lines if "loss" in line]

    def refused(self, name, text, *more, **variables):
        done = self.ended(name, *more, **variables)
        holds(done.returncode != 0 and text in done.stderr, f"{done.returncode}: {done.stderr[-2000:]}")


@contextlib.contextmanager
def between(server, change, models=None):
    """The address of a server that passes requests on. `change` gets the handler, the number of the request for log-probabilities (from 0) and
    the answer as JSON, and returns the answer to send; None: it has answered by itself. `models` changes the list of models."""
    numbers = iter(range(10**6))

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *arguments):
            pass

        def do_GET(self):
            with urllib.request.urlopen(server.url + self.path, timeout=60) as answer:
                body = answer.read()
            if models and self.path == "/v1/models":
                body = json.dumps(models(json.loads(body))).encode()
            self.say(200, body)

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            request = urllib.request.Request(server.url + self.path, data=body, headers={"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=60) as answer:
                changed = change(self, next(numbers), json.loads(answer.read()))
            if changed is not None:
                self.say(200, json.dumps(changed).encode())

        def say(self, status, body, **headers):
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), "Content-Type": "application/json", **headers}.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(body)

    relay = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=relay.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{relay.server_address[1]}"
    finally:
        relay.shutdown()
        relay.server_close()
        thread.join()


def close(one, other, bound=1e-5):
    return len(one) == len(other) > 0 and all(abs(a - b) <= bound * max(1, abs(b)) for a, b in zip(one, other))


def test_sampled(run):
    """a policy gradient from a server is that of the same teacher in the process"""
    with Server(run.program, "--bf16", "false", model=TEACHER) as server:
        served = run.records("served", "--loss_type", "sampled", "--teacher_model_server_url", server.url + "/v1")
    local = run.records("local", "--loss_type", "sampled", "--teacher_model_name_or_path", TEACHER)
    for name in ("loss", "grad_norm", "teacher_kl", "entropy"):
        ours, theirs = [one[name] for one in served], [one[name] for one in local]
        holds(close(ours, theirs), f"{name}: {ours}, {theirs}")


def test_top_k(run):
    """more of the teacher's tokens come nearer to the whole KL, from below"""
    with Server(run.program, "--bf16", "false", model=TEACHER) as server:
        few, many = [run.records(f"top{k}", "--loss_type", "top_k", "--loss_top_k", k, "--teacher_model_server_url", server.url, "--max_steps", 1)
                     for k in (1, 20)]
    whole = run.records("whole", "--beta", "0", "--teacher_model_name_or_path", TEACHER, "--max_steps", 1)
    losses = [one[0]["loss"] for one in (few, many, whole)]
    holds(0 < losses[0] < losses[1] < losses[2], losses)
    holds(close([many[0]["entropy"]], [whole[0]["entropy"]]), (many, whole))


def test_refusals(run):
    """another vocabulary and a server that does not listen are named before step 1"""
    other = run.folder / "other"
    shutil.copytree(TEACHER, other)
    path = other / "tokenizer.json"
    tokenizer = json.loads(path.read_text(encoding="utf-8"))
    words = tokenizer["model"]["vocab"]
    first, second = [next(word for word, number in words.items() if number == wanted) for wanted in (270, 271)]
    words[first], words[second] = words[second], words[first]
    path.write_text(json.dumps(tokenizer), encoding="utf-8")
    with Server(run.program, "--bf16", "false", model=other) as server:
        gone = server.url
        run.refused("vocabulary", "whose vocabulary has the hash", "--loss_type", "sampled", "--teacher_model_server_url", gone)
    run.refused("absent", "a server that listens", "--loss_type", "sampled", "--teacher_model_server_url", gone)
    run.refused("whole", "loss_type: top_k or sampled", "--teacher_model_server_url", gone)
    run.refused("cooler", "loss_temperature: 1", "--loss_type", "sampled", "--temperature", "0.7", "--teacher_model_server_url", gone)


def wrong(kind):
    """A change of the answer's last token, which is always one of the completion."""

    def change(handler, number, answer):
        said = answer["choices"][0]["logprobs"]
        if kind == "other token":
            said["tokens"][-1] = "token_id:3" if said["tokens"][-1] != "token_id:3" else "token_id:4"
        elif kind == "positive":
            said["token_logprobs"][-1] = 0.5
        elif kind == "not a number":
            said["token_logprobs"][-1] = float("nan")
        elif kind == "short":
            said["token_logprobs"].pop()
        elif kind == "outside":
            said["top_logprobs"][-1]["token_id:384"] = -9.0
        elif kind == "two of one":
            said["top_logprobs"][-1] = {"token_id:5": -1.0, "token_id:05": -1.0, "token_id:6": -1.5}
        elif kind == "more than one":
            said["top_logprobs"][-1] = {"token_id:5": -0.1, "token_id:6": -0.1, "token_id:7": -3.0}
        elif kind == "fewer":
            said["top_logprobs"][-1] = {"token_id:5": -1.0}
        return answer

    return change


def test_wrong_answers(run):
    """an answer about other tokens, or with what is no log-probability of the vocabulary, ends the run"""
    told = {"other token": "was sent", "positive": "has 0.5", "not a number": "a JSON object", "short": "log-probabilities of",
            **dict.fromkeys(("outside", "two of one", "more than one", "fewer"), "not 2 tokens of the vocabulary")}
    with Server(run.program, "--bf16", "false", model=TEACHER) as server:
        for kind, text in told.items():
            with between(server, wrong(kind)) as url:
                run.refused(kind.replace(" ", "_"), text, "--loss_type", "top_k", "--loss_top_k", 2, "--max_steps", 1, "--teacher_model_server_url", url)


def test_lengths(run):
    """a teacher that takes fewer tokens is refused before step 1, and an answer of megabytes is read whole"""

    def shorter(listed):
        listed["data"][0]["max_model_len"] = 12
        return listed

    sampled = ("--loss_type", "sampled", "--max_steps", 1, "--teacher_model_server_url")
    with Server(run.program, "--bf16", "false", model=TEACHER) as server:
        plain = run.records("unpadded", *sampled, server.url)
        with between(server, lambda handler, number, answer: answer, shorter) as url:
            run.refused("shorter", "takes 12 (max_model_len)", *sampled, url)
        with between(server, lambda handler, number, answer: {**answer, "padding": 'a"\n' * 1_000_000}) as url:
            padded = run.records("padded", *sampled, url)
    holds([one["loss"] for one in plain] == [one["loss"] for one in padded], (plain, padded))


def test_key(run):
    """the key comes from the environment, and is in no file and no message"""
    key = "key/of+the-teacher-5150"

    def guarded(handler, number, answer):
        if handler.headers["Authorization"] == f"Bearer {key}":
            return answer
        handler.say(401, b"{}")
        return None

    def repeats(status):
        """A server whose answer repeats the header that it got, as pages of some proxies do."""

        def change(handler, number, answer):
            text = f"not for {handler.headers['Authorization']}"
            if status == "as tokens":
                return {"choices": [{"logprobs": {**answer["choices"][0]["logprobs"], "tokens": [text] * len(answer["choices"][0]["logprobs"]["tokens"])}}]}
            if status == "escaped":
                text = '{"data": "%s"}' % text.replace("/", "\\/").replace("+", "\\u002B")
            handler.say(200 if status == "escaped" else status, text.encode())
            return None

        return change

    words = ("--loss_type", "sampled", "--max_steps", 1, "--teacher_model_server_url")

    def told(name, url, text="", given=key):
        done = run.ended(name, *words, url, HONE_TEACHER_API_KEY=given)
        holds((done.returncode == 0) == (not text) and text in done.stderr, f"{name}: {done.returncode}: {done.stderr[-2000:]}")
        files = [path for path in (run.folder / name).rglob("*") if path.is_file()]
        holds(text or files, "a run without files")
        for where, bytes_ in [("its output", (done.stdout + done.stderr).encode()), *((path, path.read_bytes()) for path in files)]:
            holds(key.encode() not in bytes_, f"{name}: the key is in {where}")

    with Server(run.program, "--bf16", "false", model=TEACHER) as server:
        with between(server, guarded) as url:
            run.refused("locked", "set the environment variable HONE_TEACHER_API_KEY to the key", *words, url)
            told("open", url)
            told("ended", url, given=f" {key}\r\n")
            told("broken", url, "the key in HONE_TEACHER_API_KEY has characters that no key may have", given=f"{key}\r\nX-Other: 1")
        for status, text in {200: "repeats the key", 401: "not for Bearer ***", 500: "not for Bearer ***", "as tokens": "repeats the key",
                             "escaped": "repeats the key"}.items():
            with between(server, repeats(status)) as url:
                told(f"repeats {status}", url, text)


def test_tried_again(run):
    """429 and a broken connection change no number of the run, and five times 429, or a long Retry-After, end it"""
    asked_at = []

    def busy(handler, number, answer):
        asked_at.append(time.monotonic())
        if number == 0:
            handler.say(429, b'{"error": "busy"}', Retry_After="1")
        elif number == 1:
            handler.close_connection = True  # without a byte of an answer
        elif number == 2:
            handler.send_response(200)  # a part of an answer
            handler.send_header("Content-Length", "1000")
            handler.end_headers()
            handler.wfile.write(b'{"choices"')
            handler.close_connection = True
        else:
            return answer
        return None

    def always(handler, number, answer):
        asked_at.append(time.monotonic())
        handler.say(429, b'{"error": "busy"}', Retry_After="0")

    def long(handler, number, answer):
        asked_at.append(time.monotonic())
        handler.say(429, b'{"error": "busy"}', Retry_After="3600")

    more = ("--loss_type", "sampled", "--max_steps", 1, "--teacher_model_server_url")
    with Server(run.program, "--bf16", "false", model=TEACHER) as server:
        plain = run.records("plain", *more, server.url)
        with between(server, busy) as url:
            again = run.records("again", *more, url)
        holds(asked_at[1] - asked_at[0] >= 1, asked_at)
        holds(plain[0]["loss"] == again[0]["loss"] and plain[0]["grad_norm"] == again[0]["grad_norm"], (plain, again))
        for change, count in ((always, 5), (long, 1)):
            asked_at.clear()
            with between(server, change) as url:
                run.refused(change.__name__, "429", *more, url)
            holds(len(asked_at) == count, asked_at)


def test_stop(run):
    """a second signal ends a step whose teacher does not answer, and the step before it is saved"""
    waits, over = threading.Event(), threading.Event()

    def silent(handler, number, answer):
        if number < 4:  # of step 1
            return answer
        waits.set()
        over.wait(120)
        handler.close_connection = True
        return None

    words = [run.program, "distill", *OPTIONS, "--output_dir", run.folder / "stopped", "--loss_type", "sampled", "--teacher_model_server_url"]
    with Server(run.program, "--bf16", "false", model=TEACHER) as server, between(server, silent) as url:
        child = subprocess.Popen([str(word) for word in (*words, url)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            holds(waits.wait(60), "no second step")
            child.send_signal(signal.SIGTERM)
            time.sleep(2.1)  # what follows sooner is the same request
            child.send_signal(signal.SIGTERM)
            told = "".join(child.communicate(timeout=60))
        finally:
            child.kill()
            over.set()
    holds(child.returncode == 130 and "stopped   after step 1, nothing lost" in told, (child.returncode, told[-2000:]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hone", default=str(SOURCE / "build/hone"))
    options = parser.parse_args()
    tests = Tests()
    with tempfile.TemporaryDirectory() as folder:
        tests.run([test_sampled, test_top_k, test_refusals, test_wrong_answers, test_lengths, test_key, test_tried_again, test_stop], Run(options.hone, folder))
    return 1 if tests.failed else 0


if __name__ == "__main__":
    sys.exit(main())
