#!/usr/bin/env python3
"""hone serve with the real tinker SDK, in third_party/serve-venv (tests/serve/requirements.txt).

usage: tests/serve/tinker_test.py [--hone PROGRAM]
"""

import json
import os
import pathlib
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


def grpo(program, folder, **more):
    """A run of hone grpo of one prompt a batch: its folder, and what it drew."""
    (folder / "reward.py").write_text(REWARD, encoding="utf-8")
    rows = [json.dumps({"prompt": text}) + "\n" for text in ("one two three", "four", "The sum of 5 and 6 is", "a b")]
    (folder / "rows.jsonl").write_text("".join(rows), encoding="utf-8")
    run = folder / "run"
    words = {"model_name_or_path": TINY, "dataset_name": folder / "rows.jsonl", "reward_funcs": f"{folder}/reward.py:reward", "output_dir": run,
             "use_peft": "true", "lora_r": 2, "lora_alpha": 32, "lora_target_modules": "all-linear", "lora_dropout": 0, "per_device_train_batch_size": 1,
             "share_prompt": "false",
             "max_completion_length": LENGTH, "max_steps": STEPS, "save_strategy": "steps", "save_steps": 1, "learning_rate": RATE,
             "lr_scheduler_type": "constant", "beta": 0, "loss_type": "grpo", "scale_rewards": "none", "temperature": 1, "seed": SEED,
             "dump_rollouts": "true", "skip_doctor": "true", "threads": 1, "report_to": "none", **more}
    done = subprocess.run([program, "grpo", *(word for name, value in words.items() for word in (f"--{name}", str(value)))],
                          capture_output=True, text=True, timeout=600, check=False)
    same(done.returncode, 0, done.stdout[-3000:] + done.stderr[-3000:])
    return run, [json.loads(line) for line in (run / "rollouts.jsonl").read_text(encoding="utf-8").splitlines()]


def generation(rollouts):
    """What tinker_grpo.py draws again, with the advantages of its rewards."""
    samples = rollouts["samples"]
    rewards = [one["rewards"][0] for one in samples]
    return {"prompt": rollouts["prompts"][0]["ids"], "completions": [one["ids"] for one in samples],
            "advantages": [one - sum(rewards) / len(rewards) for one in rewards]}


def tensors(file):
    """name: bytes, of a safetensors file."""
    data = file.read_bytes()
    begin = 8 + struct.unpack("<Q", data[:8])[0]
    rows = json.loads(data[8:begin])
    return {name: data[begin + row["data_offsets"][0]:begin + row["data_offsets"][1]] for name, row in rows.items() if name != "__metadata__"}


def loop_is_grpo(program, step_size, **more):
    """After each of five steps the SDK's loop has the weights of hone grpo, of which `more` are options."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        run, rollouts = grpo(program, folder, **more)
        plan = {"seed": SEED, "rate": RATE, "length": LENGTH, "step_size": step_size, "generations": [generation(one) for one in rollouts]}
        (folder / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
        with Server(program, "--root", str(folder / "root"), "--seed", str(SEED)) as server:
            found = sdk(server, str(folder / "plan.json"), script="tinker_grpo.py")
        holds(sum(norm > 0 for norm in found["norms"][:STEPS]) >= 3, found)
        for step in range(1, STEPS + 1):
            name = found["paths"][step - 1].removeprefix("tinker://").replace(":", "+")
            mine = tensors(folder / "root" / name / "adapter_model.safetensors")
            theirs = tensors(run / f"checkpoint-{step}/adapter_model.safetensors")
            same(sorted(mine), sorted(theirs))
            differ = [tensor for tensor in mine if mine[tensor] != theirs[tensor]]
            holds(not differ, f"step {step}: {len(differ)} of {len(mine)} tensors differ, {differ[:2]}")


def test_grpo_of_pairs(program):
    """a loop over groups of two has the weights of hone grpo after each of five steps, bit for bit"""
    loop_is_grpo(program, 2, num_generations=2, gradient_accumulation_steps=2)


def main():
    program = sys.argv[sys.argv.index("--hone") + 1] if "--hone" in sys.argv else str(SOURCE / "build/hone")
    if not PYTHON.exists():
        print(f"skip the tinker SDK: no {PYTHON.relative_to(SOURCE)}: python3 -m venv, and pip install -r tests/serve/requirements.txt")
        return 0
    tests = Tests()
    tests.run([test_sdk, test_grpo_of_pairs], program)
    return 1 if tests.failed else 0


if __name__ == "__main__":
    sys.exit(main())
