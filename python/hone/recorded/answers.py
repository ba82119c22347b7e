"""Where Unsloth's train_on_responses_only sees answers in a row of tokens. Each rule is one of its own code, release 2026.10.9."""
from dataclasses import dataclass

# What may touch a mark in a text: a mark's tokens at either edge count only where none of these changes them.
TOUCHING = ("\\", "{", "a", "A", "1", "(", ".", "<", "}", ">")
BEHIND = 0  # the token that Unsloth puts behind each list before it looks for what they share


@dataclass
class Mark:
    """Tokens that have to be there, and those around them that may be."""
    core: list
    left: list
    right: list


def tokens_of(tokenizer, text):
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def find(tokens, part, begin=0):
    """Where `part` stands in `tokens`, from `begin` on; -1 where it does not."""
    size = len(part)
    if not size:
        return -1
    for at in range(begin, len(tokens) - size + 1):
        if tokens[at] == part[0] and tokens[at:at + size] == part:
            return at
    return -1


def common(lists):
    """The longest run of tokens that all of `lists` have."""
    first = min(lists, key=len)
    for size in range(len(first), 0, -1):
        for at in range(len(first) - size + 1):
            part = first[at:at + size]
            if all(find(one, part) >= 0 for one in lists):
                return part
    return []


def alike(first, second):
    """How many tokens both begin with."""
    return next((at for at, (one, other) in enumerate(zip(first, second)) if one != other), min(len(first), len(second)))


def shared_core(tokenizer, part):
    """The tokens of a mark with any line breaks around it; [] where no such run is found among them."""
    stripped, spaces = part.strip(), (" ", "\n")
    before, behind = part[:1] if part[:1] in spaces else "", part[-1:] if part[-1:] in spaces else ""
    texts = [one for left in range(3) for right in range(3)
             for one in (before * left + stripped + behind * right, "\n" * left + stripped + "\n" * right)]
    lists = [tokens_of(tokenizer, text) for text in texts]
    core = common([[*one, BEHIND] for one in lists])
    if core == [BEHIND] and len(lists[0]) == 1 and all(lists[0][0] in one for one in lists):
        return lists[0]
    return lists[0] if all(one == lists[0] for one in lists) else core


def mark_of(tokenizer, part, forced):
    """The mark of a text: `forced`, its own tokens; else what line breaks around it do not change. None where it has no tokens."""
    whole = tokens_of(tokenizer, part)
    core = whole if forced else shared_core(tokenizer, part)
    at = find(whole, core)
    if at < 0:
        return None
    begin, end = at, at + len(core)
    for touching in TOUCHING:
        end = min(end, alike(whole, tokens_of(tokenizer, part + touching)))
        begin = max(begin, len(whole) - alike(whole[::-1], tokens_of(tokenizer, touching + part)[::-1]))
    added = getattr(tokenizer, "added_tokens_decoder", None) or {}
    if begin >= end or not any(str(added.get(token, "")).strip() for token in whole[begin:end]):
        begin, end = at, at + len(core)
    return Mark(whole[begin:end], whole[:begin], whole[end:])


class Answers:
    """The answers of rows, by the marks before a question and before an answer."""

    def __init__(self, tokenizer, question, answer):
        if answer.right and answer.core == question.core[:len(answer.core)]:
            answer = Mark(answer.core + answer.right, answer.left, [])
        if question.right and question.core == answer.core[:len(question.core)]:
            question = Mark(question.core + question.right, question.left, [])
        self.question, self.answer = question, answer
        self.begins, self.ends = getattr(tokenizer, "bos_token_id", None), getattr(tokenizer, "eos_token_id", None)
        self.opener = opener_of(tokenizer, question.core, answer.core)
        self.firsts = {self.begins, self.ends, question.core[0], answer.core[0], *self.opener[:1]}

    def stops(self, tokens, at):
        """Whether an answer is over before this token, or with it."""
        if tokens[at] not in self.firsts:
            return False
        part = self.question.core
        return tokens[at] == self.ends or self.next_message(tokens, at) or tokens[at:at + len(part)] == part

    def next_message(self, tokens, at):
        """Whether another message begins here, or another text."""
        return tokens[at] == self.begins or any(part and tokens[at:at + len(part)] == part for part in (self.opener, self.answer.core))

    def ranges(self, tokens):
        """[(begin, end)]: from behind the mark to the end of the sequence, the next message or the next question."""
        out, at, size = [], 0, len(tokens)
        while (at := find(tokens, self.answer.core, at)) >= 0:
            begin = at + len(self.answer.core)
            begin += alike(self.answer.right, tokens[begin:])
            end = begin
            while end < size - 1 and not self.stops(tokens, end):
                end += 1
            if end >= size:
                break
            at = end
            if tokens[end] == self.ends:
                end = at = end + 1
            elif not self.next_message(tokens, end):
                end, at = self.before_question(tokens, begin, end)
            out.append((begin, end))
        return out

    def before_question(self, tokens, begin, at):
        """(where the answer ends, where the search goes on): the last token of a row counts as the answer's."""
        part = self.question.core
        is_last = at == len(tokens) - 1
        behind = begin if is_last else at + len(part)
        end = at - alike(self.question.left[::-1], tokens[:at][::-1])
        behind += alike(self.question.right, tokens[behind:])
        return (len(tokens), len(tokens)) if end == len(tokens) - 1 else (end, behind)


def opener_of(tokenizer, question, answer):
    """The special tokens that every message begins with, whoever's it is: what both marks begin with."""
    part = question[:alike(question, answer)]
    added = getattr(tokenizer, "added_tokens_decoder", None) or {}
    special = {token for token, one in added.items() if getattr(one, "special", False)} | set(getattr(tokenizer, "all_special_ids", None) or ())
    written = any(getattr(added.get(token), "content", "").strip() for token in part)
    return part if written and all(token in special for token in part) else []


def hidden_parts(tokenizer, texts):
    """Token lists of mask_out_tokens: each text, and the one with a space before it where the space becomes a part of its token."""
    out = []
    for text in [texts] if isinstance(texts, str) else texts or ():
        bare, spaced = tokens_of(tokenizer, text), tokens_of(tokenizer, " " + text)
        for part in (bare, [] if find(spaced, bare) >= 0 else spaced):
            if part and part not in out:
                out.append(part)
    return out


def hide(labels, tokens, parts, ignored):
    for part in parts:
        at = -1
        while (at := find(tokens, part, at + 1)) >= 0:
            labels[at:at + len(part)] = [ignored] * len(part)
