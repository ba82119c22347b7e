"""The real tinker SDK against a server: python tinker_sdk.py URL BASE_MODEL [PATH]

Without PATH: the loop, each loss against torch, bits of sampler and trainer, saving. With PATH: loads it and goes on. Prints one
line of JSON. Run by tests/serve/tinker_test.py with third_party/serve-venv (tests/serve/requirements.txt).
"""

import json
import pathlib
import sys

# torch is that of the parity folder, behind this Python's own packages.
sys.path += map(str, (pathlib.Path(__file__).resolve().parents[2] / "third_party/parity-venv/lib").glob("python3*/site-packages"))

import numpy as np
import tinker
import torch
from tinker import types

PROMPT = [5, 90, 17, 210, 44, 3, 120, 8]


def datum(tokens, **inputs):
    return types.Datum(
        model_input=types.ModelInput.from_ints(tokens[:-1]),
        loss_fn_inputs={"target_tokens": np.array(tokens[1:], dtype=np.int64)}
        | {name: np.array(values, dtype=np.float32) for name, values in inputs.items()},
    )


def logprobs(output):
    return [one["logprobs"].to_numpy() for one in output.loss_fn_outputs]


def loss_of(name, l, q, a):
    """The formulas again, in torch."""
    r = torch.exp(l - q)
    if name == "importance_sampling":
        return -(r * a).sum()
    if name == "ppo":
        return -torch.minimum(r * a, torch.clamp(r, 0.8, 1.2) * a).sum()
    if name == "cispo":
        return -(torch.clamp(r, 0, 4).detach() * a * l).sum()
    return -(a * l - 0.05 / 2 * (l - q) ** 2).sum()


def sampled(client, sampler, count=1, tokens=16, seed=None):
    params = types.SamplingParams(max_tokens=tokens, temperature=1.0, seed=seed, stop=[])
    return sampler.sample(types.ModelInput.from_ints(PROMPT), count, params).result().sequences


def forward_is_sampler(client, sampler):
    """Sampled log-probabilities are those of forward: the same bits."""
    sequences = sampled(client, sampler, 4)
    whole = [datum(PROMPT + one.tokens, weights=[1.0] * (len(PROMPT) + len(one.tokens) - 1)) for one in sequences]
    for one, found in zip(sequences, logprobs(client.forward(whole, "cross_entropy").result()), strict=True):
        assert np.array_equal(found[len(PROMPT) - 1 :], np.array(one.logprobs, dtype=np.float32)), "bits"
    computed = sampler.compute_logprobs(types.ModelInput.from_ints(PROMPT + sequences[0].tokens)).result()
    again = np.array(computed[len(PROMPT) :], dtype=np.float32)
    assert computed[0] is None and np.array_equal(again, np.array(sequences[0].logprobs, dtype=np.float32)), "prompt"
    assert len({tuple(one.tokens) for one in sequences}) > 1, "samples of a request differ"
    return sequences


def losses(client, sequences):
    """Each loss by what forward_backward tells, and forward_backward_custom."""
    tokens, n = PROMPT + sequences[0].tokens, len(PROMPT) + len(sequences[0].tokens) - 1
    q = [0.0] * (len(PROMPT) - 1) + [x - 0.1 * (i % 3) for i, x in enumerate(sequences[0].logprobs)]
    a = [0.0] * (len(PROMPT) - 1) + [(-1.0) ** i * 0.5 for i in range(len(sequences[0].tokens))]
    for name in ["importance_sampling", "ppo", "cispo", "dro"]:
        config = {"beta": 0.05} if name == "dro" else None
        result = client.forward_backward([datum(tokens, logprobs=q, advantages=a)], name, config).result()
        l = torch.tensor(logprobs(result)[0], dtype=torch.float64)
        wanted = loss_of(name, l, torch.tensor(q).double(), torch.tensor(a).double()).item()
        assert abs(result.metrics["loss:sum"] - wanted) < 1e-5 * (1 + abs(wanted)), (name, result.metrics, wanted)
    top = types.Datum(
        model_input=types.ModelInput.from_ints(tokens[:-1]),
        loss_fn_inputs={"target_tokens": torch.tensor([[t, 3, 4] for t in tokens[1:]]), "weights": torch.rand(n, 3)},
    )
    assert logprobs(client.forward_backward([top], "cross_entropy").result())[0].shape == (n, 3)

    def custom(data, found):
        loss = -sum(one.sum() for one in found)
        return loss, {"own": float(loss)}

    result = client.forward_backward_custom([datum(tokens, weights=[1.0] * n)], custom).result()
    assert "own" in result.metrics, result.metrics
    try:
        client.forward_backward([datum(tokens, logprobs=q, advantages=a)], "gspo").result()
        raise AssertionError("gspo")
    except tinker.RequestFailedError as error:
        assert "cross_entropy" in str(error), error
    client.optim_step(types.AdamParams(learning_rate=1e-4, grad_clip_norm=1.0)).result()


def learns(client):
    """A few steps of SFT: the loss falls."""
    text = PROMPT + [44, 3, 120, 8]
    found = []
    for _ in range(8):
        doing = client.forward_backward([datum(text, weights=[1.0] * (len(text) - 1))], "cross_entropy")
        stepping = client.optim_step(types.AdamParams(learning_rate=0.02))
        found.append(doing.result().metrics["loss:sum"])
        metrics = stepping.result().metrics
        assert metrics["unclipped_grad_l2:mean"] > 0 and metrics["update_l2:mean"] > 0, metrics
    assert found[-1] < 0.7 * found[0], found
    return found


def state_of(client):
    return logprobs(client.forward([datum(PROMPT, weights=[1.0] * (len(PROMPT) - 1))], "cross_entropy").result())[0]


def further(client):
    client.forward_backward([datum(PROMPT, weights=[1.0] * (len(PROMPT) - 1))], "cross_entropy").result()
    client.optim_step(types.AdamParams(learning_rate=0.01)).result()
    return state_of(client).tolist()


def first(service, base):
    client = service.create_lora_training_client(base_model=base, rank=8, seed=0)
    assert client.get_info().model_data.model_name == base
    found = learns(client)
    sampler = client.save_weights_and_get_sampling_client()
    sequences = forward_is_sampler(client, sampler)
    losses(client, sequences)
    same = [one.tokens for one in sampled(client, sampler, 2, seed=3)]
    assert same == [one.tokens for one in sampled(client, sampler, 2, seed=3)], "seed"
    many = [sampler.sample(types.ModelInput.from_ints(PROMPT), 1, types.SamplingParams(max_tokens=4)) for _ in range(40)]
    assert all(one.result().sequences for one in many)
    path = client.save_state("step-1").result().path
    weights = client.save_weights_for_sampler("step-1").result().path
    other = service.create_sampling_client(model_path=weights)
    assert sampled(client, other, seed=3)[0].tokens, weights
    rest = service.create_rest_client()
    listed = [one.tinker_path for one in rest.list_checkpoints(client.model_id).result().checkpoints]
    assert set(listed) == {path, weights}, listed
    assert rest.get_training_run(client.model_id).result().lora_rank == 8
    return {"path": path, "losses": found, "further": further(client)}


def main():
    url, base = sys.argv[1:3]
    service = tinker.ServiceClient(base_url=url, api_key="tml-local")
    if len(sys.argv) > 3:
        client = service.create_training_client_from_state_with_optimizer(sys.argv[3])
        client = client.result() if hasattr(client, "result") else client
        print(json.dumps({"further": further(client)}))
    else:
        print(json.dumps(first(service, base)))


if __name__ == "__main__":
    main()
