"""Records what transformers makes of tokenizer folders of many forms.

    third_party/parity-venv/bin/python tests/parity/record_tokenizer_forms.py [--out tests/fixtures/text/forms]

writes the tokenizers that the forms start from (tests/fixtures/text/tiny is one more) and forms.json: for each form the
changes to tokenizer.json, the other files of the folder, and what AutoTokenizer.from_pretrained gives: class, size,
special tokens, ids of TEXTS without and with special tokens, texts decoded again, and the chat template's texts without
tools, with tools and with an empty list of them. tests/text/tokenizer_forms_test.cpp makes the folders and compares.

"refused" marks a form that hone refuses by name; the word stands in its error.
"""

import argparse
import copy
import json
import logging
import pathlib
import sys
import tempfile

import tokenizers
import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TEXT = ROOT / "tests" / "fixtures" / "text"
VERSIONS = {"tokenizers": tokenizers.__version__, "transformers": transformers.__version__}
CORPUS = [
    "The quick brown fox jumps over the lazy dog. What is 12 plus 30? The answer is 42.",
    "A user asks a question and the assistant answers it. You are a helpful assistant, aren't you ?",
    "Das ist ein kurzer Satz. C'est une phrase tr\u00e8s courte. It 's here .",
]
TEXTS = [
    "", "The answer is 42.", " two  spaces ", " x <think> y<think>z <|new|> hello<|two|> <|im_end|> w <|stop|>", "a<s>b </s> c<unk>d",
    "<|im_start|>user\nhi<|im_end|>\n", "It 's here , aren't you ? d\u00e9j\u00e0 e\u0301 \u4e2d\u6587 \U0001f600", "[CLS] word [SEP] thinking<image>[MASK]<pad>", "\u2581x \u2581 <bos><eos>the<|bos|>",
]  # fmt: skip
CHAT = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {}}}]


def pieces():
    """SentencePiece's form, as Llama 2 has it: bytes as pieces, spaces as U+2581."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    special = ["<unk>", "<s>", "</s>"]
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=[*special, *(f"<0x{i:02X}>" for i in range(256))], show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    out = json.loads(tokenizer.to_str())
    out["added_tokens"] = out["added_tokens"][:3]  # bytes are no added tokens
    return out


def words():
    """BERT's form: WordPiece, lower case."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(CORPUS, trainers.WordPieceTrainer(vocab_size=140, special_tokens=special, show_progress=False))
    tokenizer.decoder = decoders.WordPiece(cleanup=False)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return json.loads(tokenizer.to_str())


def unigram():
    """T5's form, without its normalizer."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=120, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.decoder = decoders.Metaspace()
    return json.loads(tokenizer.to_str())


def token(content, **flags):
    return {"__type": "AddedToken", "content": content, "lstrip": False, "rstrip": False, "normalized": False, "single_word": False, "special": True, **flags}


def entry(content, **flags):
    return {key: value for key, value in token(content, **flags).items() if key != "__type"}


A = "{% for m in messages %}A[{{ m.role }}]{{ m.content }}{{ eos_token }}{% endfor %}"
B = "{% for m in messages %}B[{{ m.role }}]{{ m.content }}{{ eos_token }}{% endfor %}{{ tools|length }}"
C = A.replace("A[", "C[")
TINY = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|bos|>", "eos_token": token("<|im_end|>"), "unk_token": None, "chat_template": A}
LLAMA = {"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "legacy": False, "add_bos_token": True, "add_eos_token": False}
QWEN = {"tokenizer_class": "Qwen2Tokenizer", "bos_token": None, "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "unk_token": None, "add_prefix_space": False, "chat_template": A}
BERT = {"tokenizer_class": "PreTrainedTokenizerFast", "cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]", "unk_token": "[UNK]", "mask_token": "[MASK]"}
TRUNCATION = {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0}
PADDING = {"strategy": {"Fixed": 24}, "direction": "Left", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0, "pad_token": "<|endoftext|>"}
NAMED = [{"name": "default", "template": A}, {"name": "tool_use", "template": B}, {"name": "rag", "template": C}]


def without(config, *keys):
    return {key: value for key, value in config.items() if key not in keys}


def forms():
    """(name, base, tokenizer_config.json or None, [(pointer, value) of tokenizer.json], {file: JSON or text}, refused)."""
    out = []

    def add(name, base="tiny", config=None, json=(), refused=None, **files):
        named = {key.replace("__", "/").replace("_json", ".json").replace("_jinja", ".jinja"): value for key, value in files.items()}
        out.append((name, base, config, list(json), named, refused))

    def tiny(name, json=(), refused=None, files=(), **more):
        add(name, "tiny", {**TINY, **more}, json, refused, **dict(files))

    tiny("plain")
    add("no config")
    add("no config, a map", special_tokens_map_json={"eos_token": "<|im_end|>", "pad_token": entry("<pad>")})
    # truncation and padding that the tokenizer keeps
    tiny("truncation", [("/truncation", TRUNCATION)])
    tiny("padding", [("/padding", PADDING)])
    tiny("both lengths", [("/truncation", TRUNCATION), ("/padding", PADDING)])
    tiny("padding beside a pad token", [("/padding", PADDING)], pad_token="<pad>")
    tiny("padding beside a pad token of null", [("/padding", PADDING)], pad_token=None)
    tiny("padding of an unknown token", [("/padding", {**PADDING, "pad_token": "[PAD]", "pad_id": 999})])
    tiny("lengths in the config", truncation=True, max_length=4, padding="max_length", truncation_side="left", padding_side="left", model_max_length=3)
    # added tokens
    tiny("a token only in the decoder", added_tokens_decoder={"384": entry("<|new|>")})
    tiny("a token of ordinary text in the decoder", added_tokens_decoder={"384": entry("answer", special=False)})
    tiny("a word of its own in the decoder", added_tokens_decoder={"384": entry("hello", special=False, single_word=True)})
    tiny("a decoder with gaps", added_tokens_decoder={"390": entry("<|two|>"), "384": entry("<|new|>"), "1000": entry("<|stop|>")})
    tiny("a decoder out of order", added_tokens_decoder={"400": entry("<|new|>"), "385": entry("<|two|>")})
    tiny("the decoder with other flags", added_tokens_decoder={"382": entry("<think>", lstrip=True, rstrip=True, special=False)})
    tiny("the decoder without flags", added_tokens_decoder={"382": {"content": "<think>"}, "384": {"content": "<|new|>", "special": True}})
    tiny("an empty decoder", added_tokens_decoder={}, files={"special_tokens_map_json": {"eos_token": "<|endoftext|>"}})
    tiny("flags of tokenizer.json", [("/added_tokens/4/lstrip", True), ("/added_tokens/4/rstrip", True)])
    tiny("a single word in tokenizer.json", [("/added_tokens/4/single_word", True)])
    tiny("a special token that strips", [("/added_tokens/2/lstrip", True)])
    tiny("eos with flags of its own", eos_token=token("<|im_end|>", lstrip=True, rstrip=True), added_tokens_decoder={})
    tiny("eos with flags against tokenizer.json", eos_token=token("<|im_end|>", lstrip=True, rstrip=True))
    tiny("a special token no more", added_tokens_decoder={"1": entry("<|im_start|>", special=False)})
    tiny("think made special", added_tokens_decoder={"382": entry("<think>"), "383": entry("</think>")})
    tiny("a name that is not special", added_tokens_decoder={"2": {"content": "<|im_end|>", "special": False, "normalized": True}})
    tiny("additional", additional_special_tokens=["<|new|>", "<|two|>"])
    tiny("additional with objects", additional_special_tokens=["<|new|>", token("<|two|>", lstrip=True)])
    tiny("extra as a list", extra_special_tokens=["<|new|>", "<think>"])
    tiny("extra as an object", extra_special_tokens={"image_token": "<|new|>", "boi_token": token("<|two|>", rstrip=True)})
    tiny("extra and additional", extra_special_tokens=["<|new|>"], additional_special_tokens=["<|two|>"])
    tiny("extra empty, additional", extra_special_tokens=[], additional_special_tokens=["<|two|>"])
    tiny("tokens of the model's own", image_token="<image>", audio_token=token("<|new|>"), eot_token="<|im_end|>")
    tiny("tokens of the model's own, saved", model_specific_special_tokens={"image_token": "<image>"}, image_token="<image>")
    tiny("added_tokens.json", files={"added_tokens_json": {"<|new|>": 384, "<|two|>": 390}})
    tiny("added_tokens.json of a special token", files={"added_tokens_json": {"<|new|>": 384, "<|stop|>": 385}}, pad_token="<|new|>", extra_special_tokens=["<|stop|>"])
    tiny("added_tokens.json beside a decoder", files={"added_tokens_json": {"<|new|>": 384}}, added_tokens_decoder={"384": entry("<|two|>")})
    tiny("a map that contradicts", files={"special_tokens_map_json": {"eos_token": "<|endoftext|>", "bos_token": "<|im_start|>"}})
    tiny("a map beside a decoder", files={"special_tokens_map_json": {"eos_token": "<|endoftext|>"}}, added_tokens_decoder={"384": entry("<|new|>")})
    tiny("a map with objects", files={"special_tokens_map_json": {"eos_token": entry("<|endoftext|>", lstrip=True), "additional_special_tokens": ["<|new|>"]}})
    tiny("a map with an own token", files={"special_tokens_map_json": {"image_token": "<image>", "extra_special_tokens": {"video_token": "<|new|>"}}})
    tiny("a map with extra tokens", files={"special_tokens_map_json": {"extra_special_tokens": ["<|new|>", entry("<|two|>")]}}, extra_special_tokens=["<|stop|>"])
    tiny("a map with null", files={"special_tokens_map_json": {"eos_token": None}})
    # bos, eos, pad
    tiny("bos false", add_bos_token=False)
    tiny("eos true", add_eos_token=True)
    tiny("bos and eos true", add_bos_token=True, add_eos_token=True)
    tiny("bos null", bos_token=None)
    tiny("no post-processor, bos true", [("/post_processor", None)], add_bos_token=True)
    tiny("a byte-level post-processor", [("/post_processor", {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True})], add_bos_token=True)
    tiny("a sequence of post-processors", [("/post_processor", {"type": "Sequence", "processors": [
        {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True},
        {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<|bos|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
         "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
         "special_tokens": {"<|bos|>": {"id": "<|bos|>", "ids": [3], "tokens": ["<|bos|>"]}}}]})], add_bos_token=False)  # fmt: skip
    tiny("another eos", eos_token="<|endoftext|>")
    tiny("an unknown eos", eos_token="<|stop|>")
    tiny("an unknown pad", pad_token="<pad>")
    tiny("an unknown pad as an object", pad_token=token("<pad>", special=False, normalized=True))
    tiny("an empty eos", eos_token="")
    tiny("pad equals eos", pad_token="<|im_end|>")
    tiny("a word as eos", eos_token="answer")
    tiny("an object without its type", eos_token=entry("<|im_end|>"))
    tiny("a number as eos", eos_token=7)
    tiny("extra as a text", extra_special_tokens="<|new|>")
    tiny("a decoder of texts", added_tokens_decoder={"384": "<|new|>"})
    # other settings
    tiny("prefix space", add_prefix_space=True)
    tiny("split special tokens", split_special_tokens=True)
    tiny("split special tokens with tokens", split_special_tokens=True, extra_special_tokens=["<|new|>"], added_tokens_decoder={"385": entry("hello", special=False)})
    tiny("clean up", clean_up_tokenization_spaces=True)
    tiny("clean up for BPE", clean_up_tokenization_spaces=True, clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output=True)
    tiny("unknown keys", no_such_key=1, use_default_system_prompt=False, verbose=False)
    tiny("positional arguments", init_inputs=["x"], refused="init_inputs")
    tiny("versions of the file", fast_tokenizer_files=["tokenizer.json", "tokenizer.4.0.0.json"], refused="fast_tokenizer_files")
    # classes
    for kind in ("Qwen2Tokenizer", "Qwen2TokenizerFast", "Qwen3_5Tokenizer", "GPT2Tokenizer", "GPT2TokenizerFast", "GPTNeoXTokenizerFast", "CohereTokenizerFast",
                 "TokenizersBackend", "PreTrainedTokenizer", "LlamaTokenizerFast", "NoSuchTokenizer", "BloomTokenizerFast"):  # fmt: skip
        add("tiny as " + kind, "tiny", {**TINY, "tokenizer_class": kind})
        add("tiny as " + kind + ", without names", "tiny", {"tokenizer_class": kind, "add_prefix_space": True})
    add("Qwen2 with its decoder", "tiny", {**QWEN, "added_tokens_decoder": {"0": entry("<|endoftext|>"), "2": entry("<|im_end|>", lstrip=True), "382": entry("<think>", special=False)}, "additional_special_tokens": ["<|im_start|>", "<|new|>"]})
    add("Qwen2 without a decoder", "tiny", {**QWEN, "additional_special_tokens": ["<|im_start|>"]}, special_tokens_map_json={"additional_special_tokens": ["<|im_start|>"], "eos_token": entry("<|im_end|>")})
    add("Qwen2 with lengths", "tiny", QWEN, [("/truncation", TRUNCATION), ("/padding", PADDING)])
    add("Cohere with its own", "tiny", {**QWEN, "tokenizer_class": "CohereTokenizer", "bos_token": "<|bos|>", "extra_special_tokens": ["<|new|>", token("<|two|>", rstrip=True)]})
    for kind in ("LlamaTokenizer", "GemmaTokenizer", "TokenizersBackend", "GPT2Tokenizer", "Phi3Tokenizer"):
        add("pieces as " + kind, "pieces", {**LLAMA, "tokenizer_class": kind})
    add("Llama, legacy", "pieces", {**LLAMA, "legacy": True})
    add("Llama without names", "pieces", {"tokenizer_class": "LlamaTokenizerFast"})
    add("Llama without a prefix space", "pieces", {**LLAMA, "add_prefix_space": False, "chat_template": A})
    add("Llama with tokens", "pieces", {**LLAMA, "pad_token": "<pad>", "added_tokens_decoder": {"0": entry("<unk>"), "1": entry("<s>"), "2": entry("</s>", normalized=True, special=False), "400": entry("<|new|>", lstrip=True)}})
    add("Llama with padding", "pieces", LLAMA, [("/padding", {**PADDING, "pad_token": "<unk>"})])
    add("Llama with eos true", "pieces", {**LLAMA, "add_eos_token": True})
    code = {**LLAMA, "tokenizer_class": "CodeLlamaTokenizer"}
    infill = {name + "_token": f"\u2581<{name[:3].upper()}>" for name in ("prefix", "middle", "suffix", "eot")}
    add("CodeLlama", "pieces", code)
    add("CodeLlama without names", "pieces", {"tokenizer_class": "CodeLlamaTokenizerFast"})
    add("CodeLlama with its tokens", "pieces", {**code, **infill, "fill_token": "<FILL>", "additional_special_tokens": list(infill.values())})
    add("CodeLlama with tokens of null", "pieces", {**code, **dict.fromkeys(infill), "fill_token": None, "legacy": True})
    add("CodeLlama with flags", "pieces", {**code, "fill_token": token("<FILL>", lstrip=True), "eos_token": token("</s>", rstrip=True)}, config_json={"model_type": "llama"})
    add("CodeLlama without a prefix space", "pieces", {**code, "add_prefix_space": False, "pad_token": "</s>", "chat_template": A})
    add("Gemma with tokens", "pieces", {"tokenizer_class": "GemmaTokenizer", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    # config.json beside it
    for model, kind in (("qwen2", "PreTrainedTokenizerFast"), ("qwen2", "TokenizersBackend"), ("qwen3", "PreTrainedTokenizerFast"), ("qwen3", None), ("qwen3", "Qwen2Tokenizer"),
                        ("llama", "Qwen2Tokenizer"), ("llama", "GPT2Tokenizer"), ("llama", None), ("olmoe", "GPTNeoXTokenizer"), ("olmoe", None), ("qwen3_5_text", "Qwen2Tokenizer"),
                        ("qwen3_5", "Qwen2Tokenizer"), ("mistral", "LlamaTokenizer"), ("granite", "GPT2Tokenizer"), ("llama", "LlamaTokenizerFast")):  # fmt: skip
        add(f"tiny as {kind} of {model}", "tiny", {**without(TINY, "tokenizer_class"), **({"tokenizer_class": kind} if kind else {})}, config_json={"model_type": model})
    for model, kind in (("phi3", "LlamaTokenizer"), ("mistral", "LlamaTokenizer"), ("llama", "LlamaTokenizer"), ("gemma2", "GemmaTokenizerFast"), ("gemma3_text", None), ("gemma2", "LlamaTokenizer")):
        add(f"pieces as {kind} of {model}", "pieces", {**without(LLAMA, "tokenizer_class"), **({"tokenizer_class": kind} if kind else {})}, config_json={"model_type": model})
    add("the class in config.json", "tiny", without(TINY, "tokenizer_class"), config_json={"model_type": "llama", "tokenizer_class": "Qwen2TokenizerFast"})
    add("no tokenizer_config.json of qwen3", "tiny", None, config_json={"model_type": "qwen3"})
    tiny("code of its own of a known model", auto_map={"AutoTokenizer": [None, "tokenization_x.XTokenizer"]}, files={"config_json": {"model_type": "qwen3"}})
    tiny("code of its own", auto_map={"AutoTokenizer": [None, "tokenization_x.XTokenizer"]}, tokenizer_class="XTokenizer", refused="auto_map")
    # other models
    add("words", "words", BERT)
    add("words with clean up", "words", {**BERT, "clean_up_tokenization_spaces": True, "do_lower_case": True})
    add("words with a normalized token", "words", {**BERT, "added_tokens_decoder": {"200": entry("THE Answer", special=False, normalized=True), "201": entry("[NEW]", lstrip=True)}})
    add("words as BertTokenizer", "words", {**BERT, "tokenizer_class": "BertTokenizer"}, refused="tokenizer_class")
    add("unigram", "unigram", {"tokenizer_class": "TokenizersBackend", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>", "clean_up_tokenization_spaces": True})
    add("unigram with tokens", "unigram", {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "</s>", "unk_token": "<unk>", "additional_special_tokens": ["<extra_id_0>"]})
    add("unigram as T5Tokenizer", "unigram", {"tokenizer_class": "T5Tokenizer", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}, refused="tokenizer_class")
    add("unigram as LlamaTokenizer", "unigram", LLAMA, refused="tokenizer_class")
    # chat templates
    bare = without(TINY, "chat_template")
    tiny("named templates", chat_template=NAMED)
    tiny("named templates without a default", chat_template=NAMED[1:])
    tiny("named templates without tool_use", chat_template=[NAMED[0], NAMED[2]])
    tiny("named templates as an object", chat_template={"default": A, "tool_use": B})
    tiny("only a default", chat_template=NAMED[:1])
    tiny("a template's file", files={"chat_template_jinja": C})
    tiny("a template's file before named ones", chat_template=NAMED, files={"chat_template_jinja": C})
    tiny("a template's file and a folder", files={"chat_template_jinja": C, "additional_chat_templates__tool_use_jinja": B})
    tiny("a folder only", files={"additional_chat_templates__tool_use_jinja": B})
    tiny("a folder without tool_use", files={"additional_chat_templates__rag_jinja": B, "additional_chat_templates__default_jinja": C})
    add("no template", "tiny", bare)
    add("chat_template.json", "tiny", bare, chat_template_json={"chat_template": C})
    add("a template with other line ends", "tiny", bare, chat_template_jinja=C.replace("%}", "%}\r\n").replace("A", "\rA"))
    add("a template with a mark of its encoding", "tiny", bare, chat_template_jinja="\ufeff" + C)
    tiny("a template with line ends in the config", chat_template=C.replace("%}", "%}\r\n"))
    tiny("a template of special tokens", chat_template="{{ bos_token }}|{{ eos_token }}|{{ pad_token }}|{{ image_token }}|{{ unk_token }}|{{ additional_special_tokens }}", image_token="<image>")
    return out


def changed(source, edits):
    out = copy.deepcopy(source)
    for pointer, value in edits:
        *path, last = [int(part) if part.isdigit() else part for part in pointer[1:].split("/")]
        at = out
        for part in path:
            at = at[part]
        at[last] = value
    return out


def write_folder(folder, base, config, edits, files):
    (folder / "tokenizer.json").write_text(json.dumps(changed(base, edits)))
    if config is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
    for name, value in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes((value if isinstance(value, str) else json.dumps(value)).encode())


def rendered(tokenizer, tools):
    try:
        return tokenizer.apply_chat_template(copy.deepcopy(CHAT), tools=tools, tokenize=False)
    except Exception as error:
        return {"error": str(error).split("!")[0][:60]}


def results(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    special = [tokenizer(text)["input_ids"] for text in TEXTS]
    return {
        "class": type(tokenizer).__name__,
        "size": len(tokenizer),
        "special": tokenizer.special_tokens_map,
        "ids": [tokenizer(text, add_special_tokens=False)["input_ids"] for text in TEXTS],
        "ids_special": special,
        "decoded": [tokenizer.decode(ids) for ids in special],
        "decoded_skip": [tokenizer.decode(ids, skip_special_tokens=True) for ids in special],
        "rendered": [rendered(tokenizer, tools) for tools in (None, TOOLS, [])],
    }


def compact(want, before):
    """Members that equal those of the base's first form are left out."""
    return {key: value for key, value in want.items() if before.get(key) != value}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=pathlib.Path, default=TEXT / "forms")
    parser.add_argument("--full")
    out = parser.parse_args().out
    logging.disable(logging.WARNING)
    out.mkdir(parents=True, exist_ok=True)
    bases = {"tiny": json.loads((TEXT / "tiny" / "tokenizer.json").read_text())}
    for make in (pieces, words, unigram):
        file = out / f"{make.__name__}.json"
        # Training is not the same in each run: the file is made once.
        committed = TEXT / "forms" / file.name
        bases[make.__name__] = json.loads(committed.read_text()) if committed.exists() else make()
        file.write_text(json.dumps(bases[make.__name__], ensure_ascii=False, separators=(",", ":")) + "\n")
    lines, first = [], {}
    for name, base, config, edits, files, refused in forms():
        form = {"name": name, "base": base, "config": config, "json": edits, "files": files}
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            write_folder(folder, bases[base], config, edits, files)
            if refused:
                form["refused"] = refused
            else:
                try:
                    want = results(folder)
                    form["want"] = compact(want, first.get(base, {}))
                    first.setdefault(base, want)
                except Exception as error:
                    form["error"] = f"{type(error).__name__}: {str(error)[:100]}"
        lines.append(json.dumps(form, ensure_ascii=False, separators=(",", ":")))
    head = {"versions": VERSIONS, "texts": TEXTS, "chat": CHAT, "tools": TOOLS}
    text = json.dumps(head, ensure_ascii=False, separators=(",", ":"))[:-1] + ', "forms": [\n' + ",\n".join(lines) + "\n]}\n"
    (out / "forms.json").write_text(text)
    print(f"{len(lines)} forms")


if __name__ == "__main__":
    sys.exit(main())
