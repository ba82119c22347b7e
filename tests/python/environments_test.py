#!/usr/bin/env python3
"""Fresh systems, made by debootstrap: Debian 12 and Ubuntu 22.04. In each ./quickstart --wheel installs the wheel and trains; then `hone
--version`, a GRPO run from Python, and the steps of the Dockerfile. It prints what took how long, and asserts none of it.

usage: tests/python/environments_test.py [--wheel FILE] [SYSTEM...]      as root; minutes a system

Fetched once, into third_party/roots (ignored by git): the systems. Not fetched in them: torch and the model, which are mounted from
third_party/site and models, without their being written to.
"""
import argparse
import pathlib
import re
import shutil
import sys
import tempfile

sys.dont_write_bytecode = True
from checks import SOURCE, Tests, holds, same
from systems import SYSTEMS, minutes, system, with_sources, within

sys.path.insert(0, str(SOURCE / "tools"))
import wheel

PACKAGES = "ca-certificates"  # Python is what ./quickstart installs
MOUNTED = {"third_party/site": "hone/third_party/site", "models": "hone/models"}
SCRIPT = """
import sys
from hone.trl import GRPOConfig, GRPOTrainer
seen = []


def mine(completions, **kwargs):
    seen.extend(completions)
    return [float(len(text)) for text in completions]


args = GRPOConfig("out", max_steps=2, num_generations=2, per_device_train_batch_size=2, max_completion_length=8, use_peft=True, lora_r=2,
                  skip_doctor=True, logging_steps=1)
trainer = GRPOTrainer("tests/fixtures/parity/tiny_llama", mine, args, train_dataset=[{"prompt": "count"}] * 4)
trainer.train()
trainer.save_model("adapter")
print("scored", len(seen), sys.version.split()[0])
"""


def done(root, command):
    ended, seconds = within(root, command, MOUNTED)
    same(ended.returncode, 0, f"{command}: {ended.stdout[-1500:]}\n{ended.stderr[-1500:]}")
    return ended.stdout, seconds


def fresh(root, packed):
    """/hone as of the last commit, with the wheel in dist/."""
    here = with_sources(root, MOUNTED)
    (here / "dist").mkdir()
    shutil.copy(packed, here / "dist")
    (here / "grpo.py").write_text(SCRIPT)


def test_system(folder, name, packed):
    title = SYSTEMS[name][0]
    root = system(name, PACKAGES)
    fresh(root, packed)
    said, seconds = done(root, f"./quickstart --wheel dist/{packed.name}")
    installed = re.search(r"^== model and data +\[(\d+):(\d+)\]", said, re.MULTILINE)
    right = re.findall(r"\d+ of \d+", said)[-1]
    holds(installed and "the adapter is quickstart-out/adapter" in said, said[-2000:])
    holds((root / "hone/quickstart-out/adapter/adapter_model.safetensors").is_file(), "an adapter")
    told = [f"wheel installed in {minutes(60 * int(installed[1]) + int(installed[2]))}", f"quickstart {minutes(seconds)} ({right} right after training)"]
    version, seconds = done(root, "third_party/wheel-venv/bin/hone --version")
    same(version, f"hone {wheel.version()} ({wheel.DISTRIBUTION})\n", "--version")
    told.append(f"hone --version {minutes(seconds)}")
    said, seconds = done(root, "third_party/wheel-venv/bin/python grpo.py")
    holds("scored 4" in said and (root / "hone/adapter/adapter_config.json").is_file(), said[-500:])
    told.append(f"GRPO from Python {said.split()[-1]} {minutes(seconds)}")
    print(f"{title}: " + ", ".join(told), file=sys.__stdout__)


def test_dockerfile(folder, packed):
    """the steps of the Dockerfile, in Debian 12 without Docker: pip installs what is copied, and the entry point starts"""
    lines = [line.split(None, 1) for line in (SOURCE / "Dockerfile").read_text().splitlines() if line and not line.startswith("#")]
    same([word for word, _ in lines], ["FROM", "RUN", "COPY", "RUN", "WORKDIR", "ENTRYPOINT"], "steps")
    holds("bookworm" in lines[0][1] and f"torch=={wheel.torch_minor()}.*" in lines[1][1], lines[:2])
    same(lines[5][1], '["hone"]', "the entry point")
    root = system("bookworm", PACKAGES)
    fresh(root, packed)
    done(root, "python3 -m venv /hone/image && echo /hone/third_party/site >$(echo /hone/image/lib/python*/site-packages)/torch.pth")
    shutil.copy(packed, root / "tmp")
    # torch is mounted, so that nothing is left to fetch
    done(root, f"PATH=/hone/image/bin:$PATH; {lines[3][1].replace('pip install', 'pip install --no-deps')}")
    holds(not list((root / "tmp").glob("*.whl")), "the wheel is gone from the image")
    said, _ = done(root, "mkdir -p /work && cd /work && PATH=/hone/image/bin:$PATH && hone --version && hone env")
    holds("libtorch" in said, said)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--wheel")
    parser.add_argument("systems", nargs="*", default=["bookworm", "jammy"])
    given = parser.parse_args()
    tests = Tests()
    with tempfile.TemporaryDirectory() as folder:
        packed = pathlib.Path(given.wheel) if given.wheel else wheel.pack(SOURCE / "build", folder)
        for name in given.systems:
            if name == "dockerfile":
                continue
            tests.run([test_system], folder, name, packed, title=f"a fresh {SYSTEMS[name][0]} installs the wheel, trains the quickstart, and runs Python")
        if "bookworm" in given.systems or "dockerfile" in given.systems:
            tests.run([test_dockerfile], folder, packed)
    return 1 if tests.failed else 0


sys.exit(main())
