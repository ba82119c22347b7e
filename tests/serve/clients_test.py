#!/usr/bin/env python3
"""hone serve under the clients that people use: openai-python, and lm-eval beside lm-eval on transformers.

usage: tests/serve/clients_test.py [--hone PROGRAM]   (the Python of third_party/serve-venv, with tests/serve/requirements.txt)
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import typing

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
from checks import Skip, Tests, holds, same
from serve_test import make_adapter
from server import SOURCE, TINY, Server

TALK = [{"role": "user", "content": "What is two and three?"}]

TASK = """task: {name}
dataset_path: json
dataset_kwargs:
  data_files:
    test: {rows}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{question}}}}"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: "{{{{answer}}}}"
metric_list:
  - metric: acc
    aggregation: mean
    higher_is_better: true
"""


def client(server):
    import openai
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)


def test_openai_completions(server, _):
    """openai-python: models, completions by text and ids, echo, choices; a stream's text is that of one answer"""
    ask = client(server)
    same([model.id for model in ask.models.list()], ["tiny"])
    one = ask.completions.create(model="tiny", prompt="one two", max_tokens=12, seed=3, logprobs=2, n=2, stop=["x"])
    same([choice.index for choice in one.choices], [0, 1])
    same(len(one.choices[0].logprobs.tokens), len(one.choices[0].logprobs.token_logprobs))
    parts = {0: "", 1: ""}
    for chunk in ask.completions.create(model="tiny", prompt="one two", max_tokens=12, seed=3, logprobs=2, n=2, stop=["x"], stream=True):
        for choice in chunk.choices:
            parts[choice.index] += choice.text
    same(parts, {choice.index: choice.text for choice in one.choices})
    echo = ask.completions.create(model="tiny", prompt=[72, 105, 80], echo=True, logprobs=1, max_tokens=0)
    same(len(echo.choices[0].logprobs.token_logprobs), 3)


def test_openai_chat(server, _):
    """openai-python: chat with log-probabilities, usage and token ids; a stream's text is that of one answer"""
    ask = client(server)
    said = ask.chat.completions.create(model="tiny", messages=TALK, max_tokens=12, seed=4, logprobs=True, top_logprobs=2, extra_body={"return_token_ids": True})
    one = said.choices[0]
    same((len(one.logprobs.content), said.usage.completion_tokens), (len(one.token_ids), len(one.token_ids)))
    text, ids, usage = "", [], None
    for chunk in ask.chat.completions.create(model="tiny", messages=TALK, max_tokens=12, seed=4, stream=True, stream_options={"include_usage": True},
                                             extra_body={"return_token_ids": True}):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            text += choice.delta.content or ""
            ids += getattr(choice, "token_ids", None) or []
    same((text, ids, usage.completion_tokens), (one.message.content, one.token_ids, said.usage.completion_tokens))


def test_openai_schema(server, _):
    """openai-python: parse() has an object of the user's class, for each seed"""
    import pydantic

    class Answer(pydantic.BaseModel):
        model_config = {"extra": "forbid"}
        name: str = pydantic.Field(max_length=5)
        sure: bool
        kind: typing.Literal["one", "two"] | None

    for seed in range(4):
        said = client(server).chat.completions.parse(model="tiny", messages=TALK, max_tokens=100, seed=seed, response_format=Answer)
        holds(isinstance(said.choices[0].message.parsed, Answer), said.choices[0])


def test_openai_errors(server, _):
    """openai-python: errors become its classes, with param and code"""
    import openai
    ask = client(server)
    for kind, fields, param in ((openai.NotFoundError, {"model": "nope"}, "model"), (openai.BadRequestError, {"temperature": 3000}, "temperature"),
                                (openai.BadRequestError, {"extra_body": {"unknown": 1}}, "unknown")):
        try:
            ask.completions.create(**{"model": "tiny", "prompt": "a", **fields})
        except kind as error:
            same(error.body["param"], param)
        else:
            raise AssertionError(f"no {kind.__name__}")


def samples(folder):
    found = sorted(pathlib.Path(folder).rglob("samples_*.jsonl"))
    holds(len(found) == 1, f"{found}")
    rows = [json.loads(line) for line in found[0].read_text(encoding="utf-8").splitlines()]
    return {row["doc_id"]: [float(answer[0][0]) for answer in row["resps"]] for row in rows}, {row["doc_id"]: row["acc"] for row in rows}


def offline():
    # torch and transformers are those of the parity folder, behind this Python's own packages.
    others = next((SOURCE / "third_party/parity-venv/lib").glob("python3*/site-packages"), None)
    return {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": os.pathsep.join([*(path for path in sys.path if "site-packages" in path), str(others or "")])}


def write_task(folder):
    """Twelve questions of four answers, as the task hone_choices."""
    rows = [{"question": f"Question {n}: how many are {n} and {n + 1}?\nAnswer:", "choices": [" " + str(2 * n + k) for k in (0, 1, 2, 5)], "answer": 1} for n in range(12)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (folder / "hone_choices.yaml").write_text(TASK.format(name="hone_choices", rows=folder / "rows.jsonl"), encoding="utf-8")
    return rows


def evaluate(folder, out, *words):
    done = subprocess.run([sys.executable, "-W", "ignore", "-m", "lm_eval", "run", "--tasks", "hone_choices", "--include_path", str(folder), "--output_path", str(out), "--log_samples",
                           *words], capture_output=True, text=True, timeout=900, cwd=folder, env=offline())
    holds(done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:])
    return samples(out)


def on_transformers(folder, out, *more, words=()):
    """What evaluate() finds with lm-eval's transformers model; `more` are arguments of the model."""
    given = ",".join([f"pretrained={TINY}", "dtype=float32", *more])
    try:
        return evaluate(folder, out, "--model", "hf", "--device", "cpu", "--model_args", given, *words)
    except AssertionError as why:
        if "No module named 'torch'" in str(why):
            raise Skip("torch is not in this Python") from why
        raise


def same_logprobs(found, expected):
    same(sorted(found), sorted(expected))
    worst = max(abs(a - b) for doc in expected for a, b in zip(found[doc], expected[doc], strict=True))
    holds(worst < 1e-4, f"log-probabilities differ by {worst}")


def test_lm_eval(server, _):
    """lm-eval over HTTP gives the accuracy and the log-probabilities of lm-eval on transformers, within 1e-4"""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        rows = write_task(folder)
        logprobs, right = evaluate(folder, folder / "http", "--model", "local-completions", "--batch_size", "2", "--model_args",
                                   f"base_url={server.url}/v1/completions,model=tiny,tokenizer_backend=remote,num_concurrent=1,max_length=512")
        holds(len(logprobs) == len(rows), logprobs)
        expected, expected_right = on_transformers(folder, folder / "local", "add_bos_token=False")
        same_logprobs(logprobs, expected)
        same(right, expected_right)


def hone_eval(program, *words, **variables):
    return subprocess.run([program, "eval", *map(str, words)], capture_output=True, text=True, timeout=900, env={**offline(), **variables})


def telling_python(folder):
    """This Python, which has lm-eval write its samples."""
    out = folder / "python"
    out.write_text(f'#!/bin/sh\nexec {sys.executable} "$@" --log_samples\n', encoding="utf-8")
    out.chmod(0o755)
    return out


def test_hone_eval(_, program):
    """hone eval has the table and the log-probabilities of lm-eval on transformers, and files it on the page of a run too"""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        rows = write_task(folder)
        words = ("--tasks", "hone_choices", "--include_path", folder, "--python", telling_python(folder), "--threads", "1", "--bf16", "false", "--batch_size", "2")
        done = hone_eval(program, TINY, *words, "--output", folder / "out")
        holds(done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:])
        found = json.loads((folder / "out/hone-evaluation.json").read_text(encoding="utf-8"))
        same([(row["task"], row["metric"], row["shots"]) for row in found["rows"]], [("hone_choices", "acc", 0)])
        expected, right = on_transformers(folder, folder / "local")
        same(found["rows"][0]["value"], sum(right.values()) / len(rows))
        same_logprobs(samples(folder / "out/lm_eval")[0], expected)
        holds("hone_choices" in done.stdout and f"{found['rows'][0]['value']:.4f}" in done.stdout, done.stdout)

        (folder / "trained").mkdir()
        run = make_adapter(program, folder / "trained")
        done = hone_eval(program, run, *words, "--limit", "3")
        holds(done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:])
        holds((run / "hone-evaluation.json").exists() and "hone_choices" in (run / "report.html").read_text(encoding="utf-8"), sorted(run.iterdir()))

        none = hone_eval(program, TINY, *words[:4], "--python", "/bin/false")
        holds(none.returncode == 2 and "pip install 'lm-eval[api]'" in none.stderr, none.stderr)
        wrong = hone_eval(program, TINY, "--tasks", "no_such_task", *words[2:], "--output", folder / "wrong")
        holds(wrong.returncode == 2 and "ended with code" in wrong.stderr, wrong.stderr[-2000:])


def test_hone_eval_chat(_, program):
    """hone eval --apply_chat_template has the log-probabilities of lm-eval on transformers, and asks no proxy"""
    proxies = {name: "http://127.0.0.1:9" for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")}  # nobody listens
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        write_task(folder)
        done = hone_eval(program, TINY, "--tasks", "hone_choices", "--include_path", folder, "--python", telling_python(folder), "--threads", "1", "--bf16", "false",
                         "--limit", "4", "--num_fewshot", "0", "--apply_chat_template", "--output", folder / "out", **proxies, NO_PROXY="example.org", no_proxy="example.org")
        holds(done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:])
        expected, _ = on_transformers(folder, folder / "local", words=("--limit", "4", "--apply_chat_template"))
        same_logprobs(samples(folder / "out/lm_eval")[0], expected)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hone", default=str(SOURCE / "build/hone"))
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    tests = Tests()
    with Server(options.hone, "--bf16", "false") as server:
        chosen = [test for test in (test_openai_completions, test_openai_chat, test_openai_schema, test_openai_errors, test_lm_eval, test_hone_eval, test_hone_eval_chat) if options.only in test.__name__]
        tests.run(chosen, server, options.hone)
        same(server.stop(), 0, "the server's exit code")
    return 1 if tests.failed else 0


if __name__ == "__main__":
    sys.exit(main())
