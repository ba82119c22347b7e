#!/usr/bin/env python3
"""The wheel for aarch64 (tools/aarch64), started under qemu-user: its programs train, with the losses of this machine's build.

usage: tests/python/aarch64_test.py [--hone PROGRAM] [--make] [WHEEL]     --make: builds the wheel where the cross compiler is (slow)
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

sys.dont_write_bytecode = True
from checks import PARITY, SOURCE, TINY, Skip, Tests, holds, same

sys.path.insert(0, str(SOURCE / "tools"))
import wheel

PLACE = SOURCE / "third_party/aarch64"
QEMU = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
SFT = ["sft", "--model_name_or_path", TINY, "--dataset_name", str(PARITY / "sft/text.jsonl"), "--use_peft", "--max_steps", "4", "--threads", "1",
       "--skip_doctor", "--bf16", "false", "--logging_steps", "1", "--learning_rate", "1e-3"]
GRPO = ["grpo", "--model_name_or_path", TINY, "--dataset_name", str(PARITY / "trl_grpo/prompts.jsonl"), "--use_peft", "--max_steps", "2", "--threads", "1",
        "--skip_doctor", "--logging_steps", "1", "--num_generations", "4", "--per_device_train_batch_size", "8", "--max_completion_length", "12",
        "--reward_funcs", "length(target=6)"]


def emulated(folder, *words, **variables):
    """A command of the wheel unpacked in `folder`, with Debian's arm64 libraries and torch's."""
    packages = PLACE / "packages"
    paths = [PLACE / "site/torch/lib", PLACE / "site/nvidia/cu13/lib", packages / "usr/lib/aarch64-linux-gnu", packages / "lib/aarch64-linux-gnu"]
    settings = {"LD_LIBRARY_PATH": ":".join(map(str, paths)), **variables}
    flags = [flag for name, value in settings.items() for flag in ("-E", f"{name}={value}")]
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("HONE_", "PYTHON", "LD_"))}
    return subprocess.run([QEMU, "-L", str(packages), *flags, *map(str, words)], capture_output=True, text=True, cwd=folder, env=clean)


def unpack(folder, packed):
    with zipfile.ZipFile(packed) as files:
        files.extractall(folder)
    for program in (folder / "hone/bin").iterdir():
        program.chmod(0o755)
    return folder / "hone/bin/hone"


def test_contents(folder, packed):
    """every program and library of the aarch64 wheel is for aarch64, and no newer glibc's than the wheel's name says"""
    hone = unpack(folder, packed)
    found = [hone, hone.with_name("libhone_core.so"), *(folder / "hone/lib").iterdir()]
    holds(len(found) >= 4, found)
    same({wheel.processor_of(path) for path in found}, {"aarch64"}, "processors")
    limit = tuple(map(int, packed.name.split("manylinux_")[1].split("_")[:2]))
    for path in found:
        holds(wheel.versions_of(path, "GLIBC") <= limit, f"{path.name}: glibc {wheel.versions_of(path, 'GLIBC')}")
    same(json.loads((folder / "hone/_build.json").read_text())["processor"], "aarch64", "_build.json")


def test_trains(folder, packed, program):
    """on aarch64, under qemu, hone trains by SFT with the losses of this machine, by GRPO, and on a model of 4 bits"""
    hone = unpack(folder, packed)
    same(emulated(folder, hone, "--version").stdout, f"hone {wheel.version()}\n", "--version")
    said = emulated(folder, hone, "env")
    holds(said.returncode == 0 and "aarch64" in said.stdout, said.stdout + said.stderr)
    ended = emulated(folder, hone, *SFT, "--output_dir", "there")
    same(ended.returncode, 0, ended.stderr[-2000:])
    ended = subprocess.run([program, *SFT, "--output_dir", str(folder / "here")], capture_output=True, text=True)
    same(ended.returncode, 0, ended.stderr[-2000:])
    steps = [[json.loads(line) for line in (folder / where / "metrics.jsonl").read_text().splitlines()] for where in ("there", "here")]
    steps = [[(step["loss"], step["grad_norm"]) for step in run if "loss" in step] for run in steps]
    same(len(steps[0]), 4, "steps")
    worst = max(abs(a - b) / abs(b) for there, here in zip(*steps) for a, b in zip(there, here))
    holds(worst < 1e-5, f"relative difference {worst:.2g}: {steps}")
    for more in (["--bf16", "false"], ["--bf16", "true"], ["--bf16", "false", "--load_in_4bit", "true"]):
        ended = emulated(folder, hone, *GRPO, *more, "--output_dir", "-".join(["grpo", *more]).replace("--", ""))
        same(ended.returncode, 0, f"{more}: {ended.stderr[-2000:]}")
        holds("done" in ended.stdout, ended.stdout[-500:])


def test_python(folder, packed):
    """on aarch64 the package finds the program and torch; a machine with another processor is told"""
    unpack(folder, packed)
    python = PLACE / "packages/usr/bin/python3.11"
    if not python.exists():
        raise Skip("tools/aarch64 has unpacked no python3.11")
    text = ("from hone import program; print(program.path(), program.require().processor, program.obstacle(program.Machine(torch='2.11.0'), '2.11', "
            "program.build()['processor']))")
    ended = emulated(folder, python, "-c", text, PYTHONPATH=f"{folder}:{PLACE / 'site'}", PYTHONHOME=PLACE / "packages/usr")
    same(ended.returncode, 0, ended.stderr[-1000:])
    holds(ended.stdout.startswith(f"{folder}/hone/bin/hone aarch64 this wheel is for Linux on aarch64"), ended.stdout)


SCRIPT = """
import sys
from hone.trl import GRPOConfig, GRPOTrainer
seen = []


def mine(completions, **kwargs):
    seen.extend(completions)
    return [float(len(text)) for text in completions]


args = GRPOConfig("out", max_steps=1, num_generations=2, per_device_train_batch_size=2, max_completion_length=4, use_peft=True, lora_r=2, threads=1,
                  skip_doctor=True, bf16=False, logging_steps=1)
GRPOTrainer(sys.argv[1], mine, args, train_dataset=[{"prompt": "count"}] * 2).train()
print("scored", len(seen))
"""


def test_launcher(folder, packed):
    """on aarch64 Python starts the program, as `python -m hone` and for a GRPO run with a function of its own"""
    if not pathlib.Path("/proc/sys/fs/binfmt_misc/qemu-aarch64").exists():
        raise Skip("binfmt_misc does not know qemu-aarch64 here, so that an emulated program can start no other")
    unpack(folder, packed)
    python = PLACE / "packages/usr/bin/python3.11"
    variables = {"PYTHONPATH": f"{folder}:{PLACE / 'site'}", "PYTHONHOME": PLACE / "packages/usr", "QEMU_LD_PREFIX": PLACE / "packages"}
    same(emulated(folder, python, "-m", "hone", "--version", **variables).stdout, f"hone {wheel.version()}\n", "python -m hone")
    ended = emulated(folder, python, "-c", SCRIPT, TINY, **variables)
    same(ended.returncode, 0, ended.stderr[-1500:])
    holds("scored 2" in ended.stdout and (folder / "out/adapter_model.safetensors").is_file(), ended.stdout[-500:])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hone", default=str(SOURCE / "build/hone"))
    parser.add_argument("--make", action="store_true")
    parser.add_argument("wheel", nargs="?")
    given = parser.parse_args()
    title = "the wheel for aarch64"
    if QEMU is None:
        print(f"skip {title}: qemu-aarch64-static is not here (Debian's qemu-user-static)")
        return 0
    if given.make and shutil.which("aarch64-linux-gnu-g++-12"):
        made = subprocess.run([str(SOURCE / "tools/aarch64")], capture_output=True, text=True)
        if made.returncode:
            print(f"not ok {title} is built\n  " + made.stderr[-3000:].replace("\n", "\n  "))
            return 1
        given.wheel = made.stdout.strip().splitlines()[-1]
    elif given.wheel is None:
        given.wheel = next((str(path) for path in sorted((SOURCE / "dist").glob("*aarch64.whl"))), None)
    if given.wheel is None:
        print(f"skip {title}: there is none in dist/; tools/aarch64 makes it, with Debian's g++-12-aarch64-linux-gnu")
        return 0
    tests = Tests()
    for function, more in ((test_contents, []), (test_trains, [given.hone]), (test_python, []), (test_launcher, [])):
        with tempfile.TemporaryDirectory() as folder:
            tests.run([function], pathlib.Path(folder), pathlib.Path(given.wheel), *more)
    return 1 if tests.failed else 0


sys.exit(main())
