#!/usr/bin/env python3
"""A server is killed at file calls of a save: what was saved before is whole, and what was being saved is whole or absent.

usage: tests/serve/save_kills.py [--hone PROGRAM] [--slow [--part 2/4]]   (at every call, or the second quarter of them; else at three of each kind)
"""
import argparse
import contextlib
import http.client
import json
import pathlib
import random
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / part) for part in ("python", "fuzz")]
from checks import Tests, holds, same
from file_calls import Meddler
from server import SOURCE, Server
from tinker_client import TinkerClient, datum

TOKENS = [5, 90, 17, 210, 44, 3, 120, 8]
DATUM = datum(TOKENS, weights=[1.0] * (len(TOKENS) - 1))


def state(client):
    """Log-probabilities, as bytes of an answer: they differ where the weights do."""
    return client.forward_backward([DATUM], forward_only=True)


def save(client):
    """A step, and the weights in the place of the former ones."""
    client.forward_backward([DATUM])
    client.numbered("optim_step", adam_params={"learning_rate": 0.01})
    return client.numbered("save_weights", path="a", overwrite=True)["path"]


class Kills:
    def __init__(self, program, root):
        self.program, self.root, self.meddler = program, pathlib.Path(root), Meddler()
        with self.started("count") as (server, log):
            client, self.states = TinkerClient(server), []
            for _ in range(2):
                save(client)
                self.states.append(state(client))
            server.stop()
            self.calls = self.meddler.calls(log)
        holds(self.states[0] != self.states[1], "the second step changed nothing")
        holds(len(self.calls) > 20, self.calls)

    @contextlib.contextmanager
    def started(self, act, at=0):
        with tempfile.TemporaryDirectory(dir=self.root) as folder:
            log, environment = self.meddler.environment(self.program, folder, act, at)
            with Server(self.program, "--root", folder, environment=environment) as server:
                server.folder = folder
                yield server, log

    def kill(self, act, at):
        """Whether the server was killed, and what is there then."""
        where = f"{act} call {at + 1}, {self.calls[at]}"
        saved, client = 0, None
        with self.started(act, at + 1) as (server, _):
            with contextlib.suppress(ConnectionError, http.client.HTTPException, json.JSONDecodeError):
                client = TinkerClient(server)
                for _ in range(2):
                    save(client)
                    saved += 1
            code = server.process.wait(30) if saved < 2 else server.stop()
            assert code in ((-9,) if saved < 2 else (0, -9)), f"{where}: ended with {code}"
            with Server(self.program, "--root", server.folder) as again:
                self.check(again, client, saved, where)
        return saved < 2

    def check(self, server, client, saved, where):
        loaded = TinkerClient(server, f"tinker://{client.model}/weights/a")
        if "error" in loaded.made:
            same(saved, 0, f"{where}: weights that were saved are lost: {loaded.made}")
            return
        found = state(loaded)
        possible = {0: self.states[:1], 1: self.states, 2: self.states[1:]}[saved]
        holds(found in possible, f"{where}: after {saved} saves the weights are neither the former ones nor the new ones")


def test_kills(program, slow, part):
    """a kill at each file call of a save leaves the former weights or the new ones, whole"""
    with tempfile.TemporaryDirectory() as root:
        kills = Kills(program, root)
        chance, killed = random.Random(7), 0
        for act in ("before", "after", "torn"):
            places = [n for n, (name, _) in enumerate(kills.calls) if act != "torn" or "write" in name]
            for at in places[part[0] - 1 :: part[1]] if slow else sorted(chance.sample(places, min(3, len(places)))):
                killed += kills.kill(act, at)
        holds(killed > 5, f"{killed} of the kills came")
        print(f"# {killed} kills, of {len(kills.calls)} file calls")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hone", default=str(SOURCE / "build/hone"))
    parser.add_argument("--slow", action="store_true")
    parser.add_argument("--part", type=lambda text: [int(one) for one in text.split("/")], default=[1, 1])
    options = parser.parse_args()
    tests = Tests()
    tests.run([test_kills], options.hone, options.slow, options.part)
    return 1 if tests.failed else 0


if __name__ == "__main__":
    sys.exit(main())
