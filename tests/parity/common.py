"""What every parity recorder shares: paths, versions, the deterministic adapter, small JSON and safetensors writers."""
import json
import os
import platform
import re
from pathlib import Path

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import torch

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = Path("tests/fixtures/parity")  # relative: goldens name no machine's folder; enter() goes to ROOT
SMOLLM2 = Path("models/smollm2-f32")
SMOLLM2_ADAPTER = Path("models/smollm2-f32-adapter")
TOKENS = "trainable_tokens_delta"
LINEARS = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
           "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"]  # the order of hone's model.linears()


def enter(threads=1):
    """Runs from the root of the project, single-threaded, in fp32 with a fixed order of sums."""
    os.chdir(ROOT)
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True)


def attention_of(folder):
    """How transformers computes attention: libtorch's has no soft cap of scores."""
    return "eager" if json.loads((Path(folder) / "config.json").read_text())["model_type"] == "gemma2" else "sdpa"


def processor_maker():
    """Products of another maker's processors round otherwise: "AuthenticAMD", "GenuineIntel"; elsewhere its architecture."""
    cpuinfo = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    found = re.search(r"^vendor_id\s*: (\S+)", cpuinfo, re.M)
    return found.group(1) if found else platform.machine()


def versions():
    from importlib.metadata import version
    return {**{name: version(name) for name in ("torch", "transformers", "peft", "trl", "tokenizers", "datasets")},
            "processor": processor_maker()}


def write_json(path, value):
    """A line for each value to the third level and one below it, so that steps read as a table; not indented, for the tree's size."""
    def lines(item, depth):
        if isinstance(item, dict) and item and depth < 2:
            return "{\n" + ",\n".join(json.dumps(key) + ": " + lines(one, depth + 1) for key, one in item.items()) + "\n}"
        if isinstance(item, list) and item and isinstance(item[0], (dict, list)) and depth < 2:
            return "[\n" + ",\n".join(lines(one, depth + 1 if isinstance(one, list) else 2) for one in item) + "\n]"
        return json.dumps(item, ensure_ascii=False, separators=(",", ":"))
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(lines(value, 0) + "\n", encoding="utf-8")


def rows_of_gradients(tensors):
    """A gradient of which few rows are not zero is written as those rows, with `<its name>.rows`: how many rows it has, then which ones."""
    import torch
    out = {}
    for key, value in tensors.items():
        rows = torch.nonzero(value.any(1)).flatten() if key.startswith("grad.") and value.dim() == 2 else None
        if rows is None or len(rows) == 0 or 4 * len(rows) > len(value):
            out[key] = value
        else:
            out |= {key: value[rows], f"{key}.rows": torch.cat([torch.tensor([len(value)]), rows])}
    return out


def write_tensors(path, tensors, **metadata):
    from safetensors.torch import save_file
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)  # it may be a link to a file of the same bytes (tests/house/size_test.py)
    metadata = {key: value if isinstance(value, str) else json.dumps(value) for key, value in metadata.items()}
    save_file({key: value.detach().contiguous().clone() for key, value in rows_of_gradients(tensors).items()}, str(path),
              metadata={"versions": json.dumps(versions()), **metadata})
    path.chmod(0o644)


def peft_key(name):
    """A parameter's name in memory -> its key in adapter_model.safetensors."""
    name = name.replace(".modules_to_save.default", "").replace(".default", "")
    return name.replace("lora_magnitude_vector.weight", "lora_magnitude_vector")


def adapter_parameters(model):
    """{PEFT key: parameter} of every LoRA tensor: layers ascending, LINEARS' order within one, A before B before DoRA's
    magnitude; then the rows of trainable_token_indices; then LoRA on the head and the embedding, modules_to_save and
    trained biases. Frozen adapters below are left out."""
    trained = lambda name, value: (".default" in name and ("lora_" in name or TOKENS in name or ".modules_to_save." in name)
                                   or name.endswith(".bias") and value.requires_grad)
    named = {peft_key(name): value for name, value in model.named_parameters() if trained(name, value)}
    layers = 1 + max(int(name.split(".layers.")[1].split(".")[0]) for name in named if "lora_" in name and ".layers." in name)
    wanted = [f"base_model.model.model.layers.{layer}.{linear}.lora_{side}"
              for layer in range(layers) for linear in LINEARS for side in ("A.weight", "B.weight", "magnitude_vector")]
    wanted.append(f"base_model.model.model.embed_tokens.token_adapter.{TOKENS}")
    ordered = {name: named[name] for name in wanted if name in named}
    return ordered | {name: value for name, value in named.items() if name not in ordered}


def with_head_bias(model):
    """Mended in TRL 1.16: its fused head reads lm_head.bias, which PEFT's wrapper of a head that is tied to an embedding with
    trainable_token_indices does not hand on, so that TRL's trainers raise."""
    from peft.utils.other import TrainableTokensWrapper
    head = model.get_output_embeddings()
    if isinstance(head, TrainableTokensWrapper):
        head.bias = None
    return model


def rule_tensor(module, side, shape):
    """The deterministic adapter: A[i,j] = 0.02 sin(0.37 k + 0.11 i + 0.013 j), B the same with cos; k = `module`, the
    linear's index in model order (7 a layer). float64, then cast to float32. Both sides of a parity test compute it."""
    i, j = np.meshgrid(np.arange(shape[0], dtype=np.float64), np.arange(shape[1], dtype=np.float64), indexing="ij")
    wave = np.sin if side == "A" else np.cos
    return torch.from_numpy((0.02 * wave(0.37 * module + 0.11 * i + 0.013 * j)).astype(np.float32))


def apply_rule(model):
    with torch.no_grad():
        for index, (name, value) in enumerate(adapter_parameters(model).items()):
            value.copy_(rule_tensor(index // 2, "A" if ".lora_A." in name else "B", tuple(value.shape)))


def splitmix64(x):
    """Vectorized splitmix64 (Steele, Lea, Flood 2014) of uint64 counters."""
    x = np.asarray(x, dtype=np.uint64)
    with np.errstate(over="ignore"):
        x = x + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def sequence_loss(model, sequences):
    """Sum over sequences of -log p(label t | ids < t), divided by the number of labels that are not -100 (the first
    token of a sequence is never a target). Returns (loss, [logits [T, V] per sequence]).

    The softmax is taken in float64: torch's fp32 log_softmax on CPU adds 49,152 exponentials one after the other and is off by
    8e-6 in the loss of SmolLM2, which cancellation turns into 5e-4 of some gradient tensors (docs/log.md)."""
    total, count, all_logits = 0.0, 0, []
    for ids, labels in sequences:
        logits = model(input_ids=ids[None], use_cache=False).logits[0]
        total = total + torch.nn.functional.cross_entropy(logits[:-1].double(), labels[1:], ignore_index=-100, reduction="sum")
        count += int((labels[1:] != -100).sum())
        all_logits.append(logits)
    return (total / count).float(), all_logits


def save_adapter(model, folder):
    """PEFT's folder without its model card; target_modules and target_parameters, sets in PEFT, sorted: a second record is the same."""
    model.save_pretrained(str(folder))
    (Path(folder) / "README.md").unlink(missing_ok=True)
    path = Path(folder) / "adapter_config.json"
    config = json.loads(path.read_text())
    for key in ("target_modules", "target_parameters"):
        if isinstance(config[key], list):
            config[key].sort()
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    open_to_read(folder)


def open_to_read(folder):
    """safetensors writes files for their owner only; fixtures are for everybody."""
    for path in Path(folder).rglob("*.safetensors"):
        path.chmod(0o644)


def options(description, add=None):
    """--out FOLDER writes elsewhere than the committed place; --full FOLDER also writes whole tensors. add(parser) has further ones."""
    import argparse
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=FIXTURES, help="where goldens go (default: %(default)s)")
    parser.add_argument("--full", type=Path, help="a folder outside git for complete tensors")
    parser.add_argument("--threads", type=int, default=1)
    if add is not None:
        add(parser)
    arguments = parser.parse_args()
    arguments.out = arguments.out if arguments.out == FIXTURES else arguments.out.resolve()
    arguments.full = arguments.full.resolve() if arguments.full else None
    enter(arguments.threads)
    from transformers.utils import logging
    logging.disable_progress_bar()
    return arguments
