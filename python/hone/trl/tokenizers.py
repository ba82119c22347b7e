"""processing_class: the tokenizer that the caller has, which need not be what any folder holds.

The program reads tokenizers from folders. One that is still what its folder has is named; any other is saved, as its own save_pretrained does,
into the folder `tokenizer` of the run's inputs, and the run reads that.
"""
import json
import os
import pathlib
import shutil
import tempfile

from hone.errors import Refused
from hone.trl import models
from hone.trl.rows import is_named

FOLDER = "tokenizer"
# Of tokenizer_config.json: where a tokenizer is from, and not what it does.
SILENT = ("name_or_path", "is_local", "local_files_only", "processor_class", "auto_map", "transformers_version", "_commit_hash")
# Arguments of from_pretrained, which a tokenizer keeps and saves without any effect.
OF_LOADING = ("truncation", "padding", "max_length", "return_tensors", "attn_implementation", "dtype", "torch_dtype", "use_cache", "revision",
              "device_map", "quantization_config", "trust_remote_code", "token", "use_fast", "cache_dir", "subfolder", "force_download", "_from_auto")
# What padding and cutting of a batch read: rewards of one text at a time have neither.
OF_BATCHES = ("pad_token", "padding_side", "truncation_side", "model_max_length")
KINDS = "a tokenizer of transformers, or the path of a folder"


def refuse_processor(processing_class, where):
    """Pictures' and sounds' processors have a tokenizer among their parts."""
    parts = [name for name in ("image_processor", "feature_extractor", "video_processor") if hasattr(processing_class, name)]
    if parts or (not hasattr(processing_class, "get_vocab") and hasattr(processing_class, "tokenizer")):
        raise Refused(where, KINDS, f"a {type(processing_class).__name__}, with {parts[0] if parts else 'a tokenizer'} in it",
                      "hone trains on text: pass its part, processing_class=processor.tokenizer")


def saved(tokenizer, where):
    """{name: bytes} of the files that its save_pretrained writes."""
    with tempfile.TemporaryDirectory(prefix="hone-tokenizer-") as folder:
        try:
            tokenizer.save_pretrained(folder)
        except Exception as error:
            raise Refused(where, KINDS, f"a {type(tokenizer).__name__} whose save_pretrained fails: {error}") from error
        root = pathlib.Path(folder)
        files = {path.relative_to(root).as_posix(): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}
    if "tokenizer.json" in files:
        files["tokenizer.json"] = without_batches(files["tokenizer.json"])
    if "tokenizer_config.json" in files:
        config = json.loads(files["tokenizer_config.json"])
        kept = {key: value for key, value in config.items() if key not in OF_LOADING}
        if getattr(tokenizer, "split_special_tokens", False):  # transformers saves it only where it was an argument
            kept["split_special_tokens"] = True
        if kept != config:
            files["tokenizer_config.json"] = json.dumps(kept, ensure_ascii=False, indent=2).encode()
    return files


def without_batches(data):
    """The last call's cutting and padding stay in the object, and its next call sets both anew."""
    known = json.loads(data)
    if known.get("truncation") is None and known.get("padding") is None:
        return data
    return json.dumps({**known, "truncation": None, "padding": None}, ensure_ascii=False, indent=2).encode()


def facts(files, silent=SILENT):
    out = {}
    for name, data in files.items():
        out[name] = json.loads(data) if name.endswith(".json") else data
        if name == "tokenizer_config.json":
            out[name] = {key: value for key, value in out[name].items() if key not in silent}
    return out


def fresh(tokenizer, name):
    """What its folder holds, as scripts load it; None where that fails."""
    load = type(tokenizer).from_pretrained
    if any(owner.__module__.startswith("transformers.") for owner in type(tokenizer).__mro__):
        from transformers import AutoTokenizer
        load = AutoTokenizer.from_pretrained
    try:
        return load(name)
    except Exception:
        return None  # a folder that is gone, or needs more arguments


def change_of(tokenizer, where, silent=SILENT):
    """(its files, what its folder holds). The second is None where the first is to be used: an object of the same class otherwise."""
    files = saved(tokenizer, where)
    name = getattr(tokenizer, "name_or_path", "") or ""
    other = fresh(tokenizer, name) if is_named(name) and name else None
    return files, other if other is not None and facts(saved(other, where), silent) == facts(files, silent) else None


PROBES = ("Plain text, 12 + 7 = 19?\n", "  two  spaces\tand a tab ", "é 漢字 🙂 ﬁ")


def probes_of(tokenizer):
    """Texts whose tokens differ where two tokenizers do; each added token stands in one, up to a number."""
    added = list(getattr(tokenizer, "get_added_vocab", dict)())
    return [*PROBES, *(f"a {token} b{token}c" for token in added[:64])]


def loaded(tokenizer, files, where):
    """An object of the files."""
    with tempfile.TemporaryDirectory(prefix="hone-tokenizer-") as folder:
        Taken(files=files).write(folder)
        again = fresh(tokenizer, os.path.join(folder, FOLDER))
    if again is None:
        raise Refused(where, "a tokenizer that can be saved and loaded", f"a {type(tokenizer).__name__} whose saved files do not load",
                      "save it with save_pretrained(FOLDER), and see what AutoTokenizer.from_pretrained(FOLDER) says")
    return again


def refuse_unsaved(tokenizer, again, where):
    """What an object does and its files do not say: methods of its own, attributes that are in no file."""
    for text in probes_of(tokenizer) if callable(tokenizer) else ():
        given, read = tokenizer(text)["input_ids"], again(text)["input_ids"]
        if given != read:
            raise Refused(where, "a tokenizer that is what its saved files are", f"a {type(tokenizer).__name__}: {text!r} is {given[:12]} in memory, "
                          f"and {read[:12]} when it is saved and loaded", "make rows with input_ids, or put the change into tokenizer.json")


def rows_of_embedding(model):
    """vocab_size of the model's configuration; None where it cannot be read here."""
    folder = models.folder_named(model)
    path = folder / "config.json" if folder is not None else None
    if path is None or not path.is_file():
        return None
    config = json.loads(path.read_text(encoding="utf-8"))
    text = config.get("text_config")
    return config.get("vocab_size", text.get("vocab_size") if isinstance(text, dict) else None)


def refuse_new_rows(tokenizer, model, where, size=None):
    """Tokens beyond the embedding: TRL fails in the first step that has one. `size`: of a model in memory."""
    size = rows_of_embedding(model) if size is None else size
    if size is None or not hasattr(tokenizer, "get_vocab"):
        return
    beyond = sorted((number, token) for token, number in tokenizer.get_vocab().items() if number >= size)
    own = fresh(tokenizer, tokenizer.name_or_path) if beyond and getattr(tokenizer, "name_or_path", "") else None
    if own is not None:  # the folder's own tokens without a row are there before: some models are published so
        before = own.get_vocab()
        beyond = [(number, token) for number, token in beyond if before.get(token) != number]
    if beyond:
        shown = ", ".join(f"{token!r} ({number})" for number, token in beyond[:4]) + (f" and {len(beyond) - 4} more" if len(beyond) > 4 else "")
        raise Refused(where, f"tokens with a row of the embedding of {model}, which has {size}", f"added tokens without one: {shown}",
                      "for new tokens: model.resize_token_embeddings(len(tokenizer)), save both with save_pretrained(FOLDER), and pass "
                      "model=FOLDER; for padding only: tokenizer.pad_token = tokenizer.eos_token")


class Taken:
    """How the run gets a tokenizer: a folder's name, or files that are written into the run's inputs."""

    def __init__(self, folder="", files=None):
        self.folder, self.files = folder, files

    def settings(self, inputs):
        if self.files is not None:
            return {"tokenizer_name_or_path": os.fspath(pathlib.Path(inputs) / FOLDER)}
        return {"tokenizer_name_or_path": self.folder} if self.folder else {}

    def write(self, inputs):
        """Into the folder that settings() names: whole, in the place of an earlier run's."""
        if self.files is None:
            return
        target = pathlib.Path(inputs) / FOLDER
        if self._is_in(target):
            return  # another rank may be reading it
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = pathlib.Path(tempfile.mkdtemp(prefix=f".{FOLDER}-", dir=target.parent))
        try:
            for name, data in self.files.items():
                (partial / name).parent.mkdir(parents=True, exist_ok=True)
                (partial / name).write_bytes(data)
            partial.chmod(0o755)
            if target.exists():
                shutil.rmtree(target)
            os.replace(partial, target)
        except OSError:
            if not self._is_in(target):  # unless another rank was faster
                raise
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    def _is_in(self, folder):
        found = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()} if folder.is_dir() else {}
        return found == self.files


def taken(processing_class, model, trainer, size=None):
    """Of the argument processing_class; Refused for what is no tokenizer, and for one that `model`, of `size` tokens, has no rows for."""
    where = f"{trainer}, processing_class"
    if processing_class is None:
        return Taken()
    named = processing_class if is_named(processing_class) else getattr(processing_class, "name_or_path", None)
    if not is_named(processing_class) and hasattr(processing_class, "save_pretrained"):
        refuse_processor(processing_class, where)
        files, same = change_of(processing_class, where)
        if same is None:
            if "tokenizer.json" not in files:
                raise Refused(where, "a fast tokenizer, which saves a tokenizer.json", f"a {type(processing_class).__name__} without one",
                              "load it with AutoTokenizer.from_pretrained(NAME, use_fast=True), or convert it to a fast one")
            refuse_new_rows(processing_class, model, where, size)
            refuse_unsaved(processing_class, loaded(processing_class, files, where) if callable(processing_class) else None, where)
            return Taken(files=files)
        refuse_unsaved(processing_class, same, where)
    if not named or not is_named(named):
        raise Refused(where, "a tokenizer with a name or a path", f"a {type(processing_class).__name__} without one",
                      "save it with save_pretrained(FOLDER) and pass processing_class=FOLDER")
    named = os.fspath(named)
    if models.is_same(named, model):
        return Taken()
    if os.path.isdir(named):
        return Taken(folder=named)
    if is_named(processing_class) or not hasattr(processing_class, "save_pretrained"):
        raise Refused(where, f"the tokenizer of {model}, or a folder", named,
                      "leave processing_class out, or save the tokenizer with save_pretrained(FOLDER) and pass processing_class=FOLDER")
    refuse_new_rows(processing_class, model, where, size)
    return Taken(files=files)


# ---- what TRL's trainers make of it in their constructor

def template_settings(settings):
    """chat_template_path as a folder where it is a name whose tokenizer is in the hub's cache."""
    name = settings.get("chat_template_path")
    if name is None or os.path.exists(name):
        return {}
    try:
        from transformers.utils import cached_file
        found = cached_file(str(name), "tokenizer_config.json")
    except (ImportError, OSError, ValueError):
        return {}  # the program says what it expects
    return {"chat_template_path": os.path.dirname(found)} if found else {}


def template_of(path, trust=False):
    """(template, end of the sequence) of chat_template_path: a Jinja file, or a tokenizer's folder or name."""
    if os.path.isfile(path) and str(path).endswith((".jinja", ".j2")):
        return pathlib.Path(path).read_text(encoding="utf-8"), None
    from transformers import AutoTokenizer
    other = AutoTokenizer.from_pretrained(path, trust_remote_code=trust)
    return other.chat_template, other.eos_token


def finished(tokenizer, args):
    """With the tokens that args name, and with one for padding: the end of the sequence where it had none."""
    end, path = getattr(args, "eos_token", None), getattr(args, "chat_template_path", None)
    if path is not None:
        tokenizer.chat_template, own_end = template_of(path, bool(getattr(args, "trust_remote_code", False)))
        end = end or own_end
    if end is not None and end in tokenizer.get_vocab():
        tokenizer.eos_token = end
    own = getattr(tokenizer, "pad_token", None)
    pad = getattr(args, "pad_token", None) or own or getattr(tokenizer, "eos_token", None)
    if pad is not None and pad != own and pad in tokenizer.get_vocab():
        tokenizer.pad_token = pad
    return tokenizer


def opened(name, args, where):
    """By transformers, as the trainer's own constructor does it."""
    try:
        from transformers import AutoTokenizer
    except ImportError as error:
        raise Refused(where, "a tokenizer, opened by transformers", str(error), "install transformers; the tokenizer's files are in output_dir after "
                      "train()") from None
    return finished(AutoTokenizer.from_pretrained(os.fspath(name)), args)
