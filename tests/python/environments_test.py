#!/usr/bin/env python3
"""Fresh systems, made by debootstrap: Debian 12 and Ubuntu 22.04. In each ./quickstart --wheel installs the wheel and trains; then `hone
--version`, a GRPO run from Python, and the steps of the Dockerfile. It prints what took how long, and asserts none of it.

usage: tests/python/environments_test.py [--wheel FILE] [SYSTEM...]      as root; minutes a system

Fetched once, into third_party/roots (ignored by git): the systems. Not fetched in them: torch and the model, which are mounted from
third_party/site and models, without their being written to.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
from checks import SOURCE, Skip, Tests, holds, same

sys.path.insert(0, str(SOURCE / "tools"))
import wheel

ROOTS = SOURCE / "third_party/roots"
SYSTEMS = {"bookworm": ("Debian 12", "http://deb.debian.org/debian", "main"),
           "jammy": ("Ubuntu 22.04", "http://archive.ubuntu.com/ubuntu", "main,universe")}
PACKAGES = "python3,python3-venv,ca-certificates"
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


def system(name):
    """Its folder; made where it is not there."""
    root = ROOTS / name
    if (root / "complete").is_file():
        return root
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        raise Skip("debootstrap makes this system, as root; Debian's package debootstrap")
    _, mirror, components = SYSTEMS[name]
    keys = sorted(pathlib.Path("/usr/share/keyrings").glob("ubuntu-archive-keyring.*" if name == "jammy" else "debian-archive-keyring.*"))
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    ended = subprocess.run(["debootstrap", "--variant=minbase", f"--include={PACKAGES}", f"--components={components}",
                            f"--keyring={keys[0]}" if keys else "--no-check-gpg", name, str(root), mirror], capture_output=True, text=True)
    if ended.returncode:
        raise Skip(f"debootstrap could not make it: {ended.stdout.strip().splitlines()[-1:]}")
    (root / "complete").write_text("")
    return root


def within(root, command):
    """A shell command in the system, in /hone, with this project's torch and models; (what ran, its seconds)."""
    mounts = [f"mount -t proc proc {root}/proc", f"mount --rbind /dev {root}/dev"]
    mounts += [f"mount --bind -o ro {SOURCE / source} {root / target}" for source, target in MOUNTED.items() if (SOURCE / source).is_dir()]
    text = " && ".join([*mounts, f"exec chroot {root} env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 bash -c 'cd /hone && '\"$0\""])
    begun = time.monotonic()
    ended = subprocess.run(["unshare", "--mount", "sh", "-c", text, command], capture_output=True, text=True)
    return ended, time.monotonic() - begun


def done(root, command):
    ended, seconds = within(root, command)
    same(ended.returncode, 0, f"{command}: {ended.stdout[-1500:]}\n{ended.stderr[-1500:]}")
    return ended.stdout, seconds


def fresh(root, packed):
    """/hone as of the last commit, with the wheel in dist/; nothing else of an earlier run."""
    here = root / "hone"
    shutil.rmtree(here, ignore_errors=True)
    for target in MOUNTED.values():
        (root / target).mkdir(parents=True)
    archive = subprocess.run(["git", "-C", str(SOURCE), "archive", "HEAD"], capture_output=True)
    if archive.returncode:
        raise Skip("no git history here")
    subprocess.run(["tar", "x", "-C", str(here)], input=archive.stdout, check=True)
    (here / "dist").mkdir()
    shutil.copy(packed, here / "dist")
    (here / "grpo.py").write_text(SCRIPT)
    ended, _ = within(root, "true")
    if ended.returncode:
        raise Skip(f"no chroot with mounts of its own: {ended.stderr.strip()[-200:]}")


def minutes(seconds):
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds // 60:.0f} min {seconds % 60:.0f} s"


def test_system(folder, name, packed):
    title = SYSTEMS[name][0]
    root = system(name)
    fresh(root, packed)
    said, seconds = done(root, f"./quickstart --wheel dist/{packed.name}")
    installed = re.search(r"^== model and data +\[(\d+):(\d+)\]", said, re.MULTILINE)
    right = re.findall(r"\d+ of \d+", said)[-1]
    holds(installed and "the adapter is quickstart-out/adapter" in said, said[-2000:])
    holds((root / "hone/quickstart-out/adapter/adapter_model.safetensors").is_file(), "an adapter")
    told = [f"wheel installed in {minutes(60 * int(installed[1]) + int(installed[2]))}", f"quickstart {minutes(seconds)} ({right} right after training)"]
    version, seconds = done(root, "third_party/wheel-venv/bin/hone --version")
    same(version, f"hone {wheel.version()}\n", "--version")
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
    root = system("bookworm")
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
    parser.add_argument("systems", nargs="*", default=list(SYSTEMS))
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
