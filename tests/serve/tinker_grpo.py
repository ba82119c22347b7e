"""A policy-gradient loop with the real tinker SDK: python tinker_grpo.py URL BASE_MODEL PLAN

PLAN is a JSON file of tests/serve/tinker_test.py: what a run of hone grpo drew, by step. The loop draws it again, and trains on it in
`calls` calls of forward_backward a step. With `server`, a process, it also tells clocks (bench/tinker_beside_grpo.py); with `other_tokens` it
may draw others. Prints one line of JSON: the path of the weights after each step, the norm of each gradient, tokens drawn, and the clocks.
"""

import json
import os
import pathlib
import sys
import time

import tinker
from tinker import types
from tinker_sdk import datum


def datums(drawn, sequences):
    """Of `sequences` datums of a step, each (prompt, ids, log-probabilities when drawn, advantage): the loss is their mean."""
    out = []
    for prompt, ids, logprobs, advantage in drawn:
        before = [0.0] * (len(prompt) - 1)
        share = advantage * (1 / len(ids) / sequences)
        out.append(datum(prompt + ids, logprobs=before + logprobs, advantages=before + [share] * len(ids)))
    return out


def draw(sampler, plan, groups):
    """Draws what the run drew: the requests go in the order of its prompts."""
    params = types.SamplingParams(max_tokens=plan["length"], temperature=1.0)
    asked = [sampler.sample(types.ModelInput.from_ints(group["prompt"]), len(group["completions"]), params) for group in groups]
    out = []
    for group, future in zip(groups, asked, strict=True):
        found = [(list(one.tokens), list(one.logprobs)) for one in future.result().sequences]
        assert plan.get("other_tokens") or [ids for ids, _ in found] == group["completions"], f"other tokens: {found}, {group}"
        out += [(group["prompt"], ids, logprobs, advantage) for (ids, logprobs), advantage in zip(found, group["advantages"], strict=True)]
    return out


def clocks(plan):
    """Seconds on the wall, and of processor time: the server's, and this process's."""
    if "server" not in plan:
        return []
    cells = pathlib.Path(f"/proc/{plan['server']}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return [time.perf_counter(), (int(cells[11]) + int(cells[12])) / os.sysconf("SC_CLK_TCK"), time.process_time()]


def loop(client, plan):
    paths, norms, tokens, at = [], [], [], [clocks(plan)]
    for groups in plan["generations"]:
        drawn = draw(client.save_weights_and_get_sampling_client().result(), plan, groups)
        made, calls = datums(drawn, len(drawn)), plan["calls"]
        for i in range(calls):
            client.forward_backward(made[i * len(made) // calls : (i + 1) * len(made) // calls], "importance_sampling").result()
        stepped = client.optim_step(types.AdamParams(learning_rate=plan["rate"], beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.0, grad_clip_norm=1.0))
        norms.append(stepped.result().metrics["unclipped_grad_l2:mean"])
        at.append(clocks(plan))
        tokens.append(sum(len(ids) for _, ids, _, _ in drawn))
        if plan.get("saves", True):
            paths.append(client.save_state(f"step-{len(paths) + 1}").result().path)
    return {"paths": paths, "norms": norms, "tokens": tokens, "clocks": at}


def main():
    url, base = sys.argv[1:3]
    plan = json.loads(pathlib.Path(sys.argv[3]).read_text(encoding="utf-8"))
    service = tinker.ServiceClient(base_url=url, api_key="tml-local")
    client = service.create_lora_training_client(base_model=base, rank=plan.get("rank", 2), seed=plan["seed"], train_unembed=False).result()
    print(json.dumps(loop(client, plan)))


if __name__ == "__main__":
    main()
