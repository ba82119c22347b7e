#!/usr/bin/env python3
"""hone serve with the real tinker SDK, in third_party/serve-venv (tests/serve/requirements.txt).

usage: tests/serve/tinker_test.py [--hone PROGRAM]
"""

import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
from checks import Tests, holds, same
from server import SOURCE, TINY, Server

PYTHON = SOURCE / "third_party/serve-venv/bin/python"
SEED, RATE, LENGTH, STEPS = 7, 0.01, 8, 5
LONG = "The tokens of this prompt are more than those of a pass that is summed at once. " * 4  # above 256
REWARD = """
def reward(completion_ids, **_):
    return [sum(one) % 8 / 8 for one in completion_ids]
"""
QUIET = {"HF_HUB_OFFLINE": "1", "TINKER_TELEMETRY": "0", "PYTHONDONTWRITEBYTECODE": "1"}


def sdk(server, *more, script="tinker_sdk.py"):
    """What that file of tests/serve prints."""
    words = [PYTHON, SOURCE / "tests/serve" / script, server.url, "tiny", *more]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, env={**os.environ, **QUIET}, check=False)
    same(done.returncode, 0, done.stdout + done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def test_sdk(program):
    """the loop, losses as torch's, sampled log-probabilities == forward's; after kill -9 the saved run goes on in the same bits"""
    with tempfile.TemporaryDirectory() as root:
        with Server(program, "--root", root) as server:
            first = sdk(server)
            holds(first["losses"][-1] < first["losses"][0], first["losses"])
            server.process.send_signal(signal.SIGKILL)
            server.process.wait(30)
        with Server(program, "--root", root) as again:
            same(sdk(again, first["path"])["further"], first["further"])
            same(again.stop(), 0, "the exit code")


def model_that_ends(folder):
    """The tiny model with 48 end tokens of 384, so that completions have unequal lengths."""
    out = folder / "model"
    shutil.copytree(TINY, out, ignore=shutil.ignore_patterns("adapter*", "golden*", "combined*", "pissa*"))
    for name in ("config.json", "generation_config.json"):
        saved = json.loads((out / name).read_text(encoding="utf-8"))
        (out / name).write_text(json.dumps(saved | {"eos_token_id": [2, *range(7, 384, 8)]}), encoding="utf-8")
    return out


def grpo(program, folder, model, **more):
    """A run of hone grpo: its folder, and what it drew."""
    (folder / "reward.py").write_text(REWARD, encoding="utf-8")
    texts = ["one two three", "four", "The sum of 5 and 6 is", "a b", *([] if more["num_generations"] == 2 else [LONG, "six of seven and more"])]
    rows = [json.dumps({"prompt": text}) + "\n" for text in texts]
    (folder / "rows.jsonl").write_text("".join(rows), encoding="utf-8")
    run = folder / "run"
    words = {"model_name_or_path": model, "dataset_name": folder / "rows.jsonl", "reward_funcs": f"{folder}/reward.py:reward", "output_dir": run,
             "use_peft": "true", "lora_r": 2, "lora_alpha": 32, "lora_target_modules": "all-linear", "lora_dropout": 0, "per_device_train_batch_size": 1,
             "share_prompt": "false",
             "max_completion_length": LENGTH, "max_steps": STEPS, "save_strategy": "steps", "save_steps": 1, "learning_rate": RATE,
             "lr_scheduler_type": "constant", "beta": 0, "loss_type": "grpo", "scale_rewards": "none", "temperature": 1, "seed": SEED,
             "dump_rollouts": "true", "skip_doctor": "true", "threads": 1, "report_to": "none", **more}
    done = subprocess.run([program, "grpo", *(word for name, value in words.items() for word in (f"--{name}", str(value)))],
                          capture_output=True, text=True, timeout=600, check=False)
    same(done.returncode, 0, done.stdout[-3000:] + done.stderr[-3000:])
    return run, [json.loads(line) for line in (run / "rollouts.jsonl").read_text(encoding="utf-8").splitlines()]


def groups_of(rollouts, generations):
    """What tinker_grpo.py draws again of a batch, prompt by prompt, with the advantages of its rewards."""
    samples, out = rollouts["samples"], []
    for begin in range(0, len(samples), generations):
        group = samples[begin:begin + generations]
        rewards = [one["rewards"][0] for one in group]
        same({one["prompt"] for one in group}, {begin // generations})
        out.append({"prompt": rollouts["prompts"][begin // generations]["ids"], "completions": [one["ids"] for one in group],
                    "advantages": [one - sum(rewards) / len(rewards) for one in rewards]})
    return out


def tensors(file):
    """name: bytes, of a safetensors file."""
    data = file.read_bytes()
    begin = 8 + struct.unpack("<Q", data[:8])[0]
    rows = json.loads(data[8:begin])
    return {name: data[begin + row["data_offsets"][0]:begin + row["data_offsets"][1]] for name, row in rows.items() if name != "__metadata__"}


def loop_is_grpo(program, prompts, generations, calls=1, sums="bins"):
    """After each of five steps the SDK's loop has the weights of a hone grpo of batches of so many prompts, and as many completions each."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        model = model_that_ends(folder)
        run, rollouts = grpo(program, folder, model, num_generations=generations, gradient_accumulation_steps=prompts * generations)
        plan = {"seed": SEED, "rate": RATE, "length": LENGTH, "calls": calls, "generations": [groups_of(one, generations) for one in rollouts[:STEPS]]}
        lengths = {len(ids) for one in plan["generations"] for group in one for ids in group["completions"]}
        (folder / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
        with Server(program, "--root", str(folder / "root"), "--seed", str(SEED), "--gradient_sums", sums, model=model) as server:
            found = sdk(server, str(folder / "plan.json"), script="tinker_grpo.py")
        holds(sum(norm > 0 for norm in found["norms"]) >= 3, found)
        differ = []
        for step in range(1, STEPS + 1):
            name = found["paths"][step - 1].removeprefix("tinker://").replace(":", "+")
            mine = tensors(folder / "root" / name / "adapter_model.safetensors")
            theirs = tensors(run / f"checkpoint-{step}/adapter_model.safetensors")
            same(sorted(mine), sorted(theirs))
            differ.append(sum(mine[tensor] != theirs[tensor] for tensor in mine))
        return differ, lengths


def test_grpo_of_pairs(program):
    """a loop over groups of two has the weights of hone grpo after each of five steps, bit for bit, in both orders of sums"""
    for sums in ("arrival", "bins"):
        same(loop_is_grpo(program, 1, 2, sums=sums)[0], [0] * STEPS, sums)


def test_grpo_of_groups(program):
    """so has a loop over groups of 8 and 16, over several prompts a batch, of unequal lengths, by one and by several calls a step"""
    for prompts, generations, calls in ((1, 8, 1), (1, 16, 3), (3, 4, 1), (2, 8, 5)):
        differ, lengths = loop_is_grpo(program, prompts, generations, calls)
        same(differ, [0] * STEPS, f"{prompts} prompts of {generations}, {calls} calls")
        holds(len(lengths) > 1, lengths)
    holds(any(loop_is_grpo(program, 1, 8, sums="arrival")[0]), "sums by arrival have the same bits: the test shows nothing")


def main():
    program = sys.argv[sys.argv.index("--hone") + 1] if "--hone" in sys.argv else str(SOURCE / "build/hone")
    if not PYTHON.exists():
        print(f"skip the tinker SDK: no {PYTHON.relative_to(SOURCE)}: python3 -m venv, and pip install -r tests/serve/requirements.txt")
        return 0
    tests = Tests()
    tests.run([test_sdk, test_grpo_of_pairs, test_grpo_of_groups], program)
    return 1 if tests.failed else 0


if __name__ == "__main__":
    sys.exit(main())
