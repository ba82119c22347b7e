"""Tools and environments of tool_runs.py: late, failing, ending their processes. Each function says what it does before it does anything."""
import asyncio
import os
import random
import signal
import sys
import time

START, DELAY = os.environ.get("TOOL_RUNS_START", "0"), float(os.environ.get("TOOL_RUNS_DELAY", "0"))
LIE = os.environ.get("TOOL_RUNS_LIE", "")
PLACE = os.environ["TOOL_RUNS_EVENTS"]
HOLD = os.environ.get("TOOL_RUNS_HOLD", "")  # once this path exists, no reward comes
LATE = random.SystemRandom()  # other delays in each process; Python's generator is the environment's


def tell(*words):
    file = os.open(PLACE, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, (" ".join(map(str, (START, *words))) + "\n").encode())
    os.close(file)


def begun(name, a):
    tell("function", name, a)
    if LATE.random() < 0.5:
        time.sleep(DELAY * LATE.random())


def held():
    """Whoever holds the run kills it. The limit ends a run whose watcher is gone."""
    end = time.monotonic() + 100
    while HOLD and os.path.exists(HOLD) and time.monotonic() < end:
        time.sleep(0.01)


def add(a: int) -> int:
    """Adds seven.

    Args:
        a: The number.
    """
    begun("add", a)
    return a + 7


async def later(a: int) -> str:
    """Says it later.

    Args:
        a: The number.
    """
    tell("function", "later", a)
    await asyncio.sleep(DELAY * LATE.random())
    if a == 9:
        raise KeyError("nine")
    return "later " * a


def risk(a: int) -> str:
    """Fails in several ways.

    Args:
        a: How.
    """
    begun("risk", a)
    if a == 0:
        os.kill(os.getpid(), signal.SIGSEGV)
    if a == 1:
        os._exit(3)
    if a == 2:
        sys.exit("enough")
    if a < 5:
        raise ValueError(f"not {a}")
    return "went well"


class Bag:
    """Its numbers come from Python's generator, which each reset seeds."""

    def reset(self, start, **row):
        tell("reset", "Bag", start)
        time.sleep(DELAY * LATE.random())
        self.sum = start
        return f" {random.randrange(100)} things." + LIE

    def put(self, a: int) -> str:
        """Puts something in.

        Args:
            a: How much.
        """
        tell("method", "put", a)
        time.sleep(DELAY * LATE.random())
        self.sum += a * random.randrange(1, 4)
        return f"{self.sum} in it" + LIE

    def drop(self, a: int) -> str:
        """Drops it.

        Args:
            a: How.
        """
        tell("method", "drop", a)
        if a < 3:
            os._exit(a)
        self.sum = random.randrange(10)
        return "dropped" + LIE

    def get_reward(self):
        tell("reward", "Bag", self.sum)
        held()
        return float(self.sum)


class Clock:
    def reset(self, seed, start, **row):
        tell("reset", "Clock", start)
        self.random, self.hours = random.Random(seed), start
        return LIE or None

    async def tick(self, a: int) -> str:
        """Goes on.

        Args:
            a: How far.
        """
        tell("method", "tick", a)
        self.hours = now = self.hours + a + self.random.randrange(3)
        await asyncio.sleep(DELAY * LATE.random())
        return f"{now} o'clock" + LIE

    def get_reward(self):
        held()
        return None if self.hours > 30 else self.hours / 10


def calls(completions, **kwargs):
    tell("reward", "calls", len(completions))
    return [float(sum(m["role"] == "tool" for m in c)) + 0.25 * c[-1].get("content", "").endswith("3") for c in completions]
