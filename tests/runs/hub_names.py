#!/usr/bin/env python3
"""Models and data sets by their names of the hub: from Hugging Face's cache, and downloaded by the user's Python.

A stand-in `huggingface_hub` on PYTHONPATH does what the real one does to the cache; tests/parity/check_hub.py runs the real one
against a local server. Nothing here opens a connection.

Prints `ok NAME` or `not ok NAME` a check. usage: hub_names.py [--hone PROGRAM]
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
FIXTURES = SOURCE / "tests/fixtures/parity"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
STAND_IN = '''
import fnmatch, json, os, shutil
def folder(name, repo_type):
    return os.path.join(os.environ["STAND_IN_HUB"], repo_type + "s", name)
def files_of(name, repo_type):
    root = folder(name, repo_type)
    if not os.path.isdir(root): raise RuntimeError("404 Client Error: Repository Not Found")
    return sorted(os.path.relpath(os.path.join(at, file), root) for at, _, files in os.walk(root, followlinks=True) for file in files)
class HfApi:
    def list_repo_files(self, name, revision=None, repo_type=None):
        return files_of(name, repo_type)
def hf_hub_download(name, file, repo_type, revision):
    return os.path.join(folder(name, repo_type), file)
def metadata_load(path):
    lines = open(path).read().split("---")[1].strip().splitlines()
    return {line.split(":", 1)[0]: json.loads(line.split(":", 1)[1]) for line in lines}
def snapshot_download(name, revision, repo_type, allow_patterns, ignore_patterns):
    assert not [one for one in allow_patterns if one.endswith((".bin", ".pkl", ".py", "*"))], "no pickle files, no scripts"
    print("a line that some package prints")
    repository = os.path.join(os.environ["HF_HUB_CACHE"], f"{repo_type}s--" + name.replace("/", "--"))
    os.makedirs(os.path.join(repository, "refs"), exist_ok=True)
    open(os.path.join(repository, "refs", revision), "w").write("COMMIT")
    snapshot = os.path.join(repository, "snapshots", "COMMIT")
    for file in files_of(name, repo_type):
        if not any(fnmatch.fnmatch(file, one) for one in allow_patterns): continue
        os.makedirs(os.path.dirname(os.path.join(snapshot, file)), exist_ok=True)
        shutil.copy(os.path.join(folder(name, repo_type), file), os.path.join(snapshot, file))
    return snapshot
'''.replace("COMMIT", COMMIT)


class Hub:
    def __init__(self, hone, folder):
        self.hone, self.folder, self.failed = hone, folder, 0
        package = folder / "packages/huggingface_hub"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(STAND_IN)
        (folder / "none/huggingface_hub").mkdir(parents=True)
        (folder / "none/huggingface_hub/__init__.py").write_text("raise ImportError('not here')")
        shutil.copytree(FIXTURES / "tiny_llama", folder / "there/models/o/model")
        self.put("models/o/pickle", {"config.json": "{}", "pytorch_model.bin": "x"})
        self.environment = os.environ | {"HF_HUB_CACHE": str(folder / "hub"), "PYTHONPATH": str(folder / "packages"),
                                         "STAND_IN_HUB": str(folder / "there")}
        for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
            self.environment.pop(name, None)

    def run(self, *words, **variables):
        done = subprocess.run([str(self.hone), *map(str, words)], capture_output=True, text=True, cwd=self.folder,
                              env=self.environment | variables, timeout=300)
        return done.returncode, done.stdout + done.stderr

    def put(self, repository, files):
        for name, text in files.items():
            file = self.folder / "there" / repository / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)

    def train(self, model, *more, rows=FIXTURES / "sft/text.jsonl", **variables):
        shutil.rmtree(self.folder / "out", ignore_errors=True)
        named = () if rows is None else ("--dataset_name", rows)
        return self.run("sft", "--model_name_or_path", model, *named, "--use_peft", "true",
                        "--lora_r", 4, "--max_steps", 1, "--max_length", 32, "--bf16", "false", "--threads", 1, "--skip_doctor", "true",
                        "--output_dir", self.folder / "out", *more, **variables)

    def check(self, name, condition, output=""):
        print(f"{'ok' if condition else 'not ok'} hub names: {name}", flush=True)
        if not condition:
            self.failed += 1
            print(output)


ROWS = "".join(f'{{"text": "row {i} of a data set"}}\n' for i in range(4))
README = """---
configs: [{"config_name": "en", "default": true, "data_files": [{"split": "train", "path": "en/train-*"}, {"split": "test", "path": "en/test.jsonl"}]}, {"config_name": "de", "data_files": "de/*"}]
---
"""


def dataset_checks(hub):
    model = FIXTURES / "tiny_llama"
    hub.put("datasets/o/data", {"README.md": README, "en/train-00000-of-00002.jsonl": ROWS, "en/train-00001-of-00002.jsonl": ROWS,
                                "en/test.jsonl": ROWS, "de/a.jsonl": ROWS, "script.py": "raise SystemExit", "en/train-x.pkl": "x"})
    hub.put("datasets/o/script", {"script.py": "raise SystemExit"})
    code, said = hub.train(model, rows="o/data", HF_HUB_OFFLINE="1")
    hub.check("a data set, offline: what to fetch and where was looked", code == 2 and "hf download o/data --repo-type dataset" in said
              and "neither a path here nor in" in said, said)
    code, said = hub.train(model, rows="o/absent")
    hub.check("a data set that is nowhere", code == 2 and "Repository Not Found" in said and "neither a path here nor in" in said, said)
    code, said = hub.train(model, rows="o/script")
    hub.check("a script is never fetched", code == 2 and "script.py, a script" in said and "refs/convert/parquet" in said, said)
    code, said = hub.train(model, "--dataset_config", "fr", rows="o/data")
    hub.check("a configuration that is not there", code == 2 and "the configurations en, de" in said, said)
    code, said = hub.train(model, "--python", "/nowhere/python", rows="o/data")
    hub.check("--python is what downloads", code == 2 and "/nowhere/python" in said, said)
    code, said = hub.train(model, "--eval_strategy", "steps", "--eval_steps", 1, rows="o/data")
    snapshot = hub.folder / "hub/datasets--o--data/snapshots" / COMMIT
    found = sorted(file.relative_to(snapshot).as_posix() for file in snapshot.rglob("*") if file.is_file())
    hub.check("a data set is downloaded, and trains", code == 0 and "download  o/data" in said, said)
    hub.check("only README.md and the data of the configuration come",
              found == ["README.md", "en/test.jsonl", "en/train-00000-of-00002.jsonl", "en/train-00001-of-00002.jsonl"], str(found))
    code, said = hub.train(model, "--eval_strategy", "steps", "--eval_steps", 1, rows="o/data", HF_HUB_OFFLINE="1")
    hub.check("the second time it is found in the cache, offline", code == 0 and "download" not in said, said)
    (snapshot / "en/train-00001-of-00002.jsonl").unlink()
    code, said = hub.train(model, rows="o/data", HF_HUB_OFFLINE="1")
    hub.check("a copy without a shard is told", code == 2 and "lacks train-00001-of-00002.jsonl" in said, said)
    code, said = hub.train(model, rows="o/data")
    hub.check("and completed", code == 0 and "download  o/data" in said, said)
    mixture = json.dumps([{"path": "o/data", "name": "de"}, {"path": "o/data", "split": "test"}])
    code, said = hub.train(model, "--datasets", mixture, rows=None)
    hub.check("entries of datasets are names of the hub too", code == 0 and (snapshot / "de/a.jsonl").exists(), said)
    code, said = hub.train(model, "--dataset_train_split", "tran", rows="o/data")
    hub.check("a split that the repository does not have", code == 2 and "and still its copy in" in said
              and "Did you mean 'train'?" in said, said)
    code, said = hub.run("check", "sft", "--model_name_or_path", model, "--dataset_name", "o/other", "--use_peft", "true")
    hub.check("hone check says what to fetch", "hf download o/other --repo-type dataset" in said, said)


def checks(hub):
    code, said = hub.train("o/model", HF_HUB_OFFLINE="1")
    hub.check("offline, it says what to fetch and where to", code == 2 and "HF_HUB_OFFLINE" in said and "hf download o/model" in said
              and not (hub.folder / "out").exists(), said)
    code, said = hub.train("o/model", PYTHONPATH=str(hub.folder / "none"))
    hub.check("without huggingface_hub it names the package", code == 2 and "pip install huggingface_hub" in said, said)
    code, said = hub.train("o/pickle")
    hub.check("weights that exist only as pickle are refused", code == 2 and "pickle" in said and "save_pretrained" in said, said)
    code, said = hub.train("o/absent")
    hub.check("the hub's own sentence is passed on", code == 2 and "Repository Not Found" in said, said)
    (hub.folder / "huggingface_hub.py").write_text("raise SystemExit('imported from the working folder')")
    code, said = hub.train("o/model")
    config = hub.folder / "out/adapter_config.json"
    hub.check("a model is downloaded, and trains", code == 0 and "download  o/model" in said and config.exists(), said)
    if config.exists():
        base = json.loads(config.read_text())["base_model_name_or_path"]
        hub.check("adapter_config.json names the base as the hub does", base == "o/model", base)
    code, said = hub.train("o/model", HF_HUB_OFFLINE="1")
    hub.check("the second time it is found in the cache, offline", code == 0 and "download" not in said, said)
    code, said = hub.run("generate", "--adapter_name_or_path", hub.folder / "out", "--model_name_or_path", "o/model", "--prompt", "Hi",
                         "--chat", "false", "--max_new_tokens", 2, "--bf16", "false", HF_HUB_OFFLINE="1")
    hub.check("generate takes the name", code == 0, said)
    code, said = hub.run("merge", "--adapter_name_or_path", hub.folder / "out", "--output", hub.folder / "merged", "--compare", 0,
                         HF_HUB_OFFLINE="1")
    hub.check("merge finds the base that the adapter names", code == 0, said)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hone", type=pathlib.Path, default=SOURCE / "build/hone")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hone-hub-") as folder:
        hub = Hub(arguments.hone.resolve(), pathlib.Path(folder))
        checks(hub)
        dataset_checks(hub)
    sys.exit(1 if hub.failed else 0)


main()
