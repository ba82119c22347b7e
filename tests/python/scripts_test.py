#!/usr/bin/env python3
"""TRL's own scripts (trl/scripts/*.py), with hone.trl in the place of trl, and a small model and data.

usage: tests/python/scripts_test.py [NAME...]     with the packages of third_party/parity-venv
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from checks import MARKED, PAIRS, PROMPTS, SOURCE, TEXTS, TINY, Skip, Tests, holds, same

PYTHON = SOURCE / "third_party/parity-venv/bin/python"
ROWS = {"sft": TEXTS, "dpo": PAIRS, "kto": MARKED, "reward": PAIRS, "grpo": PROMPTS, "rloo": PROMPTS}
MORE = {"grpo": ["--reward_funcs", "rewards.longest", "think_format_reward", "--num_generations", "2", "--max_completion_length", "4"],
        "rloo": ["--reward_funcs", "rewards.longest", "--num_generations", "2", "--max_completion_length", "4"]}
REWARDS = '''
def longest(completions, **kwargs):
    return [float(len(one if isinstance(one, str) else one[0]["content"])) for one in completions]
'''


def scripts():
    """{name: text} of TRL's scripts, their imports changed."""
    found = list((SOURCE / "third_party/parity-venv").glob("lib/python*/site-packages/trl/scripts"))
    if not found:
        raise Skip("tests/parity/setup has installed no trl")
    return {name: re.sub(r"\bfrom trl(\.rewards)? import", r"from hone.trl\1 import", (found[0] / f"{name}.py").read_text()) for name in ROWS}


def test_script(folder, name):
    text = scripts()[name]
    holds("from hone.trl import" in text, "its import")
    (folder / "script.py").write_text(text)
    (folder / "rewards.py").write_text(REWARDS)
    (folder / "data").mkdir()
    (folder / "data/train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS[name]))
    words = ["--model_name_or_path", TINY, "--dataset_name", str(folder / "data"), "--output_dir", str(folder / "out"), "--max_steps", "2",
             "--per_device_train_batch_size", "2", "--use_peft", "--lora_r", "2", "--no_bf16", "--logging_steps", "1", "--skip_doctor", "true",
             "--threads", "1", "--report_to", "none", *MORE.get(name, [])]
    clean = os.environ | {"PYTHONPATH": str(SOURCE / "python"), "HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "cache")}
    ended = subprocess.run([str(PYTHON), "script.py", *words], cwd=folder, env=clean, capture_output=True, text=True)
    same(ended.returncode, 0, ended.stderr[-3000:] + ended.stdout[-1000:])
    holds("Training completed" in ended.stdout, ended.stdout[-1000:])
    holds((folder / "out/adapter_model.safetensors").is_file(), "an adapter")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("only", nargs="*")
    given = parser.parse_args()
    tests = Tests()
    for name in ROWS:
        if given.only and name not in given.only:
            continue

        def one(folder, name=name):
            test_script(folder, name)

        one.__doc__ = f"TRL's script {name}.py runs with its import changed"
        with tempfile.TemporaryDirectory() as folder:
            tests.run([one], pathlib.Path(folder))
    return 1 if tests.failed else 0


sys.exit(main())
