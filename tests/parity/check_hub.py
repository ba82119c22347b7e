"""Models and data sets by names of the hub with the real huggingface_hub, which talks to a local server that speaks the hub's paths."""
import hashlib
import http.server
import json
import os
import re
import shutil
import subprocess
import threading
from pathlib import Path

from check_harness import FIXTURES, HONE, ROOT

COMMIT = "0123456789abcdef0123456789abcdef01234567"
PYTHON = ROOT / "third_party/parity-venv/bin"


class Handler(http.server.BaseHTTPRequestHandler):
    """/api/KIND/ID/revision/REV, /api/KIND/ID/tree/..., and ID/resolve/REV/FILE with the headers that the cache is made of."""
    folders = {}  # "models/o/model", "datasets/o/data"
    asked = []

    def files(self, repository):
        folder = self.folders[repository]
        return {one.relative_to(folder).as_posix(): one for one in sorted(folder.rglob("*")) if one.is_file()}

    def answer(self, code, body, **headers):
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self):
        path = self.path.split("?")[0]
        self.asked.append(path)
        for repository in self.folders:
            name = repository.split("/", 1)[1]
            if re.fullmatch(rf"/api/{repository}(/revision/[^/]+)?", path):
                siblings = [{"rfilename": file} for file in self.files(repository)]
                return self.answer(200, json.dumps({"id": name, "modelId": name, "sha": COMMIT, "siblings": siblings}).encode())
            if path.startswith(f"/api/{repository}/tree/"):
                tree = [{"type": "file", "path": file, "size": one.stat().st_size, "oid": hashlib.sha1(one.read_bytes()).hexdigest()}
                        for file, one in self.files(repository).items()]
                return self.answer(200, json.dumps(tree).encode())
            file = re.fullmatch(rf"/{repository.removeprefix('models/')}/resolve/[^/]+/(.+)", path)
            if not file or file[1] not in self.files(repository):
                continue
            body = self.files(repository)[file[1]].read_bytes()
            return self.answer(200, body, ETag=f'"{hashlib.sha256(body).hexdigest()}"', X_Repo_Commit=COMMIT, Accept_Ranges="bytes")
        return self.answer(404, b'{"error": "Repository not found"}', X_Error_Code="RepoNotFound")

    do_HEAD = do_GET

    def log_message(self, *words):
        pass


def hone(cache, endpoint, *words):
    environment = os.environ | {"HF_HUB_CACHE": str(cache), "HF_ENDPOINT": endpoint, "PATH": f"{PYTHON}:{os.environ['PATH']}",
                                "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):  # the harness forbids connections
        environment.pop(name, None)
    done = subprocess.run([str(HONE), *map(str, words)], capture_output=True, text=True, env=environment, timeout=300)
    return done.returncode, done.stdout + done.stderr


def served(check, folders):
    """The server, an empty cache, the server's address."""
    Handler.folders = {name: Path(folder) for name, folder in folders.items()}
    Handler.asked.clear()
    cache = check.folder("hub/cache")
    shutil.rmtree(cache, ignore_errors=True)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, cache, f"http://127.0.0.1:{server.server_address[1]}"


README = """---
license: mit
configs:
- config_name: en
  default: true
  data_files:
  - split: train
    path: en/train-*
  - split: test
    path: en/test.jsonl
- config_name: de
  data_files: de/*
---
"""


def data_downloaded(check):
    """Of a data set only the configuration's data files are fetched, once; datasets would read the same files."""
    folder = Path(check.folder("hub/rows"))
    shutil.rmtree(folder, ignore_errors=True)
    rows = "".join(json.dumps({"text": f"row {i}"}) + "\n" for i in range(4))
    for name in ("en/train-00000-of-00002.jsonl", "en/train-00001-of-00002.jsonl", "en/test.jsonl", "de/a.jsonl", "script.py", "en/x.pkl"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(rows)
    (folder / "README.md").write_text(README)
    server, cache, endpoint = served(check, {"datasets/o/data": folder})
    train = ("sft", "--model_name_or_path", FIXTURES / "tiny_llama", "--use_peft", "true", "--lora_r", 4, "--max_steps", 1, "--bf16", "false",
             "--skip_doctor", "true", "--overwrite_output_dir", "true", "--output_dir", check.folder("hub/out"), "--dataset_name")
    try:
        code, said = hone(cache, endpoint, *train, "o/data")
        assert code == 0 and "download  o/data" in said, said
        snapshot = cache / "datasets--o--data/snapshots" / COMMIT
        names = sorted(one.relative_to(snapshot).as_posix() for one in snapshot.rglob("*") if one.is_file())
        assert names == ["README.md", "en/test.jsonl", "en/train-00000-of-00002.jsonl", "en/train-00001-of-00002.jsonl"], names
        Handler.asked.clear()
        code, said = hone(cache, endpoint, *train, "o/data")
        assert code == 0 and not Handler.asked, f"asked again: {Handler.asked} {said}"
        code, said = hone(cache, endpoint, *train, "o/nowhere")
        assert code == 2 and "RepositoryNotFoundError" in said and "hf download o/nowhere --repo-type dataset" in said, said
    finally:
        server.shutdown()
    return f"{len(names)} files, the second run asked for none"


def downloaded(check):
    """A model is fetched once, whole and without its pickle file; a repository that is nowhere is said."""
    model = check.folder("hub/repository")
    shutil.rmtree(model, ignore_errors=True)
    shutil.copytree(FIXTURES / "tiny_llama", model, ignore=shutil.ignore_patterns("golden*", "adapter*", "combined*", "pissa*"))
    (model / "pytorch_model.bin").write_bytes(b"pickle")
    server, cache, endpoint = served(check, {"models/o/model": model})
    generate = ("generate", "--prompt", "Hi", "--chat", "false", "--max_new_tokens", 2, "--bf16", "false", "--model_name_or_path")
    try:
        code, said = hone(cache, endpoint, *generate, "o/model")
        assert code == 0 and "download  o/model" in said, said
        snapshot = cache / "models--o--model/snapshots" / COMMIT
        names = {one.name for one in snapshot.iterdir()}
        assert "model.safetensors" in names and "pytorch_model.bin" not in names, names
        assert (snapshot / "model.safetensors").read_bytes() == (Path(model) / "model.safetensors").read_bytes()
        Handler.asked.clear()
        code, said = hone(cache, endpoint, *generate, "o/model")
        assert code == 0 and not Handler.asked, f"asked again: {Handler.asked}"
        code, said = hone(cache, endpoint, *generate, "o/nowhere")
        assert code == 2 and "RepositoryNotFoundError" in said and "hf download o/nowhere" in said, said
    finally:
        server.shutdown()
    return f"{len(names)} files, the second run asked for none"


def cases(check):
    check.case("huggingface_hub downloads a model that a run names", downloaded, check)
    check.case("huggingface_hub downloads a data set that a run names", data_downloaded, check)
