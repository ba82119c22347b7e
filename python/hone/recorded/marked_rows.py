"""What is trained of a row by marks in its tokens: train_on_responses_only of Unsloth, and the collators of transformers and TRL."""
from hone.errors import Refused
from hone.recorded import answers as marks
from hone.recorded import record
from hone.recorded.answers import find, tokens_of
from hone.trl import prepared_rows

IGNORED = prepared_rows.IGNORED
TOKENIZED = "input_ids"


def rows_of(data):
    """A list of dicts, of a data set or a list."""
    return [dict(row) for row in data]


def with_tokens(trainer, data):
    """The rows as tokens and labels, neither cut nor packed: the program does both."""
    few = prepared_rows.FewRows(rows_of(data))
    if TOKENIZED not in few.column_names:
        few = prepared_rows._tokenized(few, trainer)
    if "labels" not in few.column_names:
        few = prepared_rows._labeled(few, trainer)
    return [without_padding({name: list(row[name]) for name in (TOKENIZED, "labels", "attention_mask") if name in row}) for row in few]


def of_unsloth(trainer, data, function):
    """Rows of text as Unsloth makes tokens of them: no end is put behind a text, and a second beginning is left off. Others stay."""
    tokenizer, field = trainer.processing_class, trainer.args.dataset_text_field
    rows = rows_of(data)
    if not rows or TOKENIZED in rows[0] or (function is None and field not in rows[0]):
        return data
    if function is not None and field in rows[0]:
        record.note("formatting_func", f"the rows have a column {field}: Unsloth trains on it, and does not call the function")
        function = None
    texts = [row[field] for row in rows] if function is None else texts_of(function, rows)
    begin = getattr(tokenizer, "bos_token", None)
    twice = bool(begin) and (texts[0].startswith(begin) or begin in (getattr(tokenizer, "chat_template", None) or ""))
    if twice:
        record.note("tokens", f"texts begin with {begin!r} themselves: Unsloth adds no second one")
    return [{TOKENIZED: list(tokenizer(text, add_special_tokens=not twice)["input_ids"])} for text in texts]


def texts_of(function, rows):
    """Of a formatting_func of Unsloth's: it gets columns of rows, and returns a list of texts."""
    texts = function({name: [row[name] for row in rows] for name in rows[0]})
    if isinstance(texts, list) and len(texts) == len(rows) and all(isinstance(one, str) for one in texts):
        return texts
    found = f"{len(texts)} of them" if isinstance(texts, list) else f"a {type(texts).__name__}"
    raise Refused("SFTTrainer, formatting_func", f"a list of {len(rows)} texts, one for each row", found, "return one text for each row of the batch")


def without_padding(row):
    """Places that attention_mask leaves out are no part of a row: the program never pads."""
    mask = row.pop("attention_mask", None)
    if mask is None or all(mask):
        return row
    if "labels" in row and any(not seen and label != IGNORED for seen, label in zip(mask, row["labels"])):
        raise Refused("train_dataset, labels", f"labels of {IGNORED} where attention_mask is 0", "labels that are trained: tokens of padding",
                      "make rows without padding=\"max_length\", or write labels of -100 there")
    return {name: [value for value, seen in zip(values, mask) if seen] for name, values in row.items()}


def only_answers(tokens, question, answers, trained=None):
    """Labels of what follows one of `answers` until the next `question`; None where there is no answer. `trained`: labels that the row has."""
    labels, at, trained = [IGNORED] * len(tokens), 0, tokens if trained is None else trained
    answer = next((one for one in answers if find(tokens, one) >= 0), None)
    if answer is None:
        return None
    while (at := find(tokens, answer, at)) >= 0:
        begin = at + len(answer)
        end = find(tokens, question, begin)
        at = len(tokens) if end < 0 else end
        labels[begin:at] = trained[begin:at]
    return labels


def refuse_absent(where, mark, count, what):
    raise Refused(where, f"a mark that the rows have: {what}", f"{mark!r} in none of {count} rows, so that nothing is trained (DATA-01)",
                  "copy it from a rendered row: tokenizer.decode(trainer.train_dataset[0]['input_ids'])")


def responses_only(trainer, instruction_part=None, response_part=None, force_match=True, tokenizer=None, return_function=False, num_proc=None,
                   last_response_only=False, mask_out_tokens=None, **_):
    """Unsloth's function: the trainer's rows become tokens, of which only the answers are trained. Rows without one are left out."""
    where = "train_on_responses_only"
    if return_function:
        raise Refused(f"{where}, return_function", "a trainer", "return_function=True", "give the trainer, which is changed")
    tokenizer = tokenizer or trainer.processing_class
    if not instruction_part or not response_part:
        raise Refused(where, "instruction_part and response_part", f"{instruction_part!r} and {response_part!r}", "write both, as the template has them")
    given = {"instruction_part": instruction_part, "response_part": response_part}
    found = {name: marks.mark_of(tokenizer, part, force_match) for name, part in given.items()}
    for name, mark in found.items():
        if mark is None or not mark.core:
            raise Refused(f"{where}, {name}", "a mark whose tokens are the same with line breaks around it", f"{given[name]!r}",
                          "write another mark" if force_match else "leave force_match=False out, or write another mark")
    spans, hidden = marks.Answers(tokenizer, *found.values()), marks.hidden_parts(tokenizer, mask_out_tokens)

    def labeled(row):
        tokens, labels = row[TOKENIZED], [IGNORED] * len(row[TOKENIZED])
        for begin, end in spans.ranges(tokens)[-1 if last_response_only else 0:]:
            labels[begin:end] = row.get("labels", tokens)[begin:end]
        marks.hide(labels, tokens, hidden, IGNORED)
        return labels

    for name in ("_train_rows", "_eval_rows"):
        data = getattr(trainer, name)
        if data is None:
            continue
        several = isinstance(data, dict)
        made = {key: answered(trainer, one, labeled, where, response_part) for key, one in (data if several else {"": data}).items()}
        object.__setattr__(trainer, name, made if several else made[""])
    what = f"only what follows {'the last ' if last_response_only else ''}{response_part!r} is trained"
    record.note(where, what + (f", without {mask_out_tokens!r}" if hidden else ""))
    return trainer


def answered(trainer, data, labeled, where, mark):
    out, rows = [], with_tokens(trainer, data)
    for row in rows:
        labels = labeled(row)
        if any(label != IGNORED for label in labels):
            out.append({TOKENIZED: row[TOKENIZED], "labels": labels})
    if not out:
        refuse_absent(f"{where}, response_part", mark, len(rows), "what stands before an answer")
    if len(out) < len(rows):
        record.note(where, f"{len(rows) - len(out)} of {len(rows)} rows have nothing to train, and are left out")
    return out


# ---- collators

class CompletionOnly:
    """DataCollatorForCompletionOnlyLM of former releases of TRL: its arguments, until the trainer has the rows."""

    def __init__(self, response_template, instruction_template=None, *_, tokenizer=None, mlm=False, **__):
        self.response, self.instruction, self.tokenizer = response_template, instruction_template, tokenizer

    def labeled(self, trainer, data):
        tokenizer, where = self.tokenizer or trainer.processing_class, "DataCollatorForCompletionOnlyLM, response_template"
        ids = [tokens_of(tokenizer, one) if isinstance(one, str) else list(one or []) for one in (self.response, self.instruction)]
        out = []
        for row in with_tokens(trainer, data):
            tokens = row[TOKENIZED]
            if self.instruction:
                labels = only_answers(tokens, ids[1], [ids[0]])
            else:
                labels = self.after_last(tokens, ids[0])
            out.append({TOKENIZED: tokens, "labels": labels or [IGNORED] * len(tokens)})
        trained = sum(any(label != IGNORED for label in row["labels"]) for row in out)
        if not trained:
            refuse_absent(where, self.response, len(out), "what stands before an answer")
        if trained < len(out):
            record.note("DataCollatorForCompletionOnlyLM", f"{len(out) - trained} of {len(out)} rows have no {self.response!r}: nothing of them is trained")
        return [row for row in out if any(label != IGNORED for label in row["labels"])]

    @staticmethod
    def after_last(tokens, mark):
        at, last = 0, -1
        while (at := find(tokens, mark, at)) >= 0:
            last, at = at, at + 1
        return None if last < 0 else [IGNORED] * (last + len(mark)) + tokens[last + len(mark):]


def of_language_model(collator, rows):
    """DataCollatorForLanguageModeling(mlm=False): the tokens are the labels, but for those that are the token of padding."""
    if getattr(collator, "mlm", True):
        raise Refused("DataCollatorForLanguageModeling, mlm", "mlm=False", "mlm=True: words that are masked at random", "give mlm=False")
    tokenizer = getattr(collator, "tokenizer", None)
    pad = getattr(tokenizer, "pad_token_id", None)
    if pad is not None and pad == getattr(tokenizer, "eos_token_id", None):
        record.note("DataCollatorForLanguageModeling", "the token of padding is the end of the sequence: it hides every end from the loss, so that the "
                    "model does not learn to stop (DATA-03)")
    return [{**row, "labels": [IGNORED if token == pad else token for token in row[TOKENIZED]]} for row in rows]


def refuse_collator(collator, where):
    """One that is code of the script's own."""
    kind = type(collator).__name__
    known = ("DataCollatorForLanguageModeling", "CompletionOnly", "DataCollatorForSeq2Seq", "DefaultDataCollator", "DataCollatorWithPadding", "NoneType")
    if kind not in known and getattr(collator, "__name__", "") != "default_data_collator":
        raise Refused(f"{where}, data_collator", "a collator of transformers that pads", f"a {kind}: code of the script's own, which changes batches",
                      "make the labels in the rows")


def collated(collator, data, trainer, where):
    """Rows of tokens with their labels, as a collator of transformers makes them; Refused for any other. `data`: rows with input_ids."""
    refuse_collator(collator, where)
    few = rows_of(data)
    if not few or TOKENIZED not in few[0]:
        raise Refused(f"{where}, train_dataset", "rows with input_ids, as transformers.Trainer takes them",
                      f"columns {', '.join(few[0]) if few else 'of no row'}", "make tokens of the rows, or train with TRL's SFTTrainer")
    rows = [without_padding({name: list(row[name]) for name in (TOKENIZED, "labels", "attention_mask") if row.get(name) is not None}) for row in few]
    if type(collator).__name__ == "DataCollatorForLanguageModeling":
        return of_language_model(collator, rows)
    if isinstance(collator, CompletionOnly):
        return collator.labeled(trainer, rows)
    if any("labels" not in row for row in rows):
        raise Refused(f"{where}, train_dataset", "rows with labels, or DataCollatorForLanguageModeling(mlm=False)", "rows with input_ids alone",
                      "add a column labels")
    return rows
