#!/usr/bin/env python3
"""hone serve under verifiers: its evaluation of an environment, and its client for training, which wants ids and log-probabilities.

usage: tests/serve/verifiers_test.py [--hone PROGRAM]   (the Python of third_party/verifiers-venv, with tests/serve/requirements-verifiers.txt)
"""
import argparse
import asyncio
import logging
import os
import pathlib
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "python"), str(HERE)]
from checks import Tests, holds, same
from server import SOURCE, TINY, Server

ROLLOUTS = 2


def episodes(server, folder, kind, **client):
    """What an evaluation of verifiers_sums gives, with that client."""
    from verifiers.v1.cli.eval.runner import run_eval
    from verifiers.v1.configs.cli.eval import EvalConfig
    config = EvalConfig.model_validate({
        "env": {"taskset": {"id": "verifiers_sums"}, "agent": {"harness": {"id": "verifiers_sums"}, "runtime": {"type": "subprocess"}}},
        "model": "tiny", "num_rollouts": ROLLOUTS,
        "client": {"type": kind, "base_url": server.url + client.pop("path"), "api_key_var": "NO_KEY", **client},
        "sampling": {"temperature": 0, "max_tokens": 8}, "rich": None, "push": False, "output_dir": str(folder)})
    return asyncio.run(run_eval(config))


def traces(found):
    same([error.message[:300] for episode in found for error in episode.errors], [], "errors of episodes")
    out = [trace for episode in found for trace in episode.traces]
    same([str(trace.last_error) for trace in out if trace.has_error], [], "errors")
    same(len(out), 3 * ROLLOUTS, "traces")
    return out


def direct(server, messages):
    """The server's own answer, without verifiers."""
    said = server.post("/v1/chat/completions", model="tiny", messages=messages, temperature=0, max_tokens=8, logprobs=True, return_token_ids=True)
    return said["choices"][0]


def dialogue(trace):
    return [{"role": message.role, "content": message.content or ""} for message in trace.messages]


def test_evaluation(server, folder):
    """an evaluation of an environment of two turns: each answer is the server's own, and rewards and metrics are there"""
    for trace in traces(episodes(server, folder, "eval", path="/v1")):
        talk = dialogue(trace)
        same([message["role"] for message in talk], ["user", "assistant"] * 2, "turns")
        for turn in (1, 3):
            same(talk[turn]["content"], direct(server, talk[:turn])["message"]["content"], f"turn {turn}")
        same(trace.reward, float(len(talk[1]["content"]) + len(talk[3]["content"])), "the reward")
        holds("right" in trace.metrics and trace.num_output_tokens > 0, trace.metrics)


def first_drawn(branch):
    """(prompt, ids, log-probabilities) of the first turn that a branch has drawn."""
    ids, drawn, known = branch.token_ids, branch.sampled_mask, branch.logprobs
    begin = drawn.index(True)
    end = next((at for at in range(begin, len(ids)) if not drawn[at]), len(ids))
    return ids[:begin], ids[begin:end], known[begin:end]


def test_training_client(server, folder):
    """the client for training: ids and log-probabilities are the server's for the prompt's ids, and the first turn is that of the chat"""
    for trace in traces(episodes(server, folder, "train", path="/v1", renderer_model_name=str(TINY))):
        holds(trace.branches, "branches")
        for branch in trace.branches:
            prompt, ids, known = first_drawn(branch)
            said = server.post("/inference/v1/generate", model="tiny", token_ids=prompt, sampling_params={"temperature": 0, "max_tokens": 8, "logprobs": 1})
            wanted = said["choices"][0]
            same(ids, wanted["token_ids"], "ids")
            own = [one["logprob"] for one in wanted["logprobs"]["content"]]
            holds(len(known) == len(own) and max(abs(a - b) for a, b in zip(known, own)) < 1e-4, f"{known} {own}")
        by_chat = direct(server, dialogue(trace)[:1])["token_ids"]
        holds(by_chat in [first_drawn(branch)[1] for branch in trace.branches], f"the first turn as by chat: {by_chat}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hone", default=str(SOURCE / "build/hone"))
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    os.environ["HF_HUB_OFFLINE"] = "1"
    tests = Tests()
    with Server(options.hone, "--bf16", "false") as server, tempfile.TemporaryDirectory() as folder:
        tests.run([test for test in (test_evaluation, test_training_client) if options.only in test.__name__], server, pathlib.Path(folder))
        same(server.stop(), 0, "the server's exit code")
    return 1 if tests.failed else 0


if __name__ == "__main__":
    sys.exit(main())
