"""Names of the hub with the real huggingface_hub, which talks to a local server that speaks the hub's paths."""
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
    """/api/models/ID/revision/REV, /api/models/ID/tree/..., and /ID/resolve/REV/FILE with the headers that the cache is made of."""
    folder = None
    asked = []

    def files(self):
        return {one.relative_to(self.folder).as_posix(): one for one in sorted(self.folder.rglob("*")) if one.is_file()}

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
        if re.fullmatch(r"/api/models/o/model(/revision/[^/]+)?", path):
            siblings = [{"rfilename": name} for name in self.files()]
            return self.answer(200, json.dumps({"id": "o/model", "modelId": "o/model", "sha": COMMIT, "siblings": siblings}).encode())
        if path.startswith("/api/models/o/model/tree/"):
            tree = [{"type": "file", "path": name, "size": one.stat().st_size, "oid": hashlib.sha1(one.read_bytes()).hexdigest()}
                    for name, one in self.files().items()]
            return self.answer(200, json.dumps(tree).encode())
        file = re.fullmatch(r"/o/model/resolve/[^/]+/(.+)", path)
        if file and file[1] in self.files():
            body = self.files()[file[1]].read_bytes()
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


def downloaded(check):
    """A model is fetched once, whole and without its pickle file; a repository that is nowhere is said."""
    Handler.folder = check.folder("hub/repository")
    shutil.rmtree(Handler.folder, ignore_errors=True)
    shutil.copytree(FIXTURES / "tiny_llama", Handler.folder, ignore=shutil.ignore_patterns("golden*", "adapter*", "combined*", "pissa*"))
    (Handler.folder / "pytorch_model.bin").write_bytes(b"pickle")
    cache = check.folder("hub/cache")
    shutil.rmtree(cache, ignore_errors=True)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    generate = ("generate", "--prompt", "Hi", "--chat", "false", "--max_new_tokens", 2, "--bf16", "false", "--model_name_or_path")
    try:
        code, said = hone(cache, endpoint, *generate, "o/model")
        assert code == 0 and "download  o/model" in said, said
        snapshot = cache / "models--o--model/snapshots" / COMMIT
        names = {one.name for one in snapshot.iterdir()}
        assert "model.safetensors" in names and "pytorch_model.bin" not in names, names
        assert (snapshot / "model.safetensors").read_bytes() == (Path(Handler.folder) / "model.safetensors").read_bytes()
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
