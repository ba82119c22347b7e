"""What loggers.py, hub_push.py and tests/python share: hone with packages of our own on PYTHONPATH, in the place of those of PyPI."""
import json
import os
import pathlib
import subprocess

SOURCE = pathlib.Path(__file__).resolve().parents[2]
FIXTURES = SOURCE / "tests/fixtures/parity"
# huggingface_hub, for whatever pushes: what it is asked goes to STAND_IN_LOG, what it gets to STAND_IN_FOLDER.
HUB = '''
import json, os, shutil
def said(*words):
    with open(os.environ["STAND_IN_LOG"], "a") as log:
        log.write(json.dumps(words) + "\\n")
class Url(str):
    repo_id = "me/out"
class Commit: pass
class HfApi:
    def __init__(self, token=None): self.token = token
    def create_repo(self, repository, private=None, exist_ok=False):
        if os.environ.get("STAND_IN_DOES") == "raises": raise RuntimeError(f"401 Client Error: Unauthorized for {self.token}")
        said("create", repository, private, self.token)
        url = Url("https://hub/" + repository)
        url.repo_id = repository if "/" in repository else "me/" + repository
        return url
    def create_branch(self, repository, branch, exist_ok=False): said("branch", repository, branch)
    def upload_folder(self, repo_id, folder_path, commit_message, revision):
        assert not os.path.islink(folder_path)
        shutil.copytree(folder_path, os.environ["STAND_IN_FOLDER"], dirs_exist_ok=True)
        files = sorted(os.path.relpath(os.path.join(at, name), folder_path) for at, _, names in os.walk(folder_path) for name in names)
        said("commit", repo_id, commit_message, revision, files)
        commit = Commit()
        commit.commit_url = "https://hub/" + repo_id + "/commit/1"
        return commit
'''


class StandIn:
    """Runs hone in a folder; `package` is what `import NAME` gives there. Prints `ok NAME` or `not ok NAME` a check."""

    def __init__(self, hone, folder, name, package, about):
        self.hone, self.folder, self.about, self.failed = hone, folder, about, 0
        self.calls_file = folder / "calls.jsonl"
        for place, text in ((f"packages/{name}", package), (f"none/{name}", "raise ImportError('not here')")):
            (folder / place).mkdir(parents=True)
            (folder / place / "__init__.py").write_text(text)
        self.environment = os.environ | {"PYTHONPATH": str(folder / "packages"), "STAND_IN_LOG": str(self.calls_file),
                                         "STAND_IN_FOLDER": str(folder / "server")}
        for variable in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "STAND_IN_DOES", "WANDB_PROJECT"):
            self.environment.pop(variable, None)

    def start(self, *words, **variables):
        return subprocess.Popen([str(self.hone), *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                cwd=self.folder, env=self.environment | variables)

    def run(self, *words, **variables):
        with self.start(*words, **variables) as process:
            said, _ = process.communicate(timeout=300)
            return process.returncode, said

    def words(self, out, steps, *more):
        return ["sft", "--model_name_or_path", FIXTURES / "tiny_llama", "--dataset_name", FIXTURES / "sft/text.jsonl", "--use_peft", "true",
                "--lora_r", 4, "--max_steps", steps, "--max_length", 32, "--bf16", "false", "--threads", 1, "--skip_doctor", "true",
                "--per_device_train_batch_size", 2, "--logging_steps", 1, "--output_dir", out, *more]

    def train(self, out, steps, *more, **variables):
        return self.run(*self.words(out, steps, *more), **variables)

    def calls(self, kind):
        """What the package was asked to do since the last forget()."""
        if not self.calls_file.exists():
            return []
        lines = [json.loads(line) for line in self.calls_file.read_text().splitlines()]
        return [line[1:] for line in lines if line[0] == kind]

    def forget(self):
        self.calls_file.unlink(missing_ok=True)

    def check(self, name, condition, output=""):
        print(f"{'ok' if condition else 'not ok'} {self.about}: {name}", flush=True)
        if not condition:
            self.failed += 1
            print(output)
