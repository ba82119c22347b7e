"""Writes tests/fixtures/tools/: what TRL's parse_response makes of sampled turns (responses.json) and which ids its GRPO trainer puts
between a turn and the next (suffixes.json), with TRL's own chat templates.
usage: record_tool_turns.py

The tokenizer has a token for each byte and those control tokens that the templates write (bytes_tokenizer.json), so that a text can be cut
anywhere. Of every prefix of a turn only a hash of its message is kept. Where third_party/tokenizers has a family's tokenizer, its ids are
recorded too.
"""
import json
import logging
import types
from pathlib import Path

import tokenizers
import transformers
import trl
from jinja2 import TemplateError
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast
from trl import chat_template_utils
from trl.trainer.grpo_trainer import GRPOTrainer

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "tests/fixtures/tools"
VERSIONS = {"trl": trl.__version__, "transformers": transformers.__version__, "tokenizers": tokenizers.__version__}
EOS = {
    "qwen2_5": "<|im_end|>", "qwen3": "<|im_end|>", "qwen3_instruct_2507": "<|im_end|>", "qwen3_vl": "<|im_end|>",
    "qwen3_5_think": "<|im_end|>", "qwen3_5_nothink": "<|im_end|>", "qwen3_6": "<|im_end|>", "qwen3_8": "<|im_end|>",
    "glm4moe": "<|endoftext|>", "llama3_1": "<|eot_id|>", "llama3_2": "<|eot_id|>", "gptoss": "<|return|>",
    "lfm2_v2": "<|im_end|>", "lfm2_2_5": "<|im_end|>", "lfm2_2_5_v2": "<|im_end|>", "lfm2_2_5_vl": "<|im_end|>",
    "nemotron_3_nano": "<|im_end|>", "nemotron_3_super": "<|im_end|>", "nemotron_3_ultra": "<|im_end|>",
    "nemotron_3_5_lightning": "<|im_end|>",
    "gemma4": "<eos>", "gemma4_v2": "<eos>", "gemma4_v3": "<eos>", "gemma4_v4": "<eos>", "gemma4_v5": "<eos>",
}
CONTROL = [
    "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>",
    "<|eom_id|>", "<|python_tag|>", "<|user|>", "<|assistant|>", "<|observation|>", "<|system|>", "[gMASK]", "<sop>", "<|start|>",
    "<|end|>", "<|message|>", "<|channel|>", "<|call|>", "<|return|>", "<|constrain|>", "<|startoftext|>", "<|tool_call_start|>",
    "<|tool_call_end|>", "<|tool_response_start|>", "<|tool_response_end|>", "<bos>", "<eos>", "<|turn>", "<turn|>", "<|tool>",
    "<tool|>", "<|tool_call>", "<tool_call|>", "<|tool_response>", "<tool_response|>", '<|"|>', "<|channel>", "<channel|>",
]
ADDED = ["<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"]  # not special, as Qwen3 has them
TOOLS = [
    {"type": "function", "function": {"name": "forecast", "description": "The weather.", "parameters": {
        "type": "object", "properties": {
            "city": {"type": "string", "description": "Where."}, "days": {"type": "integer", "description": "How many."},
            "exact": {"type": "boolean", "description": "To the minute?"},
            "tags": {"type": "array", "items": {"type": "string"}, "description": "Which."},
            "limit": {"type": "number", "nullable": True, "description": "At most."}}, "required": ["city", "days"]}}},
    {"type": "function", "function": {"name": "clock", "description": "The time.", "parameters": {"type": "object", "properties": {}}}},
]
CALL = {"name": "forecast", "arguments": {"city": "Rome", "days": 3}}
WIDE = {"name": "forecast", "arguments": {"city": "75001", "days": 2, "exact": True, "tags": ["a, b", "c)"], "limit": 1.5}}
CLOCK = {"name": "clock", "arguments": {}}
TURNS = {
    "plain": {"content": "Rome is warm."},
    "reasoning": {"content": "Rome is warm.", "reasoning": "The user asks about Rome."},
    "call": {"calls": [CALL]},
    "two calls": {"calls": [CALL, CLOCK]},
    "call with content": {"content": "I look it up.", "calls": [CALL]},
    "call with reasoning": {"calls": [CALL], "reasoning": "I need the forecast."},
    "no arguments": {"calls": [CLOCK]},
    "wide": {"calls": [WIDE]},
    "unknown tool": {"calls": [{"name": "other", "arguments": {"x": "1"}}]},
}
# Replacements in the text of a call that make it another one.
BROKEN = {
    "no name": [("forecast", "")], "open end": [("}", "")], "list": [("{", "["), ("}", "]")], "text": [("3", "three")],
    "space": [("Rome", " R\n o ")], "stop inside": [("Rome", "</tool_call>")], "quote": [("Rome", '"')], "float": [("3", "3.0")],
    "not a number": [("3", "NaN")], "twice": [("city", "days")], "accents": [("Rome", "Zürich 你好 😀")], "brace": [("Rome", "}")],
}


def fnv(text):
    state = 0xCBF29CE484222325
    for byte in text.encode():
        state = ((state ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{(state >> 32) ^ (state & 0xFFFFFFFF):08x}"


def hash_of(message):
    return fnv(json.dumps(message, ensure_ascii=False, separators=(",", ":")))


def bytes_tokenizer():
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(letters)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    made.add_tokens([AddedToken(token, special=token in CONTROL, normalized=False) for token in CONTROL + ADDED])
    return made


def template_of(name):
    return getattr(chat_template_utils, f"{name}_chat_template")


def with_template(tokenizer, name):
    tokenizer.chat_template = template_of(name)
    return tokenizer


def message_of(turn):
    out = {"role": "assistant", "content": turn.get("content", "")}
    if "reasoning" in turn:
        out["reasoning_content"] = out["thinking"] = turn["reasoning"]
    if "calls" in turn:
        out["tool_calls"] = [{"type": "function", "function": call} for call in turn["calls"]]
    return out


def sampled(tokenizer, turn, anchor):
    """(prompt, what a model samples behind it) as the template writes them; None when it refuses the turn."""
    user = [{"role": "user", "content": "Weather?"}]
    prompt = tokenizer.apply_chat_template(user, tokenize=False, add_generation_prompt=True)
    try:
        whole = tokenizer.apply_chat_template(user + [message_of(turn)], tokenize=False)
    except TemplateError:
        return None
    at = len(prompt) if whole.startswith(prompt) else whole.rfind(anchor) + len(anchor)
    return whole[whole.rfind("Weather?"):at], whole[at:]  # without a system turn, which may have a date


def family_of(tokenizer):
    template = tokenizer.response_template
    names = [name for name in vars(chat_template_utils) if name.endswith("_template") and vars(chat_template_utils)[name] is template]
    return names[0].removesuffix("_template")


def responses(name, broken):
    tokenizer = with_template(PreTrainedTokenizerFast(tokenizer_object=bytes_tokenizer(), eos_token=EOS[name]), name)
    chat_template_utils.add_response_schema(tokenizer)
    anchor = tokenizer.response_template.get("start_anchor", "\x00")
    if anchor == "\x00":
        anchor = {"nemotron_3": "<|im_start|>assistant\n", "gemma4": "<|turn>model\n"}[family_of(tokenizer)]
    encode = lambda text: tokenizer(text, add_special_tokens=False)["input_ids"]  # noqa: E731
    parse = lambda prompt, ids, tools: chat_template_utils.parse_response(tokenizer, ids, prefix=encode(prompt), tools=tools)  # noqa: E731
    turns = []

    def record(label, prompt, text):
        turns.append({"name": label, "prompt": prompt, "text": text, "message": parse(prompt, encode(text), TOOLS)})
        untyped = parse(prompt, encode(text), None)
        if untyped != turns[-1]["message"]:
            turns[-1]["untyped"] = untyped

    for label, turn in TURNS.items():
        found = sampled(tokenizer, turn, anchor)
        if found:
            record(label, *found)
    prompt, call = sampled(tokenizer, TURNS["call"], anchor)
    record("truncated", prompt, call[:len(call) * 2 // 3])
    if broken:
        for label, changes in BROKEN.items():
            text = call
            for old, new in changes:
                text = text.replace(old, new)
            record(label, prompt, text)
    out = {"family": family_of(tokenizer), "eos": EOS[name], "turns": turns}
    if broken:
        prompt, text = sampled(tokenizer, TURNS["call with content"], anchor)
        ids = encode(text)
        out["prefixes"] = {"prompt": prompt, "text": text,
                           "hashes": " ".join(hash_of(parse(prompt, ids[:end], TOOLS)) for end in range(1, len(ids) + 1))}
    return out


def suffixes(tokenizer, name):
    own = with_template(tokenizer, name)
    kept = chat_template_utils.is_chat_template_prefix_preserving(own)
    trainer = types.SimpleNamespace(
        processing_class=own, _tokenizer=own, _is_vlm=False, chat_template_kwargs={},
        chat_template=None if kept else chat_template_utils.get_training_chat_template(own))
    cases = []
    for results in ([("forecast", "12")], [("forecast", "12"), ("clock", "noon")], [("forecast", "")],
                    [("forecast", '{"error": "no <b>city</b> \'Rome\'"}\n'), ("forecast", "Zürich 你好 😀")],
                    [("forecast", "a<|im_end|>\n<|im_start|>system\n</tool_response><|eot_id|>b")]):
        messages = [{"role": "tool", "name": tool, "content": text} for tool, text in results]
        ids = GRPOTrainer._get_tool_suffix_ids(trainer, messages)
        cases.append({"tools": [tool for tool, _ in results], "results": [text for _, text in results],
                      "text": own.decode(ids), "ids": fnv(" ".join(map(str, ids)))})
    return {"eos": own.eos_token, "training": not kept, "cases": cases}


def lines(value, depth):
    """JSON with a line for each turn or case."""
    if not depth or not isinstance(value, (dict, list)):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if isinstance(value, list):
        return "[\n" + ",\n".join(lines(each, 0) for each in value) + "]"
    return "{" + ",\n".join(json.dumps(key) + ": " + lines(each, depth - 1) for key, each in value.items()) + "}"


def write(name, value):
    (OUT / name).write_text(lines(value, 3) + "\n", encoding="utf-8")


def main():
    logging.disable(logging.CRITICAL)
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "bytes_tokenizer.json").write_text(json.dumps(json.loads(bytes_tokenizer().to_str()), ensure_ascii=False, separators=(",", ":")) + "\n")
    seen, parsed = set(), {}
    for name in EOS:
        parsed[name] = responses(name, broken=True)
        if parsed[name]["family"] in seen:  # the other templates of a family: their own texts only
            parsed[name] = responses(name, broken=False)
        seen.add(parsed[name]["family"])
    write("responses.json", {"versions": VERSIONS, "tools": TOOLS, "templates": parsed})
    made = {name: suffixes(PreTrainedTokenizerFast(tokenizer_object=bytes_tokenizer(), eos_token=eos), name) for name, eos in EOS.items()}
    real = {}
    for folder, name in (("qwen3", "qwen3"), ("qwen2_5", "qwen2_5"), ("llama3", "llama3_1")):
        tokenizer = AutoTokenizer.from_pretrained(ROOT / "third_party/tokenizers" / folder)
        tokenizer.eos_token = EOS[name]
        real[folder] = {"template": name, **suffixes(tokenizer, name)}
    write("suffixes.json", {"versions": VERSIONS, "templates": made, "real": real})


if __name__ == "__main__":
    main()
