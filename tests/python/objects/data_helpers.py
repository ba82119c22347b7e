"""hone.trl's functions of rows, and TRL's: the same rows."""
import copy
import random
import sys
import types

import hone.trl
import torch
import trl
from datasets import Dataset, DatasetDict, IterableDataset
from transformers import AutoTokenizer

MODEL = sys.argv[1]
TURN = [{"role": "user", "content": "What color is the sky?"}]
BLUE, GREEN = ([{"role": "assistant", "content": f"It is {color}."}] for color in ("blue", "green"))
ROWS = [{"messages": TURN + BLUE}, {"prompt": TURN}, {"prompt": TURN + BLUE}, {"prompt": TURN, "completion": BLUE}, {"prompt": "a", "completion": "b"},
        {"prompt": TURN, "chosen": BLUE, "rejected": GREEN}, {"chosen": TURN + BLUE, "rejected": TURN + GREEN},
        {"prompt": TURN, "completion": BLUE, "label": True}, {"text": "no messages"}, {"prompt": "The sky is", "chosen": " blue.", "rejected": " green."},
        {"chosen": "The sky is blue.", "rejected": "The sky is green."}, {"chosen": "the same", "rejected": "the same"},
        {"chosen": "short", "rejected": "shorter"}, {"chosen": "x", "rejected": "y"}, {"prompt": "What?", "chosen": TURN + BLUE, "rejected": TURN + GREEN},
        {"conversations": [{"from": "user", "value": "hi"}, {"from": "assistant", "value": "ho"}]}, {"conversations": "text"},
        {"prompt": TURN, "completion": BLUE, "chat_template_kwargs": {"add_system": True}}, {"prompt": []}]


def both(name, *arguments, **named):
    """What each of them gives: a value, or the kind of its error."""
    out = []
    for package in (trl, hone.trl):
        try:
            out.append(getattr(package, name)(*copy.deepcopy(arguments), **named))
        except (KeyError, TypeError, ValueError, IndexError) as error:
            out.append(type(error))
    return out


def same(name, *arguments, empty=False, **named):
    theirs, ours = both(name, *arguments, **named)
    assert theirs == ours or empty, (name, arguments, theirs, ours)


tokenizer = AutoTokenizer.from_pretrained(MODEL)
tokenizer.chat_template = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
for row in ROWS:
    # TRL fails on no messages; of a text beside messages it looks at one column of a set, and which is first changes with each process.
    odd = row == {"prompt": []} or row.get("prompt") == "What?"
    for name in ("is_conversational", "is_conversational_from_value", "maybe_convert_to_chatml", "maybe_extract_prompt"):
        same(name, row, empty=odd)
    if "chosen" in row:
        same("extract_prompt", row)
    same("maybe_apply_chat_template", row, tokenizer, empty=odd)
    if hone.trl.is_conversational(row) and not odd:
        same("apply_chat_template", row, tokenizer)
same("apply_chat_template", {"text": TURN}, tokenizer)
same("apply_chat_template", {"prompt": [{"role": "system", "content": "x"}]}, tokenizer)

pairs = Dataset.from_list([{"prompt": f"p{n}", "chosen": f"c{n}", "rejected": f"r{n}", "more": n} for n in range(7)])
for data in (pairs, pairs.remove_columns("prompt"), DatasetDict(train=pairs), pairs.to_iterable_dataset()):
    theirs, ours = both("unpair_preference_dataset", data)
    rows = (lambda one: [dict(row) for row in one["train"]] if isinstance(one, DatasetDict) else [dict(row) for row in one])
    assert rows(theirs) == rows(ours), data
marked = Dataset.from_list([{"prompt": "p", "completion": "c", "label": True}])
assert both("maybe_unpair_preference_dataset", marked)[1] is not None and both("maybe_unpair_preference_dataset", pairs)[1].num_rows == 14
assert not isinstance(pairs, IterableDataset)

drawn = random.Random(3)
for most in (1, 4, 7, 64):
    rows = [{"input_ids": (ids := [drawn.randrange(99) for _ in range(drawn.randrange(0, 20))]), "labels": ids[::-1]} for _ in range(60)]
    for strategy in ("bfd", "bfd_split", "wrapped"):
        theirs, ours = both("pack_dataset", Dataset.from_list(rows), most, strategy)
        assert theirs.to_list() == ours.to_list(), (most, strategy)
same("pack_dataset", pairs, 4)
same("pack_dataset", Dataset.from_list([{"a": [1, 2], "b": [1]}]), 4)
same("pack_dataset", pairs, 4, strategy="other")
assert hone.trl.truncate_dataset(Dataset.from_list([{"input_ids": [1, 2, 3], "n": 1}]), 2).to_list() == [{"input_ids": [1, 2], "n": 1}]
# ---- which tokens and completions count, of TRL's trainer and of hone's

alone = types.SimpleNamespace(accelerator=types.SimpleNamespace(pad_across_processes=lambda one, dim, pad_index: one, gather=lambda one: one))
for number in range(40):
    entropies, mask = torch.rand(3, 7), (torch.rand(3, 7) > (0.3 if number else 1.0)).float()
    quantile, advantages, own, sampled = float(torch.rand(())), torch.randn(3, 1), torch.randn(3, 7), torch.randn(3, 7)
    sampled[0, 0] = float("nan")
    for name, arguments in (("get_high_entropy_mask", (alone, entropies, mask, quantile)), ("get_off_policy_mask", (advantages, own, sampled, mask, quantile))):
        theirs, ours = (getattr(package.GRPOTrainer, name)(*arguments) for package in (trl, hone.trl))
        assert torch.equal(theirs, ours), (name, number)
print("all is as it should be")
