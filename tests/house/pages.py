"""Markdown pages, and what can be wrong with one by itself: each function gives findings `FILE:LINE: what`."""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MOST_COLUMNS, MOST_WORDS = 140, 30
FOLDERS = ("src", "tests", "tools", "docs", "bench", "examples", "cmake", "text-ffi")
# Documents that stand outside the project: a reader does not have them.
OUTSIDE = r"\b(DESIGN|FAULTS|docs/DESIGN)\b|\.\./shared|\b(TRL|SPEED|STYLE|CUDA|RANKS|RECIPES|LIBTORCH|LIBRARIES)\.md\b"


class Page:
    """One Markdown file: its lines, each with the fenced block that it stands in ("" outside, else "sh", "yaml", ...)."""

    def __init__(self, name, text):
        self.name, self.lines, self.blocks = name, text.splitlines(), []
        fence = ""
        for line in self.lines:
            mark = re.match(r"\s*```(\w*)", line)
            if mark:
                fence = "" if fence else mark.group(1) or "text"
                self.blocks.append("fence")
            else:
                self.blocks.append(fence)

    def prose(self):
        """(line number, line) outside fenced blocks."""
        return [(i, line) for i, (line, block) in enumerate(zip(self.lines, self.blocks), 1) if not block]

    def fenced(self, *kinds):
        """(number of the first line, lines) of each fenced block of these kinds."""
        found, current = [], None
        for i, (line, block) in enumerate(zip(self.lines, self.blocks), 1):
            if block in kinds:
                if current is None:
                    current = (i, [])
                    found.append(current)
                current[1].append(line)
            else:
                current = None
        return found

    def spans(self):
        """(line number, text) of each `code span`."""
        return [(i, span) for i, line in self.prose() for span in re.findall(r"`([^`]+)`", line)]


def wide_lines(page):
    return [f"{page.name}:{i}: {len(line)} columns, at most {MOST_COLUMNS}"
            for i, line in enumerate(page.lines, 1) if len(line) > MOST_COLUMNS]


def read_aloud(text):
    """Markdown as it is read: a code span is one word, a link its text."""
    text = re.sub(r"`[^`]+`", "code", text)
    text = re.sub(r"!?\[([^\]]*)\](\([^)]*\)|\[[^\]]*\])", r"\1", text)
    return text.replace("**", "")


def passages(page):
    """(first line, text) of each paragraph, list item, heading and table cell."""
    found = []
    for i, line in page.prose():
        text = line.strip()
        begins = re.match(r"([-*]|\d+\.|#+)\s+", text)
        if text.startswith("|"):
            found += [(i, cell) for cell in re.split(r"(?<!\\)\|", text) if cell.strip()]
            found.append((i, ""))
        elif not text or begins or not found or page.blocks[i - 2]:
            found.append((i, text[begins.end():] if begins else text))
            if text.startswith("#"):
                found.append((i, ""))
        elif not found[-1][1]:
            found[-1] = (i, text)
        else:
            found[-1] = (found[-1][0], found[-1][1] + " " + text)
    return found


def long_sentences(page):
    found = []
    for i, text in passages(page):
        named = re.sub(r"`[^`]*`(, `[^`]*`)+", "`names`", text)  # a list of names is read as one
        for sentence in re.split(r"(?<=[.!?])[)\"]?\s+", read_aloud(named)):
            words = [word for word in sentence.split() if re.search(r"\w", word)]
            if len(words) > MOST_WORDS:
                found.append(f"{page.name}:{i}: {len(words)} words, at most {MOST_WORDS}: {' '.join(words[:8])} ...")
    return found


def slug(heading):
    """The anchor that Markdown viewers give a heading."""
    return re.sub(r"[^\w\- ]", "", read_aloud(heading.lstrip("# ").replace("`", "")).lower()).replace(" ", "-")


def dead_links(page, root=ROOT):
    found = []
    for i, line in page.prose():
        bare = re.sub(r"`[^`]*`", "", line)
        names = [name for name in re.findall(r"\[[^\]]+\]\[([^\]]+)\]", bare) if f"\n[{name}]: " not in "\n" + "\n".join(page.lines)]
        found += [f"{page.name}:{i}: no target for [{name}]" for name in names]
        for target in re.findall(r"\[[^\]]*\]\(([^)\s]+)\)|^\[[^\]]+\]: (\S+)", bare):
            target = target[0] or target[1]
            if re.match(r"\w+:", target):
                continue
            path, _, anchor = target.partition("#")
            file = (root / page.name).parent / path if path else root / page.name
            if not file.exists():
                found.append(f"{page.name}:{i}: no file {target}")
            elif anchor and anchor not in map(slug, re.findall(r"(?m)^#+ .*$", file.read_text(encoding="utf-8"))):
                found.append(f"{page.name}:{i}: no heading for {target}")
    return found


def alternatives(text):
    """`a{b,c}` as a b and a c."""
    match = re.search(r"\{([^{}]*)\}", text)
    if not match:
        return [text]
    return [each for part in match.group(1).split(",")
            for each in alternatives(text[: match.start()] + part.strip() + text[match.end():])]


def lost_paths(page, root=ROOT):
    """Code spans that name a file or folder of the project, with `<name>` for any; also relative to src/, without ending."""
    found = []
    rooms = {path.name for path in (root / "src").iterdir() if path.is_dir()}
    for i, span in page.spans():
        for text in alternatives(re.sub(r"<\w+>", "*", span)):
            match = re.fullmatch(r"([\w.-]+)/[\w./*-]*", text)
            if match is None or match.group(1) not in rooms | set(FOLDERS):
                continue
            place = root if match.group(1) in FOLDERS else root / "src"
            if not any(any(place.glob(text.rstrip("/") + ending)) for ending in ("", ".h", ".cpp")):
                found.append(f"{page.name}:{i}: no {text}")
    return found


def lost_names(page, sources):
    """Code spans that are C++ names (`FusedPass::forward`, `StagedFolder`) and stand nowhere in `sources`."""
    found = []
    for i, span in page.spans():
        if re.fullmatch(r"(\w+::)+\w+|([A-Z]+[a-z]+){2,}", span):
            found += [f"{page.name}:{i}: no {name} of {span} in src/" for name in span.split("::")
                      if not re.search(rf"\b{name}\b", sources)]
    return found


def lost_citations(name, text, root=ROOT):
    """Comments that cite a document outside the project, or a page or heading of docs/ that is not there."""
    found = []
    for i, line in enumerate(text.splitlines(), 1):
        outside = re.search(OUTSIDE, line)
        if outside:
            found.append(f"{name}:{i}: cites {outside.group(0)}")
        for page, heading in re.findall(r"(?<![\w/'])docs/([\w-]+\.md)(?:, ([A-Z][\w' ]+))?", line):
            file = root / "docs" / page
            headings = re.findall(r"(?m)^#+ (.*)$", file.read_text(encoding="utf-8")) if file.exists() else []
            if not file.exists() or (heading and heading.strip() not in headings):
                found.append(f"{name}:{i}: no docs/{page} {heading}".rstrip())
    return found


def in_order(quoted, whole):
    """The first quoted line that `whole` does not have after the ones before it, or None. `text ...` quotes the
    beginning of a line; a line of dots leaves lines out, as leaving them out without a word does."""
    at = 0
    for line in quoted:
        if line.strip() in ("...", ""):
            continue
        begins = line.endswith(" ...")
        text = line.removesuffix(" ...") if begins else line
        while at < len(whole) and not (whole[at].startswith(text) if begins else whole[at].rstrip() == text.rstrip()):
            at += 1
        if at == len(whole):
            return line
        at += 1
    return None
