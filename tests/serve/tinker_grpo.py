"""A policy-gradient loop with the real tinker SDK: python tinker_grpo.py URL BASE_MODEL PLAN

PLAN is a JSON file of tests/serve/tinker_test.py: what a run of hone grpo drew, by step. The loop draws it again, and trains on it.
Prints one line of JSON: the path of the weights after each step, and the norm of each gradient.
"""

import json
import pathlib
import sys

import tinker
from tinker import types
from tinker_sdk import datum


def datums(prompt, drawn, advantages):
    """Of completions as (ids, log-probabilities when drawn): the weight of a sequence is 1, that of a batch too."""
    out = []
    for (ids, logprobs), advantage in zip(drawn, advantages, strict=True):
        before = [0.0] * (len(prompt) - 1)
        share = advantage * (1 / len(ids) / len(drawn))
        out.append(datum(prompt + ids, logprobs=before + logprobs, advantages=before + [share] * len(ids)))
    return out


def loop(client, plan):
    paths, norms = [], []
    for generation in plan["generations"]:
        sampler = client.save_weights_and_get_sampling_client().result()
        params = types.SamplingParams(max_tokens=plan["length"], temperature=1.0)
        group = len(generation["completions"])
        found = sampler.sample(types.ModelInput.from_ints(generation["prompt"]), group, params).result().sequences
        drawn = [(list(one.tokens), list(one.logprobs)) for one in found]
        assert [ids for ids, _ in drawn] == generation["completions"], f"other tokens: {drawn}, {generation}"
        size = plan["step_size"]
        for begin in range(0, group, size):
            part = slice(begin, begin + size)
            client.forward_backward(datums(generation["prompt"], drawn[part], generation["advantages"][part]), "importance_sampling").result()
            stepped = client.optim_step(types.AdamParams(learning_rate=plan["rate"], beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.0, grad_clip_norm=1.0))
            norms.append(stepped.result().metrics["unclipped_grad_l2:mean"])
            paths.append(client.save_state(f"step-{len(paths) + 1}").result().path)
    return {"paths": paths, "norms": norms}


def main():
    url, base = sys.argv[1:3]
    plan = json.loads(pathlib.Path(sys.argv[3]).read_text(encoding="utf-8"))
    service = tinker.ServiceClient(base_url=url, api_key="tml-local")
    client = service.create_lora_training_client(base_model=base, rank=2, seed=plan["seed"], train_unembed=False).result()
    print(json.dumps(loop(client, plan)))


if __name__ == "__main__":
    main()
