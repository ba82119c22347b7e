"""What the tests of the Python package share: `ok` lines, tiny runs, objects as other packages make them."""
import contextlib
import dataclasses
import io
import os
import pathlib
import sys
import traceback

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "python"))
os.environ.setdefault("HONE_PROGRAM", str(SOURCE / "build/hone"))

PARITY = SOURCE / "tests/fixtures/parity"
TINY = str(PARITY / "tiny_llama")
# Of every run here: nothing that takes long.
QUICK = {"per_device_train_batch_size": 2, "threads": 1, "skip_doctor": True, "bf16": False, "logging_steps": 1, "save_strategy": "no"}
TEXTS = [{"text": text} for text in ("one two three four", "five six seven eight", "nine ten eleven twelve", "a b c d e f g")]
PAIRS = [{"prompt": "say", "chosen": f" yes {n}", "rejected": f" no, never {n}"} for n in range(4)]
MARKED = [{"prompt": "say", "completion": f" word {n}", "label": n % 2 == 0} for n in range(4)]
PROMPTS = [{"prompt": f"count {n}", "answer": str(n)} for n in range(4)]


@dataclasses.dataclass
class LoraConfig:
    """The fields of peft.LoraConfig that matter here."""
    peft_type: str = "LORA"
    task_type: str = "CAUSAL_LM"
    r: int = 8
    target_modules: object = None
    lora_alpha: int = 8
    lora_dropout: float = 0.0
    fan_in_fan_out: bool = False
    bias: str = "none"
    use_rslora: bool = False
    modules_to_save: object = None
    init_lora_weights: object = True
    layers_to_transform: object = None
    rank_pattern: dict = dataclasses.field(default_factory=dict)
    megatron_config: object = None


class Tests:
    """Functions named test_*, each an `ok` or `not ok` line; `check` inside one raises what is wrong."""

    def __init__(self):
        self.failed = 0

    def run(self, functions, *arguments, title=None):
        for function in functions:
            name = title or function.__doc__.strip().splitlines()[0].rstrip(".")
            said = io.StringIO()
            try:
                with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                    function(*arguments)
                print(f"ok {name}", flush=True)
            except Skip as why:
                print(f"skip {name}: {why}", flush=True)
            except BaseException:
                self.failed += 1
                print(f"not ok {name}", flush=True)
                print("  " + (traceback.format_exc() + said.getvalue()[-4000:]).replace("\n", "\n  "))
        return self.failed


class Skip(Exception):
    pass


def same(found, expected, what=""):
    if found != expected:
        raise AssertionError(f"{what}: expected {expected!r}, found {found!r}")


def holds(condition, what):
    if not condition:
        raise AssertionError(what)


def raises(kind, text, call):
    try:
        result = call()
    except kind as error:
        holds(text in str(error), f"{text!r} in {error!s}")
        return error
    raise AssertionError(f"no {kind.__name__}, but {result!r}")


def children():
    """Processes whose parent this is, zombies too."""
    me, found = os.getpid(), []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                if int(fields[1]) == me:
                    found.append(int(entry.name))
    return found
