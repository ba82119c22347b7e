#!/usr/bin/env python3
"""Mutated inputs for whole commands: models, tokenizers, chat templates, adapters, checkpoints, data, YAML, options, HTTP answers.

Input N is a function of the seed and N. A command may do its work or refuse it with a sentence: exit code 0, 2 (or 3, a paused run; doctor
and reward-test end with 1 where they found something).
Wrong are a signal, exit code 70, an empty or endless message, a raw control character on the terminal, more than 2 GB of memory,
more than 20 s of CPU.

Prints `ok NAME` or `not ok NAME` a kind of input; the folder of an input that failed is kept, and its command printed.
usage: hostile_inputs.py [--count N] [--seed N] [--jobs N] [--only KIND] [--case N] [--keep FOLDER] [--hone PROGRAM]
"""
import argparse
import collections
import concurrent.futures
import http.server
import json
import os
import pathlib
import random
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import mutations  # noqa: E402
from damage import spoil  # noqa: E402
from small_runs import COMMON, SOURCE, SmallRun, quick_folder, steps_of  # noqa: E402

MODEL = SOURCE / "tests/fixtures/faults/llama"
TINY = SOURCE / "tests/fixtures/parity/tiny_llama"
GGUF = SOURCE / "tests/fixtures/gguf/tiny.gguf"
MOST_CPU_S, MOST_WALL_S = 20, 120
MOST_RSS = 2 << 30
MOST_ADDRESSES = 24 << 30  # libtorch maps gigabytes that it never touches; this only keeps the machine alive
MOST_WORDS = 200_000
ENDS = (0, 2, 3)
FINDS = ("doctor", "reward-test")  # these end with 1 where they found something

CASES = {}  # name -> (weight, function)


def case(name, weight):
    """A kind of input: function(scene) -> the words after `hone`. Of `weight` inputs in the sum of all weights."""
    def register(function):
        CASES[name] = (weight, function)
        return function
    return register


class Scene:
    """One input: its folder, its random numbers, and what goes to stdin."""

    def __init__(self, folder, chance, shared):
        self.folder, self.chance, self.shared = folder, chance, shared
        self.stdin = b""

    def copy(self, source, name, spoiled, mutate):
        """A copy of a folder's plain files in which `spoiled` is mutated."""
        out = self.folder / name
        out.mkdir(parents=True)
        for path in source.iterdir():
            if path.is_file() and not path.name.startswith("golden"):
                shutil.copyfile(path, out / path.name)
        (out / spoiled).write_bytes(mutate((source / spoiled).read_bytes(), self.chance))
        return out

    def file(self, name, raw):
        (self.folder / name).write_bytes(raw)
        return self.folder / name

    def generate(self, model, *more):
        return ["generate", "--model_name_or_path", model, "--threads", "1", "--prompt", "What is 1 + 2?", "--max_new_tokens", "2", *more]

    def sft(self, *more, **changes):
        options = {**COMMON, "output_dir": self.folder / "out", "max_steps": 1, "dataset_name": self.shared["text"], **changes}
        return ["sft", *[str(word) for name, value in options.items() for word in (f"--{name}", value)], *more]


# ---- answered without libtorch: milliseconds, so they are many
YAML = b"""model_name_or_path: model
dataset_name: rows.jsonl
use_peft: true
lora_r: 8
lora_target_modules: [q_proj, v_proj]
learning_rate: 1.0e-3
max_steps: 2
save_steps: 0.5
threads: 1
per_device_train_batch_size: 4
lr_scheduler_kwargs: {num_cycles: 2}
not_an_option_of_hone: 1
"""


@case("YAML", 12)
def config_yaml(scene):
    file = scene.file("run.yaml", mutations.yaml_text(YAML, scene.chance))
    return [scene.chance.choice(("sft", "grpo", "dpo", "kto", "reward", "online-dpo")), "--config", file]


@case("option", 10)
def options(scene):
    chance = scene.chance
    names = ["learning_rate", "max_steps", "threads", "lora_target_modules", "reward_funcs", "seed", "save_steps", "output_dir", "dtype", "max_length",
             "temperature", "memory_limit", "lr_scheduler_kwargs", "base_adapters", "warmup_steps", "eval_strategy", "loss_type", "resume_from_checkpoint"]
    words = [chance.choice(("sft", "grpo", "dpo", "generate", "merge", "export", "convert", "chat", "doctor", "explain", "bisect", "options"))]
    for _ in range(chance.randint(1, 4)):
        value = chance.choice(mutations.VALUES) if chance.random() < 0.7 else mutations.mutated_bytes(b"a(b=1, c=[2])", chance)
        value = value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")
        words += [f"--{chance.choice(names)}".encode(), value.replace(b"\0", b"\xff")[:100_000]]
    if chance.random() < 0.2:
        words.append(mutations.mutated_bytes(b"--config", chance).replace(b"\0", b""))
    return words


# ---- with libtorch: a second each
@case("config.json", 6)
def model_config(scene):
    return scene.generate(scene.copy(MODEL, "model", "config.json", mutations.json_text))


@case("tokenizer.json", 4)
def tokenizer(scene):
    return scene.generate(scene.copy(MODEL, "model", "tokenizer.json", mutations.json_text))


@case("tokenizer_config.json", 3)
def tokenizer_config(scene):
    name = scene.chance.choice(("tokenizer_config.json", "generation_config.json"))
    return scene.generate(scene.copy(MODEL, "model", name, mutations.json_text))


@case("chat template", 6)
def chat_template(scene):
    def edit(raw, chance):
        return json.dumps({**json.loads(raw), "chat_template": mutations.template(raw, chance)}).encode()
    model = scene.copy(MODEL, "model", "tokenizer_config.json", edit)
    if scene.chance.random() < 0.5:
        return scene.generate(model)
    scene.stdin = b"Hello\nAgain\n"
    return ["chat", model, "--threads", "1", "--temperature", "0", "--max_new_tokens", "2"]


@case("chat input", 2)
def chat_input(scene):
    scene.stdin = mutations.mutated_bytes(b"What is 1 + 1?\n/help\n/reset\nAnd 2?\n", scene.chance)[:2000]
    return ["chat", MODEL, "--threads", "1", "--temperature", "0", "--max_new_tokens", "2"]


@case("safetensors", 6)
def weights(scene):
    return scene.generate(scene.copy(MODEL, "model", "model.safetensors", mutations.safetensors))


@case("GGUF", 6)
def gguf_file(scene):
    file = scene.file("model.gguf", mutations.gguf(GGUF.read_bytes(), scene.chance))
    if scene.chance.random() < 0.3:
        return ["convert", "--input", file, "--output", scene.folder / "converted"]
    return scene.generate(file, "--chat", "false")


@case("adapter", 8)
def adapter(scene):
    spoiled, mutate = scene.chance.choice((("adapter_config.json", mutations.json_text), ("adapter_config.json", regular_expression),
                                          ("adapter_model.safetensors", mutations.safetensors)))
    folder = scene.copy(TINY / "adapter", "adapter", spoiled, mutate)
    kind = scene.chance.randrange(3)
    if kind == 0:
        return ["merge", "--adapter_name_or_path", folder, "--model_name_or_path", TINY, "--output", scene.folder / "merged"]
    if kind == 1:
        return scene.sft(model_name_or_path=TINY, adapter_name_or_path=folder)
    return scene.generate(TINY, "--adapter_name_or_path", folder)


def regular_expression(raw, chance):
    pattern = chance.choice(("(" * 20000 + ")" * 20000, "(a*)*b" * 20, ".*" * 5000, "(((((.*)*)*)*)*)*q_proj", "[a-" * 3000, "x{1000000}", "(x{1000}){1000}",
                             "(?=q_proj)", "\\", "[[:alpha:]]*", ".*\\.q_proj|" * 3000, "\x1b[2J"))
    return json.dumps({**json.loads(raw), "target_modules": pattern}).encode()


@case("data", 6)
def data_file(scene):
    source = scene.shared[scene.chance.choice(("text", "pairs"))]
    file = scene.file("rows.jsonl", mutations.json_lines(source.read_bytes(), scene.chance))
    if source == scene.shared["text"]:
        return scene.sft(dataset_name=file)
    return ["dpo", *scene.sft(dataset_name=file)[1:]]


@case("checkpoint", 6)
def checkpoint(scene):
    out = scene.folder / "out"
    shutil.copytree(scene.shared["stopped"], out)
    steps = steps_of(out)
    spoil(out, steps, steps[0], scene.chance)
    run = scene.shared["run"]
    return run.words(out, 2, "true", max_steps=4)[1:]


@case("gold answer", 4)
def gold_answer(scene):
    rows = [{"prompt": "What is 1 + 1?", "answer": mutations.answer(None, scene.chance), "solution": mutations.answer(None, scene.chance)} for _ in range(3)]
    file = scene.file("rows.jsonl", b"".join(json.dumps(row).encode("utf-8", "replace") + b"\n" for row in rows))
    reward = scene.chance.choice(("accuracy_reward(column=answer)", "accuracy_reward", "exact_match(column=answer)", "think_format_reward",
                                  'regex(pattern="(a*)*b")', "length(target=10)"))
    return ["reward-test", "--reward_funcs", reward, "--dataset_name", file]


@case("HTTP answer", 4)
def http_answer(scene):
    server = scene.shared["server"]
    name = f"{scene.folder.name}"
    server.answers[name] = random.Random(scene.chance.random())
    rows = [{"prompt": "What is 1 + 1?", "answer": "2"}, {"prompt": "What is 2 + 1?", "answer": "3"}]
    file = scene.file("rows.jsonl", b"".join(json.dumps(row).encode() + b"\n" for row in rows))
    return ["reward-test", "--reward_funcs", f"http://127.0.0.1:{server.server_port}/{name}", "--dataset_name", file]


@case("report for explain", 3)
def report(scene):
    text = json.dumps({"format": 1, "command": "sft", "step": 3, "signal": "SIGSEGV", "op": "gemm", "code": "NUM-02", "verdicts": [{"code": "NUM-02", "level": "fail",
                       "found": "x"}], "checkpoint": "out/checkpoint-2", "pid": 17, "where": "layer 3"}).encode()
    name = scene.chance.choice(("hone-fault.json", "hone-crash-17.json", "hone-running.json", "trainer_state.json"))
    scene.file(name, mutations.json_text(text, scene.chance))
    return ["explain", scene.folder]


@case("doctor", 2)
def doctor(scene):
    model = scene.copy(MODEL, "model", "config.json", mutations.json_text)
    text = (f"model_name_or_path: {model}\ndataset_name: {scene.shared['text']}\nuse_peft: true\nmax_steps: 2\nthreads: 1\n"
            f"output_dir: {scene.folder / 'out'}\n").encode()
    return ["doctor", scene.file("run.yaml", text)]


class Answers(http.server.ThreadingHTTPServer):
    """Answers POSTs with mutated JSON, wrong lengths, wrong statuses; each path has random numbers of its own."""
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answer)
        self.answers = {}
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        pass  # a client that hung up


class Answer(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        chance = self.server.answers.get(self.path.strip("/"), random.Random(0))
        try:
            count = len(json.loads(body)["completions"])
        except (ValueError, KeyError, TypeError):
            count = 1
        answer = json.dumps({"rewards": [0.5] * count}).encode()
        kind = chance.randrange(10)
        if kind < 5:
            answer = mutations.json_text(answer, chance)
        elif kind == 5:
            answer = chance.choice((b"<html>busy</html>", b"", b"\0" * 100, b"NaN", b"[1e999]", b"[" * 200000, b"\x1b[2J", json.dumps([0.5] * (count + 1)).encode(),
                                    b'{"rewards": ' + b" " * 5_000_000 + b"[0]}"))
        elif kind == 6:  # not HTTP
            self.wfile.write(chance.choice((b"\0\xff\n\n", b"HTTP/1.1 99999 x\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n{}",
                                            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffff\r\n", b"x" * 100_000)))
            self.close_connection = True
            return
        self.send_response(chance.choice((200, 200, 200, 200, 204, 301, 400, 404, 418)) if kind < 9 else 200)
        self.send_header("Content-Length", str(len(answer) + chance.choice((0, 0, 0, -1, 10))))
        self.end_headers()
        self.wfile.write(answer)


def limits():
    resource.setrlimit(resource.RLIMIT_AS, (MOST_ADDRESSES, MOST_ADDRESSES))
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU_S * 2, MOST_CPU_S * 2))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.setpgid(0, 0)


def run_limited(words, folder, stdin):
    """(code, words on stdout and stderr, resource usage)"""
    (folder / ".said").mkdir()
    with open(folder / ".said/in", "w+b") as given, open(folder / ".said/out", "wb") as out, open(folder / ".said/err", "wb") as err:
        given.write(stdin)
        given.seek(0)
        process = subprocess.Popen(words, cwd=folder, stdin=given, stdout=out, stderr=err, preexec_fn=limits,
                                   env={**os.environ, "NO_COLOR": "1", "XDG_CACHE_HOME": str(folder / ".cache")})
        killer = threading.Timer(MOST_WALL_S, os.killpg, (process.pid, signal.SIGKILL))
        killer.start()
        _, status, used = os.wait4(process.pid, 0)
        killer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, (folder / ".said/out").read_bytes(), (folder / ".said/err").read_bytes(), used


def verdict(command, code, out, err, used):
    """What is wrong, or ""."""
    cpu = used.ru_utime + used.ru_stime
    if code < 0:
        return f"ended by {signal.Signals(-code).name} after {cpu:.1f} s of CPU"
    if code not in ENDS and not (code == 1 and command in FINDS):
        return f"exit code {code}"
    if code != 0 and len((out + err).strip()) < 20:
        return f"exit code {code} without a sentence"
    if len(out) + len(err) > MOST_WORDS:
        return f"{len(out) + len(err)} bytes were printed"
    raw = [byte for byte in out + err if (byte < 0x20 and byte not in b"\n\t\r") or byte == 0x7F]
    if raw:
        return f"a raw control character 0x{raw[0]:02x} was printed"
    if cpu > MOST_CPU_S:
        return f"{cpu:.1f} s of CPU"
    if used.ru_maxrss * 1024 > MOST_RSS:
        return f"{used.ru_maxrss >> 10} MiB of memory"
    return ""


def shared_files(hone, root):
    """What many inputs begin from: rows, and a run with two checkpoints."""
    run = SmallRun(hone, "sft", root)
    pairs = SmallRun(hone, "dpo", root)
    stopped = root / "stopped"
    code, out, err, _ = run_limited_in(run.words(stopped, 2, max_steps=4), root / "first")
    if code != 0:
        raise SystemExit(f"not ok hostile inputs: the run that is not spoiled\n  {out}\n  {err}")
    for name in ("adapter_model.safetensors", "trainer_state.json"):
        (stopped / name).unlink()
    return {"text": run.rows, "pairs": pairs.rows, "stopped": stopped, "run": run, "server": Answers()}


def run_limited_in(words, folder):
    folder.mkdir()
    return run_limited([str(word) for word in words], folder, b"")


def kind_of(index):
    """By weight; few inputs too are of many kinds."""
    names = [name for name, (weight, _) in CASES.items() for _ in range(weight)]
    random.Random(3).shuffle(names)
    return names[index % len(names)]


def one_input(index, options, shared, root):
    """(kind, what is wrong, the command)"""
    chance = random.Random(f"{options.seed}:{index}")
    name = options.only or kind_of(index)
    folder = root / f"input_{index}"
    folder.mkdir()
    scene = Scene(folder, chance, shared)
    words = [options.hone, *CASES[name][1](scene)]
    words = [word if isinstance(word, bytes) else str(word).encode("utf-8", "surrogateescape") for word in words]
    # One word has at most 128 KiB in Linux.
    words = [word.replace(b"\0", b"?")[:100_000] for word in words]
    problem = verdict(words[1].decode(), *run_limited(words, folder, scene.stdin))
    if problem:
        kept = pathlib.Path(options.keep) / f"input_{index}"
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(folder, kept, symlinks=True)
        said = (folder / ".said/err").read_bytes()[-600:] or (folder / ".said/out").read_bytes()[-600:]
        printed = " ".join(shlex.quote(word.decode("utf-8", "backslashreplace")[:300]) for word in words).replace(str(folder), str(kept))
        problem += f"\n    {printed}\n    again: --seed {options.seed} {f'--only {shlex.quote(options.only)} ' if options.only else ''}--case {index}\n    said: {said!r}"
    shutil.rmtree(folder, ignore_errors=True)
    return name, problem


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", choices=CASES, default="")
    parser.add_argument("--case", type=int)
    parser.add_argument("--keep", default=str(pathlib.Path(tempfile.gettempdir()) / "hone_hostile"))
    parser.add_argument("--hone", type=pathlib.Path, default=SOURCE / "build/hone")
    options = parser.parse_args()
    options.hone = options.hone.resolve()
    counts, problems = collections.Counter(), collections.defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="hone_inputs_", dir=quick_folder()) as temporary:
        root = pathlib.Path(temporary)
        shared = shared_files(options.hone, root)
        indices = [options.case] if options.case is not None else range(options.count)
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for name, problem in pool.map(lambda index: one_input(index, options, shared, root), indices):
                counts[name] += 1
                if problem:
                    problems[name].append(problem)
    for name, count in counts.items():
        print(f"{'not ok' if problems[name] else 'ok'} hostile inputs: {name}, {count}", flush=True)
        for problem in problems[name][:10]:
            print(f"  {problem}")
    return 1 if any(problems.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
