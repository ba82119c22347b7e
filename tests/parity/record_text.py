"""Records what Hugging Face's tokenizers and transformers do with real tokenizers and templates.

    tests/parity/fetch_tokenizers && third_party/parity-venv/bin/python tests/parity/record_text.py

writes tests/fixtures/text/real/<tokenizer>.json and templates.json. They hold 32-bit hashes (FNV-1a, 64 bits
folded), so that thousands of cases fit into a few kB; tests/text/real_*_test.cpp computes the same hashes.

A string's hash is taken over the UTF-8 of
    ids "|" ids with special tokens "|" byte offsets "|" decoded "|" decoded without special tokens
where numbers are separated by blanks; a rendered conversation's over its text, then over its generation spans.
SmolLM2 has no package with its tokenizer.json: it is put together here from the GGUF's lists, by Python's classes.
"""

import copy
import datetime
import json
import logging
import pathlib
import sys

import jinja2
import tokenizers
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers.utils import chat_template_utils

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TEXT = ROOT / "tests" / "fixtures" / "text"
REAL = TEXT / "real"
FOLDERS = ROOT / "third_party" / "tokenizers"
TEMPLATES = ROOT / "third_party" / "trl-templates"
MORE_TEMPLATES = ROOT / "third_party" / "llama-cpp" / "templates"
GGUF = ROOT / "models" / "smollm2-gguf" / "SmolLM2-135M-Instruct.Q4_1.gguf"
VERSIONS = {"tokenizers": tokenizers.__version__, "transformers": transformers.__version__, "jinja2": jinja2.__version__}

# The tokens that transformers hands to a template, and stand-ins for TRL's templates, which come without any.
NAMED = ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"]
STAND_INS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
# Which of TRL's templates is tokenized with which tokenizer, for the assistant masks.
MASKED = {
    "qwen2_5": "qwen2_5_training",
    "qwen3": "qwen3_training",
    "llama3": "llama3_training",
    "gemma3": "gemma3_training",
    "smollm2": "qwen2_5_training",
    "llama2": "phi3_training",  # the package of this name holds Mistral 7B v0.1's tokenizer
}
# Of the templates that llama.cpp keeps: those of families that hone trains and TRL has no template of.
KEPT = [
    "google-gemma-2-2b-it", "google-gemma-4-31B-it", "google-gemma-4-31B-it-interleaved", "HuggingFaceTB-SmolLM3-3B",
    "ibm-granite-granite-3.3-2B-Instruct", "ibm-granite-granite-4.0", "ibm-granite-granite-4.1", "LFM2-8B-A1B", "LFM2.5-8B-A1B",
    "LFM2.5-Instruct", "meta-llama-Llama-3.1-8B-Instruct", "meta-llama-Llama-3.3-70B-Instruct", "mistralai-Ministral-3-14B-Reasoning-2512",
    "mistralai-Mistral-Nemo-Instruct-2407", "Mistral-Small-3.2-24B-Instruct-2506", "Qwen-Qwen3-0.6B", "Qwen-QwQ-32B", "Qwen3-Coder",
]


def fnv(data: bytes) -> int:
    state = 0xCBF29CE484222325
    for byte in data:
        state = ((state ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return state


def hash32(text: str) -> str:
    full = fnv(text.encode())
    return f"{(full >> 32) ^ (full & 0xFFFFFFFF):08x}"


def numbers(values) -> str:
    return " ".join(map(str, values))


class SplitMix64:
    def __init__(self, seed):
        self.state = seed

    def below(self, n):
        mask = 0xFFFFFFFFFFFFFFFF
        self.state = (self.state + 0x9E3779B97F4A7C15) & mask
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        return (z ^ (z >> 31)) % n


def strings():
    """The curated strings, then generated ones: 1 to 40 pieces, a quarter fragments, the rest single characters."""
    source = json.loads((TEXT / "strings.json").read_text())
    yield from source["curated"]
    random = SplitMix64(source["seed"])
    for _ in range(source["count"]):
        text = ""
        for _ in range(1 + random.below(40)):
            if random.below(4) == 0:
                text += source["fragments"][random.below(len(source["fragments"]))]
            else:
                low, high = source["ranges"][random.below(len(source["ranges"]))]
                text += chr(low + random.below(high - low + 1))
        yield text


def smollm2():
    """The tokenizer of SmolLM2's GGUF and its chat template."""
    from gguf import GGUFReader

    fields = GGUFReader(GGUF).fields
    value = lambda key: fields["tokenizer." + key].contents()
    tokens, types = value("ggml.tokens"), value("ggml.token_type")
    merges = [tuple(line.split(" ")) for line in value("ggml.merges")]
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
    digits = pre_tokenizers.Digits(individual_digits=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(t, special=True) for t, kind in zip(tokens, types) if kind == 3])
    named = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}
    named = {name: tokens[value(f"ggml.{key}_token_id")] for name, key in named.items()}
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **named)
    fast.chat_template = value("chat_template")
    return tokenizer, fast


def load(name):
    if name == "smollm2":
        return smollm2()
    folder = FOLDERS / name
    # AutoTokenizer gives a LlamaTokenizer another pre-tokenizer than tokenizer.json has.
    kind = transformers.PreTrainedTokenizerFast if name == "llama2" else transformers.AutoTokenizer
    return Tokenizer.from_file(str(folder / "tokenizer.json")), kind.from_pretrained(folder)


def record_strings(name, tokenizer, auto):
    hashes, full, differ = [], {}, 0
    for i, text in enumerate(strings()):
        plain, special = tokenizer.encode(text, add_special_tokens=False), tokenizer.encode(text)
        differ += auto(text)["input_ids"] != special.ids
        at = [0]
        for c in text:
            at.append(at[-1] + len(c.encode()))
        offsets = [at[x] for pair in plain.offsets for x in pair]
        decoded = [tokenizer.decode(special.ids, skip_special_tokens=skip) for skip in (False, True)]
        hashes.append(hash32("|".join([numbers(plain.ids), numbers(special.ids), numbers(offsets), *decoded])))
        if i % 80 == 0:
            full[str(i)] = special.ids
    print(f"{name}: {len(hashes)} strings; AutoTokenizer differs from tokenizer.json on {differ}")
    return {"hashes": "".join(hashes), "ids": full}


def record_masks(auto, template, conversations):
    """A hash of ids and mask for each conversation; "........" where transformers refuses it."""
    out = []
    for conversation in conversations.values():
        try:
            if conversation.get("continue_final_message"):
                raise NotImplementedError
            done = auto.apply_chat_template(
                copy.deepcopy(conversation["messages"]),
                chat_template=template,
                tools=conversation.get("tools"),
                documents=conversation.get("documents"),
                add_generation_prompt=conversation.get("add_generation_prompt", False),
                return_dict=True,
                return_assistant_tokens_mask=True,
                **conversation.get("kwargs", {}),
            )
            out.append(hash32(numbers(done["input_ids"]) + "|" + numbers(done["assistant_masks"])))
        except Exception:
            out.append("........")
    return "".join(out)


class Clock:
    """Stands in for datetime, so that templates see one date; the test puts it in today's place."""

    @staticmethod
    def now():
        return datetime.datetime(2001, 2, 3)


def render(template, special, conversation):
    """(kind, text, spans): kind is "text", "raised" (text is the message) or "error"."""
    chat = [{k: v for k, v in message.items() if v is not None} for message in conversation["messages"]]
    continues = conversation.get("continue_final_message", False)
    arguments = {
        "tools": conversation.get("tools"),
        "documents": conversation.get("documents"),
        "chat_template": template,
        "continue_final_message": continues,
        "add_generation_prompt": conversation.get("add_generation_prompt", False),
        **special,
        **conversation.get("kwargs", {}),
    }
    call = lambda **more: chat_template_utils.render_jinja_template([copy.deepcopy(chat)], **copy.deepcopy(arguments), **more)
    try:
        text = call()[0][0]
        spans = [] if continues else call(return_assistant_tokens_mask=True)[1][0]
    except jinja2.exceptions.UndefinedError:
        return "error", "", []
    except jinja2.exceptions.TemplateRuntimeError:
        return "error", "", []
    except jinja2.exceptions.TemplateError as error:
        return "raised", str(error), []
    except Exception:
        return "error", "", []
    at = lambda n: len(text[:n].encode())
    return "text", text, [at(x) for span in spans for x in span]


def record_template(template, special, conversations):
    renders = []
    has_generation = "generation %}" in template.replace("-%}", " %}")
    for conversation in conversations.values():
        kind, text, spans = render(template, special, conversation)
        entry = {"text": hash32(text), "raised": "R" + hash32(text)[1:], "error": "E......."}[kind]
        renders.append(entry + (hash32(numbers(spans)) if has_generation and kind == "text" else ""))
    return {"source": hash32(template), "special": special, "renders": renders}


def main():
    logging.disable(logging.WARNING)
    REAL.mkdir(parents=True, exist_ok=True)
    conversations = json.loads((TEXT / "conversations.json").read_text())
    chat_template_utils.datetime = Clock
    templates = {}
    for name, masked in MASKED.items():
        tokenizer, auto = load(name)
        golden = {"versions": VERSIONS, **record_strings(name, tokenizer, auto)}
        golden["mask_template"] = masked
        golden["masks"] = record_masks(auto, (TEMPLATES / f"{masked}.jinja").read_text(), conversations)
        (REAL / f"{name}.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n")
        special = {k: v for k, v in auto.special_tokens_map.items() if k in NAMED}
        if auto.chat_template:
            templates[name] = record_template(auto.chat_template, special, conversations)
    for path in sorted(TEMPLATES.glob("*.jinja")):
        templates["trl/" + path.stem] = record_template(path.read_bytes().decode(), STAND_INS, conversations)
    for name in KEPT:
        source = (MORE_TEMPLATES / f"{name}.jinja").read_bytes().decode()
        templates["llama.cpp/" + name] = record_template(source, STAND_INS, conversations)
    golden = {"versions": VERSIONS, "conversations": list(conversations), "templates": templates}
    lines = json.dumps(golden, separators=(",", ":")).replace('"trl/', '\n"trl/').replace('"llama.cpp/', '\n"llama.cpp/')
    (REAL / "templates.json").write_text(lines + "\n")


if __name__ == "__main__":
    sys.exit(main())
