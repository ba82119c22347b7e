"""Makes tests/fixtures/text/tiny: a byte-level BPE of 384 tokens, and what transformers does with it.

    python tests/parity/make_tiny_tokenizer.py     # needs transformers==5.23.0, jinja2

tokenizer.json and tokenizer_config.json are the fixture; golden.json holds ids, byte offsets, decoded texts,
rendered conversations and assistant masks, with the versions that made them.
"""

import json
import pathlib

import tokenizers
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

OUT = pathlib.Path(__file__).resolve().parent.parent / "fixtures" / "text" / "tiny"
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|bos|>"]
CORPUS = [
    "The quick brown fox jumps over the lazy dog. What is 12 plus 30? The answer is 42.",
    "A user asks a question and the assistant answers it. You are a helpful assistant.",
    "system user assistant tool hello world, this is a small text about numbers: 1, 2, 3, 10, 100.",
    "There is nothing either good or bad, but thinking makes it so. The rest is silence.",
    "Das ist ein kurzer Satz über Äpfel. C'est une phrase très courte. Это короткая фраза. 这是一句话。",
]
TEMPLATE = """\
{%- if tools %}
{{- '<|im_start|>tools\\n' + tools | tojson + '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role not in ['system', 'user', 'assistant', 'tool'] %}
        {{- raise_exception('Unknown role: ' + message.role) }}
    {%- endif %}
    {{- '<|im_start|>' + message.role + '\\n' }}
    {%- if message.role == 'assistant' %}
        {%- generation %}
        {%- if message.reasoning_content is defined and enable_thinking is not false %}
            {{- '<think>' + message.reasoning_content + '</think>' }}
        {%- endif %}
        {{- message.content | trim + '<|im_end|>' }}
        {%- endgeneration %}
        {{- '\\n' }}
    {%- else %}
        {{- message.content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
STRINGS = [
    "", " ", "a", "Hello world", "The answer is 42.", "  two  spaces ", "tabs\tand\nlines\r\n\n", "Äpfel, über, é, e\u0301",
    "这是一句话。", "emoji 🤖👍🏽 end", "<|im_start|>user\nhi<|im_end|>", "a<|im_end|>b<|endoftext|>", "<|im_end", "<think>x</think>",
    "it's don't I'LL", "0123456789 3.14", "\u0000\u001b control", "\u00a0\u2003wide\u200bzero", "नमस्ते שלום مرحبا", "\U0010ffff\ufffd",
]  # fmt: skip


def user(content):
    return {"role": "user", "content": content}


def assistant(content, **more):
    return {"role": "assistant", "content": content, **more}


TOOL = {"type": "function", "function": {"name": "add", "description": "<adds> & \"more\"", "parameters": {"x": 1.5e-7}}}
CHATS = [
    {"messages": [user("What is 12 plus 30?"), assistant("  42 \n")]},
    {"messages": [{"role": "system", "content": "You are helpful."}, user("a"), assistant("b"), user("c"), assistant("d")]},
    {"messages": [user("hi")], "add_generation_prompt": True},
    {"messages": [user("über 🤖"), assistant("Äpfel 👍🏽")]},
    {"messages": [user("q"), assistant("a", reasoning="so <b>")]},
    {"messages": [user("q"), assistant("a", thinking="so")], "template_kwargs": {"enable_thinking": False}},
    {"messages": [user("use it"), assistant("ok", tool_calls=None)], "tools": [TOOL]},
    {"messages": [user("<|im_end|>\n<|im_start|>system"), assistant("")]},
]  # fmt: skip


def train():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=382, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    # found in the text like a special token, but kept by decode
    tokenizer.add_tokens([AddedToken("<think>", normalized=False), AddedToken("</think>", normalized=False)])
    bos = tokenizer.token_to_id("<|bos|>")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<|bos|> $A", pair="<|bos|> $A $B", special_tokens=[("<|bos|>", bos)]
    )
    return tokenizer


def byte_offsets(text, offsets):
    at = [len(text[:i].encode()) for i in range(len(text) + 1)]
    return [[at[a], at[b]] for a, b in offsets]


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    tokenizer = train()
    tokenizer.save(str(OUT / "tokenizer.json"), pretty=False)
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<|bos|>",
        "eos_token": {"__type": "AddedToken", "content": "<|im_end|>", "lstrip": False, "normalized": False, "rstrip": False, "single_word": False},
        "unk_token": None,
        "clean_up_tokenization_spaces": False,
        "model_max_length": 512,
        "chat_template": TEMPLATE,
    }
    (OUT / "tokenizer_config.json").write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n")

    hf = transformers.AutoTokenizer.from_pretrained(OUT)
    strings = []
    for text in STRINGS:
        plain, special = tokenizer.encode(text, add_special_tokens=False), tokenizer.encode(text)
        assert hf(text)["input_ids"] == special.ids
        strings.append({
            "text": text, "ids": plain.ids, "offsets": byte_offsets(text, plain.offsets), "ids_special": special.ids,
            "decoded": tokenizer.decode(special.ids, skip_special_tokens=False),
            "decoded_skip": tokenizer.decode(special.ids, skip_special_tokens=True),
        })  # fmt: skip
    chats = []
    for chat in CHATS:
        arguments = {"tools": chat.get("tools"), "add_generation_prompt": chat.get("add_generation_prompt", False)}
        arguments |= chat.get("template_kwargs", {})
        text = hf.apply_chat_template(chat["messages"], tokenize=False, **arguments)
        out = hf.apply_chat_template(chat["messages"], return_dict=True, return_assistant_tokens_mask=True, **arguments)
        chats.append({"request": chat, "text": text, "ids": out["input_ids"], "mask": out["assistant_masks"]})
    golden = {
        "versions": {"tokenizers": tokenizers.__version__, "transformers": transformers.__version__},
        "strings": strings,
        "chats": chats,
    }
    with open(OUT / "golden.json", "w") as file:
        file.write(json.dumps(golden, ensure_ascii=True, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
