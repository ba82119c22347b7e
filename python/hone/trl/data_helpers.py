"""TRL's functions that change rows before a trainer gets them, by the same names: own ones, so that they are there with TRL and without it.

They take a row, a mapping, or the data sets of the package `datasets`. The program does all of this by itself: scripts call them to look at the
rows, or to change them first. tests/python/objects/data_helpers.py compares them with TRL's.
"""
import bisect
import collections

_MESSAGES = ("prompt", "chosen", "rejected", "completion", "messages")
_TEMPLATED = ({"messages"}, {"prompt"}, {"prompt", "completion"}, {"prompt", "chosen", "rejected"}, {"chosen", "rejected"},
              {"prompt", "completion", "label"})


def _has_messages(value, *names):
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict) and all(name in value[0] for name in names)


def is_conversational(example):
    """Whether the row's texts are lists of messages with roles."""
    return any(_has_messages(example[name], "role") for name in _MESSAGES if name in example)


def is_conversational_from_value(example):
    """Whether the row has ShareGPT's `conversations`, whose messages have `from` and `value`."""
    return _has_messages(example.get("conversations"), "from", "value")


def maybe_convert_to_chatml(example):
    """`from` and `value` become `role` and `content`, and `conversations` becomes `messages`."""
    names = {"from": "role", "value": "content"}
    for key in (*_MESSAGES, "conversations"):
        for message in example[key] if isinstance(example.get(key), list) else ():
            if isinstance(message, dict):
                for before, now in names.items():
                    if before in message:
                        message[now] = message.pop(before)
    if "conversations" in example:
        example["messages"] = example.pop("conversations")
    return example


# ---- templates

def _shared(one, other):
    """How many items two sequences begin with in common."""
    return next((at for at, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))


def apply_chat_template(example, processing_class, tools=None, **template_kwargs):
    """The row's messages as texts: of a prompt, what is the same before each of its answers."""
    keys = {name for name in (*_MESSAGES, "label") if name in example}
    if keys not in _TEMPLATED:
        raise KeyError(f"Invalid keys in the example: {keys}")
    own = {"tools": tools or None, "tokenize": False, **(example.get("chat_template_kwargs") or {}), **template_kwargs}

    def text(messages, **more):
        return processing_class.apply_chat_template(messages, **{**own, **more})

    if "messages" in example:
        return {"text": text(example["messages"])}
    answers = [name for name in ("chosen", "rejected", "completion") if name in example]
    label = {"label": example["label"]} if "label" in example else {}
    if "prompt" not in example:
        return {name: text(example[name]) for name in answers} | label
    role = example["prompt"][-1]["role"]
    if role not in ("user", "tool", "assistant"):
        raise ValueError(f"Invalid role in the last message: {role}")
    prompt = text(example["prompt"], add_generation_prompt=role != "assistant", continue_final_message=role == "assistant")
    whole = {name: text(example["prompt"] + example[name]) for name in answers}
    for rendered in whole.values():
        prompt = prompt[:_shared(prompt, rendered)]
    return {"prompt": prompt, **{name: rendered[len(prompt):] for name, rendered in whole.items()}, **label}


def maybe_apply_chat_template(example, processing_class, tools=None, **template_kwargs):
    return apply_chat_template(example, processing_class, tools, **template_kwargs) if is_conversational(example) else example


# ---- pairs

def extract_prompt(example):
    """What chosen and rejected begin with in common becomes the prompt; of texts without the space before they differ."""
    chosen, rejected = example["chosen"], example["rejected"]
    at = _shared(chosen, rejected)
    if at == min(len(chosen), len(rejected)):
        at -= 1  # one is the beginning of the other: TRL leaves its last item to the answers
    elif chosen[at - 1] == " ":
        at -= 1
    return {"prompt": chosen[:at], "chosen": chosen[at:], "rejected": rejected[at:]}


def maybe_extract_prompt(example):
    """Of pairs without a prompt of their own kind: a text beside messages is none."""
    if "chosen" not in example or "rejected" not in example:
        return example
    if "prompt" in example and is_conversational({"chosen": example["chosen"]}) == is_conversational({"prompt": example["prompt"]}):
        return example
    return extract_prompt(example)


def _columns(dataset):
    """Of a data set, or of the first of several."""
    one = next(iter(dataset.values())) if isinstance(dataset, dict) else dataset
    return one.column_names or list(next(iter(one)))


def unpair_preference_dataset(dataset, **map_kwargs):
    """Two marked rows of each pair: all chosen of a batch first."""
    def unpaired(batch):
        count = len(batch["chosen"])
        others = {name: values + values for name, values in batch.items() if name not in ("chosen", "rejected")}
        return {"completion": batch["chosen"] + batch["rejected"], "label": [True] * count + [False] * count, **others}

    return dataset.map(unpaired, batched=True, remove_columns=_columns(dataset), **map_kwargs)


def maybe_unpair_preference_dataset(dataset, num_proc=None, desc=None):
    paired = {"chosen", "rejected"} <= set(_columns(dataset))
    return unpair_preference_dataset(dataset, num_proc=num_proc, desc=desc) if paired else dataset


# ---- lengths

def _one_length(batch):
    """The lists of each row; all columns have as many items."""
    columns = list(batch.values())
    if not all(isinstance(value, (list, tuple)) for column in columns for value in column):
        raise TypeError("Packing requires all columns to be lists of lists.")
    lengths = [len(value) for value in columns[0]]
    if any([len(value) for value in column] != lengths for column in columns):
        raise ValueError("All columns must have values of the same length.")
    return lengths


def _pieces(lengths, most, splits):
    """(row, begin, end) of what is packed, in the rows' order."""
    for row, length in enumerate(lengths):
        for begin in range(0, length if splits else min(length, 1), most):
            yield row, begin, min(begin + most, length)


def best_fit(lengths, most):
    """Lists of indices, whose lengths together are at most `most`: the longest first, each into the fullest one that has room."""
    bins, rooms, with_room = [], [], collections.defaultdict(collections.deque)
    for one in sorted(range(len(lengths)), key=lambda at: -lengths[at]):
        found = bisect.bisect_left(rooms, lengths[one])
        if found < len(rooms):
            room = rooms[found]
            chosen = with_room[room].popleft()
            if not with_room[room]:
                rooms.pop(found)
        else:
            room, chosen = most, []
            bins.append(chosen)
        chosen.append(one)
        room -= lengths[one]
        if room > 0:
            if not with_room[room]:
                bisect.insort(rooms, room)
            with_room[room].append(chosen)
    return bins


def pack_dataset(dataset, seq_length, strategy="bfd", map_kwargs=None):
    """Rows of at most `seq_length` items: whole ones together (bfd), their pieces (bfd_split), or cut wherever they end (wrapped)."""
    strategies = ("bfd", "bfd_split", "wrapped")
    if strategy not in strategies:
        raise ValueError(f"Invalid packing strategy '{strategy}', must be one of {strategies}.")

    def wrapped(batch):
        _one_length(batch)
        joined = {name: [item for value in values for item in value] for name, values in batch.items()}
        return {name: [items[at:at + seq_length] for at in range(0, len(items), seq_length)] for name, items in joined.items()}

    def fitted(batch):
        pieces = list(_pieces(_one_length(batch), seq_length, splits=strategy == "bfd_split"))
        lengths = [end - begin for _, begin, end in pieces]
        bins = best_fit(lengths, seq_length)
        out = {name: [[item for at in one for item in values[pieces[at][0]][pieces[at][1]:pieces[at][2]]] for one in bins]
               for name, values in batch.items()}
        return {**out, "seq_lengths": [[lengths[at] for at in one] for one in bins]}

    return dataset.map(wrapped if strategy == "wrapped" else fitted, batched=True, **(map_kwargs or {}))


def truncate_dataset(dataset, max_length, map_kwargs=None):
    """Lists of at most `max_length` items; other columns stay."""
    def cut(batch):
        return {name: [value[:max_length] if isinstance(value, list) else value for value in values] for name, values in batch.items()}

    return dataset.map(cut, batched=True, **(map_kwargs or {}))
