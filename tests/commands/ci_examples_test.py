#!/usr/bin/env python3
"""examples/ci: the hook stops a commit with a wrong file in a repository of its own, and the checks of a pull request tell its lines.

usage: tests/commands/ci_examples_test.py [--hone PROGRAM]
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
from checks import SOURCE, TINY, Skip, Tests, holds, same

CI = SOURCE / "examples/ci"
OTHERS = SOURCE / "tests/others"


class Repository:
    """A repository with the hook, in a folder of its own."""

    def __init__(self, program, folder):
        self.folder = pathlib.Path(folder) / "repository"
        self.folder.mkdir()
        # No configuration of this machine, and no index of a repository around it.
        own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        self.environment = {**own, "HONE": program, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b.c",
                            "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b.c"}
        self.git("init", "-q")
        hooks = self.folder / ".git/hooks"
        hooks.mkdir(exist_ok=True)
        for name in ("pre-commit", "check_files.py"):
            shutil.copy(CI / name, hooks)
        (hooks / "pre-commit").chmod(0o755)

    def git(self, *words):
        return subprocess.run(["git", *words], cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=60)

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        self.git("add", name)

    def commits(self):
        return int(self.git("rev-list", "--count", "--all").stdout or 0)


def test_hook(program, folder):
    """the hook stops a commit of a wrong file, and looks at what the commit would hold"""
    if shutil.which("git") is None:
        raise Skip("there is no git here")
    repository = Repository(program, folder)
    right = (OTHERS / "axolotl/alpaca_8bit.yml").read_text()
    wrong = right.replace("lr_scheduler: cosine", "lr_scheduler: one_cycle")
    repository.write(".hone-check", "# patterns of git\nconfigs/*.yml\n")
    repository.write("configs/a b.yml", right)
    repository.write("other.yml", wrong)
    ended = repository.git("commit", "-qm", "one")
    same((ended.returncode, repository.commits()), (0, 1), ended.stderr)
    repository.write("configs/a b.yml", wrong)
    ended = repository.git("commit", "-qm", "two")
    same((ended.returncode != 0, repository.commits()), (True, 1), ended.stderr)
    line = wrong.splitlines().index("lr_scheduler: one_cycle") + 1
    holds(f"configs/a b.yml:{line}: error: lr_scheduler:" in ended.stdout + ended.stderr, ended.stdout + ended.stderr)
    holds("exit code 2" in ended.stderr, ended.stderr)
    (repository.folder / "configs/a b.yml").write_text(right)  # not staged: the commit still holds the wrong one
    same(repository.git("commit", "-qm", "three").returncode != 0, True)
    repository.git("add", "-A")
    ended = repository.git("commit", "-qm", "four", "--allow-empty")
    same(ended.returncode, 0, ended.stderr)
    for name in ('configs/"quoted"\\.yml', "configs/two\nlines.yml", "configs/tab\tédition.yml"):
        repository.write(name, wrong)
        ended = repository.git("commit", "-qm", "odd names")
        holds(ended.returncode != 0 and "error: lr_scheduler:" in ended.stdout + ended.stderr, (name, ended.stdout + ended.stderr))
        repository.write(name, right)
    ended = repository.git("commit", "-qm", "odd names")
    same(ended.returncode, 0, ended.stdout + ended.stderr)
    repository.environment["HONE"] = "/nowhere/hone"
    repository.write("configs/new.yml", right)
    ended = repository.git("commit", "-qm", "five")
    holds(ended.returncode != 0 and "does not run" in ended.stderr, ended.stderr)


def checked(program, *words, **environment):
    return subprocess.run([sys.executable, "-B", str(CI / "check_files.py"), "--hone", program, *map(str, words)], capture_output=True, text=True, timeout=120,
                          env={**os.environ, "GITHUB_ACTIONS": "", **environment})


def test_annotations(program, folder):
    """on GitHub each finding is an annotation of its line, and the report is JSON"""
    report = pathlib.Path(folder) / "report.json"
    file = OTHERS / "swift/megatron.sh"
    ended = checked(program, "--report", report, OTHERS / "axolotl/alpaca_8bit.yml", file, GITHUB_ACTIONS="true")
    same(ended.returncode, 2, ended.stdout + ended.stderr)
    holds(f"::error file={file},line=3::megatron: " in ended.stdout, ended.stdout)
    odd = pathlib.Path(folder) / "a,b:c.sh"
    shutil.copy(file, odd)
    ended = checked(program, odd, GITHUB_ACTIONS="true")
    holds(f"::error file={str(odd).replace(',', '%2C').replace(':', '%3A')},line=3::megatron: " in ended.stdout, ended.stdout)
    results = json.loads(report.read_text())
    same([one["exit_code"] for one in results], [0, 2], results)
    same(results[1]["result"]["refused"][0]["name"], "megatron")


def test_doctor(program, folder):
    """hone's own files are examined with their rows, and a fault has its code"""
    rows = pathlib.Path(folder) / "rows.jsonl"
    rows.write_text("".join(json.dumps({"text": f"one two three {n}"}) + "\n" for n in range(16)))
    for rate, code, said in ((1e-4, 0, ""), (1e-13, 2, "NUM-01")):
        run = pathlib.Path(folder) / "run.yaml"
        run.write_text(f"model_name_or_path: {TINY}\ndataset_name: {rows}\noutput_dir: {folder}/out\nuse_peft: true\nlora_target_modules: [all-linear]\nbf16: false\nthreads: 1\n"
                       f"learning_rate: {rate}\nmax_steps: 40\nper_device_train_batch_size: 2\nmax_length: 64\n")
        ended = checked(program, "--doctor", run)
        same(ended.returncode, code, ended.stdout + ended.stderr)
        holds(said in ended.stdout, ended.stdout)
    ended = checked(program, "--doctor", OTHERS / "axolotl/grpo.yml")  # its rewards are not here
    same(ended.returncode, 0, ended.stdout + ended.stderr)
    holds("warning: not examined by the doctor: trl" in ended.stdout, ended.stdout)


def test_files_of_the_action(_program, _folder):
    """the action starts a file that is there, and has no word of a shell that bash refuses"""
    action = (CI / "action.yml").read_text()
    holds("$FOLDER/check_files.py" in action and (CI / "check_files.py").is_file(), action)
    script = action.split("run: |\n", 1)[1]
    ended = subprocess.run(["bash", "-n"], input="\n".join(line[8:] for line in script.splitlines()), capture_output=True, text=True)
    same((ended.returncode, ended.stderr), (0, ""))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hone", default=str(SOURCE / "build/hone"))
    options = parser.parse_args()
    tests = Tests()
    for test in (test_hook, test_annotations, test_doctor, test_files_of_the_action):
        with tempfile.TemporaryDirectory() as folder:
            tests.run([test], os.path.abspath(options.hone), folder)
    return 1 if tests.failed else 0


if __name__ == "__main__":
    sys.exit(main())
