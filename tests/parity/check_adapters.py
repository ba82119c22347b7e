"""Adapters: hone's read by PEFT, PEFT's read by hone, and adapter_config.json key by key."""
import json

from check_harness import (FAMILIES, FIXTURES, hone, hone_logits, load_adapter, load_model, reference_logits, relative,
                           sequences, sft, tiny_model, within)

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors import safe_open

REGEX = r".*\.layers\.[01]\.(self_attn\.[qv]_proj|mlp\.down_proj)"
ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]

# name -> (hone's options, PEFT's). The same adapter, said in both languages.
SETTINGS = {
    "default modules": ({}, {}),
    "target list": ({"lora_target_modules": ATTENTION}, {"target_modules": ATTENTION}),
    "all-linear": ({"lora_target_modules": "all-linear"}, {"target_modules": "all-linear"}),
    "regex": ({"lora_target_modules": REGEX}, {"target_modules": REGEX}),
    "rslora, exclude list": (
        {"lora_target_modules": "all-linear", "lora_exclude_modules": ["k_proj", "down_proj"], "use_rslora": True},
        {"target_modules": "all-linear", "exclude_modules": ["k_proj", "down_proj"], "use_rslora": True}),
    "exclude regex": (
        {"lora_target_modules": ATTENTION, "lora_exclude_modules": r".*layers\.0\..*"},
        {"target_modules": ATTENTION, "exclude_modules": r".*layers\.0\..*"}),
    "gaussian, dropout": (
        {"lora_target_modules": ["gate_proj", "up_proj", "v_proj"], "init_lora_weights": "gaussian", "lora_dropout": 0.1},
        {"target_modules": ["gate_proj", "up_proj", "v_proj"], "init_lora_weights": "gaussian", "lora_dropout": 0.1}),
    "trainable tokens": (
        {"lora_target_modules": ATTENTION, "trainable_token_indices": [15, 25, 7]},
        {"target_modules": ATTENTION, "trainable_token_indices": [15, 25, 7]}),
    "rank and alpha patterns": (
        {"lora_target_modules": ATTENTION, "rank_pattern": {"q_proj": 2, r"layers\.1\..*k_proj": 3}, "alpha_pattern": {"v_proj": 5}},
        {"target_modules": ATTENTION, "rank_pattern": {"q_proj": 2, r"layers\.1\..*k_proj": 3}, "alpha_pattern": {"v_proj": 5}}),
    "layers": (
        {"lora_target_modules": ATTENTION, "layers_to_transform": [1], "layers_pattern": ["layers"]},
        {"target_modules": ATTENTION, "layers_to_transform": [1], "layers_pattern": ["layers"]}),
    "head and embedding in full": (
        {"lora_target_modules": ATTENTION, "lora_modules_to_save": ["lm_head", "embed_tokens", "norm"]},
        {"target_modules": ATTENTION, "modules_to_save": ["lm_head", "embed_tokens", "norm"]}),
    "biases": (
        {"lora_target_modules": ["q_proj", "o_proj"], "bias": "all", "use_dora": True},
        {"target_modules": ["q_proj", "o_proj"], "bias": "all", "use_dora": True}),
    "biases of LoRA": (
        {"lora_target_modules": ["q_proj", "o_proj"], "bias": "lora_only"},
        {"target_modules": ["q_proj", "o_proj"], "bias": "lora_only"}),
    "init false, alpha 5, r 3": (
        {"lora_target_modules": ["o_proj", "up_proj"], "init_lora_weights": False, "lora_alpha": 5, "lora_r": 3},
        {"target_modules": ["o_proj", "up_proj"], "init_lora_weights": False, "lora_alpha": 5, "r": 3}),
}
# What PEFT's users write that hone has no option for, but loads.
ONLY_PEFT = {
    "defaults of LoraConfig": {},
    "layers_to_transform, one": {"target_modules": ["q_proj", "down_proj"], "layers_to_transform": 1},
    "LoRA on the head and the embedding": {"target_modules": ["q_proj", "lm_head", "embed_tokens"]},
    "one full name": {"target_modules": ["model.layers.1.mlp.up_proj"]},
    "init orthogonal": {"init_lora_weights": "orthogonal"},
    "lora_alpha 7.5": {"lora_alpha": 7.5},
}


def vocab_size(model):
    return json.loads((model / "config.json").read_text())["vocab_size"]


def peft_config(options):
    return LoraConfig(**{"r": 4, "lora_alpha": 8, "task_type": "CAUSAL_LM"} | options)


def compare_logits(check, model, adapter):
    """hone = PEFT with the adapter; and the adapter matters, or nothing would be proved."""
    ids = sequences(vocab_size(model))
    mine = hone_logits(check, model, ids, adapter)
    peft = load_adapter(model, adapter)
    with peft.disable_adapter():
        effect = relative(reference_logits(peft, ids), mine)
    assert effect > 1e-2, f"the adapter changes the logits by {effect:.1e} only: this comparison proves nothing"
    return f"{within(mine, reference_logits(peft, ids))}; the adapter's own effect {effect:.1e}"


def layout(path):
    with safe_open(str(path), "pt") as file:
        tensors = {name: (file.get_slice(name).get_shape(), file.get_slice(name).get_dtype()) for name in file.keys()}
        return tensors, file.metadata()


def same_files(model, mine, options, theirs):
    """PEFT saves the same adapter into `theirs`: adapter_config.json equal in keys, order, types and values (PEFT writes
    target_modules as a set, in any order), the weights in names, shapes, types and metadata."""
    get_peft_model(load_model(model), peft_config(options)).save_pretrained(str(theirs))
    ours, reference = (json.loads((folder / "adapter_config.json").read_text()) for folder in (mine, theirs))
    assert list(ours) == list(reference), f"keys {set(ours) ^ set(reference) or 'in another order'}"
    for key, value in reference.items():
        expected, found = (sorted(x) if isinstance(x, list) else x for x in (value, ours[key]))
        assert repr(found) == repr(expected), f"{key}: hone {found!r}, PEFT {expected!r}"
    ours, reference = (layout(folder / "adapter_model.safetensors") for folder in (mine, theirs))
    assert ours == reference, f"adapter_model.safetensors: {ours[1]} against {reference[1]}, or other tensors"
    return f"{len(ours[0])} tensors"


def trained_by_hone(check, family, name):
    options, peft_options = SETTINGS[name]
    model = tiny_model(check, family)
    folder = sft(check, f"hone/{family}/{name}", model, **options)
    margin = compare_logits(check, model, folder)
    same_files(model, folder, peft_options, check.folder(f"peft-config/{family}/{name}"))
    return margin + "; files as PEFT's"


def saved_by_peft(check, family, options):
    model = tiny_model(check, family)
    peft = get_peft_model(load_model(model), peft_config(options))
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, value in peft.named_parameters():
            if "lora_" in name or "trainable_tokens" in name:
                value.copy_(0.15 * torch.randn(value.shape, generator=generator))
            elif value.requires_grad:
                value.add_(0.1 * torch.randn(value.shape, generator=generator))
    folder = check.folder("peft-saved")
    peft.save_pretrained(str(folder))
    return compare_logits(check, model, folder)


def on_the_head(check, family):
    """hone writes no copy of the base's matrix beside a LoRA on the head or the embedding, as PEFT does; PEFT reads both."""
    model = tiny_model(check, family)
    folder = sft(check, f"hone/{family}/head", model, lora_target_modules=["q_proj", "lm_head", "embed_tokens"])
    return compare_logits(check, model, folder)


def in_half(check):
    """An adapter that was saved in bf16 is widened."""
    model = tiny_model(check, "tiny_llama")
    peft = PeftModel.from_pretrained(load_model(model), str(FIXTURES / "tiny_llama/adapter")).to(torch.bfloat16)
    folder = check.folder("peft-bf16")
    peft.save_pretrained(str(folder))
    return compare_logits(check, model, folder)


def continued(check):
    """PEFT's adapter, trained on by hone: PEFT reads it again."""
    model = tiny_model(check, "tiny_qwen3")
    start = FIXTURES / "tiny_qwen3/adapter"
    folder = sft(check, "continued", model, adapter_name_or_path=str(start))
    with safe_open(str(start / "adapter_model.safetensors"), "pt") as a, \
            safe_open(str(folder / "adapter_model.safetensors"), "pt") as b:
        moved = min((a.get_tensor(name) - b.get_tensor(name)).abs().max().item() for name in a.keys())
    assert moved > 0, "a tensor did not change"
    return f"{compare_logits(check, model, folder)}; every tensor moved, the least by {moved:.1e}"


def checkpoint(check):
    """checkpoint-N is an adapter folder that PEFT loads, another than the end's."""
    model = tiny_model(check, "tiny_llama")
    out = sft(check, "checkpoints", model, lora_target_modules="all-linear", save_strategy="steps", save_steps=2)
    margin = compare_logits(check, model, out / "checkpoint-2")
    first, last = ((out / name / "adapter_model.safetensors").read_bytes() for name in ("checkpoint-2", ""))
    assert first != last, "step 2 and step 4 have the same weights"
    assert (out / "checkpoint-4/adapter_model.safetensors").read_bytes() == last, "checkpoint-4 is not the end"
    return margin


def stacked(check):
    """hone's adapter above a frozen one of PEFT: PEFT with both active computes what hone's one adapter of both does."""
    model, first = tiny_model(check, "tiny_llama"), FIXTURES / "tiny_llama/adapter"
    second = sft(check, "stacked", model, base_adapters=[str(first)], lora_target_modules="all-linear", lora_r=3)
    both = check.folder("stacked-cat")
    hone("merge", "--adapters", first, second, "--combination", "cat", "--model_name_or_path", model, "--output", both)
    peft = load_adapter(model, second)
    peft.load_adapter(str(first), adapter_name="first")
    ids = sequences(vocab_size(model))
    alone = reference_logits(peft, ids)
    peft.base_model.set_adapter(["default", "first"])
    mine = hone_logits(check, model, ids, both)
    assert relative(alone, mine) > 1e-2, "the frozen adapter has no effect: this proves nothing"
    return within(mine, reference_logits(peft, ids))


def cases(check):
    for family in FAMILIES:
        for name in SETTINGS:
            check.case(f"PEFT reads hone's adapter, {family}, {name}", trained_by_hone, check, family, name)
        check.case(f"PEFT reads hone's adapter, {family}, LoRA on the head", on_the_head, check, family)
        for adapter in sorted((FIXTURES / family).glob("adapter*")):
            check.case(f"hone reads PEFT's adapter, {family}, {adapter.name}", compare_logits, check,
                       tiny_model(check, family), adapter)
        for name, options in ({name: both[1] for name, both in SETTINGS.items()} | ONLY_PEFT).items():
            check.case(f"hone reads PEFT's adapter, {family}, {name}", saved_by_peft, check, family, options)
    check.case("hone reads PEFT's adapter, saved in bf16", in_half, check)
    check.case("PEFT reads an adapter of PEFT that hone continued", continued, check)
    check.case("PEFT reads checkpoint-N", checkpoint, check)
    check.case("PEFT stacks what hone trained above another", stacked, check)
