#!/usr/bin/env python3
"""`hone chat` as a person meets it: on a terminal (a pty), with Ctrl-C and Ctrl-D, and through pipes that stay open.

Prints `ok NAME` or `not ok NAME` a check. usage: chat_terminal.py [--hone PROGRAM]
"""
import argparse
import os
import pathlib
import pty
import select
import signal
import subprocess
import sys
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
MODEL = SOURCE / "tests/fixtures/parity/tiny_llama"
WAIT_S = 60
PROMPT = b"> "


def report(name, passed, why=""):
    print(f"{'ok' if passed else 'not ok'} chat: {name}" + ("" if passed else f"\n  {why}"), flush=True)
    return passed


def default_signals():
    """Under nohup or in the background Ctrl-C is ignored, and a child inherits that."""
    for one in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(one, signal.SIG_DFL)


class Terminal:
    """A chat whose stdin, stdout and stderr are one terminal."""

    def __init__(self, hone, *options):
        self.pid, self.file = pty.fork()
        if self.pid == 0:
            default_signals()
            os.execv(hone, [str(hone), "chat", str(MODEL), "--threads", "1", *options])

    def until(self, text):
        """What is shown up to and with `text` (which may be anything), or to the end."""
        shown, deadline = b"", time.monotonic() + WAIT_S
        while (not shown or text not in shown) and time.monotonic() < deadline:
            if select.select([self.file], [], [], 0.1)[0]:
                try:
                    more = os.read(self.file, 4096)
                except OSError:  # how Linux says that the other side is closed
                    break
                if not more:
                    break
                shown += more
        return shown

    def type(self, text):
        os.write(self.file, text)

    def status(self):
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.02)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        return "it had to be killed"


def on_a_terminal(hone):
    chat = Terminal(hone, "--temperature", "0", "--max_new_tokens", "450")
    passed = report("says how to leave", b"/exit leaves" in chat.until(PROMPT))
    chat.type(b"half a message\x03")
    shown = chat.until(PROMPT)
    passed &= report("Ctrl-C at the prompt drops the line", shown.endswith(b"\n" + PROMPT), shown)
    chat.type(b"/rest\n")
    shown = chat.until(PROMPT)
    passed &= report("a command that is none is told, and the conversation goes on",
                     b"Did you mean '/reset'?" in shown, shown)
    for _ in range(5):  # where this process gets no turn for a while, an answer is whole before it is stopped
        chat.type(b"Tell me more\n")
        if chat.until(b"Tell me more\r\n").endswith(b"\n"):
            chat.until(b"")  # some of the answer
        chat.type(b"\x03")
        shown = chat.until(PROMPT)
        if b"(stopped)" in shown:
            break
    passed &= report("Ctrl-C stops the answer", b"(stopped)" in shown, shown)
    chat.type(b"/reset\n")
    chat.until(PROMPT)
    chat.type(b"\x04")
    passed &= report("Ctrl-D leaves", chat.status() == 0)
    return passed


def controls_are_shown(hone):
    """No token of the model may steer the terminal: with many drawn at random, none but line ends and tabs is left."""
    chat = Terminal(hone, "--temperature", "5", "--max_new_tokens", "300")
    chat.until(PROMPT)
    chat.type(b"Hi\n")
    shown = chat.until(b"\r\n" + PROMPT)
    steering = [c for c in shown if (c < 32 and c not in b"\r\n\t") or c == 127]
    passed = report("control characters of an answer are shown, not sent", not steering and b"\\x" in shown, shown)
    chat.type(b"/exit\n")
    return passed and report("/exit leaves", chat.status() == 0)


def talk(hone, text, *options):
    done = subprocess.run([hone, "chat", MODEL, "--threads", "1", "--max_new_tokens", "12", *options], input=text.encode(),
                          capture_output=True, check=False, timeout=WAIT_S)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def through_pipes(hone):
    greedy = ("--temperature", "0")
    one, two = talk(hone, "Hello\n", *greedy), talk(hone, "Hello\nAnd now?\n", *greedy)
    passed = report("a second message continues the conversation", two.startswith(one) and len(two) > len(one), (one, two))
    anew = talk(hone, "Hello\nAnd now?\n/reset\nHello\n", *greedy)
    passed &= report("/reset starts again", anew == two + one, (anew, two, one))
    left = talk(hone, "Hello\n/exit\nAnd now?\n", *greedy)
    passed &= report("/exit leaves the rest of a pipe unread", left == one, (left, one))
    drawn = [talk(hone, "Hello\nHello\n", "--seed", seed) for seed in ("3", "3", "4")]
    passed &= report("the same seed draws the same, another seed does not", drawn[0] == drawn[1] != drawn[2], drawn)
    system = talk(hone, "Hello\n", *greedy, "--system_prompt", "Be brief.")
    passed &= report("the system's message counts", system != one, system)
    return passed


def adapters_are_switched(hone):
    """One process that switches says what processes with one adapter each say, of the same conversation."""
    options = ("--temperature", "0", "--bf16", "false")
    names = ("adapter", "adapter_second", "adapter_dora")
    one = {name: talk(hone, "Hello\n", *options, "--adapter_name_or_path", str(MODEL / name)) for name in names}
    one["none"] = talk(hone, "Hello\n", *options)
    passed = report("each adapter answers otherwise", len(set(one.values())) == 4, one)
    given = ("--adapters", f"first={MODEL}/adapter", str(MODEL / "adapter_second"), f"{MODEL}/adapter_dora/")
    turns = [("adapter_dora", "adapter_dora"), ("none", "none"), ("adapter_second", "adapter_second"), ("first", "adapter"),
             ("adapter_dora", "adapter_dora")]
    said = talk(hone, "Hello\n" + "".join(f"/adapter {name}\n/reset\nHello\n" for name, _ in turns), *options, *given)
    wanted = one["adapter"] + b"".join(one[name] for _, name in turns)
    passed &= report("a switch is a process with that adapter", said == wanted, (said, wanted))
    # The conversation stays and is computed again: two messages, with the second answered by another adapter.
    both = talk(hone, "Hello\n/adapter adapter_second\nAnd then?\n", *options, *given)
    again = talk(hone, "Hello\n/adapter none\n/adapter adapter_second\nAnd then?\n", *options, *given)
    anew = talk(hone, "Hello\n/adapter adapter_second\n/reset\nAnd then?\n", *options, *given)
    passed &= report("the conversation stays", both == again != anew and both.startswith(one["adapter"]), (both, again, anew))
    chat = Terminal(hone, *options, "--max_new_tokens", "4", *given)
    shown = chat.until(PROMPT)
    passed &= report("the adapters are listed, the first is on", b"* first" in shown and b"  none" in shown, shown)
    chat.type(b"/adapter secnd\n")
    shown = chat.until(PROMPT)
    passed &= report("an unknown adapter is told", b"expected one of first" in shown, shown)
    chat.type(b"/adapter adapter_second\n")
    shown = chat.until(PROMPT)
    passed &= report("a switch is shown", b"* adapter_second" in shown, shown)
    chat.type(b"/exit\n")
    return passed and report("/exit leaves", chat.status() == 0)


def interrupted_while_it_waits(hone):
    process = subprocess.Popen([hone, "chat", MODEL, "--threads", "1", "--max_new_tokens", "2"], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, preexec_fn=default_signals)
    process.stdin.write(b"Hello\n")
    process.stdin.flush()
    answer = process.stdout.readline()
    time.sleep(0.2)  # it is back at reading, or about to be: both end in the same way
    process.send_signal(signal.SIGINT)
    try:
        code = process.wait(WAIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        code = "it had to be killed"
    return report("Ctrl-C ends a pipe that waits, with 130", answer != b"" and code == 130, (answer, code))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hone", type=pathlib.Path, default=SOURCE / "build/hone")
    hone = parser.parse_args().hone.resolve()
    checks = [on_a_terminal, controls_are_shown, through_pipes, adapters_are_switched,
              interrupted_while_it_waits]
    return 0 if all([check(hone) for check in checks]) else 1


if __name__ == "__main__":
    sys.exit(main())
