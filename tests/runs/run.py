#!/usr/bin/env python3
"""Golden command runs: each folder beside this file is a case, run in a copy of itself.

  cmd       one command a line; all but the last have to succeed. {source} is the project, {tiny} a tiny Llama with its
            tokenizer, {rows} a folder of small JSONL files, {model} the SmolLM2 file, {esc} the character ESC, {byte} a byte
            that is no UTF-8. Before `hone ...` may stand:
              limit 20             no file may grow beyond 20 KiB (ulimit -f)
              interrupt TEXT       Ctrl-C as soon as stdout has a line with TEXT; ends with 130
              hangup TEXT          the same with the signal of a terminal that went away
              closed               stdout is a pipe that nobody reads; ends with 2
              input FILE           stdin is this file of the case; without it stdin is empty
              fails                this command is not the last one and has to end with 2
            and as lines of their own:
              tmpfs 100 FOLDER     a file system of 100 KiB; the case is skipped where mounting is not allowed
              flip FILE            the byte in the middle of the file is changed
  setup.py  optional: makes files before the first command (staging.py helps), in the case's copy
  expect    one assertion a line, about the last command:
              exit 2                 its exit code (0 where it is not said)
              out: text              stdout has a line that contains the text          out~ regex    ... that matches
              err: text / err~ regex the same for stderr
              not: text              neither stdout nor stderr contains it
              json                   stdout is JSON
              file: pattern          a path that matches is there afterwards
              gone: pattern          no path of the folder matches, as in `gone: **/.hone-*`
              in: path text          the file has a line that contains the text
              same: path path        both files have the same bytes; differ: path path: they have not
              mode: path 600         the file's rights, in octal
              untouched              nothing in the folder was created, changed or removed
              slow                   only with --slow
              needs: path            without it (placeholders allowed) the case is skipped, not passed

What a case prints never holds control characters, bidirectional overrides or bytes that are no UTF-8, whatever the case.

Prints `ok NAME`, `not ok NAME` or `skip NAME: why`; a case that fails shows what was printed.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
LIMIT_S = 120
# Bytes that are no UTF-8 are read as lone surrogates.
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\udc80-\udcff].{0,20}")
INTERRUPTED = 130
# Without what would hide that Python writes beside a user's files.
PLAIN = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
WORDS = ("exit", "out:", "out~", "err:", "err~", "not:", "json", "file:", "gone:", "in:", "same:", "differ:", "mode:", "untouched", "slow",
         "needs:")


class Skip(Exception):
    """The machine cannot stage this case."""


def snapshot(folder):
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() if p.is_file() else "folder"
            for p in sorted(folder.rglob("*"))}


def statements(path, places):
    """(word, rest) a line. An unknown word is an error: an assertion never passes by being misspelled."""
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        word, _, rest = line.strip().partition(" ")
        if word not in WORDS:
            raise ValueError(f"{path}: unknown assertion `{line}`; known: {' '.join(WORDS)}")
        yield word, fill(rest.strip(), places)


def fill(text, places):
    for name, value in places.items():
        text = text.replace("{" + name + "}", str(value))
    return text


def modifiers(words):
    """(what stands before `hone`, the words after it), as {"limit": KiB, "interrupt": text, "fails": True}, [...]."""
    found = {}
    while words and words[0] != "hone":
        word = words.pop(0)
        if word in ("fails", "closed"):
            found[word] = True
        elif word in ("limit", "interrupt", "hangup", "input") and words:
            found[word] = words.pop(0)
        else:
            raise ValueError(f"a command begins with `hone`, not `{word}`")
    return found, words[1:]


def closed_pipe():
    """The writing end of a pipe whose reader has gone."""
    reader, writer = os.pipe()
    os.close(reader)
    return os.fdopen(writer, "wb")


# What hone keeps of a machine (the doctor's probes of kernels) stays out of the home of who runs the tests.
CACHE = tempfile.TemporaryDirectory(prefix="hone-cache-")


def run_hone(hone, arguments, folder, asked):
    """(exit code, stdout, stderr). The output goes to files, so that a pipe never makes hone wait."""
    def prepare():
        # Under nohup or as a background job these are ignored, and a child inherits that.
        for ignored in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            signal.signal(ignored, signal.SIG_DFL)
        if "limit" in asked:
            size = int(asked["limit"]) * 1024
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    with tempfile.TemporaryDirectory(prefix="hone-said-") as said:
        out, err = pathlib.Path(said) / "out", pathlib.Path(said) / "err"
        waits_for = asked.get("interrupt", asked.get("hangup"))
        given = open(folder / asked["input"] if "input" in asked else os.devnull, "rb")
        with out.open("wb") as out_file, err.open("wb") as err_file, closed_pipe() as nobody, given as stdin:
            process = subprocess.Popen([hone, *arguments], cwd=folder, stderr=err_file,
                                       stdout=nobody if "closed" in asked else out_file, stdin=stdin,
                                       env={**PLAIN, "NO_COLOR": "1", "XDG_CACHE_HOME": CACHE.name},
                                       preexec_fn=prepare)
            try:
                deadline = time.monotonic() + LIMIT_S
                while waits_for is not None and process.poll() is None and time.monotonic() < deadline:
                    if waits_for in out.read_text(errors="replace"):
                        process.send_signal(signal.SIGHUP if "hangup" in asked else signal.SIGINT)
                        break
                    time.sleep(0.01)
                process.wait(max(0.0, deadline - time.monotonic()))
            finally:
                process.kill()
                process.wait()
        return process.returncode, *(p.read_text("utf-8", errors="surrogateescape") for p in (out, err))


def mount_tmpfs(folder, size):
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={int(size)}k", "none", folder], capture_output=True,
                          text=True, check=False)
    if done.returncode != 0:
        raise Skip("a small file system cannot be mounted here")
    return folder


def flip(path):
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 0x55
    path.write_bytes(raw)


def run_commands(case, folder, hone, places, mounts):
    """The last command's (exit code, stdout, stderr, snapshot before it)."""
    lines = [l for l in (case / "cmd").read_text(encoding="utf-8").splitlines() if l.strip() and l[0] != "#"]
    for i, line in enumerate(lines):
        words = shlex.split(fill(line, places))
        if words[0] == "tmpfs":
            mounts.append(mount_tmpfs(folder / words[2], words[1]))
            continue
        if words[0] == "flip":
            flip(folder / words[1])
            continue
        asked, arguments = modifiers(words)
        before = snapshot(folder)
        code, out, err = run_hone(hone, arguments, folder, asked)
        stopped = "interrupt" in asked or "hangup" in asked
        wanted = 2 if "fails" in asked or "closed" in asked else INTERRUPTED if stopped else 0
        if code != wanted and i + 1 < len(lines):
            raise ValueError(f"`{line}` ended with {code}: {err.strip()}")
    return code, out, err, before


def is_json(text):
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def has_line(folder, path, text):
    return any(text in l for l in (folder / path).read_text(encoding="utf-8", errors="replace").splitlines())


def holds(word, rest, code, out, err, before, folder):
    if word in ("out:", "out~", "err:", "err~"):
        lines = (out if word.startswith("out") else err).splitlines()
        return any(rest in l if word[3] == ":" else re.search(rest, l) for l in lines)
    if word == "not:":
        return rest not in out and rest not in err
    if word == "json":
        return is_json(out)
    if word == "file:":
        return any(folder.glob(rest))
    if word == "gone:":
        return not any(folder.glob(rest))
    if word == "in:":
        return (folder / rest.partition(" ")[0]).exists() and has_line(folder, *rest.split(" ", 1))
    if word in ("same:", "differ:"):
        files = [folder / p for p in rest.split()]
        equal = len({f.read_bytes() for f in files if f.exists()}) == 1
        return all(f.exists() for f in files) and equal == (word == "same:")
    if word == "mode:":
        path, _, mode = rest.partition(" ")
        return (folder / path).stat().st_mode & 0o7777 == int(mode, 8)
    if word == "untouched":
        return snapshot(folder) == before
    return True


def run_setup(case, folder):
    if not (case / "setup.py").exists():
        return
    done = subprocess.run([sys.executable, case / "setup.py"], cwd=folder, capture_output=True, text=True, check=False,
                          env={**os.environ, "PYTHONPATH": str(HERE), "PYTHONDONTWRITEBYTECODE": "1"})
    if done.returncode != 0:
        raise ValueError(f"{case.name}/setup.py: {done.stderr.strip()}")


def run_case(case, hone, places):
    """The assertions that do not hold, and what was printed."""
    mounts = []
    with tempfile.TemporaryDirectory(prefix="hone-run-") as temporary:
        folder = pathlib.Path(temporary) / "case"
        shutil.copytree(case, folder, ignore=shutil.ignore_patterns("cmd", "expect", "setup.py"))
        try:
            run_setup(case, folder)
            code, out, err, before = run_commands(case, folder, hone, places, mounts)
            asserted = list(statements(case / "expect", places))
            wanted = int(next((rest for word, rest in asserted if word == "exit"), 0))
            broken = [f"exit {wanted}, found {code}"] if code != wanted else []
            broken += [f"{word} {rest}" for word, rest in asserted
                       if not holds(word, rest, code, out, err, before, folder)]
            broken += [f"nothing that steers a terminal, found {ascii(m[0])}" for m in STEERING.finditer(out + err)]
            return broken, f"stdout:\n{out}stderr:\n{err}".encode("utf-8", "replace").decode()
        finally:
            for mount in mounts:
                subprocess.run(["umount", mount], check=False)


def outcome(case, hone, places, slow):
    asserted = list(statements(case / "expect", places))
    if any(word == "slow" for word, _ in asserted) and not slow:
        return None
    for word, rest in asserted:
        if word == "needs:" and not pathlib.Path(rest).exists():
            return f"skip {case.name}: {rest} is not there"
    try:
        broken, printed = run_case(case, hone, places)
    except Skip as why:
        return f"skip {case.name}: {why}"
    if not broken:
        return f"ok {case.name}"
    return "\n".join([f"not ok {case.name}", *(f"  does not hold: {b}" for b in broken), printed.rstrip()])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hone", default=str(HERE.parent.parent / "build" / "hone"))
    parser.add_argument("--cases", type=pathlib.Path, default=HERE)
    parser.add_argument("--model", default="")
    parser.add_argument("--slow", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("only", nargs="*", help="names of cases; default all")
    args = parser.parse_args()
    source = HERE.parent.parent
    parity = source / "tests" / "fixtures" / "parity"
    places = {"esc": "\x1b", "byte": "\udc9b", "source": source, "model": args.model, "tiny": parity / "tiny_llama", "rows": parity / "sft"}
    cases = [c for c in sorted(p.parent for p in args.cases.glob("*/cmd")) if not args.only or c.name in args.only]
    failed = False

    def text_of(case):
        try:
            return outcome(case, os.path.abspath(args.hone), places, args.slow)
        except (ValueError, OSError, re.error, subprocess.TimeoutExpired) as error:
            return f"not ok {case.name}\n  {error}"

    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for text in pool.map(text_of, cases):
            if text:
                print(text, flush=True)
                failed = failed or text.startswith("not ok")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
