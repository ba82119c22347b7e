"""Models with images whose text model hone trains: adapters, merges and full fine-tuning, read by the class of the whole model."""
import shutil

from check_harness import FIXTURES, hone, hone_logits, load_adapter, load_model, reference_logits, relative, sequences, sft, within

import torch
from safetensors.torch import load_file

VOCABULARY = 384
FAMILIES = ("tiny_gemma3_images", "tiny_mistral3_images", "tiny_qwen3_5_images", "tiny_gemma4_images")


def of_text(name):
    return "language_model" in name or name.startswith("lm_head")


def same_other_parts(folder, base):
    before, after = load_file(base / "model.safetensors"), load_file(folder / "model.safetensors")
    assert before.keys() == after.keys(), f"names: {sorted(before.keys() ^ after.keys())[:4]}"
    others = [name for name in before if not of_text(name)]
    assert others and all(torch.equal(before[name], after[name]) for name in others), "another part has changed"
    return f"{len(others)} tensors of other parts as they were"


def copied(check, family):
    out = check.folder(f"models/{family}")
    shutil.copytree(FIXTURES / family, out, ignore=shutil.ignore_patterns("golden*", "adapter*"))
    return out


def adapter(check, family):
    """PEFT puts it on the text model alone."""
    model = copied(check, family)
    folder = sft(check, f"images/{family}", model, lora_target_modules="all-linear")
    ids = sequences(VOCABULARY)
    peft = load_adapter(model, folder)
    made = [name for name, _ in peft.named_parameters() if "lora_" in name]
    assert made and all("language_model" in name for name in made), f"adapted: {[n for n in made if 'language_model' not in n][:3]}"
    mine = hone_logits(check, model, ids, folder)
    with peft.disable_adapter():
        effect = relative(reference_logits(peft, ids), mine)
    assert effect > 1e-2, f"the adapter changes the logits by {effect:.1e} only: this comparison proves nothing"
    return f"{within(mine, reference_logits(peft, ids))}; the adapter's own effect {effect:.1e}"


def merged(check, family):
    model, out = copied(check, family), check.folder(f"images/{family}-merged")
    hone("merge", "--model_name_or_path", model, "--adapter_name_or_path", FIXTURES / family / "adapter", "--output", out)
    ids = sequences(VOCABULARY)
    mine = hone_logits(check, model, ids, FIXTURES / family / "adapter")
    return f"{within(mine, reference_logits(load_model(out), ids))}; {same_other_parts(out, model)}"


def trained_in_full(check, family):
    model = copied(check, family)
    out = sft(check, f"images/{family}-full", model, use_peft=False, learning_rate=1e-2)
    ids = sequences(VOCABULARY)
    before, after = load_file(model / "model.safetensors"), load_file(out / "model.safetensors")
    same = [name for name in before if of_text(name) and "layer_scalar" not in name and torch.equal(before[name], after[name])]
    assert not same, f"{same[:3]} are as they were"
    return f"{within(hone_logits(check, out, ids), reference_logits(load_model(out), ids))}; {same_other_parts(out, model)}"


def cases(check):
    for family in FAMILIES:
        check.case(f"images/{family}, adapter", adapter, check, family)
        check.case(f"images/{family}, merge", merged, check, family)
        check.case(f"images/{family}, all weights", trained_in_full, check, family)
