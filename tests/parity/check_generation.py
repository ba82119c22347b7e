"""Greedy `hone generate` in fp32 = transformers.generate, token for token; hone decodes all prompts together."""
import json

from check_harness import FIXTURES, FAMILIES, hone, load_adapter, load_model, sft, tiny_model
from common import SMOLLM2, SMOLLM2_ADAPTER

import torch
from transformers import AutoTokenizer

TEXTS = ["The capital of France is", "1, 2, 3, 4,", "Once upon a time", "Water boils at", "def add(a, b):\n    return",
         "The opposite of hot is", "My favourite colour", "In the year 1969, the first man", "x", "To be, or not to be, that",
         "A triangle has three sides, a square has four sides, a pentagon has five sides, and a hexagon has"]
QUESTIONS = ["What is 12 + 7?", "Name three fruits.", "Write a short poem about the sea.", "Who wrote Hamlet?", "Hi",
             "Translate to French: good morning.", "How many days has a week? Answer with a number.", "What is 99 - 45?",
             "Explain gravity to a child in two sentences, please.", "List the first five prime numbers."]


def generated(check, model, prompts, tokens, chat, adapter=None):
    prompts_file, out = check.scratch / "prompts.jsonl", check.scratch / "completions.jsonl"
    prompts_file.write_text("".join(json.dumps({"prompt": prompt}) + "\n" for prompt in prompts))
    hone("generate", "--model_name_or_path", model, "--prompts", prompts_file, "--max_new_tokens", tokens, "--output", out,
         "--dtype", "float32", "--bf16", "false", "--threads", 1, "--chat", str(chat).lower(),
         *(["--adapter_name_or_path", adapter] if adapter else []))
    return [json.loads(line) for line in out.read_text().splitlines()]


def differ(prompt, mine, theirs, logits):
    """Where two completions part, and how close transformers' choice was there."""
    at = next((i for i, pair in enumerate(zip(mine, theirs)) if pair[0] != pair[1]), min(len(mine), len(theirs)))
    lead = logits[at][0].max() - logits[at][0][mine[at]] if at < min(len(mine), len(theirs)) else float("nan")
    return f"{prompt!r} token {at}: hone {mine}, transformers {theirs}; hone's token is {float(lead):.1e} below the best"


def compare(check, model, prompts, tokens, chat, adapter=None):
    """Ids, text and the reason of the end; the margin is the least lead of the most likely token over the second."""
    tokenizer = AutoTokenizer.from_pretrained(model)
    reference = load_adapter(model, adapter) if adapter else load_model(model)
    mine = generated(check, model, prompts, tokens, chat, adapter)
    assert [line["prompt"] for line in mine] == prompts, "prompts came back in another order"
    lead, count, stopped = float("inf"), 0, 0
    for prompt, line in zip(prompts, mine, strict=True):
        ids = (tokenizer.apply_chat_template([{"role": "user", "content": prompt}], add_generation_prompt=True,
                                             return_dict=False) if chat else tokenizer(prompt).input_ids)
        with torch.no_grad():
            out = reference.generate(input_ids=torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long),
                                     max_new_tokens=tokens, do_sample=False, return_dict_in_generate=True, output_logits=True)
        theirs = out.sequences[0, len(ids):].tolist()
        assert line["completion_ids"] == theirs, differ(prompt, line["completion_ids"], theirs, out.logits)
        assert line["completion"] == tokenizer.decode(theirs, skip_special_tokens=True), f"{prompt!r}: text {line['completion']!r}"
        ended = theirs[-1] == tokenizer.eos_token_id
        assert line["stopped"] == ended and line["tokens"] == len(theirs), f"{prompt!r}: {line}"
        for logits in out.logits:
            first, second = logits[0].topk(2).values.tolist()
            lead = min(lead, first - second)
        count, stopped = count + len(theirs), stopped + ended
    return f"{len(prompts)} prompts, {count} tokens, {stopped} stopped; closest call {lead:.1e} between two logits"


def with_trained_adapter(check, family, chat):
    model = tiny_model(check, family)
    adapter = sft(check, f"generate/{family}-{chat}", model, lora_target_modules="all-linear")
    return compare(check, model, QUESTIONS + TEXTS, 20, chat, adapter)


def cases(check, fast):
    for family in FAMILIES:
        for chat in (False, True):
            check.case(f"greedy tokens, {family} with an adapter of hone, {'chat' if chat else 'text'}",
                       with_trained_adapter, check, family, chat)
    check.case("greedy tokens, tiny_llama with an adapter of PEFT, text", compare, check, tiny_model(check, "tiny_llama"),
               TEXTS, 20, False, FIXTURES / "tiny_llama/adapter")
    if not fast:
        check.case("greedy tokens, SmolLM2, text", compare, check, SMOLLM2, TEXTS, 24, False)
        check.case("greedy tokens, SmolLM2, chat", compare, check, SMOLLM2, QUESTIONS, 24, True)
        check.case("greedy tokens, SmolLM2 with an adapter, text", compare, check, SMOLLM2, TEXTS[:4], 24, False,
                   SMOLLM2_ADAPTER)
