"""trainer.train_dataset as TRL's trainers have it after their constructor: the tokens of each row, with TRL's names of columns.

The program makes its own tokens of the raw rows. These here are for scripts that look at them: they are made when somebody asks for the data set,
and never for a run. tests/python/objects/prepared_rows.py compares them with TRL's.
"""
import json

from hone.errors import Refused
from hone.trl import data_helpers
from hone.trl.rows import RAW, raw_of

# Columns that the rows have when nothing is left to do, by the method.
DONE = {"SFT": ("input_ids",), "Reward": ("chosen_ids", "rejected_ids"), "DPO": (), "KTO": (), "CPO": (), "ORPO": ()}
IGNORED = -100


def is_prepared(method):
    """Methods that sample leave their rows as they are."""
    return method in DONE


def can_be_mapped(data):
    return hasattr(data, "map") and hasattr(data, "column_names")


def first_row(data):
    return next(iter(data), {})


def names_of(data):
    return data.column_names or list(first_row(data))


def prepared(data, trainer, split):
    """What TRL's trainer has of `data`, a data set of the package `datasets`; anything else stays as it is."""
    data = raw_of(data)
    if not can_be_mapped(data) or not is_prepared(trainer._name) or not (data.column_names is None or data.column_names):
        return data
    out = METHODS[trainer._name](data, trainer, split)
    if out is not data:
        setattr(out, RAW, (id(out), data))
    return out


class FewRows:
    """Rows with the methods of a data set that are used here: what becomes of them, without a data set of the package."""

    def __init__(self, rows):
        self.rows = rows
        self.column_names = list(rows[0]) if rows else []

    def __iter__(self):
        return iter(self.rows)

    def __len__(self):
        return len(self.rows)

    def map(self, function, batched=False, remove_columns=(), fn_kwargs=None, **_):
        gone = {remove_columns} if isinstance(remove_columns, str) else {*(remove_columns or ())}
        if batched:
            columns = {name: [row[name] for row in self.rows] for name in self.column_names}
            made = function(columns) if self.rows else {}
            columns = {**{name: values for name, values in columns.items() if name not in gone}, **made}
            return FewRows([dict(zip(columns, values)) for values in zip(*columns.values())])
        return FewRows([{**{name: value for name, value in row.items() if name not in gone}, **function(dict(row), **(fn_kwargs or {}))} for row in self.rows])

    def filter(self, function):
        return FewRows([row for row in self.rows if function(row)])

    def rename_column(self, before, now):
        return FewRows([{now if name == before else name: value for name, value in row.items()} for row in self.rows])

    def remove_columns(self, names):
        return FewRows([{name: value for name, value in row.items() if name not in names} for row in self.rows])

    def shuffle(self, seed=None):
        return self


# Methods that leave out rows for their length, and bytes that a template adds to a row at most.
LEAVE_OUT = ("SFT", "DPO", "KTO", "Reward")
OF_TEMPLATE = 512


def kept(trainer):
    """Of a stream's rows: a function that says whether the run trains on a row. None where it leaves none out, or there is no tokenizer here."""
    most = trainer.args.max_length if trainer._name in LEAVE_OUT else None
    if most is None:
        return None
    try:
        trainer.processing_class
    except Refused:
        return None

    def is_kept(row):
        # A token has a byte at least: rows that are short need no tokens.
        if len(json.dumps(row, default=str)) + OF_TEMPLATE <= most:
            return True
        return len(METHODS[trainer._name](FewRows([row]), trainer, "train")) > 0

    return is_kept


# ---- tokens

def tokens_of(tokenizer, value, **of_template):
    """Of a conversation by its template, of a text by the tokenizer."""
    if isinstance(value, list):
        return tokenizer.apply_chat_template(value, tokenize=True, return_dict=True, **of_template)
    return tokenizer(text=value)


def template_words(row):
    tools = row.get("tools")
    return {"tools": json.loads(tools) if isinstance(tools, str) else tools, **(row.get("chat_template_kwargs") or {})}


def shared(one, other):
    return next((at for at, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))


def answers_of(tokenizer, row, names, **more):
    """(length of the prompt, {name: tokens of prompt and answer}): the answers begin where the first of them differs from the prompt alone."""
    conversation = data_helpers.is_conversational(row)
    words = {**more, **template_words(row)} if conversation else {}
    prompt = tokens_of(tokenizer, row["prompt"], **({**words, "add_generation_prompt": True} if conversation else {}))["input_ids"]
    whole = {name: tokens_of(tokenizer, row["prompt"] + row[name], **words)["input_ids"] for name in names}
    return min(shared(prompt, ids) for ids in whole.values()), whole


def with_ends(data, tokenizer, names):
    """Texts end with the tokenizer's token; conversations with what their template says."""
    if data_helpers.is_conversational(first_row(data)):
        return data
    end = tokenizer.eos_token

    def ended(row):
        return {name: row[name] if row[name].endswith(end) else row[name] + end for name in names if row.get(name) is not None}

    return data.map(ended)


# ---- methods

def _scored(data, trainer, split):
    tokenizer, most = trainer.processing_class, trainer.args.max_length
    names = names_of(data)
    if {"chosen_input_ids", "rejected_input_ids"} <= set(names) and "chosen_ids" not in names:
        data = data.rename_column("chosen_input_ids", "chosen_ids").rename_column("rejected_input_ids", "rejected_ids")
    elif not {"chosen_ids", "rejected_ids"} <= set(names):
        data = with_ends(data, tokenizer, ("chosen", "rejected"))
        kept = hasattr(data, "__len__")  # TRL's function writes the whole texts into the row, and of a stream that is lost

        def made(row):
            before = row.get("prompt")
            texts = {name: row[name] if before is None else before + row[name] for name in ("chosen", "rejected")}
            words = template_words(row) if data_helpers.is_conversational(row) else {}
            ids = {f"{name}_ids": tokens_of(tokenizer, text, **words)["input_ids"] for name, text in texts.items()}
            return {**texts, **ids} if before is not None and kept else ids

        data = data.map(made)
    return data if most is None else data.filter(lambda row: len(row["chosen_ids"]) <= most and len(row["rejected_ids"]) <= most)


def _pairs(data, trainer, split):
    tokenizer, most = trainer.processing_class, trainer.args.max_length
    if "prompt" not in names_of(data):
        data = data.map(data_helpers.extract_prompt)
    data = with_ends(data, tokenizer, ("chosen", "rejected"))

    def made(row):
        at, whole = answers_of(tokenizer, row, ("chosen", "rejected"))
        return {"prompt_ids": whole["chosen"][:at], "chosen_ids": whole["chosen"][at:], "rejected_ids": whole["rejected"][at:]}

    data = data.map(made)
    return data.filter(lambda row: len(row["prompt_ids"]) < most) if most is not None and trainer.args.truncation_mode == "keep_start" else data


def _joined(data, trainer, split):
    """CPO and ORPO: prompt and answer as one sequence each, with labels; templates give texts, whose tokens are made without special ones."""
    tokenizer, most = trainer.processing_class, trainer.args.max_length or 512  # TRL's own value where none is set
    data = data.map(data_helpers.maybe_extract_prompt).map(data_helpers.maybe_apply_chat_template, fn_kwargs={"processing_class": tokenizer})

    def ids(text):
        return tokenizer(text, add_special_tokens=False)["input_ids"]

    def begun(tokens):
        begin = tokenizer.bos_token_id
        return tokens if begin is None or tokens[:1] == [begin] else [begin, *tokens]

    def made(row):
        prompt, out, places = ids(row["prompt"]), {}, []
        for name in ("chosen", "rejected"):
            whole = ids(row["prompt"] + row[name])
            at = len(prompt) - (prompt != whole[:len(prompt)])  # the prompt's last token may be one with the answer's first
            places.append(at)
            before, answer = begun(whole[:at]), whole[at:]
            answer = answer if answer[-1:] == [tokenizer.eos_token_id] else [*answer, tokenizer.eos_token_id]
            answer = answer[:max(0, most - len(before))]
            out |= _with_mask(name, before + answer) | {f"{name}_labels": [IGNORED] * len(before) + answer}
        return out | _with_mask("prompt", begun(prompt[:min(places)]))

    return data.map(made)


def _with_mask(name, tokens):
    return {f"{name}_input_ids": tokens, f"{name}_attention_mask": [1] * len(tokens)}


def _marked(data, trainer, split):
    tokenizer, args, most = trainer.processing_class, trainer.args, trainer.args.max_length
    if "prompt" not in names_of(data):
        data = data.map(data_helpers.extract_prompt)
    if {"chosen", "rejected"} <= set(names_of(data)):
        data = data_helpers.unpair_preference_dataset(data)
    data = with_ends(data, tokenizer, ("completion",))

    def made(row):
        at, whole = answers_of(tokenizer, row, ("completion",))
        return {"prompt_ids": whole["completion"][:at], "completion_ids": whole["completion"][at:]}

    data = data.map(made)
    if most is not None:
        data = data.filter(lambda row: len(row["prompt_ids"]) < most)
    if args.loss_type == "kto":  # the loss with a KL: each prompt with its neighbor's answer

        def turned(batch):
            return {"KL_completion_ids": [batch["completion_ids"][-1], *batch["completion_ids"][:-1]]}

        data = data.map(turned, batched=True, batch_size=args.per_device_train_batch_size)
    return data


def _texts(data, trainer, split):
    args = trainer.args
    if (args.dataset_kwargs or {}).get("skip_prepare_dataset"):
        return data
    if "input_ids" not in names_of(data):
        data = _tokenized(data, trainer)
    if "labels" not in names_of(data):
        data = _labeled(data, trainer)
    packing = args.packing if split == "train" or args.eval_packing is None else args.eval_packing
    if packing:
        data = data.select_columns(["input_ids", "labels"])
        data = data.shuffle(seed=args.seed) if args.shuffle_dataset else data
        data = data_helpers.pack_dataset(data, args.max_length, args.packing_strategy)
    elif args.max_length is not None:
        cut = slice(None, args.max_length) if args.truncation_mode == "keep_start" else slice(-args.max_length, None)
        data = data.map(lambda row: {"input_ids": row["input_ids"][cut], "labels": row["labels"][cut]})
        data = data.filter(lambda row: any(label != IGNORED for label in row["labels"]))
    return data.shuffle(seed=args.seed) if args.shuffle_dataset else data


def _completion_only(trainer, data):
    """TRL decides it by the first row of what is trained, for the evaluation too."""
    wanted, trained = trainer.args.completion_only_loss, trainer._train_rows
    if wanted is not None:
        return wanted
    decides = trained if can_be_mapped(trained) else data
    known = trainer.__dict__.get("_decided")
    if known is None or known[0] is not decides:  # a stream begins again for its first row
        known = trainer.__dict__["_decided"] = (decides, {"prompt", "completion"} <= set(first_row(decides)))
    return known[1]


def _tokenized(data, trainer):
    args, tokenizer, function = trainer.args, trainer.processing_class, trainer._formatting
    if function is not None:
        # The run trains on the function's text alone; TRL keeps the columns that are no text of a row.
        data = data.map(lambda row: {"text": function(row)})
        data = data.remove_columns([name for name in ("prompt", "completion", "messages", "conversations") if name in names_of(data)])
    if data_helpers.is_conversational_from_value(first_row(data)):
        names = names_of(data)
        data = data.map(data_helpers.maybe_convert_to_chatml, remove_columns="conversations" if "conversations" in names else None)
    field = args.dataset_text_field
    data = with_ends(data, tokenizer, (field,) if field in names_of(data) else ("completion",))
    only_assistant = args.assistant_only_loss
    if only_assistant and "generation" not in (tokenizer.chat_template or ""):
        raise Refused(f"{type(trainer).__name__}.train_dataset", "a chat template with {% generation %}, which says what the assistant's tokens are",
                      "one without, where the program finds them itself", "`hone check` shows what is trained of the first row")
    masks = {"return_assistant_tokens_mask": True} if only_assistant else {}

    def made(row):
        words = {**masks, **template_words(row)} if data_helpers.is_conversational(row) else {}
        if "prompt" not in row:
            out = tokens_of(tokenizer, row["messages"] if words else row[field], **words)
            return {name: out[name] for name in ("input_ids", "assistant_masks") if name in out}
        at, whole = answers_of(tokenizer, row, ("completion",))
        ids = whole["completion"]
        out = {"input_ids": ids, "completion_mask": [int(place >= at) for place in range(len(ids))]}
        if masks and words:
            out["assistant_masks"] = tokens_of(tokenizer, row["prompt"] + row["completion"], **words)["assistant_masks"]
        return out

    return data.map(made)


def _labeled(data, trainer):
    """Labels of what is trained; the masks that they are made of are no columns any more."""
    names = names_of(data)
    masks = [name for name, wanted in (("completion_mask", _completion_only(trainer, data)), ("assistant_masks", True)) if wanted and name in names]

    def made(row):
        return {"labels": [token if all(row[name][at] for name in masks) else IGNORED for at, token in enumerate(row["input_ids"])]}

    return data.map(made, remove_columns=masks)


METHODS = {"SFT": _texts, "DPO": _pairs, "KTO": _marked, "Reward": _scored, "CPO": _joined, "ORPO": _joined}
