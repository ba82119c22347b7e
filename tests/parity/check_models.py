"""Model folders that hone writes (merge, convert), read by transformers: weights, logits, configs, tokenizer, templates."""
import json
from pathlib import Path

from check_harness import (FAMILIES, FIXTURES, hone, hone_logits, load_model, reference_logits, sequences, tiny_model,
                           within)
from common import SMOLLM2

import torch
from peft import PeftModel
from tokenizers import Tokenizer
from transformers import AutoConfig, AutoTokenizer, GenerationConfig

GGUF = Path("models/smollm2-gguf/SmolLM2-135M-Instruct.Q4_1.gguf")
STRINGS, CONVERSATIONS = Path("tests/fixtures/text/strings.json"), Path("tests/fixtures/text/conversations.json")
NOT_THE_MODEL = {"_name_or_path", "dtype", "transformers_version", "architectures", "output_hidden_states",
                 "output_attentions", "_from_model_config"}


def same_weights(folder, expected):
    """Bit for bit with {name: tensor}, in their own dtypes."""
    from safetensors.torch import load_file
    found = {}
    for path in sorted(Path(folder).glob("*.safetensors")):
        found |= load_file(path)
    assert found.keys() == expected.keys(), f"names: {sorted(found.keys() ^ expected.keys())[:4]}"
    wrong = [name for name, value in expected.items()
             if found[name].dtype != value.dtype or not torch.equal(found[name], value)]
    assert not wrong, f"{len(wrong)} of {len(expected)} weights differ, {wrong[:3]}"
    return f"{len(expected)} weights equal bit for bit"


def stored(model):
    """What save_pretrained would write: a tied head once."""
    tied = model.config.tie_word_embeddings
    return {name: value for name, value in model.state_dict().items() if not (tied and name == "lm_head.weight")}


def same_configs(folder, reference, dtype, but=frozenset()):
    """AutoConfig and GenerationConfig read the same from both folders, apart from the dtype and `but`."""
    mine, theirs = (AutoConfig.from_pretrained(one).to_dict() for one in (folder, reference))
    for key in (mine.keys() | theirs.keys()) - NOT_THE_MODEL - but:
        assert mine.get(key) == theirs.get(key), f"config.json {key}: {mine.get(key)!r}, expected {theirs.get(key)!r}"
    assert AutoConfig.from_pretrained(folder).dtype == dtype, f"dtype {AutoConfig.from_pretrained(folder).dtype}"
    mine, theirs = (GenerationConfig.from_pretrained(one).to_dict() for one in (folder, reference))
    for key in (mine.keys() | theirs.keys()) - NOT_THE_MODEL:
        assert mine.get(key) == theirs.get(key), f"generation_config.json {key}: {mine.get(key)!r}, expected {theirs.get(key)!r}"


def same_tokenizer(folder, reference):
    """AutoTokenizer: ids of every string, decoded text, special tokens, every conversation that both can render."""
    mine, theirs = AutoTokenizer.from_pretrained(folder), AutoTokenizer.from_pretrained(reference)
    raw = Tokenizer.from_file(str(Path(folder) / "tokenizer.json"))  # what hone itself computes with
    strings = json.loads(STRINGS.read_text())
    strings = strings["curated"] + strings["fragments"]
    for text in strings:
        a, b = mine(text).input_ids, theirs(text).input_ids
        assert a == b, f"ids of {text!r}: {a[:8]}, expected {b[:8]}"
        assert a == raw.encode(text).ids, f"transformers reads {folder}/tokenizer.json otherwise than tokenizers: {text!r}"
        assert mine.decode(a) == theirs.decode(b), f"decoded text of {text!r}"
    for name in ("bos_token", "eos_token", "unk_token", "pad_token"):
        assert getattr(mine, name) == getattr(theirs, name), f"{name}: {getattr(mine, name)!r}, expected {getattr(theirs, name)!r}"
    rendered = 0
    for name, case in json.loads(CONVERSATIONS.read_text()).items():
        words = dict(conversation=case["messages"], tools=case.get("tools"), tokenize=True, return_dict=False,
                     add_generation_prompt=case.get("add_generation_prompt", False))
        outcome = []
        for tokenizer in (mine, theirs):
            try:
                outcome.append(tokenizer.apply_chat_template(**words))
            except Exception as error:  # noqa: BLE001 - templates refuse some conversations; both must
                outcome.append(type(error).__name__)
        assert outcome[0] == outcome[1], f"conversation {name}: {str(outcome[0])[:80]}, expected {str(outcome[1])[:80]}"
        rendered += isinstance(outcome[1], list)
    assert rendered > 0, "no conversation was rendered"
    return f"{len(strings)} strings and {rendered} conversations"


def merged(check, family, adapter):
    model = tiny_model(check, family)
    out = check.folder(f"merged/{family}-{adapter}")
    hone("merge", "--model_name_or_path", model, "--adapter_name_or_path", FIXTURES / family / adapter, "--output", out)
    transformers_model = load_model(out)
    peft = PeftModel.from_pretrained(load_model(model), str(FIXTURES / family / adapter)).eval()
    unties = peft.config.tie_word_embeddings and not transformers_model.config.tie_word_embeddings
    if not unties:  # PEFT's merge of a LoRA on a tied head or embedding changes both (PEFT#2777)
        peft = peft.merge_and_unload()
    ids = sequences(transformers_model.config.vocab_size)
    theirs = reference_logits(transformers_model, ids)
    margin = within(hone_logits(check, model, ids, FIXTURES / family / adapter), theirs)
    within(theirs, reference_logits(peft, ids))
    same_configs(out, model, torch.float32, {"tie_word_embeddings"} if unties else frozenset())
    return f"{margin}; tokenizer: {same_tokenizer(out, model)}"


def converted(check, family, dtype):
    """A folder in, a folder in another type out: transformers' own cast of each weight."""
    model, out = tiny_model(check, family), check.folder(f"converted/{family}-{dtype}")
    hone("convert", "--input", model, "--output", out, "--dtype", dtype)
    kind = getattr(torch, dtype)
    margin = same_weights(out, {name: value.to(kind) for name, value in stored(load_model(model)).items()})
    ids = sequences(AutoConfig.from_pretrained(out).vocab_size)
    margin += "; " + within(hone_logits(check, out, ids), reference_logits(load_model(out), ids))
    same_configs(out, model, kind)
    return f"{margin}; tokenizer: {same_tokenizer(out, model)}"


def converted_gguf(check):
    """SmolLM2's GGUF -> float32 folder; the reference is another converter's (gguf-py and transformers, make_smollm2.py)."""
    out = check.folder("converted/smollm2")
    hone("convert", "--input", GGUF, "--output", out, "--dtype", "float32")
    model = load_model(out)
    margin = same_weights(out, stored(load_model(SMOLLM2)))
    ids = sequences(model.config.vocab_size, lengths=(5, 40))
    margin += "; " + within(hone_logits(check, GGUF, ids), reference_logits(model, ids))
    same_configs(out, SMOLLM2, torch.float32)
    return f"{margin}; tokenizer: {same_tokenizer(out, SMOLLM2)}"


def cases(check, fast):
    for family in FAMILIES:
        for adapter in sorted((FIXTURES / family).glob("adapter*")):
            check.case(f"transformers reads hone's merge, {family}, {adapter.name}", merged, check, family, adapter.name)
        for dtype in ("bfloat16", "float16", "float32"):
            check.case(f"transformers reads hone's conversion, {family} to {dtype}", converted, check, family, dtype)
    if not fast:
        check.case("transformers reads hone's conversion, SmolLM2 from GGUF", converted_gguf, check)
