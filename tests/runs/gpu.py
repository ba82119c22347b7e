#!/usr/bin/env python3
"""`device: cuda` where CUDA cannot be had: each cause is told in one sentence, with exit code 2, before a model is read.

tests/tools/fake_driver.cpp stands for NVIDIA's driver. What this machine lacks by itself is a case too: a driver, or a library of those
that torch for CUDA needs. Success is tested on the paper GPU (tests/paper). Prints `ok NAME`, `not ok NAME: why` or `skip NAME: why`.

usage: gpu.py [--hone PROGRAM]
"""
import argparse
import ctypes
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
TINY = SOURCE / "tests/fixtures/parity/tiny_llama"
VARIABLES = ("FAKE_CUDA", "FAKE_INIT", "FAKE_CARDS", "FAKE_NAME", "CUDA_VISIBLE_DEVICES")
STANDING = re.search(r'kCudaStanding =\s+"([^"]+)"', (SOURCE / "src/base/gpu_reports.h").read_text())[1]


class Failure(Exception):
    pass


class Skip(Exception):
    pass


def holds(condition, what):
    if not condition:
        raise Failure(what)


class Scene:
    """A folder with a model whose weights are damaged: whoever reads them says so, and not what is wrong with the GPU."""

    def __init__(self, hone, folder):
        self.hone, self.folder = pathlib.Path(hone).resolve(), folder
        self.fake = self.hone.parent / "tests/fake_driver"
        self.damaged = folder / "damaged"
        shutil.copytree(TINY, self.damaged)
        for file in self.damaged.glob("*.safetensors"):
            file.write_bytes(b"\x08\0\0\0\0\0\0\0{broken}")
        (folder / "rows.jsonl").write_text("".join(json.dumps({"text": f"What is {n} + 3? {n + 3}"}) + "\n" for n in range(8)))

    def run(self, *words, driver=True, **variables):
        """(exit code, stdout, stderr) of the program with the fake driver, or without it."""
        environment = {name: value for name, value in os.environ.items() if name not in VARIABLES} | variables
        if driver:
            environment["LD_LIBRARY_PATH"] = os.pathsep.join([str(self.fake), *filter(None, [environment.get("LD_LIBRARY_PATH")])])
        ended = subprocess.run([str(self.hone), *map(str, words)], cwd=self.folder, env=environment, capture_output=True, text=True, timeout=300)
        return ended.returncode, ended.stdout, ended.stderr

    def sft(self, device, model=None, *more):
        return ("sft", "--model_name_or_path", model or self.damaged, "--dataset_name", "rows.jsonl", "--use_peft", "--threads", "1",
                "--max_steps", "1", "--skip_doctor", "--output_dir", "out", "--device", device, *more)

    def refused(self, *sentences, driver=True, device="cuda", **variables):
        """A run asks for CUDA and is refused with these words; hone env has them in one line."""
        code, out, err = self.run(*self.sft(device), driver=driver, **variables)
        said = " ".join(err.split())
        holds(code == 2, f"exit {code}: {out}{err}")
        for sentence in (f"[device] expected a GPU for device: {device}", *sentences, "or train on the CPU, with device: cpu"):
            holds(sentence in said, f"`{sentence}` is not in: {said}")
        holds("safetensors" not in said and "Traceback" not in said, said)
        holds(not (self.folder / "out").exists(), "a folder was made")
        code, out, err = self.run("env", driver=driver, **variables)
        line = next((one for one in out.splitlines() if one.startswith("cuda ")), "")
        holds(code == 0 and line.startswith("cuda        not here: "), out + err)
        for sentence in sentences:
            holds(sentence in line, f"`{sentence}` is not in: {line}")


def has_driver():
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def test_no_driver(scene):
    """no NVIDIA driver"""
    if has_driver():
        raise Skip("this machine has one")
    scene.refused("there is no NVIDIA driver: libcuda.so.1 is not found", "install NVIDIA's driver 580 or newer", driver=False)


def test_old_driver(scene):
    """a driver that is too old"""
    scene.refused("is for CUDA 12.4, and this torch is for CUDA 13.0", "the driver is too old", "driver 580 or newer", FAKE_CUDA="12040")


def test_no_card(scene):
    """no card, and cards that a variable hides"""
    for how in ({"FAKE_INIT": "100"}, {"FAKE_CARDS": "0"}):
        scene.refused("the driver shows no GPU", "nvidia-smi -L", **how)
        scene.refused("the driver shows no GPU: CUDA_VISIBLE_DEVICES is empty", "unset CUDA_VISIBLE_DEVICES", CUDA_VISIBLE_DEVICES="", **how)


def test_driver_that_does_not_start(scene):
    """a driver that does not start"""
    scene.refused("NVIDIA's driver does not start: error 803", "another version than its kernel module", FAKE_INIT="803")
    scene.refused("NVIDIA's driver does not start: error 999, unknown error", FAKE_INIT="999")


def test_not_a_driver(scene):
    """a libcuda.so.1 that is no library"""
    broken = scene.folder / "broken"
    broken.mkdir()
    (broken / "libcuda.so.1").write_text("not a library")
    scene.refused("NVIDIA's driver does not load: ", "its library is damaged", driver=False, LD_LIBRARY_PATH=str(broken))


def test_missing_library(scene):
    """a library of torch's that is not installed"""
    _, out, _ = scene.run("env")
    line = next(one for one in out.splitlines() if one.startswith("cuda"))
    found = re.search(r"(lib\w+\.so\.\d+) is missing, which libtorch_cuda.so needs", line)
    if not found:
        raise Skip(f"here: {line}")
    scene.refused(f"{found[1]} is missing, which libtorch_cuda.so needs", "pip install nvidia-",
                  "pip install 'torch==2.11.*' brings all of them")


def test_cpu_torch(scene):
    """a torch without libtorch_cuda.so, in an installation of its own"""
    place = scene.folder / "installed"
    (place / "torch/lib").mkdir(parents=True)
    lib = next((pathlib.Path(line.split("=> ")[1].split(" (")[0]).parent for line in
                subprocess.run(["ldd", scene.hone.parent / "libhone_core.so"], capture_output=True, text=True, check=True).stdout.splitlines()
                if "libtorch_cpu.so => /" in line), None)
    holds(lib is not None, "libtorch_cpu.so is not found by ldd")
    for name in ("libtorch_cpu.so", "libc10.so", "libgomp.so.1"):
        try:
            os.link(lib / name, place / "torch/lib" / name)
        except OSError:  # another file system, or another mount of it
            shutil.copy2(lib / name, place / "torch/lib" / name)
    nvidia = lib.parent.parent / "nvidia"
    paths = os.pathsep.join(map(str, [place / "torch/lib", *nvidia.glob("*/lib")]))
    scene.refused(f"the torch in {place / 'torch/lib'} has no libtorch_cuda.so", "it is the torch for CPUs", driver=False, LD_LIBRARY_PATH=paths)


def test_two_torches(scene):
    """a second libtorch_cpu.so in the process"""
    other = scene.folder / "other"
    other.mkdir()
    shutil.copy2(scene.fake / "libcuda.so.1", other / "libtorch_cpu.so")
    scene.refused("two torches in this process, of ", str(other), "LD_LIBRARY_PATH or LD_PRELOAD names the folder", LD_PRELOAD=str(other / "libtorch_cpu.so"))


def test_auto(scene):
    """auto trains on the CPU and says why"""
    if has_driver():
        raise Skip("this machine has a driver")
    code, out, err = scene.run(*scene.sft("auto", TINY), driver=False)
    said = " ".join(out.split())
    holds(code == 0, out + err)
    holds("note device auto: cpu, since CUDA is not there: there is no NVIDIA driver: libcuda.so.1 is not found" in said, said)
    shutil.rmtree(scene.folder / "out")


def test_other_commands(scene):
    """generate, chat, merge, export, reward-test, doctor and lr-find ask before they read a model"""
    (scene.folder / "run.yaml").write_text(f"model_name_or_path: {scene.damaged}\ndataset_name: rows.jsonl\nuse_peft: true\nthreads: 1\n"
                                           "max_steps: 1\noutput_dir: out\ndevice: cuda\n")
    (scene.folder / "adapter").mkdir()
    (scene.folder / "adapter/adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 4, "base_model_name_or_path": str(scene.damaged)}))
    (scene.folder / "prompts.jsonl").write_text('{"prompt": "x"}\n')
    model = ("--model_name_or_path", scene.damaged)
    for words in (("generate", *model, "--prompt", "x", "--device", "cuda:1"), ("chat", scene.damaged, "--device", "cuda"),
                  ("merge", *model, "--adapter_name_or_path", "adapter", "--output", "merged", "--device", "cuda"),
                  ("export", *model, "--output", "a.gguf", "--device", "cuda"),
                  ("reward-test", "--reward_funcs", "accuracy_reward", "--dataset_name", "prompts.jsonl", "--device", "cuda"),
                  ("doctor", "sft", "--config", "run.yaml"), ("lr-find", "run.yaml")):
        code, out, err = scene.run(*words, FAKE_CUDA="12040")
        said = " ".join((out + err).split())
        holds(code == 2 and "the driver is too old" in said, f"{words[0]}: exit {code}: {said}")
        holds("safetensors" not in said, f"{words[0]}: {said}")
    holds(not (scene.folder / "merged").exists() and not (scene.folder / "a.gguf").exists(), "something was written")


def test_standing(scene):
    """hone env says which GPUs have run it, and that the CPU is the default"""
    _, out, _ = scene.run("env", FAKE_CARDS="0")
    holds(STANDING in out and "device      cpu, unless" in out, out)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hone", type=pathlib.Path, default=SOURCE / "build/hone")
    options = parser.parse_args()
    failed = 0
    for test in (test_no_driver, test_old_driver, test_no_card, test_driver_that_does_not_start, test_not_a_driver, test_missing_library,
                 test_cpu_torch, test_two_torches, test_auto, test_other_commands, test_standing):
        with tempfile.TemporaryDirectory(prefix="hone-gpu-") as folder:
            name = f"gpu: {test.__doc__}"
            try:
                test(Scene(options.hone, pathlib.Path(folder)))
                print(f"ok {name}", flush=True)
            except Skip as why:
                print(f"skip {name}: {why}", flush=True)
            except Failure as why:
                failed += 1
                print(f"not ok {name}: {why}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
