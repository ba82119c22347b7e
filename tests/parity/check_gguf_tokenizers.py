"""`hone export` of real tokenizers, read by llama.cpp: the tokens of tokenizer.json, and the tokens at which it ends."""
import ctypes
import json
import unicodedata
from pathlib import Path

from check_harness import hone
from record_text import FOLDERS, strings

import torch
import xllamacpp
from tokenizers import Tokenizer
from transformers import LlamaConfig, LlamaForCausalLM

# Strings whose tokens llama.cpp has otherwise with anybody's file: a U+2581 of the text itself; what Qwen's NFC changes, and
# `</s>`, a control token wherever it is spelled so; marks (\p{M}), which are no part of its words for GPT-4o.
LLAMA_CPP_DIFFERS = {
    "llama2": lambda text: False,
    "gemma3": lambda text: "\u2581" in text,
    "llama3": lambda text: False,
    "qwen3": lambda text: unicodedata.normalize("NFC", text) != text or "</s>" in text,
    "gpt4o": lambda text: any(unicodedata.category(character).startswith("M") for character in text),
}
MOST_OTHERS = {"llama2": 0, "gemma3": 19, "llama3": 0, "qwen3": 598, "gpt4o": 510}
ROWS = {"llama2": 32000, "gemma3": 262208, "llama3": 128256, "qwen3": 151936, "gpt4o": 200064}


class Vocabulary:
    """llama.cpp's C functions, which the wheel exports. A struct by value is as wide as llama.cpp's or wider: it is passed on
    the stack, where the reader takes what it knows."""

    class Parameters(ctypes.Structure):
        _fields_ = [("words", ctypes.c_uint64 * 64)]

    def __init__(self, path):
        self.library = library = ctypes.CDLL(next(Path(xllamacpp.__file__).parent.glob("*.so")))
        self.quiet = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda *_: None)
        library.llama_log_set(self.quiet, None)
        library.llama_model_default_params.restype = self.Parameters
        library.llama_model_load_from_file.argtypes = [ctypes.c_char_p, self.Parameters]
        library.llama_model_load_from_file.restype = ctypes.c_void_p
        library.llama_model_get_vocab.argtypes, library.llama_model_get_vocab.restype = [ctypes.c_void_p], ctypes.c_void_p
        library.llama_tokenize.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32,
                                           ctypes.c_bool, ctypes.c_bool]
        library.llama_vocab_is_eog.argtypes, library.llama_vocab_is_eog.restype = [ctypes.c_void_p, ctypes.c_int32], ctypes.c_bool
        self.model = library.llama_model_load_from_file(str(path).encode(), library.llama_model_default_params())
        assert self.model, f"llama.cpp does not load {path}"
        self.vocab = library.llama_model_get_vocab(self.model)

    def encode(self, text):
        raw = text.encode()
        ids = (ctypes.c_int32 * (len(raw) + 16))()
        count = self.library.llama_tokenize(self.vocab, raw, len(raw), ids, len(ids), True, True)
        return list(ids[:count])

    def ends(self, token):
        return self.library.llama_vocab_is_eog(self.vocab, token)


def exported(check, name, config):
    """A random model of one small layer with a real tokenizer, as a GGUF."""
    folder, gguf = check.folder(f"vocabulary/{name}"), check.folder(f"vocabulary/{name}.gguf")
    gguf.unlink(missing_ok=True)
    small = LlamaConfig(hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, vocab_size=ROWS[name],
                        tie_word_embeddings=True)
    LlamaForCausalLM(small).to(torch.float16).save_pretrained(folder)
    (folder / "tokenizer.json").write_bytes((FOLDERS / name / "tokenizer.json").read_bytes())
    own = json.loads((FOLDERS / name / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(own | config))
    hone("export", "--model_name_or_path", folder, "--output", gguf, "--outtype", "f16", "--compare", 0)
    return gguf


def same_tokens(check, name):
    # AutoTokenizer, and so hone, gives some classes a pre-tokenizer of their own; this one has the file's, which is compared here.
    vocabulary = Vocabulary(exported(check, name, {"tokenizer_class": "PreTrainedTokenizerFast"}))
    tokenizer = Tokenizer.from_file(str(FOLDERS / name / "tokenizer.json"))
    texts = list(strings())
    others = [text for text in texts if vocabulary.encode(text) != tokenizer.encode(text).ids]
    unexplained = [text for text in others if not LLAMA_CPP_DIFFERS[name](text)]
    shown = [(text, vocabulary.encode(text)[:12], tokenizer.encode(text).ids[:12]) for text in unexplained[:3]]
    assert not unexplained, f"{len(unexplained)} of {len(texts)} strings: {shown!r}"
    assert len(others) <= MOST_OTHERS[name], f"{len(others)} of {len(texts)} strings, {MOST_OTHERS[name]} as recorded"
    return f"{len(texts) - len(others)} of {len(texts)} strings have the same tokens, the others are llama.cpp's"


def same_ends(check):
    """An end of answers that only the chat template knows."""
    template = "{% for m in messages %}{{ m['content'] + '<unused7>\\n' }}{% endfor %}"
    vocabulary = Vocabulary(exported(check, "gemma3", {"chat_template": template}))
    tokenizer = Tokenizer.from_file(str(FOLDERS / "gemma3/tokenizer.json"))
    found = {token: vocabulary.ends(tokenizer.token_to_id(token)) for token in ("<eos>", "<unused7>", "<unused8>")}
    assert found == {"<eos>": True, "<unused7>": True, "<unused8>": False}, f"{found}"
    return "llama.cpp ends where the chat template does"


def cases(check):
    for name in ROWS:
        check.case(f"llama.cpp has the tokens of hone's file, {name}", same_tokens, check, name)
    check.case("llama.cpp ends where the chat template does", same_ends, check)
