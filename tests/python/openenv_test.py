#!/usr/bin/env python3
"""Servers of OpenEnv as environments: the protocol, its errors, the limit of sessions, and a run, beside a server in this process.

usage: tests/python/openenv_test.py [--hone PROGRAM]
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import types

sys.dont_write_bytecode = True
import openenv_stub
from checks import QUICK, SOURCE, Tests, holds, raises, same
from tools_test import model_in

try:
    import websockets.sync.client  # noqa: F401 - the package itself, where it is there
    STAND_IN = False
except ImportError:
    STAND_IN = True
    sync = types.SimpleNamespace(client=openenv_stub)
    sys.modules.update({"websockets": types.ModuleType("websockets"), "websockets.sync": sync, "websockets.sync.client": openenv_stub})


def served(**more):
    """(server, the class of its environments)"""
    from hone.tools import openenv
    server = openenv_stub.Server(**more)
    return server, openenv(server.url)


def test_tools(_):
    """tools are MCP's, with the server's schemas; results, rewards and the end of an episode are those of the newest observation"""
    server, factory = served()
    one = factory()
    same((factory.__name__, one.get_reward()), ("CounterServer", None))
    schema = {"type": "object", "properties": {"by": {"type": "integer"}}, "required": ["by"]}
    same(factory.count.hone_schema, {"type": "function", "function": {"name": "count", "description": "Counts.", "parameters": schema}})
    same((one.reset(prompt=[], limit=3, seed=7), one.get_reward()), ("Count to 3.", None))
    same(server.rows, [{"limit": 3, "seed": 7}])
    same((one.count(by=2), one.get_reward()), ("at 2", 2.0))
    raises(RuntimeError, "by is no integer", lambda: one.count(by="x"))
    same((one.count(by=1), one.get_reward()), ("at 3", 3.0))
    raises(RuntimeError, "the episode is over", lambda: one.count(by=1))
    same((one.reset(start=1), one.get_reward(), one.count(by=1)), ("Count to 3.", None, "at 2"))
    same(server.begun, 2, "sessions: one that asked for the tools, one that is kept over resets")
    server.close()


def test_action(_):
    """a server without MCP has one tool, step, with its action's arguments"""
    server, factory = served(has_mcp=False)
    one = factory()
    same(factory.step.hone_schema["function"]["parameters"], {"type": "object", "properties": {"by": {"type": "integer"}}, "required": ["by"]})
    one.reset()
    same((one.step(by=2), one.get_reward()), ("at 2", 2.0))
    raises(RuntimeError, "VALIDATION_ERROR: Invalid message", lambda: one.step(by="x"))
    server.close()


def test_errors(_):
    """errors have the server's code; a lost connection fails calls until the next reset, which opens another"""
    from hone.tools import _openenv
    server, factory = served()
    one = factory()
    raises(RuntimeError, "EXECUTION_ERROR: no such task", lambda: one.reset(fails=True))
    one.reset()
    server.drop()
    raises(ConnectionError, "was lost at step", lambda: one.count(by=1))
    raises(ConnectionError, "is lost until the next reset", lambda: one.count(by=1))
    same((one.reset(), one.count(by=1)), ("Count to 3.", "at 1"))
    raises(RuntimeError, "UNKNOWN_TYPE", lambda: one._ask("dance"))
    server.close()
    for words, url in (("a server of OpenEnv at", "ws://127.0.0.1:9"), ("ws://host:port", "127.0.0.1:8000"), ("ws://host:port", "ftp://a")):
        raises(ValueError, words, lambda url=url: _openenv.openenv(url))
    same(_openenv.addresses("https://a.b/c/"), ("https://a.b/c", "wss://a.b/c/ws"))
    same(_openenv.addresses("ws://a:1/ws"), ("http://a:1", "ws://a:1/ws"))


def test_without_websockets(_):
    """without the package websockets it is refused, with the line that installs it"""
    from hone.tools import _openenv
    kept = {name: sys.modules.pop(name) for name in list(sys.modules) if name.split(".")[0] == "websockets"}
    sys.modules["websockets"] = None
    try:
        raises(ValueError, "pip install 'websockets>=13'", lambda: _openenv.openenv("ws://127.0.0.1:9"))
    finally:
        del sys.modules["websockets"]
        sys.modules.update(kept)


def test_capacity(folder):
    """a server that holds fewer sessions than completions are sampled at once is refused when the trainer is made, with both numbers"""
    server, factory = served(sessions=3)
    one = factory()
    one.reset()
    one._hone_capacity(3)
    module = sys.modules["hone.tools._openenv"]
    waits, module.WAITS = module.WAITS, (0.01, 0.2)
    try:
        refused_beyond(one, factory, folder)
    finally:
        module.WAITS = waits
    server.close()


def refused_beyond(one, factory, folder):
    found = raises(ValueError, "a server that holds 4 sessions at once", lambda: one._hone_capacity(4)).hone_fault
    holds("holds 3: CAPACITY_REACHED" in found[1] and "max_concurrent_envs=4" in found[3], str(found))
    others = [factory(), factory()]
    for other in others:
        other.reset()
    raises(RuntimeError, "Raise the server's max_concurrent_envs", factory().reset)
    for other in (one, *others):
        other._session.end()
    raises(ValueError, "a server that holds 4 sessions at once", lambda: trainer_of(folder, factory))


def trainer_of(folder, factory, **more):
    from hone import trl
    config = {"max_steps": 1, "num_generations": 2, "max_completion_length": 8, **QUICK, "per_device_train_batch_size": 4}
    rows = [{"prompt": [{"role": "user", "content": f"count {n}. "}], "limit": 5 + n} for n in range(2)]
    args = trl.GRPOConfig(output_dir=str(folder / "out"), **config)
    return trl.GRPOTrainer(model_in(folder), environment_factory=factory, train_dataset=rows, args=args)


def test_run(folder):
    """a run of hone.trl: a session for each completion, rows in its resets, its rewards under the server's name"""
    server, factory = served(sessions=4)
    trainer = trainer_of(folder, factory)
    trainer.train()
    same(sorted(row["limit"] for row in server.rows), [5, 5, 6, 6])
    logged = [entry for entry in trainer.state.log_history if "loss" in entry]
    holds("rewards/CounterServer/mean" in logged[0], str(logged[0]))
    server.close()


def test_file(folder):
    """`environment: ws://...` of a YAML file: the program's own processes hold the sessions; too few of them end the run before step 1"""
    stub = folder / "site/websockets/sync"
    stub.mkdir(parents=True)
    if STAND_IN:
        for name in ("site/websockets/__init__.py", "site/websockets/sync/__init__.py"):
            (folder / name).write_text("", encoding="utf-8")
        (stub / "client.py").write_text((SOURCE / "tests/python/openenv_stub.py").read_text(encoding="utf-8"), encoding="utf-8")
    rows = [{"prompt": [{"role": "user", "content": f"count {n}. "}], "limit": 5 + n} for n in range(2)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    model = model_in(folder)
    for sessions, code in ((3, 2), (4, 0)):
        server = openenv_stub.Server(sessions=sessions)
        options = {"model_name_or_path": model, "dataset_name": "rows.jsonl", "environment": "ws" + server.url.removeprefix("http"),
                   "output_dir": "out", "use_peft": True, "max_steps": 1,
                   "num_generations": 2, "max_completion_length": 8, **QUICK, "per_device_train_batch_size": 4,
                   "report_to": "none", "python": sys.executable}
        (folder / "run.yaml").write_text("".join(f"{name}: {json.dumps(value)}\n" for name, value in options.items()), encoding="utf-8")
        paths = [str(folder / "site")] if STAND_IN else []
        done = subprocess.run([os.environ["HONE_PROGRAM"], "grpo", "--config", "run.yaml"], cwd=folder, capture_output=True, text=True, timeout=300,
                              env={**os.environ, "PYTHONPATH": os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")])})
        same(done.returncode, code, done.stdout[-2000:] + done.stderr[-2000:])
        if code:
            holds("a server that holds 4 sessions at once" in done.stderr and "holds 3: CAPACITY_REACHED" in done.stderr, done.stderr[-2000:])
        else:
            same(sorted(row["limit"] for row in server.rows), [5, 5, 6, 6])
            holds("seed" in server.rows[0], "reset names a seed")
        server.close()
    logged = json.loads((folder / "out/metrics.jsonl").read_text(encoding="utf-8").splitlines()[0])
    holds("rewards/CounterServer/mean" in logged, str(logged))


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--hone")
    given = options.parse_args()
    if given.hone:
        os.environ["HONE_PROGRAM"] = str(pathlib.Path(given.hone).resolve())
    tests = Tests()
    for function in [value for name, value in sorted(globals().items()) if name.startswith("test_")]:
        with tempfile.TemporaryDirectory(prefix="hone-openenv-") as folder:
            tests.run([function], pathlib.Path(folder))
    return 1 if tests.failed else 0


if __name__ == "__main__":
    sys.exit(main())
