"""push_to_hub with the real huggingface_hub, which talks to a local server that takes repositories, branches and commits."""
import base64
import http.server
import json
import os
import pathlib
import re
import subprocess
import threading

from check_harness import HONE, load_adapter, sft, tiny_model
from check_hub import PYTHON

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Handler(http.server.BaseHTTPRequestHandler):
    """POST /api/repos/create, /api/models/ID/{branch,preupload,commit}/REVISION, /api/validate-yaml. The token has to be `hf_right`."""
    files, asked, made = {}, [], {}

    def answer(self, code, body):
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        self.asked.append(self.path)
        if re.match(r"/api/models/o/m", self.path):
            return self.answer(200, {"id": "o/m", "modelId": "o/m", "sha": COMMIT, "siblings": [{"rfilename": name} for name in self.files]})
        return self.answer(404, {"error": "not here"})

    do_HEAD = do_GET

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.split("?")[0]
        self.asked.append(path)
        if self.headers.get("Authorization") != "Bearer hf_right":
            return self.answer(401, {"error": "Invalid username or password."})
        if path == "/api/repos/create":
            self.made.update(json.loads(body))
            return self.answer(200, {"url": f"http://{self.headers['Host']}/o/m", "name": "o/m", "id": "o/m"})
        if path == "/api/validate-yaml":
            return self.answer(200, {"errors": [], "warnings": []})
        if "/branch/" in path:
            return self.answer(200, {})
        if "/preupload/" in path:
            files = [{"path": one["path"], "uploadMode": "regular", "shouldIgnore": False} for one in json.loads(body)["files"]]
            return self.answer(200, {"files": files})
        if "/commit/" in path:
            for line in body.splitlines():
                entry = json.loads(line)
                if entry["key"] == "file":
                    self.files[entry["value"]["path"]] = base64.b64decode(entry["value"]["content"])
                elif entry["key"] == "header":
                    self.files["summary"] = entry["value"]["summary"]
            return self.answer(200, {"success": True, "commitOid": COMMIT, "commitUrl": f"http://{self.headers['Host']}/o/m/commit/{COMMIT}"})
        return self.answer(404, {"error": "not here"})

    def log_message(self, *words):
        pass


def started(words, endpoint, **variables):
    environment = os.environ | {"HF_ENDPOINT": endpoint, "PATH": f"{PYTHON}:{os.environ['PATH']}", "HF_HUB_DISABLE_XET": "1",
                                "HF_HUB_DISABLE_TELEMETRY": "1"} | variables
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_TOKEN"):  # the harness forbids connections
        environment.pop(name, None)
    done = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=300)
    return done.returncode, done.stdout + done.stderr


def hone(endpoint, *words):
    return started([str(HONE), *map(str, words)], endpoint)


def pushed(check):
    """A finished run is pushed on a branch; PEFT reads what the server then holds, huggingface_hub reads the card."""
    model = tiny_model(check, "tiny_llama")
    out = sft(check, "push/out", model)
    Handler.files, Handler.made = {}, {}
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        words = ("push", out, "--hub_model_id", "o/m", "--hub_private_repo", "true", "--hub_revision", "v1")
        code, said = hone(endpoint, *words, "--hub_token", "hf_wrong")
        assert code == 2 and "401" in said and "hf_wrong" not in said and not Handler.files, said
        code, said = hone(endpoint, *words, "--hub_token", "hf_right")
        assert code == 0 and f"pushed    {endpoint}/o/m/commit/{COMMIT}" in said, said
        assert Handler.made.get("private") is True or Handler.made.get("visibility") == "private", Handler.made
        assert any(path.endswith("/branch/v1") for path in Handler.asked) and any("/commit/v1" in path for path in Handler.asked), Handler.asked
        copy = check.folder("push/copy")
        copy.mkdir()
        assert Handler.files.pop("summary") == "Upload adapter"
        for name, data in Handler.files.items():
            (copy / name).write_bytes(data)
        assert (copy / "adapter_model.safetensors").read_bytes() == (out / "adapter_model.safetensors").read_bytes()
        load_adapter(model, copy)
        from huggingface_hub import ModelCard
        card = ModelCard.load(copy / "README.md")
        assert card.data.library_name == "peft" and "lora" in card.data.tags, card.data
        trained = check.folder("push/run")
        code, said = hone(endpoint, "sft", "--config", f"{out}.yaml", "--output_dir", trained, "--max_steps", 2, "--save_strategy", "steps",
                          "--save_steps", 1, "--push_to_hub", "--hub_model_id", "o/m", "--hub_strategy", "all_checkpoints", "--hub_token",
                          "hf_right")
        assert code == 0 and "pushed    " in said and Handler.files["summary"] == "End of training", said
        assert {"checkpoint-1/hone_state.json", "checkpoint-2/hone_state.json", "adapter_config.json"} <= set(Handler.files), Handler.files.keys()
    finally:
        server.shutdown()
    return f"{len(list(copy.iterdir()))} files, the adapter's bytes; a run with {len(Handler.files)} files"


FROM_PYTHON = """
import sys
from hone import HoneError
from hone.trl import SFTConfig, SFTTrainer
model, out = sys.argv[1:]
args = SFTConfig(out, max_steps=1, use_peft=True, lora_r=2, threads=1, skip_doctor=True, bf16=False, per_device_train_batch_size=2, hub_model_id="o/m",
                 hub_token="hf_wrong")
trainer = SFTTrainer(model, args, train_dataset=[{"text": "one two three"}] * 4)
trainer.train()
try:
    trainer.push_to_hub()
except HoneError as error:
    assert "401" in str(error) and "hf_wrong" not in str(error), error
else:
    raise AssertionError("a wrong token")
print(trainer.push_to_hub(token="hf_right"))
"""


def pushed_from_python(check):
    """hone.trl's push_to_hub() with the real huggingface_hub."""
    model = tiny_model(check, "tiny_llama")
    Handler.files, Handler.made = {}, {}
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    out = check.folder("push/python")
    try:
        code, said = started([f"{PYTHON}/python", "-c", FROM_PYTHON, str(model), str(out)], endpoint, HONE_PROGRAM=str(HONE),
                             PYTHONPATH=str(pathlib.Path(__file__).resolve().parents[2] / "python"))
    finally:
        server.shutdown()
    assert code == 0 and f"pushed    {endpoint}/o/m/commit/{COMMIT}" in said, said
    assert Handler.files["adapter_model.safetensors"] == (out / "adapter_model.safetensors").read_bytes()
    return f"{len(Handler.files)} files"


def cases(check):
    check.case("huggingface_hub pushes a run and its checkpoints", pushed, check)
    check.case("huggingface_hub pushes what hone.trl trained", pushed_from_python, check)
