#!/usr/bin/env python3
"""`hone gpu-check`: each stage of its report says what it found, or in one sentence why it did not run.

Without a GPU nothing runs. On the stand-in (build/tests/hone_on_standin) operators are right, and one that is made wrong is found. On the
paper GPU, where kernels compute nothing, comparisons fail as they must. --slow also unpacks a pack of tools/gpu_pack elsewhere and runs
the three calls of tools/gpu_run. Prints `ok NAME`, `not ok NAME: why` or `skip NAME: why`.

usage: gpu_check.py [--hone PROGRAM] [--slow]
"""
import argparse
import ctypes
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests/paper"))
import on_paper

WHOLE = ["card", "rows", "sequences", "attention", "products", "head", "optimizer", "shapes", "methods", "sampling", "checkpoint",
         "memory", "rates", "speed", "decoding"]


class Failure(Exception):
    pass


class Skip(Exception):
    pass


def holds(condition, what):
    if not condition:
        raise Failure(what)


class Scene:
    def __init__(self, hone, folder):
        self.hone, self.folder, self.build = hone.resolve(), folder, hone.resolve().parent

    def check(self, *words, program=None, environment=None, code=0):
        """(stages of the report by name, what was printed)"""
        report = self.folder / "report.jsonl"
        report.unlink(missing_ok=True)
        command = [str(program or self.hone), "gpu-check", "--output", str(report), *words]
        ended = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=900)
        holds(ended.returncode == code, f"exit {ended.returncode}: {ended.stdout[-2000:]}{ended.stderr[-2000:]}")
        lines = [json.loads(line) for line in report.read_text().splitlines()]
        holds(lines[0]["report"] == "hone-gpu-check-1", str(lines[0]))
        stages = {line["stage"]: line for line in lines if "stage" in line}
        counts = [sum(line["state"] == state for line in stages.values()) for state in ("passed", "failed", "not run")]
        holds([lines[-1][name] for name in ("passed", "failed", "not run")] == counts, str(lines[-1]))
        holds(f"{counts[0]} passed, {counts[1]} failed, {counts[2]} not run\n" in ended.stdout, ended.stdout[-300:])
        return stages, ended.stdout


def has_driver():
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def test_without_a_gpu(scene):
    """without a GPU each stage says why it did not run"""
    if has_driver():
        raise Skip("this machine has a driver")
    stages, said = scene.check()
    holds(list(stages) == WHOLE, str(list(stages)))
    for name, line in stages.items():
        holds(line["state"] == "not run" and "there is no NVIDIA driver: libcuda.so.1 is not found" in line["reason"], f"{name}: {line}")
    holds("not run  decoding" in said, said)


def test_mistakes(scene):
    """mistakes in its options"""
    for words, sentence in ((["--device", "cpu"], "expected cuda or cuda:N"), (["--device", "standin"], "expected cuda or cuda:N"),
                            (["--stages", "row"], "expected one of card, rows"), (["--output", "absent/report.jsonl"], "can be written")):
        ended = subprocess.run([scene.hone, "gpu-check", *words], cwd=scene.folder, capture_output=True, text=True, timeout=60)
        said = " ".join(ended.stderr.split())
        holds(ended.returncode == 2 and sentence in said, f"{words}: exit {ended.returncode}: {said}")


def on_standin(scene, *words, wrong="", code=0):
    environment = os.environ | {"HONE_STANDIN_WRONG": wrong, "OMP_NUM_THREADS": "1"}
    return scene.check(*words, program=scene.build / "tests/hone_on_standin", environment=environment, code=code)


def test_standin(scene):
    """on the stand-in a device with the CPU's numbers passes"""
    stages, _ = on_standin(scene, "--stages", "card", "optimizer", "sampling", "checkpoint")
    for line in stages.values():
        holds(line["state"] == "passed" and line["tried"] > 0, str(line))
    facts = stages["checkpoint"]["facts"]
    holds(facts["fp32: standin to standin"] == 0 and facts["bf16: standin to standin"] == 0, str(facts))


def test_wrong_operator(scene):
    """on the stand-in one wrong operator fails the stages that use it, and no other"""
    stages, said = on_standin(scene, "--stages", "optimizer", "sampling", wrong="swiglu", code=1)
    holds([line["state"] for line in stages.values()] == ["passed", "failed"], str(stages))
    holds("fp32: tokens of 12 completions: log-probabilities differ by" in " ".join(stages["sampling"]["failures"]), str(stages))
    holds("failed   sampling" in said, said)


def test_wrong_operator_by_name(scene):
    """on the stand-in the cases of one wrong operator name it, and steps of a tiny model differ"""
    stages, _ = on_standin(scene, "--stages", "rows", "methods", wrong="swiglu", code=1)
    failures = stages["rows"]["failures"]
    holds(stages["rows"]["state"] == "failed" and all(one.startswith("swiglu, ") for one in failures), str(failures))
    holds(any("is off by 0.05" in one for one in failures), str(failures))
    holds(stages["methods"]["state"] == "failed" and " of step 1 is " in stages["methods"]["failures"][0], str(stages["methods"]))


def test_paper(scene):
    """on the paper GPU, which computes nothing, comparisons fail and no stage dies unnamed"""
    if not (scene.build / "tests/paper/lib/libraries.txt").exists():
        raise Skip("build the target paper_drive first")
    environment = on_paper.environment(scene.build, more={"OMP_NUM_THREADS": "1", "GOMP_SPINCOUNT": "1000"})
    stages, _ = scene.check("--stages", "card", "optimizer", "head", "methods", "sampling", "checkpoint", environment=environment, code=1)
    holds(stages["card"]["facts"]["versions"].startswith("driver"), str(stages["card"]))
    for name in ("card", "optimizer", "head", "methods", "sampling", "checkpoint"):
        holds(stages[name]["state"] == "failed", str(stages[name])[:600])
    holds(stages["optimizer"]["tried"] > 10 and stages["methods"]["tried"] == 10, "all of a stage is tried, whatever fails")


def test_pack(scene):
    """a pack that is unpacked elsewhere runs there: each stage says why it did not"""
    if has_driver():
        raise Skip("this machine has a driver")
    pack = scene.folder / "pack"
    made = subprocess.run([sys.executable, SOURCE / "tools/gpu_pack", "--build", scene.build, "--output", pack], capture_output=True, text=True)
    holds(made.returncode == 0, made.stdout + made.stderr)
    holds((pack / "hone-gpu.tar.xz").stat().st_size <= 16 << 20, made.stdout)
    large = subprocess.run([sys.executable, SOURCE / "tools/gpu_pack", "--build", scene.build, "--output", scene.folder / "large", "--most", "1000"],
                           capture_output=True, text=True)
    holds(large.returncode != 0 and not (scene.folder / "large/hone-gpu.tar.xz").exists(), "a pack that is too large")
    out = scene.folder / "out"
    for call in (["1"], ["2"], ["3", "--stages", "card", "rows"]):
        ended = subprocess.run([sys.executable, SOURCE / "tools/gpu_run", *call, "--pack", pack, "--out", out, "--python", site_python(scene)],
                               cwd=scene.folder, capture_output=True, text=True, timeout=600)
        holds(ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-2000:])
        lines = [json.loads(line) for line in (out / f"{call[0]}-gpu-check.jsonl").read_text().splitlines()]
        stages = [line for line in lines if "stage" in line]
        holds(len(stages) >= 2 and all(line["state"] == "not run" and line["reason"] for line in stages), str(stages))
        holds("cuda        not here" in (out / f"{call[0]}-env.txt").read_text(), "hone env")
    for name in ("1-ceilings", "2-beside"):
        holds("not run" in (out / f"{name}.txt").read_text(), f"{name}: the script says why it did not run")
    page = scene.folder / "page.md"
    made = subprocess.run([sys.executable, SOURCE / "tools/gpu_run", "report", out, "--output", page], capture_output=True, text=True)
    holds(made.returncode == 0 and re.search(r"\| rows \| not run \|", page.read_text()), made.stderr + page.read_text())
    refused = subprocess.run([sys.executable, SOURCE / "tools/gpu_run", "report", out], capture_output=True, text=True)
    holds(refused.returncode != 0, "no page of a card that there was not")


def site_python(scene):
    """A python3 that finds the torch of this build and no other module."""
    lib = next((pathlib.Path(path).parent for path in re.findall(r"libtorch_cpu\.so => (/\S+)", subprocess.run(
        ["ldd", scene.build / "libhone_core.so"], capture_output=True, text=True).stdout)), None)
    holds(lib is not None, "libtorch_cpu.so is not found by ldd")
    script = scene.folder / "python_with_torch"
    script.write_text(f'#!/bin/sh\nPYTHONPATH="{lib.parent.parent}" exec "{sys.executable}" "$@"\n')
    script.chmod(0o755)
    return script


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hone", type=pathlib.Path, default=SOURCE / "build/hone")
    parser.add_argument("--slow", action="store_true")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    tests = [test_without_a_gpu, test_mistakes, test_standin, test_wrong_operator, test_paper]
    tests += [test_wrong_operator_by_name, test_pack] if options.slow else []
    failed = 0
    for test in tests:
        if options.only not in test.__name__:
            continue
        with tempfile.TemporaryDirectory(prefix="hone-gpu-check-") as folder:
            name = f"gpu_check: {test.__doc__}"
            try:
                test(Scene(options.hone, pathlib.Path(folder)))
                print(f"ok {name}", flush=True)
            except Skip as why:
                print(f"skip {name}: {why}", flush=True)
            except (Failure, subprocess.TimeoutExpired) as why:
                failed += 1
                print(f"not ok {name}: {why}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
