#!/usr/bin/env python3
"""The wheel: packed from the build, installed into a fresh environment that sees the build's torch, and run there. Nothing is downloaded.

usage: tests/python/wheel_test.py [--slow]     --slow: in an environment of every Python that is there, and auditwheel's judgment
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile

sys.dont_write_bytecode = True
from checks import SOURCE, TINY, Skip, Tests, holds, same

sys.path.insert(0, str(SOURCE / "tools"))
import wheel

SITE = SOURCE / "third_party/site"
SCRIPT = """
import sys
from hone.trl import GRPOConfig, GRPOTrainer
seen = []
def mine(completions, **kwargs):
    seen.extend(completions)
    return [float(len(text)) for text in completions]
args = GRPOConfig(sys.argv[2], max_steps=1, num_generations=2, per_device_train_batch_size=2, max_completion_length=4, use_peft=True, lora_r=2,
                  threads=1, skip_doctor=True, bf16=False, save_strategy="no", logging_steps=1)
trainer = GRPOTrainer(sys.argv[1], [mine, "functions.py:theirs"], args, train_dataset=[{"prompt": "count"}] * 2)
trainer.train()
print("scored", len(seen), sorted(name for name in trainer.state.log_history[0] if name.endswith("/mean") and name.startswith("rewards/")))
"""
PYTHON_OF_WORKERS = """
import sys
def theirs(completions, **kwargs):
    print("worker of", sys.prefix)
    return [0.0] * len(completions)
"""


def environment(folder, python=sys.executable, torch="path"):
    """A venv without anything; `torch`: "path" by a .pth file, "beside" by links in its site-packages, "none"."""
    subprocess.run([python, "-m", "venv", "--without-pip", str(folder)], check=True, capture_output=True)
    site = next((folder / "lib").glob("python*/site-packages"))
    if torch == "path":
        (site / "torch.pth").write_text(f"{SITE}\n")
    elif torch == "beside":
        for name in ("torch", "nvidia"):
            (site / name).symlink_to(SITE / name)
    return site


def install(path, folder):
    """With this Python's pip: the environment has none, which saves seconds. One older than 22.3 (Ubuntu 22.04) installs only where it is."""
    inside, wanted = str(folder / "bin/python"), ("install", "-q", "--no-deps", "--no-index", str(path))
    ended = subprocess.run([sys.executable, "-m", "pip", "--python", inside, *wanted], capture_output=True, text=True)
    if "no such option: --python" in ended.stderr:
        subprocess.run([inside, "-m", "ensurepip"], check=True, capture_output=True)
        ended = subprocess.run([inside, "-m", "pip", *wanted], capture_output=True, text=True)
    same(ended.returncode, 0, ended.stderr[-1000:])


def run(*words, **more):
    clean = {name: value for name, value in os.environ.items() if name not in ("HONE_PROGRAM", "PYTHONPATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV")}
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, env=clean, **more)


def sft(hone, folder):
    ended = run(hone, "sft", "--model_name_or_path", TINY, "--dataset_name", SOURCE / "tests/fixtures/parity/sft/text.jsonl", "--use_peft",
                "--max_steps", 1, "--threads", 1, "--skip_doctor", "--output_dir", folder)
    same(ended.returncode, 0, ended.stderr[-2000:])
    holds((folder / "adapter_model.safetensors").is_file(), "an adapter")


def test_contents(folder, packed):
    """the wheel has the program, its libraries, licenses and a record of them all, and no torch"""
    with zipfile.ZipFile(packed) as files:
        names = files.namelist()
        record = files.read(next(name for name in names if name.endswith("/RECORD"))).decode().splitlines()
        metadata = files.read(next(name for name in names if name.endswith("/METADATA"))).decode()
    same(sorted(line.split(",")[0] for line in record), sorted(names), "RECORD")
    same(len(names), len(set(names)), "names")
    for wanted in ("hone/bin/hone", "hone/bin/libhone_core.so", "hone/trl/trainer.py", "hone/caller.py", "hone/_build.json"):
        holds(wanted in names, wanted)
    holds(any(name.startswith("hone/lib/libfmt") for name in names), "fmt")
    holds(not [name for name in names if "torch" in name.lower() or name.endswith(".pyc")], "no torch")
    holds(f"Requires-Dist: torch (=={wheel.torch_minor()}.*)" in metadata, "torch's version")


def test_install(folder, packed):
    """pip installs it, `hone` starts, and a run finds libtorch where a .pth file has it"""
    environment(folder / "venv")
    install(packed, folder / "venv")
    hone = folder / "venv/bin/hone"
    same(run(hone, "--version").stdout, f"hone {wheel.version()} ({wheel.DISTRIBUTION})\n", "--version")
    same(run(folder / "venv/bin/python", "-m", "hone", "--version").stdout, f"hone {wheel.version()} ({wheel.DISTRIBUTION})\n", "python -m hone")
    same(run(hone, "sft", "--max_step", 1).returncode, 2, "the program's exit code")
    sft(hone, folder / "out")


def test_python(folder, packed):
    """hone.trl of the wheel trains with a function of the program, and one of a file in the same Python"""
    environment(folder / "venv", torch="beside")
    install(packed, folder / "venv")
    (folder / "functions.py").write_text(PYTHON_OF_WORKERS)
    ended = run(folder / "venv/bin/python", "-c", SCRIPT, TINY, folder / "out", cwd=folder)
    same(ended.returncode, 0, ended.stderr[-2000:] + ended.stdout[-2000:])
    holds("['rewards/mine/mean', 'rewards/theirs/mean']" in ended.stdout, ended.stdout[-1000:])
    holds(f"worker of {folder / 'venv'}" in ended.stdout, "the worker's Python is the one that started hone: " + ended.stdout[-1000:])
    loaded = run(folder / "venv/bin/hone", "env", cwd=folder)
    same(loaded.returncode, 0, loaded.stderr[-1000:])


def test_other_package(folder, packed):
    """files of the distribution `hone` of PyPI in the same folder, below or above hone-train's, are named with what to do"""
    site = environment(folder / "venv")
    install(packed, folder / "venv")
    python, package = folder / "venv/bin/python", site / "hone"
    same(run(python, "-c", "import hone.trl").returncode, 0, "alone")
    (package / "hone.py").write_text("import csv\n")
    for words in ((folder / "venv/bin/hone", "--version"), (python, "-m", "hone", "sft")):
        ended = run(*words)
        same((ended.returncode, "Traceback" in ended.stderr), (2, False), ended.stderr)
        holds("pip uninstall hone hone-train" in ended.stderr and str(package) in ended.stderr, ended.stderr)
    (package / "hone.py").unlink()
    (package / "__init__.py").write_text("__version__ = '0.2.2'\n")
    ended = run(python, "-c", "import hone.trl")
    holds("ImportError" in ended.stderr and "pip uninstall hone hone-train" in ended.stderr, ended.stderr)


def test_no_torch(folder, packed):
    """without torch, and with another version of it, one sentence says what to install"""
    site = environment(folder / "venv", torch="none")
    install(packed, folder / "venv")
    hone = folder / "venv/bin/hone"
    minor = wheel.torch_minor()
    same(run(hone, "--version").returncode, 0, "--version needs no torch")
    ended = run(hone, "env")
    same((ended.returncode, ended.stderr.count("\n")), (2, 1), ended.stderr)
    holds("torch is not installed" in ended.stderr and f"torch=={minor}.*" in ended.stderr and "whl/cpu" in ended.stderr, ended.stderr)
    (site / "torch/lib").mkdir(parents=True)
    (site / "torch/__init__.py").write_text("raise RuntimeError('imported')\n")
    (site / "torch/version.py").write_text("__all__ = []\n__version__ = '2.4.1+cu121'\ndebug = False\n")
    ended = run(hone, "env")
    same((ended.returncode, ended.stderr.count("\n")), (2, 1), ended.stderr)
    holds("torch is 2.4.1+cu121" in ended.stderr and f"built for torch {minor}" in ended.stderr, ended.stderr)


def test_machines(folder, packed):
    """musl, another processor and one without AVX2 get a sentence each"""
    from hone import program
    minor = wheel.torch_minor()
    good = {"torch": f"{minor}.0+cpu", "torch_lib": "/x/torch/lib", "flags": frozenset({"avx2"})}
    same(program.obstacle(program.Machine(**good), minor), "", "a good machine")
    same(program.remark(program.Machine(**good)), "", "a good machine")
    same(program.obstacle(program.Machine(**{**good, "processor": "aarch64"}), minor, "aarch64"), "", "the other wheel's machine")
    for change, text in (({"libc": "musl"}, "glibc"), ({"processor": "aarch64"}, "aarch64"), ({"system": "Darwin"}, "Darwin"), ({"torch": ""}, "pip install")):
        found = program.obstacle(program.Machine(**{**good, **change}), minor)
        holds(text in found and found.count(". ") == 0 and found.endswith("."), found)
    cpuinfo = folder / "cpuinfo"
    cpuinfo.write_text("processor : 0\nflags\t\t: fpu sse2 avx\n\nprocessor : 1\nflags : fpu\n")
    same(program.processor_flags(cpuinfo), frozenset({"fpu", "sse2", "avx"}), "flags")
    holds("AVX2" in program.remark(program.Machine(**{**good, "flags": program.processor_flags(cpuinfo)})), "no AVX2")
    same(program.processor_flags(folder / "none"), frozenset(), "no cpuinfo")
    (folder / "lib").mkdir()
    same(program.openmp(folder / "lib", folder / "links"), None, "a torch without OpenMP")
    (folder / "lib/libgomp-98b21ff3.so.1").write_text("")
    link = program.openmp(folder / "lib", folder / "links") / "libgomp.so.1"
    same(link.resolve(), (folder / "lib/libgomp-98b21ff3.so.1").resolve(), "OpenMP by its usual name")
    same(program.openmp(folder / "lib", folder / "links") / "libgomp.so.1", link, "the second time")


def head():
    return run("git", "-C", SOURCE, "rev-parse", "HEAD").stdout


def test_quickstart(folder, packed):
    """./quickstart --wheel names what is missing, and installs a wheel with the build's torch"""
    ended = run(SOURCE / "quickstart", "--wheel", folder / "none.whl")
    holds(ended.returncode == 1 and "there is no file" in ended.stderr, ended.stderr)
    ended = run(SOURCE / "quickstart", "--wheel")
    holds(ended.returncode == 1 and "wants the file of a wheel" in ended.stderr, ended.stderr)
    # Its functions, in a project of their own: a whole quickstart trains for minutes.
    (folder / "tools").mkdir()
    for name in ("setup.sh", "versions"):
        shutil.copy(SOURCE / "tools" / name, folder / "tools" / name)
    script = (SOURCE / "quickstart").read_text().replace('\nmain "$@"', '\nread_options "$@"; install_wheel; "$hone" env')
    (folder / "quickstart").write_text(script)
    (folder / "third_party").mkdir()
    (folder / "third_party/site").symlink_to(SITE)
    ended = run("bash", folder / "quickstart", "--wheel", packed)
    same(ended.returncode, 0, ended.stderr[-1000:])
    same(run("bash", folder / "quickstart", "--wheel", packed).returncode, 0, "the second time")


def test_release(folder, packed):
    """tools/release gives wheel, source archive, parts and checksums, twice the same"""
    if not (SOURCE / ".git").exists():
        raise Skip("no git history here")
    for _ in range(3):  # somebody may commit in between
        before, sums = head(), []
        for name, more in (("first", []), ("second", ["--untried"])):
            ended = run(sys.executable, SOURCE / "tools/release", "--out", folder / name, "--unaudited", "--unclean", *more, cwd=SOURCE)
            same(ended.returncode, 0, ended.stderr[-1000:])
            same("tried: the wheel in a fresh environment" in ended.stdout, not more, ended.stdout)
            sums.append((folder / name / "SHA256SUMS").read_text())
        if head() == before:
            break
    same(sums[0], sums[1], "SHA256SUMS")
    same(subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=folder / "first").returncode, 0, "sha256sum --check")
    parts = json.loads(next((folder / "first").glob("*.cdx.json")).read_text())
    names = {component["name"] for component in parts["components"]}
    holds({"tokenizers", "fmt", "yaml-cpp", "nlohmann-json", "torch", "hone/bin/hone"} <= names, sorted(names))
    same(len({component["bom-ref"] for component in parts["components"]}), len(parts["components"]), "bom-ref")


def test_audit(folder, packed):
    """auditwheel finds the platform that is pinned (slow)"""
    ended = run(sys.executable, SOURCE / "tools/release", "--out", folder / "out", "--unclean", cwd=SOURCE)
    same(ended.returncode, 0, ended.stderr[-1000:] + ended.stdout[-1000:])


def interpreter(name):
    """One that starts: on PATH, or of pyenv, whose own commands start only those that are chosen."""
    candidates = [shutil.which(name), *map(str, sorted(pathlib.Path.home().glob(f".pyenv/versions/*/bin/{name}")))]
    return next((one for one in candidates if one and not subprocess.run([one, "-c", "pass"], capture_output=True).returncode), None)


def test_pythons(folder, packed):
    """it installs and trains with every Python from 3.10 on that is there, timed (slow)"""
    found = []
    for minor in range(10, 15):
        python = interpreter(f"python3.{minor}")
        if python is None:
            continue
        begun = [time.monotonic()]
        environment(folder / str(minor), python)
        install(packed, folder / str(minor))
        begun.append(time.monotonic())
        sft(folder / str(minor) / "bin/hone", folder / f"out{minor}")
        begun.append(time.monotonic())
        (folder / "functions.py").write_text(PYTHON_OF_WORKERS)
        ended = run(folder / str(minor) / "bin/python", "-c", SCRIPT, TINY, folder / f"grpo{minor}", cwd=folder)
        same(ended.returncode, 0, f"3.{minor}: " + ended.stderr[-2000:])
        begun.append(time.monotonic())
        found.append(minor)
        took = [f"{after - before:.1f} s" for before, after in zip(begun, begun[1:])]
        tests_said.append(f"   Python 3.{minor}: environment and wheel {took[0]}, SFT {took[1]}, GRPO from Python {took[2]}")
    holds(found, "a Python")
    missing = [minor for minor in range(10, 14) if minor not in found]
    if missing:
        tests_said.append(f"skip the wheel with Python {', '.join(f'3.{minor}' for minor in missing)}: not on this machine")


tests_said = []  # what the tests found, for the last line
FAST = [test_contents, test_install, test_python, test_other_package, test_no_torch, test_machines, test_quickstart, test_release]


def main():
    if not SITE.is_dir() or not (SOURCE / "build/hone").is_file():
        print("skip the wheel: nothing is built")
        return 0
    tests = Tests()
    with tempfile.TemporaryDirectory() as folder:
        try:
            packed = wheel.pack(SOURCE / "build", pathlib.Path(folder) / "dist")
        except wheel.TooNew as why:
            print(f"skip the wheel: {why}")
            return 0
        for function in FAST + ([test_audit, test_pythons] if "--slow" in sys.argv else []):
            place = pathlib.Path(folder) / function.__name__
            place.mkdir()
            tests.run([function], place, packed)
    print(*tests_said, sep="\n", end="\n" if tests_said else "")
    return 1 if tests.failed else 0


sys.exit(main())
