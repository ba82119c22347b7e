"""Tokenizers that were changed in memory: hone.trl's first loss and count of tokens are TRL's, and the result has the tokenizer.

usage: changed_tokenizers.py MODEL OTHER_TOKENIZER OUT
"""
import functools
import json
import math
import pathlib
import sys

import hone.trl
import tokenizers
import trl
from checks import raises
from datasets import Dataset
from hone import Refused
from transformers import AddedToken, AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

MODEL, OTHER, OUT = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
WIDE = str(OUT / "wide")  # the model with spare rows in its embedding
CHATS = Dataset.from_list([{"messages": [{"role": "user", "content": f"ask {n}"}, {"role": "assistant", "content": f"get number {n}"}]} for n in range(4)])
TEXTS = Dataset.from_list([{"text": f"Plain  text with NUMBER number {n} inside <|im_end|> it"} for n in range(4)])
PAIRS = Dataset.from_list([{"prompt": [{"role": "user", "content": f"ask {n}"}], "chosen": [{"role": "assistant", "content": "yes"}],
                            "rejected": [{"role": "assistant", "content": f"no {n}"}]} for n in range(4)])
TEMPLATE = "{% for m in messages %}[{{ m.role }}] {{ m.content }}{{ eos_token }}{% endfor %}"
QUICK = {"max_steps": 1, "per_device_train_batch_size": 4, "logging_steps": 1, "save_strategy": "no", "bf16": False, "report_to": "none"}


NAMED = {"split specials": "split_special_tokens"}  # the program either splits them, or says that it does not


def set_of(**values):
    def change(tokenizer):
        for name, value in values.items():
            setattr(tokenizer, name, value)
    return change


def post(tokenizer):
    tokenizer.backend_tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="<|bos|> $A <|im_end|> <|im_end|>", pair="$A $B", special_tokens=[("<|bos|>", 3), ("<|im_end|>", 2)])


def normalizer(tokenizer):
    tokenizer.backend_tokenizer.normalizer = tokenizers.normalizers.Sequence([tokenizers.normalizers.Lowercase(),
                                                                              tokenizers.normalizers.Replace("  ", " ")])


def pre_tokenizer(tokenizer):
    tokenizer.backend_tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(
        [tokenizers.pre_tokenizers.Digits(individual_digits=True), tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=True)])


def cut(tokenizer):
    tokenizer.pad_token = tokenizer.eos_token
    tokenizer("one two three four", truncation=True, max_length=2, padding="max_length")


CHANGES = {  # name: (change, rows)
    "none": (lambda tokenizer: None, CHATS),
    "template": (set_of(chat_template=TEMPLATE), CHATS),
    "templates": (set_of(chat_template={"default": TEMPLATE, "tool_use": "tools " + TEMPLATE}), CHATS),
    "no template": (set_of(chat_template=None), TEXTS),
    "eos": (set_of(eos_token="<|endoftext|>"), TEXTS),
    "eos and template": (set_of(eos_token="<|endoftext|>", chat_template=TEMPLATE), CHATS),
    "no bos": (set_of(add_bos_token=False), TEXTS),
    "add eos": (set_of(add_eos_token=True), TEXTS),
    "another bos": (set_of(bos_token="<|endoftext|>"), TEXTS),
    "pad": (lambda tokenizer: (set_of(padding_side="left")(tokenizer), setattr(tokenizer, "pad_token", tokenizer.eos_token)), TEXTS),
    "short": (set_of(model_max_length=4, truncation_side="left"), TEXTS),
    "cut by its last call": (cut, TEXTS),
    "post-processor": (post, TEXTS),
    "normalizer": (normalizer, TEXTS),
    "pre-tokenizer": (pre_tokenizer, TEXTS),
    "split specials": (set_of(split_special_tokens=True), TEXTS),
    "new token": (lambda tokenizer: tokenizer.add_tokens(["number"]), TEXTS),
    "new tokens with flags": (lambda tokenizer: tokenizer.add_tokens([AddedToken("number", lstrip=True, rstrip=True), AddedToken("Plain", single_word=True)]), TEXTS),
    "new special": (lambda tokenizer: tokenizer.add_special_tokens({"additional_special_tokens": ["inside"], "pad_token": "<pad>"}), TEXTS),
    "kept in init_kwargs": (lambda tokenizer: tokenizer.init_kwargs.update(my_note="x"), TEXTS),
}


def compared(name, make, rows, method="SFT", keys=("loss", "num_tokens")):
    logged = []
    for package, more in ((trl, {"use_cpu": True}), (hone.trl, {"skip_doctor": True, "threads": 1})):
        folder = OUT / f"{package.__name__}-{name.replace(' ', '-')}-{method}"
        config = getattr(package, f"{method}Config")(output_dir=str(folder), model_init_kwargs={"dtype": "float32"}, **QUICK, **more)
        tokenizer = make()
        trainer = getattr(package, f"{method}Trainer")(WIDE, args=config, train_dataset=rows, processing_class=tokenizer)
        try:
            trainer.train()
        except hone.HoneError as error:
            assert name in NAMED and NAMED[name] in str(error), (name, error)
            return logged[0]
        logged.append({key: trainer.state.log_history[0][key] for key in keys})
        if package is trl:
            aligned = trainer.model.config.eos_token_id, trainer.model.generation_config.eos_token_id
        else:
            same_tokenizer(name, make(), str(folder))  # the object itself has got a token for padding, as in TRL
            saved = [json.loads((folder / f"{file}.json").read_text())["eos_token_id"] for file in ("config", "generation_config")]
            assert name == "none" or tuple(saved) == aligned, (name, saved, aligned)
    for key in keys:
        theirs, ours = logged[0][key], logged[1][key]
        assert math.isclose(ours, theirs, rel_tol=2e-6, abs_tol=1e-6), (name, key, logged)
    return logged[1]


def same_tokenizer(name, given, folder):
    """What the run has saved is the object as it was given."""
    saved = AutoTokenizer.from_pretrained(folder)
    for text in [*TEXTS["text"], "number  Inside", "<|bos|> 12"]:
        assert saved(text)["input_ids"] == given(text)["input_ids"], (name, text, saved(text), given(text))
    for what in ("chat_template", "eos_token", "bos_token", "pad_token"):
        expected = getattr(given, what)
        if what == "pad_token" and expected is None:
            expected = given.eos_token  # which TRL gives it, and saves
        assert getattr(saved, what) == expected, (name, what, getattr(saved, what), expected)


def loaded(change):
    tokenizer = AutoTokenizer.from_pretrained(WIDE)
    change(tokenizer)
    return tokenizer


refused = functools.partial(raises, Refused)


model = AutoModelForCausalLM.from_pretrained(MODEL, dtype="float32")
model.resize_token_embeddings(model.config.vocab_size + 16)
model.save_pretrained(WIDE)
AutoTokenizer.from_pretrained(MODEL).save_pretrained(WIDE)
only = sys.argv[4:]
found = {}
for name, (change, rows) in CHANGES.items():
    if not only or name in only:
        found[name] = compared(name, lambda change=change: loaded(change), rows)
assert only or len({round(values["loss"], 4) for values in found.values()}) > 10, found  # the changes change something
if not only:
    compared("in memory", lambda: PreTrainedTokenizerFast(tokenizer_object=tokenizers.Tokenizer.from_file(f"{WIDE}/tokenizer.json"), eos_token="<|im_end|>",
                                                          pad_token="<|endoftext|>", chat_template=TEMPLATE), CHATS)
    compared("another folder's", lambda: AutoTokenizer.from_pretrained(OTHER), TEXTS)
    compared("with arguments", lambda: AutoTokenizer.from_pretrained(WIDE, eos_token="<|endoftext|>", padding_side="left"), TEXTS)
    compared("pairs", lambda: loaded(set_of(chat_template=TEMPLATE)), PAIRS, "DPO", ("loss", "logps/chosen", "logps/rejected"))
    small = AutoTokenizer.from_pretrained(MODEL)
    small.add_tokens(["number"])
    config = hone.trl.SFTConfig(str(OUT / "refused"), **QUICK)
    refused("'number' (384)", lambda: hone.trl.SFTTrainer(MODEL, config, train_dataset=TEXTS, processing_class=small))
    assert not (OUT / "refused").exists()
    odd = AutoTokenizer.from_pretrained(MODEL)
    odd.__class__ = type("Odd", (type(odd),), {"__call__": lambda self, text, **named: super(type(self), self).__call__(text[::-1], **named)})
    refused("when it is saved and loaded", lambda: hone.trl.SFTTrainer(MODEL, config, train_dataset=TEXTS, processing_class=odd))
    judge = AutoTokenizer.from_pretrained(MODEL)
    judge.pad_token = judge.eos_token  # of batches, which are none
    hone.trl.GRPOTrainer(MODEL, reward_funcs=[MODEL], reward_processing_classes=[judge], train_dataset=TEXTS)
print("all are TRL's")
