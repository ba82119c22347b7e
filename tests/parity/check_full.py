"""Models that hone trained in full (use_peft false), read by transformers: weights, logits, configs, tokenizer, checkpoints."""
import json

from check_harness import FAMILIES, FIXTURES, hone, hone_logits, load_model, reference_logits, sequences, sft, tiny_model, within
from check_models import same_configs, same_tokenizer, stored

import torch
from transformers import AutoConfig, AutoModelForSequenceClassification

WHOLE = dict(use_peft=False, learning_rate=1e-2, save_strategy="steps", save_steps=2)


def has_moved(folder, base):
    """Every tensor is another than the base's."""
    before, after = stored(load_model(base)), stored(load_model(folder))
    same = [name for name, value in before.items() if torch.equal(value.float(), after[name].float())]
    assert not same, f"{len(same)} of {len(before)} tensors are as they were, {same[:3]}"
    return f"{len(before)} tensors moved"


def trained(check, family, dtype):
    """The run's folder and a checkpoint in it."""
    model = tiny_model(check, family)
    out = sft(check, f"full/{family}-{dtype}", model, dtype=dtype, **WHOLE)
    ids = sequences(AutoConfig.from_pretrained(out).vocab_size)
    margins = [within(hone_logits(check, folder, ids), reference_logits(load_model(folder), ids))
               for folder in (out, out / "checkpoint-2")]
    same_configs(out, model, getattr(torch, dtype))
    return f"{margins[0]}, of a checkpoint {margins[1][14:]}; {has_moved(out, model)}; tokenizer: {same_tokenizer(out, model)}"


def sharded(check):
    model = tiny_model(check, "tiny_qwen3")
    out = sft(check, "full/sharded", model, max_shard_size=100000, **WHOLE)
    index = json.loads((out / "model.safetensors.index.json").read_text())
    files = sorted({*index["weight_map"].values()})
    assert len(files) > 1 and all((out / name).is_file() for name in files), f"files: {files}"
    ids = sequences(AutoConfig.from_pretrained(out).vocab_size)
    return f"{len(files)} files; " + within(hone_logits(check, out, ids), reference_logits(load_model(out), ids))


def reward(check):
    """A reward model, with its score head; the numbers of its evaluation are check_reward_model.py's."""
    model, out = FIXTURES / "rewards/tiny_reward", check.folder("full/reward")
    hone("reward", "--model_name_or_path", model, "--dataset_name", FIXTURES / "trl_reward/explicit.jsonl", "--output_dir", out,
         "--use_peft", "false", "--bf16", "false", "--dtype", "float32", "--max_steps", 3, "--learning_rate", "1e-2", "--save_strategy", "no")
    loaded, info = AutoModelForSequenceClassification.from_pretrained(out, num_labels=1, dtype=torch.float32, output_loading_info=True)
    odd = {key: sorted(map(str, value))[:3] for key, value in info.items() if value}
    assert not odd, f"transformers loads {out} with {odd}"
    base = AutoModelForSequenceClassification.from_pretrained(str(model), num_labels=1, dtype=torch.float32).state_dict()
    same = [name for name, value in loaded.state_dict().items() if torch.equal(value, base[name])]
    assert not same, f"{same[:3]} are as they were"
    return f"{len(base)} tensors moved"


def cases(check):
    for family in FAMILIES:
        for dtype in ("float32", "bfloat16") if family == "tiny_llama" else ("float32",):
            check.case(f"full/{family}-{dtype}", trained, check, family, dtype)
    check.case("full/sharded", sharded, check)
    check.case("full/reward", reward, check)
