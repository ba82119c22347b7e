"""A plugin of pytest for TRL's own tests: the offline data, hone's classes in the place of TRL's, a time for each test, a file of results.

Environment: TRL_SUITE_CACHE, TRL_SUITE_OUT (JSON lines), TRL_SUITE_SECONDS, TRL_SUITE_WHOSE ("trl", "hone").
"""
import functools
import importlib
import json
import os
import pathlib
import signal
import time

import pytest

CACHE = pathlib.Path(os.environ["TRL_SUITE_CACHE"])
OUT = pathlib.Path(os.environ["TRL_SUITE_OUT"])
SECONDS = int(os.environ.get("TRL_SUITE_SECONDS", "240"))
WHOSE = os.environ.get("TRL_SUITE_WHOSE", "trl")
METHODS = {"SFT": "", "DPO": "", "KTO": "", "Reward": "", "GRPO": "", "RLOO": "", "OnlineDPO": "experimental.online_dpo", "CPO": "experimental.cpo",
           "ORPO": "experimental.orpo"}


class TookTooLong(BaseException):
    pass


# ---- what TRL's tests import

def offline_data():
    """load_dataset of a name that the cache has reads its files: datasets itself asks the hub, even for a snapshot."""
    import datasets
    load = datasets.load_dataset

    def load_dataset(path, name=None, *arguments, **named):
        folder = CACHE / "data" / str(path) / (name or "default")
        if not folder.is_dir():
            return load(path, name, *arguments, **named)
        files = {file.stem: str(file) for file in folder.glob("*.parquet")}
        return load("parquet", *arguments, data_files=files, **named)

    datasets.load_dataset = load_dataset


class Gone:
    """A name that the tests import and this TRL no longer has: tests that use it fail with TRL, and are not counted."""

    def __init__(self, name):
        self.name = name

    def __call__(self, *_, **__):
        raise NotImplementedError(f"TRL has no {self.name} any more")


def lost_names():
    """The tests are of another version than the package."""
    for module in ("trl.import_utils", "trl.trainer.sft_trainer", "trl.trainer.dpo_trainer", "trl.trainer.kto_trainer", "trl.trainer.reward_trainer",
                   "trl.trainer.grpo_trainer", "trl.trainer.utils", "trl.data_utils"):
        importlib.import_module(module).__getattr__ = functools.partial(lost, module)


def lost(module, name):
    if name.startswith("__"):
        raise AttributeError(name)
    return (lambda *_, **__: False) if name.startswith("is_") else Gone(f"{module}.{name}")


def exchange():
    """hone's trainers and configs where TRL's public modules have theirs; everything else stays TRL's."""
    import hone.trl
    import trl
    for method, place in METHODS.items():
        modules = [importlib.import_module(f"trl.{place}" if place else "trl")] + ([] if place else [importlib.import_module("trl.trainer")])
        for name in (f"{method}Trainer", f"{method}Config"):
            for module in modules:
                getattr(module, name)  # a name that TRL no longer has is an error here
                setattr(module, name, getattr(hone.trl, name))
    assert trl.SFTTrainer is hone.trl.SFTTrainer


def pytest_configure(config):
    for mark in ("slow", "low_priority", "invariant"):
        config.addinivalue_line("markers", f"{mark}: TRL's")
    offline_data()
    lost_names()
    if WHOSE == "hone":
        exchange()


# ---- which tests

def reason_apart(item):
    """Why a test is of no text on a CPU; "" where it is one."""
    marks = {mark.name: mark for mark in item.iter_markers()}
    if "slow" in marks:
        return "slow"
    words = item.nodeid.lower()
    for word in ("vlm", "vision", "image", "vllm", "liger", "multimodal", "processor_class_processor"):
        if word in words:
            return "vllm" if "vllm" in words else "liger" if word == "liger" else "vision"
    for mark in item.iter_markers("skipif"):
        reason = str(mark.kwargs.get("reason", ""))
        for word in ("accelerator", "vision", "vllm", "liger", "flash", "kernels", "bitsandbytes", "gpu"):
            if word in reason.lower() and not (word == "vision" and not any(mark.args)):
                return f"needs {word}"
    return ""


def pytest_collection_modifyitems(config, items):
    kept, apart = [], []
    for item in items:
        why = reason_apart(item)
        (apart if why else kept).append(item)
        if why:
            note(item.nodeid, {"outcome": "apart", "why": why})
    done = already()
    if done:
        apart += [item for item in kept if item.nodeid in done]
        kept = [item for item in kept if item.nodeid not in done]
    wanted = os.environ.get("TRL_SUITE_TESTS")
    if wanted:
        names = set(pathlib.Path(wanted).read_text().splitlines())
        apart += [item for item in kept if item.nodeid not in names]
        kept = [item for item in kept if item.nodeid in names]
    items[:] = kept
    config.hook.pytest_deselected(items=apart)


# ---- results

def note(name, row):
    with open(OUT, "a", encoding="utf-8") as file:
        file.write(json.dumps({"test": name, **row}, ensure_ascii=False) + "\n")


def already():
    """A run that was broken off goes on where it was."""
    if not OUT.is_file():
        return set()
    rows = [json.loads(line) for line in OUT.read_text(encoding="utf-8").splitlines()]
    return {row["test"] for row in rows if row["outcome"] != "apart"}


def shown(error):
    """The kinds and the text of an exception, and of what it was raised from."""
    chain, seen = [], set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        chain.append({"kinds": [f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__[:-1]], "text": str(error)[:3000],
                      "code": getattr(error, "code", None)})
        error = error.__cause__ or error.__context__
    return chain


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_makereport(item, call):
    chain = shown(call.excinfo.value) if call.excinfo is not None else []
    place = next((f"{entry.path.name}:{entry.lineno + 1}: {str(entry.statement).strip()[:200]}" for entry in reversed(call.excinfo.traceback)
                  if entry.path.name.startswith("test_")), "") if chain else ""
    report = (yield).get_result()
    if report.outcome == "failed" or (report.when == "call" and report.outcome == "passed") or (report.outcome == "skipped"):
        row = {"outcome": report.outcome, "when": report.when, "seconds": round(report.duration, 2)}
        if report.outcome == "skipped":
            row["why"] = report.longrepr[-1] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if report.outcome == "failed":
            row |= {"chain": chain, "place": place}
        if getattr(report, "wasxfail", None) is not None:
            row["outcome"] = "xfailed" if report.outcome == "skipped" else "xpassed"
        note(item.nodeid, row)


def late(*_):
    raise TookTooLong(f"more than {SECONDS} s")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    begun = time.monotonic()
    try:
        yield
    finally:
        signal.alarm(0)
        item.seconds = time.monotonic() - begun
