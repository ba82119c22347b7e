"""The options of each method, as the program prints them: there is no list of them in Python."""
import difflib
import functools
import json
import subprocess
import typing

from hone import program
from hone.errors import HoneError

# TRL's class names to hone's commands.
METHODS = {"SFT": "sft", "DPO": "dpo", "KTO": "kto", "Reward": "reward", "GRPO": "grpo", "RLOO": "rloo", "OnlineDPO": "online-dpo",
           "CPO": "cpo", "ORPO": "orpo", "GMPO": "grpo", "Distillation": "distill", "GKD": "distill"}

# Classes of TRL that are a loss_type of another's command: what it is, and the defaults that the program has with it. GKD's defaults
# are none of the program's, and are passed to it.
LOSSES = {"GMPO": {"loss_type": "gmpo", "epsilon": 0.4},
          "GKD": {"loss_type": "divergence", "lmbda": 0.5, "beta": 0.5, "temperature": 0.9, "loss_temperature": 1.0,
                  "max_completion_length": 128, "disable_dropout": True, "learning_rate": 2e-5}}
PASSED = ("GKD",)

# Whose options belong to other classes of TRL's (scripts.py), and not to a method's Config.
OF_SCRIPTS = {"ModelConfig": "ModelConfig", "ScriptArguments": "ScriptArguments", "DatasetMixtureConfig": "DatasetMixtureConfig"}


class Value:
    """Of options with several types: JSON as what it says, else text."""

    def __new__(cls, text):
        try:
            return json.loads(text)
        except ValueError:
            return text


TYPES = {"bool": bool, "int": int, "float": float, "string": str, "choice": str, "list": list[str], "map": dict, "ids": list[int], "any": Value}


def printed(*arguments):
    """What the program prints; needs no torch."""
    path = program.path()
    try:
        ended = subprocess.run([path, *arguments], env=program.environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True)
    except OSError as error:
        raise HoneError(f"[{path}] expected the program hone\n  found:  {error.strerror}") from None
    if ended.returncode:
        raise HoneError(ended.stderr.removeprefix("hone: ").strip(), ended.returncode)
    return ended.stdout


@functools.lru_cache(maxsize=None)
def rows(method):
    """{name: row} in the order of --help; a row has name, type, default, meaning, class, from, ..."""
    return {row["name"]: row for row in json.loads(printed("options", method, "--json"))}


@functools.lru_cache(maxsize=None)
def former_names(method):
    """Names that are no options, and that hone reads, notes or refuses in its own words."""
    return frozenset(former_rows(method))


@functools.lru_cache(maxsize=None)
def former_rows(method):
    """{name: row}; a row has name, of, option ("" where none has taken its place), why."""
    return {row["name"]: row for row in json.loads(printed("options", method, "--former", "--json"))}


def is_script_option(row):
    return row["from"] in OF_SCRIPTS or row["from"].endswith("ScriptArguments") or row["from"] == "the trl command"


def near(name, names):
    found = difflib.get_close_matches(name, names, 1, 0.7)
    return f" Did you mean {found[0]!r}?" if found else ""


def type_of(row):
    """The annotation of a field; None is no boolean."""
    kind = TYPES.get(row["type"], Value)
    return typing.Optional[kind] if row["type"] == "bool" and row["default"] is None else kind


def default_of(row):
    value = row["default"]
    return "none" if row["name"] == "report_to" and value is None else value
