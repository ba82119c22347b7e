"""What the habits share: a tiny model, its data, and what of a run is compared."""
import dataclasses
import functools
import importlib.util
import pathlib

FIXTURES = pathlib.Path(__file__).resolve().parents[2] / "fixtures/parity"
MODEL = str(FIXTURES / "tiny_llama")
REWARD_MODEL = str(FIXTURES / "rewards/tiny_reward")
# Of most runs here: float32, so that numbers can be compared, and few steps.
FEW = {"max_steps": 3, "per_device_train_batch_size": 2, "logging_steps": 1, "learning_rate": 1e-3, "bf16": False, "report_to": "none",
       "save_strategy": "no"}
SAMPLING = {**FEW, "per_device_train_batch_size": 4, "num_generations": 2, "max_completion_length": 8}
# Sampling that draws nothing: the most probable token.
GREEDY = {**SAMPLING, "top_k": 1}
TURN = "What comes after {}?"
TEXTS = [{"text": f"the number {n} comes before the number {n + 1}"} for n in range(8)]
CHATS = [{"messages": [{"role": "user", "content": TURN.format(n)}, {"role": "assistant", "content": f"It is {n + 1}."}]} for n in range(8)]
PAIRS = [{"prompt": f"after {n} comes", "chosen": f" {n + 1}", "rejected": f" the number {n - 1}"} for n in range(8)]
PROMPTS = [{"prompt": f"after {n} comes", "answer": str(n + 1)} for n in range(8)]
MARKED = [{"prompt": f"after {n} comes", "completion": f" {n + 1 + n % 2}", "label": n % 2 == 0} for n in range(8)]


def user(text):
    return [{"role": "user", "content": text}]


def assistant(text):
    return [{"role": "assistant", "content": text}]


CHAT_PAIRS = [{"prompt": user(TURN.format(n)), "chosen": assistant(f"It is {n + 1}."), "rejected": assistant(f"Is it {n}?")} for n in range(8)]
CHAT_PROMPTS = [{"prompt": user(TURN.format(n)), "solution": f"${n + 1}$"} for n in range(8)]


@dataclasses.dataclass
class Habit:
    name: str
    title: str
    call: object
    near: float  # how far floats may be apart, of their size
    fast: bool   # needs no other package, and runs in the fast suite


def habit(near=2e-4, fast=False):
    """Of a function without arguments, run in an empty folder, which returns what is compared."""
    def made(function):
        function.habit = Habit(function.__name__, function.__doc__.strip(), function, near, fast)
        return function

    return made


def data(rows):
    """As scripts have rows; without the package datasets, the list of them."""
    if importlib.util.find_spec("datasets") is None:
        return [dict(row) for row in rows]
    import datasets
    return datasets.Dataset.from_list(rows)


def logged(trainer, name):
    return [entry[name] for entry in trainer.state.log_history if name in entry]


def run_of(trainer, *names):
    """The numbers of a run: its steps, its losses, the length of its log, and what else it logs by these names."""
    result = trainer.train()
    return {"global_step": result.global_step, "loss": logged(trainer, "loss"), "grad_norm": logged(trainer, "grad_norm"),
            "log_history": len(trainer.state.log_history), **{name: logged(trainer, name) for name in names}}


def sampled(trainer, *names):
    """Of a run that samples: what does not depend on the numbers that are drawn."""
    result = trainer.train()
    return {"global_step": result.global_step, "log_history": len(trainer.state.log_history), **{name: logged(trainer, name) for name in names}}


def trained_names(model):
    return sorted(name for name, value in model.named_parameters() if value.requires_grad)


@functools.lru_cache(maxsize=None)
def tokenizer_of(folder):
    from transformers import AutoTokenizer
    return AutoTokenizer.from_pretrained(folder)


def calling_model():
    """tiny_llama with room for a chat template's words about tools, of which its tokenizer makes many tokens."""
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(MODEL, max_position_embeddings=2048)


def calling_tokenizer():
    """With a template that knows calls of tools, and that TRL can read answers of: Qwen3's, of TRL's package."""
    from transformers import AutoTokenizer
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    folder = pathlib.Path(importlib.util.find_spec("trl").origin).parent
    tokenizer.chat_template = (folder / "chat_templates/qwen3.jinja").read_text(encoding="utf-8")
    return tokenizer
