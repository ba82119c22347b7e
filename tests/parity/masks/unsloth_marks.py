"""Rows of marks and words at random: what Unsloth's train_on_responses_only trains of them, and what hone.recorded.answers says."""
import random
import sys
from itertools import product
from pathlib import Path

from masks import common

IGNORED = -100
PAIRS = [("<|im_start|>user\n", "<|im_start|>assistant\n"), ("### Instruction:\n", "### Response:\n"), ("[INST]", "[/INST]"), ("\n### Human: ", " ### Bot:"),
         ("<|start_header_id|>user<|end_header_id|>\n\n", "<|start_header_id|>assistant<|end_header_id|>\n\n"), ("\n\nQ: ", "\n\nA:"),
         ("<start_of_turn>user\n", "<start_of_turn>model\n"), (" [INST] ", " [/INST] "), ("<|im_start|>", "<|im_start|>assistant")]
WORDS = ["\n", "<|im_end|>", "a?", "hello", "</think>", "<|im_start|>tool\n", "</s>", "<|bos|>", "<|eot_id|>", " ", "<|im_start|>", "[", "user", "\n\n"]
ENDS = ("<|im_end|>", "</s>", "<|eot_id|>")
HIDDEN = (None, ["</think>"], ["b", "\n"])


def labels_of(marks, spans, ids, last, hidden):
    labels = [IGNORED] * len(ids)
    for begin, end in spans.ranges(ids)[-1 if last else 0:]:
        labels[begin:end] = ids[begin:end]
    marks.hide(labels, ids, hidden, IGNORED)
    return labels


def compare(rows_of_each):
    sys.path.insert(0, str(common.ROOT / "python"))
    from hone.recorded import answers as marks
    from transformers import AutoTokenizer
    from unsloth.chat_templates import train_on_responses_only
    draw, tokenizer, count, trained = random.Random(5), AutoTokenizer.from_pretrained(Path("model")), 0, 0
    for (question, answer), forced, last, hidden in product(PAIRS, (True, False), (True, False), HIDDEN):
        tokenizer.eos_token = draw.choice(ENDS)
        theirs = train_on_responses_only(None, question, answer, force_match=forced, tokenizer=tokenizer, return_function=True,
                                         last_response_only=last, mask_out_tokens=hidden)
        spans = marks.Answers(tokenizer, *(marks.mark_of(tokenizer, part, forced) for part in (question, answer)))
        parts = marks.hidden_parts(tokenizer, hidden)
        for _ in range(rows_of_each):
            text = "".join(draw.choice([question, answer] * 2 + WORDS) for _ in range(draw.randint(0, 14)))
            ids = tokenizer(text, add_special_tokens=False)["input_ids"]
            expected, found = theirs({"input_ids": [ids]})["labels"][0], labels_of(marks, spans, ids, last, parts)
            assert found == expected, f"{text!r} by {question!r}, {answer!r}, {forced}, {last}, {hidden}: {found} for {expected}"
            count, trained = count + 1, trained + any(label != IGNORED for label in expected)
    assert trained > count // 4, f"only {trained} of {count} rows have an answer"
    print(f"{count} rows of marks at random: hone trains what Unsloth trains")
