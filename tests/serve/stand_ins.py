"""Servers of other makers, as their HTTP answers: each asks a `hone serve` behind it. And servers that answer wrongly."""
import contextlib
import http.server
import json
import threading
import time


def _models(owner, rows):
    return {"object": "list", "data": [{"id": name, "object": "model", "owned_by": owner, "parent": parent} for name, parent in rows]}


class Stub:
    """`answer(method, path, body)` gives (status, text or an object)."""

    def __init__(self, answer):
        class Handler(http.server.BaseHTTPRequestHandler):
            def reply(self):
                size = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(size)) if size else None
                status, said = answer(self.command, self.path, body)
                data = (said if isinstance(said, str) else json.dumps(said)).encode()
                with contextlib.suppress(OSError):
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)

            do_GET = do_POST = reply

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def sglang(behind, adapters=("one",)):
    """It serves the base to a request without lora_path, and to a model's name without a colon, as 0.5.23 does."""
    def answer(method, path, body):
        if path == "/v1/models":
            return 200, _models("sglang", [("tiny", None), *((name, "tiny") for name in adapters)])
        if path == "/v1/completions":
            return 200, behind.post(path, **{**body, "model": body["model"].partition(":")[2] or "tiny"})
        if path == "/v1/chat/completions":
            return 200, {"usage": {"prompt_tokens": len(behind.post("/tokenize", messages=body["messages"])["tokens"])}}
        if path != "/generate" or not body.get("return_logprob"):
            return 404, "no such path"
        said = behind.post("/v1/completions", model=body.get("lora_path") or "tiny", prompt=body["input_ids"], echo=True, logprobs=1, max_tokens=1, temperature=0)
        found = said["choices"][0]["logprobs"]["token_logprobs"][:len(body["input_ids"])]
        return 200, {"text": "", "meta_info": {"input_token_logprobs": [[one, token, None] for one, token in zip(found, body["input_ids"])]}}
    return Stub(answer)


def proxy(behind, owner="vllm"):
    """It lets requests of /v1 through alone."""
    def answer(method, path, body):
        if path == "/v1/models":
            return 200, _models(owner, [("one", "tiny")])
        if path == "/v1/chat/completions":
            return 200, {"usage": {"prompt_tokens": len(behind.post("/tokenize", messages=body["messages"])["tokens"])}}
        return (200, behind.post(path, **body)) if path.startswith("/v1/") else (404, "no such path")
    return Stub(answer)


def _generated(behind, name, prompt, count):
    return behind.post("/v1/completions", model=name, prompt=prompt, max_tokens=count, temperature=0, logprobs=1, return_token_ids=True)["choices"][0]


def llama_server(behind, name, without=None):
    """Its probabilities are of generated tokens alone, and not of one that ends within a character, as the one of number `without`."""
    def answer(method, path, body):
        if path == "/v1/models":
            return 200, _models("llamacpp", [("model.gguf", None)])
        if path == "/apply-template":
            ids = behind.post("/tokenize", messages=body["messages"])["tokens"]
            return 200, behind.post("/detokenize", tokens=ids)
        if path != "/completion":
            return 404, "no such path"
        one = _generated(behind, name, body["prompt"], body["n_predict"])
        kept = [(token, p) for i, (token, p) in enumerate(zip(one["token_ids"], one["logprobs"]["token_logprobs"])) if i != without]
        return 200, {"content": one["text"], "tokens": one["token_ids"],
                     "completion_probabilities": [{"id": token, "logprob": p} for token, p in kept]}
    return Stub(answer)


def ollama(behind, name):
    """Texts alone, and no ids."""
    def answer(method, path, body):
        if path == "/v1/models":
            return 200, _models("library", [(name + ":latest", None)])
        if path == "/v1/chat/completions":
            return 200, {"usage": {"prompt_tokens": len(behind.post("/tokenize", messages=body["messages"])["tokens"])}}
        if path != "/api/generate" or not body["raw"]:
            return 404, "no such path"
        one = _generated(behind, name, body["prompt"], body["options"]["num_predict"])
        return 200, {"response": one["text"], "logprobs": [{"token": token, "logprob": p} for token, p in zip(one["logprobs"]["tokens"], one["logprobs"]["token_logprobs"])]}
    return Stub(answer)


def slow(seconds):
    def answer(method, path, body):
        time.sleep(seconds)
        return 200, "{}"
    return Stub(answer)


def constant(status, said):
    return Stub(lambda method, path, body: (status, said))


def after_models(said, status=200):
    """A list of models, and then always the same."""
    return Stub(lambda method, path, body: (200, _models("vllm", [("one", "tiny")])) if path == "/v1/models" else (status, said))
