#!/usr/bin/env python3
"""docs/glossary.md is in order, and no word of its last column stands in option names, messages, headers or pages.

  glossary_test.py [--hone build/hone]      prints `ok NAME` or `not ok NAME`
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys

sys.dont_write_bytecode = True
from pages import Page

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
GLOSSARY = "docs/glossary.md"
# What was written stays as it was, what is generated is written elsewhere, and the glossary names the words.
NOT_READ = {"docs/log.md", "CHANGELOG.md", "docs/faults.md", GLOSSARY}
FEWEST, MOST = 55, 80
METHODS = ("sft", "grpo", "rloo", "dpo", "online-dpo", "kto", "cpo", "orpo", "distill", "reward")


def rows(text):
    """(word, meaning, words that are not used) of each row of the table."""
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    return [(word, meaning, [one.strip() for one in banned.split(",") if one.strip()]) for word, meaning, banned in cells[2:]]


def disorder(table):
    found = [] if FEWEST <= len(table) <= MOST else [f"{GLOSSARY}: {len(table)} words, {FEWEST} to {MOST} are meant"]
    words = [word for word, _, _ in table]
    found += [f"{GLOSSARY}: {word} is not in its alphabetical place" for before, word in zip(words, words[1:]) if word.lower() < before.lower()][:1]
    found += [f"{GLOSSARY}: {word} is there twice" for word in sorted(set(words)) if words.count(word) > 1]
    found += [f"{GLOSSARY}: {word} has no meaning" for word, meaning, _ in table if len(meaning.split()) < 3]
    used = {word.lower() for word in words}
    return found + [f"{GLOSSARY}: {one} is a word and one that is not used" for _, _, banned in table for one in banned if one in used]


def patterns(table):
    """(pattern, what to write) of each banned word: whole words, a `-` at its end for any ending, spaces over a line's end."""
    found = []
    for word, _, banned in table:
        for one in banned:
            stem = re.escape(one.removesuffix("-")).replace(r"\ ", r"\s+")
            found.append((re.compile(rf"(?<![\w-]){stem}" + (r"\w*" if one.endswith("-") else r"s?(?![\w-])"), re.I), word))
    return found


def found_in(name, text, banned):
    return [f"{name}:{text.count(chr(10), 0, match.start()) + 1}: `{' '.join(match.group(0).split())}`; write `{word}`"
            for pattern, word in banned for match in pattern.finditer(text)]


def prose(page):
    """A page with code left out, line by line."""
    shown = dict(page.prose())
    return "\n".join(re.sub(r"`[^`]*`", "`code`", shown.get(i, "")) for i in range(1, len(page.lines) + 1))


def comments(source):
    return "\n".join(line.partition("//")[2] for line in source.splitlines())


def messages(source):
    """String literals of several words, line by line: single words are names of files, columns and options of others."""
    return "\n".join(" ".join(one for one in re.findall(r'"((?:[^"\\\n]|\\.)*)"', line) if " " in one.strip()) for line in source.splitlines())


def texts():
    """(name, text) of all that is read."""
    for path in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]):
        name = path.relative_to(ROOT).as_posix()
        if name not in NOT_READ:
            yield name, prose(Page(name, path.read_text(encoding="utf-8")))
    for path in sorted([*ROOT.glob("src/**/*.h"), *ROOT.glob("src/**/*.cpp")]):
        name, source = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
        yield name, messages(source)
        if path.suffix == ".h":
            yield name, comments(source)


def option_names(hone):
    """Options of hone's own: one of TRL has TRL's name."""
    names, of_trl = set(), set()
    for method in METHODS:
        said = subprocess.run([hone, "options", "--method", method, "--json"], capture_output=True, text=True, check=True).stdout
        names |= {row["name"] for row in json.loads(said)}
        table = json.loads((ROOT / f"tests/fixtures/config/trl_{method}_options.json").read_text(encoding="utf-8"))
        of_trl |= set(table["options"])
    return names - of_trl


def planted(banned):
    """The check can fail: each place, and each kind of word."""
    places = [prose(Page("a.md", "It is done\nanew.")), comments("int a;  // an adaptor"), messages('say("it was mended");'), "the step\nsize",
              "quantised weights", "mini batch mini-batch", "kv_cache".replace("_", " ")]
    clean = [prose(Page("a.md", "`anew`\n```\nanew\n```")), comments('say("mended");'), messages('find("adaptor");'), "renewed", "steps of a size"]
    return ([f"the check itself: nothing is found in {one!r}" for one in places if len(found_in("a", one, banned)) != 1]
            + [f"the check itself: {found_in('a', one, banned)} in {one!r}" for one in clean if found_in("a", one, banned)])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hone", type=pathlib.Path, default=ROOT / "build" / "hone")
    hone = parser.parse_args().hone.resolve()
    table = rows((ROOT / GLOSSARY).read_text(encoding="utf-8"))
    banned = patterns(table)
    options = option_names(hone)
    results = {
        "the_glossary_is_in_order": disorder(table),
        "words_that_are_not_used_stand_nowhere": [one for name, text in texts() for one in found_in(name, text, banned)],
        "nor_in_names_of_options": [one for name in sorted(options) for one in found_in(f"option {name}", name.replace("_", " "), banned)],
        "the_check_can_fail": planted(banned) + ([] if len(options) > 10 else [f"only {len(options)} options of hone's own"])
        + ([] if len(disorder([*table, table[0]])) == 2 else ["the check itself: a word that is there twice, at the end"]),
    }
    for name, findings in results.items():
        print("\n  ".join([f"not ok {name}", *findings]) if findings else f"ok {name}")
    sys.exit(1 if any(results.values()) else 0)


if __name__ == "__main__":
    main()
