#!/usr/bin/env python3
"""Models by their names of the hub: from Hugging Face's cache, and downloaded by the user's Python.

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
import os, shutil
class HfApi:
    def list_repo_files(self, name, revision=None, repo_type=None):
        if name == "o/absent": raise RuntimeError("404 Client Error: Repository Not Found")
        return ["config.json", "pytorch_model.bin"] if name == "o/pickle" else ["config.json", "model.safetensors"]
def snapshot_download(name, revision, repo_type, allow_patterns, ignore_patterns):
    assert "*.bin" not in allow_patterns, "pickle files are never fetched"
    print("a line that some package prints")
    repository = os.path.join(os.environ["HF_HUB_CACHE"], f"{repo_type}s--" + name.replace("/", "--"))
    os.makedirs(os.path.join(repository, "refs"))
    open(os.path.join(repository, "refs", revision), "w").write("COMMIT")
    return shutil.copytree(os.environ["STAND_IN_MODEL"], os.path.join(repository, "snapshots", "COMMIT"))
'''.replace("COMMIT", COMMIT)


class Hub:
    def __init__(self, hone, folder):
        self.hone, self.folder, self.failed = hone, folder, 0
        package = folder / "packages/huggingface_hub"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(STAND_IN)
        (folder / "none/huggingface_hub").mkdir(parents=True)
        (folder / "none/huggingface_hub/__init__.py").write_text("raise ImportError('not here')")
        self.environment = os.environ | {"HF_HUB_CACHE": str(folder / "hub"), "PYTHONPATH": str(folder / "packages"),
                                         "STAND_IN_MODEL": str(FIXTURES / "tiny_llama")}
        for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
            self.environment.pop(name, None)

    def run(self, *words, **variables):
        done = subprocess.run([str(self.hone), *map(str, words)], capture_output=True, text=True, cwd=self.folder,
                              env=self.environment | variables, timeout=300)
        return done.returncode, done.stdout + done.stderr

    def train(self, model, **variables):
        return self.run("sft", "--model_name_or_path", model, "--dataset_name", FIXTURES / "sft/text.jsonl", "--use_peft", "true",
                        "--lora_r", 4, "--max_steps", 1, "--max_length", 32, "--bf16", "false", "--threads", 1, "--skip_doctor", "true",
                        "--output_dir", self.folder / "out", **variables)

    def check(self, name, condition, output=""):
        print(f"{'ok' if condition else 'not ok'} hub names: {name}", flush=True)
        if not condition:
            self.failed += 1
            print(output)


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
    shutil.rmtree(hub.folder / "out", ignore_errors=True)
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
    sys.exit(1 if hub.failed else 0)


main()
