"""Adapters of models whose vocabulary was changed: PEFT's files on the small base and on the changed one, state dicts, and hone's run with
tokens of another tokenizer, read by PEFT."""
import json
import shutil

from check_harness import FIXTURES, hone, hone_logits, load_model, reference_logits, relative, sft, tiny_model, within

import torch
from peft import AutoPeftModelForCausalLM, LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

ADDED = 2
# PEFT's options, by what of the embedding is trained
SETTINGS = {
    "nothing": {},
    "all-linear, DoRA": {"target_modules": "all-linear", "use_dora": True},
    "rows": {"trainable_token_indices": [3, -1]},
    "rows, by name, and the head": {"trainable_token_indices": {"embed_tokens": [3, -1]}, "modules_to_save": ["lm_head"]},
    "rows of both, by name": {"trainable_token_indices": {"embed_tokens": [3, -1], "lm_head": [3, -1]}},
    "embedding and head in full": {"modules_to_save": ["embed_tokens", "lm_head"]},
    "embedding in full": {"modules_to_save": ["embed_tokens"]},
    "LoRA on both": {"target_modules": ["q_proj", "embed_tokens", "lm_head"]},
}


def sequences(size):
    generator = torch.Generator().manual_seed(5)
    return [torch.randint(3, size, (length,), generator=generator).tolist()[:-1] + [size - 1] for length in (3, 9, 17)]


def base_with(check, family, tied, size_of):
    """A tiny model, tied or not, and the same resized; the folder of the small one, the resized model, and its size."""
    small = check.folder(f"vocabulary/{family}-{tied}")
    shutil.copytree(tiny_model(check, family), small)
    model = AutoModelForCausalLM.from_pretrained(small, dtype=torch.float32)
    if model.config.tie_word_embeddings != tied:
        config = json.loads((small / "config.json").read_text()) | {"tie_word_embeddings": tied}
        torch.manual_seed(1)
        model = AutoModelForCausalLM.from_config(type(model.config).from_dict(config), dtype=torch.float32)
        model.save_pretrained(small)
    size = size_of(model.config.vocab_size)
    torch.manual_seed(0)
    model.resize_token_embeddings(size)
    return small, model, size


def trained(model, small, size, options):
    """A PEFT model of `options` on the resized base, with every trained number moved."""
    options = {"target_modules": ["q_proj", "v_proj"]} | options
    rows = options.get("trainable_token_indices")
    if rows is not None:
        ids = [3, size - 1]
        options["trainable_token_indices"] = {name: ids for name in rows} if isinstance(rows, dict) else ids
    peft = get_peft_model(model, LoraConfig(r=4, lora_alpha=8, task_type="CAUSAL_LM", **options))
    peft.peft_config["default"].base_model_name_or_path = str(small)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for value in peft.parameters():
            if value.requires_grad:
                value.add_(torch.randn(value.shape, generator=generator) * 0.1)
        if size > 40:  # rows that no file of the base has
            weight = peft.get_input_embeddings()
            weight = getattr(weight, "weight", None)
            if weight is not None and not weight.requires_grad:
                weight[-ADDED:] += 0.3
    return peft.eval()


def compare(check, small, adapter, peft, size):
    """hone on the small base, and the merged folder in transformers, beside PEFT's model."""
    ids = sequences(size)
    expected = reference_logits(peft, ids)
    margin = within(hone_logits(check, small, ids, adapter), expected)
    out = check.folder("vocabulary/merged")
    hone("merge", "--model_name_or_path", small, "--adapter_name_or_path", adapter, "--output", out, "--compare", 0)
    merged = load_model(out)
    assert merged.config.vocab_size == size, merged.config.vocab_size
    return f"{margin}; merged: {within(reference_logits(merged, ids), expected)}"


def saved_by_peft(check, family, tied, options, size_of):
    small, model, size = base_with(check, family, tied, size_of)
    peft = trained(model, small, size, options)
    adapter = check.folder("vocabulary/adapter")
    peft.save_pretrained(str(adapter))
    return compare(check, small, adapter, peft, size)


def state_dict(check, rename, dtype=torch.float32):
    """The keys of a state dict, as programs write them that do not ask PEFT."""
    small, model, size = base_with(check, "tiny_llama", False, lambda size: size + ADDED)
    peft = trained(model, small, size, {"modules_to_save": ["lm_head"]})
    adapter = check.folder("vocabulary/adapter")
    peft.save_pretrained(str(adapter))
    tensors = load_file(adapter / "adapter_model.safetensors")
    tensors = {rename(key): value.to(dtype).contiguous() for key, value in tensors.items()}
    save_file(tensors, adapter / "adapter_model.safetensors", metadata={"format": "pt"})
    if dtype != torch.float32:
        model = AutoModelForCausalLM.from_pretrained(small, dtype=torch.float32)
        model.resize_token_embeddings(size)
        peft = PeftModel.from_pretrained(model, str(adapter)).eval()
    return compare(check, small, adapter, peft, size)


def with_name(key):
    end = key.rfind(".weight")
    return key[:end] + ".default" + key[end:] if "lora_" in key else key


STATE_DICTS = {
    "the adapter's name": with_name,
    "no prefix": lambda key: key.removeprefix("base_model.model."),
    "torch.compile, DDP": lambda key: "module._orig_mod." + with_name(key),
    "FSDP": lambda key: key.replace(".layers.0.", ".layers.0._fsdp_wrapped_module."),
}


def continued(check):
    """An adapter with added rows, trained on by hone, is read by PEFT with its rows."""
    small, model, size = base_with(check, "tiny_llama", False, lambda size: size + ADDED)
    peft = trained(model, small, size, {})
    adapter = check.folder("vocabulary/adapter")
    peft.save_pretrained(str(adapter))
    folder = sft(check, "vocabulary/continued", small, adapter_name_or_path=str(adapter), use_peft=True)
    model = AutoModelForCausalLM.from_pretrained(small, dtype=torch.float32)
    model.resize_token_embeddings(size)
    again = PeftModel.from_pretrained(model, str(folder)).eval()
    ids = sequences(size)
    assert relative(reference_logits(peft, ids), reference_logits(again, ids)) > 1e-3, "nothing was trained"
    return within(hone_logits(check, small, ids, folder), reference_logits(again, ids))


def cloned(check, tied):
    """chat_template_path with a folder that has tokens of its own: AutoPeftModelForCausalLM opens the run's folder."""
    small, model, _ = base_with(check, "tiny_llama", tied, lambda size: size)
    source = check.folder("vocabulary/source")
    shutil.copytree(small, source)
    tokenizer = json.loads((source / "tokenizer.json").read_text())
    for token in ("<|turn|>", "<|turn_end|>"):
        used = max([one["id"] for one in tokenizer["added_tokens"]] + list(tokenizer["model"]["vocab"].values()))
        tokenizer["added_tokens"].append({"id": used + 1, "content": token, "single_word": False, "lstrip": False, "rstrip": False,
                                          "normalized": False, "special": True})
    (source / "tokenizer.json").write_text(json.dumps(tokenizer))
    (source / "chat_template.jinja").write_text("{% for m in messages %}<|turn|>{{ m.role }} {{ m.content }}<|turn_end|>{% endfor %}")
    for file in source.glob("*.safetensors"):
        file.unlink()
    folder = sft(check, "vocabulary/cloned", small, chat_template_path=str(source), dataset_name=str(FIXTURES / "sft/messages.jsonl"))
    before, after = (json.loads((place / "config.json").read_text()) if (place / "config.json").exists() else {} for place in (small, folder))
    assert not after, "an adapter has no config.json"
    peft = AutoPeftModelForCausalLM.from_pretrained(str(folder), dtype=torch.float32).eval()
    size = peft.config.vocab_size
    assert size % 64 == 0 and size > before["vocab_size"], size
    return f"{size} rows; {compare(check, small, folder, peft, size)}"


def cases(check):
    sizes = {"2 more tokens": lambda size: size + ADDED, "fewer tokens": lambda size: size - 7, "as many": lambda size: size}
    for tied in (False, True):
        word = "tied" if tied else "a head of its own"
        for name, options in SETTINGS.items():
            if name == ("rows, by name, and the head" if tied else "rows of both, by name"):
                continue  # tied: PEFT does not load what it saves of this one; a head of its own: hone has no rows of it
            check.case(f"vocabulary, {word}, 2 more tokens, {name}", saved_by_peft, check, "tiny_llama", tied, options,
                       sizes["2 more tokens"])
        check.case(f"vocabulary, {word}, fewer tokens", saved_by_peft, check, "tiny_qwen2", tied, {}, sizes["fewer tokens"])
        check.case(f"vocabulary, {word}, tokens of a folder as chat_template_path", cloned, check, tied)
    for name, rename in STATE_DICTS.items():
        check.case(f"vocabulary, state dict, {name}", state_dict, check, rename)
    check.case("vocabulary, saved in bf16", state_dict, check, lambda key: key, torch.bfloat16)
    check.case("vocabulary, continued by hone", continued, check)
