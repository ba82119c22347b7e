"""What the cases of tests/parity/check share: running hone, its logits, tiny models with tokenizers, the report."""
import json
import os
import shutil
import subprocess
import sys
import traceback
from pathlib import Path

from common import FIXTURES, ROOT, enter

import torch
from safetensors.torch import load_file

TOLERANCE = 1e-4  # of a sequence's largest logit
FAMILIES = ("tiny_llama", "tiny_llama3", "tiny_qwen2", "tiny_qwen3")
HONE, DUMP_LOGITS = ROOT / "build/hone", ROOT / "build/tests/dump_logits"


class Check:
    """Runs cases and counts them. A case returns its margin as text; an exception fails it."""

    def __init__(self, scratch, only):
        self.scratch, self.only, self.ran, self.failed = scratch, only, 0, 0

    def case(self, name, function, *arguments):
        if self.only not in name:
            return
        self.ran += 1
        try:
            print(f"ok {name}: {function(*arguments)}", flush=True)
        except Exception as error:  # noqa: BLE001 - every way of failing is the case's result
            self.failed += 1
            if not isinstance(error, AssertionError):
                traceback.print_exc(file=sys.stdout)
            print(f"not ok {name}: {' '.join(str(error).split())[:600]}", flush=True)

    def folder(self, name):
        """A new path in the scratch folder."""
        path = self.scratch / name
        shutil.rmtree(path, ignore_errors=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


def run(program, *words):
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    done = subprocess.run([str(program), *map(str, words)], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, f"{program.name} {' '.join(map(str, words))} ended with {done.returncode}: {done.stderr}"
    return done.stdout


def hone(*words):
    return run(HONE, *words)


def sft(check, name, model, **options):
    """Four fp32 steps with a high learning rate, so that the adapter is far from nothing. Returns the run's folder."""
    out = check.folder(name)
    settings = dict(model_name_or_path=str(model), dataset_name=str(FIXTURES / "sft/text.jsonl"), output_dir=str(out),
                    dtype="float32", bf16=False, use_peft=True, lora_r=4, lora_alpha=8, lora_dropout=0.0, max_steps=4,
                    per_device_train_batch_size=4, learning_rate=2e-2, max_length=64, logging_steps=1, threads=1,
                    save_strategy="no", report_to="none") | options
    config = Path(f"{out}.yaml")  # JSON is YAML
    config.write_text(json.dumps(settings))
    hone("sft", "--config", config)
    return out


def sequences(vocab_size, seed=7, lengths=(1, 7, 13, 29)):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(3, vocab_size, (length,), generator=generator).tolist() for length in lengths]


def hone_logits(check, model, ids, adapter=None):
    """[T, V] of each sequence, in fp32 by build/tests/dump_logits."""
    ids_file, out = check.scratch / "ids.json", check.scratch / "logits.safetensors"
    ids_file.write_text(json.dumps(ids))
    run(DUMP_LOGITS, model, *(["--adapter", adapter] if adapter else []), "--ids", ids_file, "--out", out)
    tensors = load_file(out)
    assert all(tensors[f"ids_{n}"].tolist() == one for n, one in enumerate(ids)), "the dump holds other ids"
    return [tensors[f"logits_{n}"] for n in range(len(ids))]


def reference_logits(model, ids):
    with torch.no_grad():
        return [model(input_ids=torch.tensor([one]), use_cache=False).logits[0].float() for one in ids]


def relative(mine, theirs):
    """The worst of max|mine - theirs| / max|theirs| over the sequences; NaN counts as infinite."""
    worst = 0.0
    for a, b in zip(mine, theirs, strict=True):
        assert a.shape == b.shape, f"shape {list(a.shape)}, the reference's {list(b.shape)}"
        off = ((a - b).abs().max() / b.abs().max()).item()
        worst = max(worst, off if off == off else float("inf"))
    return worst


def within(mine, theirs, tolerance=TOLERANCE):
    """The margin as text, or a failure."""
    off = relative(mine, theirs)
    assert off <= tolerance, f"logits differ by {off:.2e} relative; allowed {tolerance:.0e}"
    return f"logits within {off:.1e}"


def load_model(folder):
    """The class that config.json names, only without missing, unexpected or misshapen weights."""
    import transformers
    kind = getattr(transformers, json.loads((Path(folder) / "config.json").read_text())["architectures"][0])
    model, info = kind.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa", output_loading_info=True)
    odd = {key: sorted(map(str, value))[:3] for key, value in info.items() if value}
    assert not odd, f"transformers loads {folder} with {odd}"
    return model.eval()


def load_adapter(model, folder):
    """PEFT's model from a fresh base; every tensor that PEFT makes is in the file (the rows of an embedding that is the head too
    under one name, as PEFT saves them), and beside them only the base's biases and PEFT's copies of the base's matrices."""
    from common import TOKENS, peft_key
    from peft import PeftModel
    peft = PeftModel.from_pretrained(load_model(model), str(folder)).eval()
    shapes = {name: tuple(p.shape) for name, p in peft.named_parameters(remove_duplicate=False)}
    once = {name for name, _ in peft.named_parameters()}
    made = {peft_key(name): shape for name, shape in shapes.items()
            if "lora_" in name or ".modules_to_save." in name or (TOKENS in name and name in once)}
    stored = {name: tuple(t.shape) for name, t in load_file(Path(folder) / "adapter_model.safetensors").items()}
    made |= {name: shape for name, shape in stored.items()
             if name.endswith((".bias", ".base_layer.weight")) and shapes.get(name) == shape}
    assert made == stored, f"PEFT only: {sorted(made.items() - stored.items())[:3]}, file only: {sorted(stored.items() - made.items())[:3]}"
    return peft


def tiny_model(check, family):
    """A copy of the fixture with a tokenizer that fits its vocabulary."""
    out = check.scratch / "models" / family
    if out.exists():
        return out
    shutil.copytree(FIXTURES / family, out, ignore=shutil.ignore_patterns("golden*", "adapter*"))
    size = json.loads((out / "config.json").read_text())["vocab_size"]
    tokenizer = json.loads(Path("tests/fixtures/text/tiny/tokenizer.json").read_text())
    vocabulary = {token: i for token, i in tokenizer["model"]["vocab"].items() if i < size}
    tokenizer["model"]["vocab"] = vocabulary
    pairs = [pair if isinstance(pair, list) else pair.split(" ") for pair in tokenizer["model"]["merges"]]
    tokenizer["model"]["merges"] = [pair for pair in pairs if {*pair, "".join(pair)} <= vocabulary.keys()]
    tokenizer["added_tokens"] = [token for token in tokenizer["added_tokens"] if token["id"] < size]
    (out / "tokenizer.json").write_text(json.dumps(tokenizer))
    shutil.copy("tests/fixtures/text/tiny/tokenizer_config.json", out)
    # Saved by transformers itself: 5.23 gives every qwen2 model Qwen's own pre-tokenizer, whatever tokenizer.json says,
    # so only then do the file and AutoTokenizer agree.
    from transformers import AutoTokenizer
    AutoTokenizer.from_pretrained(out).save_pretrained(out)
    return out


def begin():
    enter()
    from transformers.utils import logging
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    for program in (HONE, DUMP_LOGITS):
        if not program.exists():
            sys.exit(f"{program.relative_to(ROOT)} is absent: ninja -C build")
