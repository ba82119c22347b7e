#!/usr/bin/env python3
"""hone serve under load: streams and whole answers in closed loops, tokens a second, first tokens and gaps, what is lost, and memory.

usage: bench/serve_load.py --model FOLDER --out bench/results/NAME.md [--seconds 3600] [--held 512] [--streams 64] [--prompt 32] [--new 64]
--beside llama-server --gguf FILE: the same streams against llama.cpp's server, in turn with hone's on the same file or folder.
--beside llama-server --short: about three minutes. The folder, or q05b (bench/make_models.py) without --model, is exported to BF16 and
Q8_0; both servers have each file, and answer 1 stream and 8 streams in turns (--pairs 3 --seconds 4 --new 32, greedy).
No prompt is asked twice of a server: one that keeps short prompts would not compute them. --same: each client asks one prompt all the time.
Each of `held` clients waits for a whole answer, each of `streams` reads a stream; all ask again at once. Needs build/hone. Run it on an
idle machine.
"""
import argparse
import asyncio
import contextlib
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

from setting import PYTHON, SOURCE, build, environment_of, setting, table


class Found:
    """What the clients of one round saw."""

    def __init__(self):
        self.first, self.gaps, self.each, self.failures, self.tokens, self.answers = [], [], [], [], 0, 0


def prompt(o, number):
    draws = random.Random(number)
    return [100 + draws.randrange(150) for _ in range(o.prompt)]


async def ask(port, o, stream, number, found):
    body = json.dumps({"prompt": prompt(o, number), "max_tokens": o.new, "ignore_eos": True, "temperature": o.temperature,
                       **({"stream": True, "stream_options": {"include_usage": True}} if stream else {})}).encode()
    began = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
    try:
        writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: application/json\r\n"
                     b"Content-Length: %d\r\n\r\n" % len(body) + body)
        status = (await reader.readline()).split(b" ")[1]
        if status != b"200":
            raise ValueError(f"{status.decode()}: {(await reader.read())[-300:].decode()}")
        first, last, tokens, text = None, None, None, b""
        async for line in reader:
            if not stream:
                text += line
            elif line.startswith(b"data: {"):
                event, now = json.loads(line[6:]), time.perf_counter()
                tokens = (event.get("usage") or {}).get("completion_tokens", tokens)
                if not event.get("choices"):
                    continue
                (found.first if last is None else found.gaps).append(now - (began if last is None else last))
                first, last = first or now, now
        if not stream:
            tokens = json.loads(text[text.index(b"{"):text.rindex(b"}") + 1])["usage"]["completion_tokens"]
        if tokens != o.new:
            raise ValueError(f"{tokens} of {o.new} tokens")
        if stream and tokens > 1:
            found.each.append((last - first) / (tokens - 1))
        found.tokens += tokens
        found.answers += 1
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def loop(port, o, stream, client, end, found):
    while time.perf_counter() < end:
        o.asked += 1
        try:
            await ask(port, o, stream, -client if o.same else o.asked, found)
        except (OSError, ValueError, IndexError, KeyError, asyncio.IncompleteReadError) as why:
            found.failures.append(f"{type(why).__name__}: {why}")
            await asyncio.sleep(0.1)


def memory_mb(process):
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


async def warm(port, o):
    await asyncio.gather(*(ask(port, o, True, 2**40 + i, Found()) for i in range(8)))


async def clients(port, o, held, streams, process):
    found, memory = Found(), []
    began = time.perf_counter()
    end = began + o.seconds
    tasks = [asyncio.create_task(loop(port, o, i < streams, i, end, found)) for i in range(held + streams)]
    while time.perf_counter() < end:
        await asyncio.sleep(min(5.0, o.seconds / 4))
        memory.append(memory_mb(process))
    await asyncio.gather(*tasks)
    found.seconds, found.memory = time.perf_counter() - began, memory
    return found


@contextlib.contextmanager
def hone(o):
    with contextlib.ExitStack() as stack:
        root = stack.enter_context(tempfile.TemporaryDirectory())
        words = [build("hone"), "serve", o.gguf or o.model, "--port", 0, "--threads", o.threads, "--root", root]
        process = stack.enter_context(subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                                       env=environment_of(o.threads)))
        line = process.stdout.readline()
        if "http://" not in line:
            sys.exit("hone serve did not start")
        yield int(line.rsplit(":", 1)[1]), process
        process.terminate()
        if process.wait(120) != 0:
            sys.exit(f"hone serve ended with {process.returncode}")


@contextlib.contextmanager
def llama(o):
    words = [o.beside, "-m", o.gguf, "--host", "127.0.0.1", "--port", o.port, "-t", o.threads, "-tb", o.threads, "-np", o.streams,
             "-c", o.streams * (o.prompt + o.new + 64)]
    with subprocess.Popen([str(word) for word in words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment_of(o.threads)) as process:
        for _ in range(600):
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{o.port}/health").close()
                break
            time.sleep(0.2)
        else:
            sys.exit("llama-server did not start")
        yield o.port, process
        process.terminate()


def quantile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else float("nan")


def row(who, found):
    ms = [f"{1e3 * quantile(values, share):.0f}" for values in (found.first, found.gaps) for share in (0.5, 0.99)]
    return [who, f"{found.tokens / found.seconds:.1f}", *ms, found.answers, len(found.failures),
            f"{found.memory[len(found.memory) // 4]:.0f}, {found.memory[-1]:.0f}"]


def export(o, kind, folder):
    out = folder / f"{kind}.gguf"
    subprocess.run([build("hone"), "export", "--model_name_or_path", o.model, "--outtype", kind, "--output", out, "--compare", "0"], check=True,
                   stdout=subprocess.DEVNULL, env=environment_of(o.threads))
    return out


def median_row(kind, streams, who, rounds, beside):
    """Of a server's rounds; `beside`: those of the other one."""
    rates = [[one.tokens / one.seconds for one in all_of] for all_of in (rounds, beside)]
    first, gaps, each = ([value for one in rounds for value in getattr(one, name)] for name in ("first", "gaps", "each"))
    return [kind, streams, who, f"{statistics.median(rates[0]):.1f} ({min(rates[0]):.1f} to {max(rates[0]):.1f})",
            f"{statistics.median(rates[0]) / statistics.median(rates[1]):.2f}",
            f"{1e3 * statistics.median(each):.1f}", *(f"{1e3 * quantile(values, share):.0f}" for values in (first, gaps) for share in (0.5, 0.99)), sum(len(one.failures) for one in rounds)]


def short(o, parser):
    if not o.beside:
        sys.exit("--short is beside another server: --beside llama-server")
    o.pairs, o.seconds, o.new, o.temperature = (value if value != parser.get_default(name) else other for name, value, other in
                                                (("pairs", o.pairs, 3), ("seconds", o.seconds, 4), ("new", o.new, 32), ("temperature", o.temperature, 0.0)))
    began, lines, rows, lost = time.perf_counter(), setting(o.threads), [], 0
    o.streams = 8  # of llama-server's slots
    o.out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        if not o.model:
            o.model = f"{folder}/q05b"
            subprocess.run([PYTHON, "-W", "ignore", SOURCE / "bench/make_models.py", o.model, SOURCE / "third_party/tokenizers/qwen2_5"], check=True)
        for kind in ("bf16", "q8_0"):
            o.gguf = export(o, kind, pathlib.Path(folder))
            with hone(o) as ours, llama(o) as theirs:
                sides = {"hone": ours, "llama.cpp": theirs}
                rounds = {(who, streams): [] for who in sides for streams in (1, 8)}
                for who, (port, _) in sides.items():  # to warm up: the first answers do not count
                    asyncio.run(warm(port, o))
                for _ in range(o.pairs):
                    for streams in (1, 8):
                        for who, (port, process) in sides.items():
                            rounds[who, streams].append(asyncio.run(clients(port, o, 0, streams, process)))
            for streams in (1, 8):
                for who in sides:
                    other = next(one for one in sides if one != who)
                    rows.append(median_row(kind, streams, who, rounds[who, streams], rounds[other, streams]))
                    print(*rows[-1], *{why for one in rounds[who, streams] for why in one.failures[:1]}, flush=True)
            lost += sum(len(one.failures) for all_of in rounds.values() for one in all_of)
    head = ["file", "streams", "who", "tokens/s (range)", "times the other", "ms a token", "first ms p50", "p99", "gap ms p50", "p99", "lost"]
    o.out.write_text("\n".join([f"# hone serve beside llama.cpp's server, {o.threads} threads", "",
                                f"model {pathlib.Path(o.model).name}; prompts of {o.prompt} tokens, {o.new} new, temperature {o.temperature:g}; medians of {o.pairs} "
                                f"rounds of {o.seconds} s, in turns; both servers on the same file; {'a prompt of each client, asked again' if o.same else 'no prompt twice'}", "", *lines, "", *table(head, rows), ""]), encoding="utf-8")
    print(o.out, f"{time.perf_counter() - began:.0f} s")
    return 1 if lost else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model")
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--beside")
    parser.add_argument("--gguf")
    for name in ("short", "same"):
        parser.add_argument(f"--{name}", action="store_true")
    parser.add_argument("--temperature", type=float, default=1.0)
    for name, default in dict(seconds=3600, held=512, streams=64, prompt=32, new=64, threads=2, pairs=1, port=8090).items():
        parser.add_argument(f"--{name}", type=int, default=default)
    o = parser.parse_args()
    o.asked = 0  # requests so far
    if o.short:
        return short(o, parser)
    if not o.model:
        sys.exit("--model FOLDER is missing")
    if bool(o.beside) != bool(o.gguf):
        sys.exit("--beside and --gguf belong together")
    lines, sides = setting(o.threads), {"hone": hone} | ({"llama.cpp": llama} if o.beside else {})
    o.out.parent.mkdir(parents=True, exist_ok=True)
    rounds = {who: [] for who in sides}
    for _ in range(o.pairs):
        for who, server in sides.items():
            with server(o) as (port, process):
                found = asyncio.run(clients(port, o, o.held, o.streams, process))
            rounds[who].append(found)
            print(who, *row(who, found)[1:], *set(found.failures[:3]), flush=True)
    head = ["who", "tokens/s", "first ms p50", "p99", "gap ms p50", "p99", "answers", "lost", "MB after a quarter, at the end"]
    text = [f"# Load on hone serve, {o.threads} threads", "",
            f"model {pathlib.Path(o.gguf or o.model).name}; {o.held} whole answers and {o.streams} streams at a time, prompts of {o.prompt} tokens, {o.new} new; "
            f"{o.seconds} s a round", "", *lines, "", *table(head, [row(who, found) for who, all_of in rounds.items() for found in all_of])]
    if o.beside:
        rates = {who: statistics.median(one.tokens / one.seconds for one in all_of) for who, all_of in rounds.items()}
        text += ["", f"hone has {rates['hone'] / rates['llama.cpp']:.2f} times llama.cpp's tokens a second"]
    o.out.write_text("\n".join([*text, ""]), encoding="utf-8")
    print(o.out)
    return 1 if any(one.failures for one in rounds["hone"]) else 0


if __name__ == "__main__":
    sys.exit(main())
