#!/usr/bin/env python3
"""README.md and docs/: short enough to read, and true.

Each test collects findings `FILE:LINE: what` and fails when there is one. The last test feeds every collector a
broken text, so that none of them can pass by finding nothing.

Only docs/faults.md, which `hone faults --markdown` prints, is not held to line and sentence lengths. Its links are
checked like all others.

Usage: tests/house/readme_test.py [--hone build/hone]
"""
import argparse
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from front_page import (PEERS, QUICKSTART_YAML, TOLD, long_symptom, told_cases, unknown_classes, wrong_front, wrong_told,
                        wrong_yaml_quotes)
from pages import (Page, dead_links, in_order, long_sentences, lost_citations, lost_names, lost_paths, passages,
                   wide_lines)

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
AS_THEY_ARE = {"docs/faults.md"}
QUICKSTART_OUTPUT = "docs/quickstart-output.txt"
# `hone` commands whose options are a run's
RUNS = ("sft", "grpo", "rloo", "dpo", "online-dpo", "kto", "cpo", "orpo", "distill", "reward")


def pages():
    names = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
    return [Page(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")) for path in names]


def all_sources():
    paths = [*(ROOT / "src").rglob("*"), *(ROOT / "python").rglob("*")]
    return "".join(path.read_text(encoding="utf-8") for path in paths if path.suffix in (".h", ".cpp", ".py"))


def cited_from():
    """(name, text) of the files whose comments cite docs/."""
    paths = [ROOT / "CMakeLists.txt", ROOT / "test", ROOT / "quickstart"]
    for folder in ("src", "tests", "tools", "bench", "cmake", "examples"):
        paths += [path for path in (ROOT / folder).rglob("*") if path.suffix in (".h", ".cpp", ".py", ".sh", ".txt", ".cmake", ".yaml", "")]
    own = {ROOT / "tests/house" / name for name in ("pages.py", "readme_test.py")}
    for path in paths:
        if path.is_file() and "fixtures" not in path.parts and path not in own:
            yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8", errors="replace")


class Program:
    """What `hone` knows: commands from its help, options of each from the option table and from its help."""

    def __init__(self, path):
        self.path = str(path)
        self.commands = re.findall(r"(?m)^  ([a-z][a-z-]*)  ", self.says("help"))
        self.options = {command: self.options_of(command) for command in self.commands}
        self.all_options = set().union(*self.options.values())
        self.classes = set(re.findall(r"(?m)^([A-Z]{2,5}-\d\d)\b", self.says("faults")))

    def says(self, *words):
        return subprocess.run([self.path, *words], capture_output=True, text=True, check=False).stdout

    def options_of(self, command):
        found = set(re.findall(r"(?<![\w-])--([a-zA-Z]\w*)", self.says(command, "--help")))
        if command in RUNS:
            found |= {row["name"] for row in json.loads(self.says("options", "--method", command, "--json"))}
        if command == "options":
            found |= {"method", "json"}
        if command in ("doctor", "bisect", "lr-find"):
            found |= set().union(*(self.options_of(run) for run in RUNS))
        return found | {"help", "config"}


def commands_in(page):
    """(line number, command line) of each call of hone, in blocks of shell and in code spans. What `console` blocks
    call is run (wrong_transcripts)."""
    found = [(i, span) for i, span in page.spans()]
    for first, lines in page.fenced("sh"):
        found += [(first + k, line.partition("  #")[0]) for k, line in enumerate(lines)]
    return [(i, text.strip()) for i, text in found if re.match(r"(build/)?hone (?=[a-z|-])", text.strip())]


def options_of_scripts():
    """`--options` that the project's own scripts, tests and benchmarks name."""
    files = [ROOT / "test", ROOT / "quickstart", *ROOT.glob("tools/*"), *ROOT.glob("bench/*"), *ROOT.glob("tests/*/*.py")]
    own = pathlib.Path(__file__).resolve()
    return set(re.findall(r"--[a-z][\w-]*", "".join(path.read_text(encoding="utf-8", errors="replace")
                                                    for path in files if path.is_file() and path != own)))


def unknown_words(page, program):
    """Commands and --options of hone that it does not know, and `--option` spans that nobody knows."""
    found = []
    scripts = options_of_scripts()
    for i, text in commands_in(page):
        words = shlex.split(text, comments=True)[1:]
        for command in words[0].split("|"):
            if command not in program.commands and not command.startswith("--"):
                found.append(f"{page.name}:{i}: hone has no command {command}")
            for word in words[1:words.index("--") if "--" in words else None]:  # behind it are a script's own
                option = word.partition("=")[0]
                if option.startswith("--") and option[2:] not in program.options.get(command, program.all_options):
                    found.append(f"{page.name}:{i}: hone {command} has no option {option}")
    for i, span in page.spans():
        match = re.match(r"--([a-zA-Z][\w-]*)", span)
        if match and match.group(1) not in program.all_options and "--" + match.group(1) not in scripts:
            found.append(f"{page.name}:{i}: nobody knows the option {span}")
    return found


def unknown_keys(page, program):
    """Keys of YAML blocks, and of spans such as `learning_rate: 2e-4`, that are no options. A line may say that it is a mistake."""
    found = [(i, match.group(1)) for i, span in page.spans() if (match := re.fullmatch(r"([a-z]\w*): \S.*", span))]
    for first, lines in page.fenced("yaml"):
        found += [(first + k, match.group(1)) for k, line in enumerate(lines)
                  if (match := re.match(r"(\w+):", line)) and not line.endswith("# a mistake")]
    return [f"{page.name}:{i}: no option {key}" for i, key in found if key not in program.all_options]


def files_of(page):
    """(name, text) of the blocks of YAML whose first line is `# NAME.yaml`."""
    for _, lines in page.fenced("yaml"):
        if name := re.fullmatch(r"# (\w+\.yaml)", lines[0]):
            yield name.group(1), "\n".join(lines) + "\n"


def wrong_transcripts(page, program):
    """Blocks of kind `console`: each `$ build/hone ...` is run beside the files of the page, and prints the lines below it
    (`in_order`)."""
    found = []
    for first, lines in page.fenced("console"):
        starts = [k for k, line in enumerate(lines) if line.startswith("$ ")] + [len(lines)]
        if starts[0] != 0:
            found.append(f"{page.name}:{first}: a console block begins with `$ build/hone`")
        for begin, end in zip(starts, starts[1:]):
            words = shlex.split(lines[begin].removeprefix("$ "), comments=True)
            if words[0] != "build/hone":
                found.append(f"{page.name}:{first + begin}: only `build/hone` is run here")
                continue
            with tempfile.TemporaryDirectory() as folder:
                for name in ("examples", "models", "src", "tests"):
                    (pathlib.Path(folder) / name).symlink_to(ROOT / name)
                for name, text in files_of(page):
                    (pathlib.Path(folder) / name).write_text(text, encoding="utf-8")
                done = subprocess.run([program.path, *words[1:]], cwd=folder, capture_output=True, text=True, check=False)
            missing = in_order(lines[begin + 1:end], (done.stdout + done.stderr).splitlines())
            if missing is not None:
                found.append(f"{page.name}:{first + begin}: {lines[begin]} does not print: {missing}")
    return found


def wrong_quickstart_quotes(page, output):
    """What README quotes from ./quickstart, against the output that is kept: a `text` block that begins as that output
    does, and counts `N of M` beside the word quickstart."""
    found, quoted = [], 0
    for first, lines in page.fenced("text"):
        if not lines[0].startswith("== "):
            continue
        quoted += 1
        missing = in_order(lines, output.splitlines())
        if missing is not None:
            found.append(f"{page.name}:{first}: {QUICKSTART_OUTPUT} does not have, in this order: {missing}")
    for i, text in passages(page):
        if "quickstart" in text:
            counts = re.findall(r"\b\d+ of \d+\b", text)
            squeezed = re.sub(r" +", " ", output)
            found += [f"{page.name}:{i}: {QUICKSTART_OUTPUT} does not have {count}" for count in counts if count not in squeezed]
            quoted += len(counts)
    return found if quoted else [f"{page.name}: quotes nothing of ./quickstart"]


def symptoms():
    return [page for page in pages() if page.name.startswith("docs/symptoms/")]


def styled():
    return [page for page in pages() if page.name not in AS_THEY_ARE]


def collect(collector, chosen, *more):
    return [finding for page in chosen for finding in collector(page, *more)]


def readme():
    return [page for page in pages() if page.name == "README.md"]


def test_the_front_page_is_short_and_whole(_):
    return collect(wrong_front, readme())


def test_the_front_page_quotes_the_example(_):
    return collect(wrong_yaml_quotes, readme(), (ROOT / QUICKSTART_YAML).read_text(encoding="utf-8"))


def test_symptoms_quote_what_is_told(_):
    cases = told_cases((ROOT / TOLD).read_text(encoding="utf-8"))
    return collect(wrong_told, styled(), cases) + collect(long_symptom, [page for page in symptoms() if not page.name.endswith("README.md")])


def test_classes_that_are_named_exist(program):
    return collect(unknown_classes, symptoms() + [page for page in pages() if page.name == "AGENTS.md"], program.classes)


def test_every_page_is_in_the_index(_):
    """docs/README.md names each page of docs/, docs/symptoms/README.md each symptom."""
    found = []
    for folder in ("docs", "docs/symptoms"):
        index = (ROOT / folder / "README.md").read_text(encoding="utf-8")
        found += [f"{folder}/README.md: no link to {path.name}" for path in sorted((ROOT / folder).glob("*.md"))
                  if path.name != "README.md" and f"({path.name}" not in index]
    return found


def no_question(page):
    """The heading of a page is the question that it answers, or the line below the heading is."""
    lines = [line for line in page.lines if line.strip()][:2]
    asks = len(lines) == 2 and (lines[0].endswith("?") or re.fullmatch(r"\*\*.+\?\*\*", lines[1]) is not None)
    return [] if asks else [f"{page.name}:1: begins with no question"]


def test_every_page_begins_with_its_question(_):
    """docs/faults.md is the program's, and the two README.md are lists of questions."""
    return collect(no_question, [page for page in styled() if page.name.startswith("docs/") and not page.name.endswith("README.md")])


def test_no_line_is_above_140_columns(_):
    return collect(wide_lines, styled())


def test_no_sentence_is_above_30_words(_):
    return collect(long_sentences, styled())


def test_relative_links_resolve(_):
    return collect(dead_links, pages())


def test_paths_that_are_quoted_exist(_):
    return collect(lost_paths, styled())


def test_names_that_are_quoted_exist(_):
    return collect(lost_names, styled(), all_sources())


def test_comments_cite_what_is_there(_):
    return [finding for name, text in cited_from() for finding in lost_citations(name, text)]


def test_commands_and_options_that_are_quoted_exist(program):
    return collect(unknown_words, styled(), program) + collect(unknown_keys, styled(), program)


def test_examples_hold_options_that_exist(program):
    """The YAML of examples/, and the commands in its comments."""
    found = []
    for path in sorted((ROOT / "examples").rglob("*.yaml")):
        text = path.read_text(encoding="utf-8")
        name = path.relative_to(ROOT).as_posix()
        commands = "\n".join(re.sub(r"^# *(.*&& )?", "", line) if line.startswith("#") else "" for line in text.splitlines())
        found += unknown_keys(Page(name, f"```yaml\n{text}\n```"), program) + unknown_words(Page(name, f"```sh\n{commands}\n```"), program)
    return found


def test_counts_of_options_are_those_of_trl(_):
    page = (ROOT / "docs" / "options.md").read_text(encoding="utf-8")
    found = []
    for path in sorted((ROOT / "tests" / "fixtures" / "config").glob("trl_*_options.json")):
        count = len(json.loads(path.read_text(encoding="utf-8"))["options"])
        words = {"online-dpo": "Online DPO", "reward": "reward models", "distill": "distillation"}
        method = words.get(path.name.split("_")[1], path.name.split("_")[1].upper())
        if f"| {method} | {count} |" not in page:
            found.append(f"docs/options.md: {method} has {count} options in {path.name}")
    return found


def test_transcripts_are_what_hone_prints(program):
    return collect(wrong_transcripts, styled(), program)


def test_readme_quotes_the_quickstart(_):
    output = (ROOT / QUICKSTART_OUTPUT).read_text(encoding="utf-8")
    return collect(wrong_quickstart_quotes, readme(), output)


def broken_pages(program):
    """(collector's findings, what they have to hold) for texts that each break one rule."""
    page = lambda text: Page("README.md", text)
    long = " ".join(["word"] * 31) + "."
    front = f"| | {' | '.join(PEERS)} |\n| a | b | c | d | e | f |\n![a](b)" + "\n" * 60
    yield wrong_front(page(front + "\n" * 30)), "92 lines"
    yield wrong_front(page(front.replace("![a]", "[a]"))), "0 pictures"
    yield wrong_front(page(front.replace("c", " "))), "no whole table"
    yield wrong_yaml_quotes(page("```yaml\n" + "a: 1\n" * 9 + "b: 2\n```"), "a: 1  # one\n"), "does not have `b: 2`"
    yield wrong_yaml_quotes(page("```yaml\na: 1\n```"), "a: 1\n"), "1 lines of YAML"
    yield wrong_told(page("```told\n== A-01 a\nwarn c\n```"), told_cases("== A-01 a\nwarn b\n")), "does not have: warn c"
    yield wrong_told(page("```told\n== A-01 b\nwarn b\n```"), told_cases("== A-01 a\nwarn b\n")), "no case A-01 b"
    yield wrong_told(page("```told\nwarn b\n```"), {}), "begins with"
    yield unknown_classes(page("`NUM-99` and NUM-07"), program.classes), "no class NUM-99"
    yield long_symptom(page("a\n" * 61 + "- Elsewhere: a\n```told\n== A-01 a\n```")), "at most 60"
    yield long_symptom(page("Nothing.")), "quotes no verdict"
    yield no_question(page("# Data\n\nIt is read.\n")), "begins with no question"
    yield no_question(page("# Data\n\n**It is read.** Is it?\n")), "begins with no question"
    yield wide_lines(page("a" * 141)), "README.md:1: 141 columns"
    yield long_sentences(page("Short.\n\n" + long)), "README.md:3: 31 words"
    yield long_sentences(page("- one\n- " + long.replace(" ", "\n  "))), "README.md:2: 31 words"
    yield long_sentences(page("| a | " + long + " |")), "31 words"
    yield long_sentences(page("Read `a b c` [" + long + "](x).")), "33 words"
    yield dead_links(page("[a](docs/none.md)")), "no file docs/none.md"
    yield dead_links(page("[a](docs/flow.md#none)")), "no heading for docs/flow.md#none"
    yield dead_links(page("[a][b]\n\n[c]: docs/flow.md")), "no target for [b]"
    yield dead_links(page("[a][b]\n\n[b]: none.md")), "README.md:3: no file none.md"
    yield lost_paths(page("`src/none.cpp`")), "no src/none.cpp"
    yield lost_paths(page("`base/{error,none}.h`")), "no base/none.h"
    yield lost_names(page("`NoClass` and `Known::none`"), "NoClass Known"), "no none of Known::none"
    yield lost_names(page("`NoClass` and `Known::none`"), "Known none"), "no NoClass of NoClass"
    yield lost_citations("a.h", "\n// as DESIGN says"), "a.h:2: cites DESIGN"
    yield lost_citations("a.h", "// docs/none.md"), "a.h:1: no docs/none.md"
    yield lost_citations("a.h", "// (docs/design.md, Nothing)"), "no docs/design.md Nothing"
    yield lost_citations("a.h", "// (docs/design.md, Probes)\n// ../shared/x"), "a.h:2: cites ../shared"
    yield unknown_words(page("`hone nothing`"), program), "no command nothing"
    yield unknown_words(page("`hone check a.py --fx -- --rate 1`"), program), "hone check has no option --fx"
    yield unknown_words(page("```sh\nbuild/hone sft --packng true  # --none\n```"), program), "hone sft has no option --packng"
    yield unknown_words(page("Say `--packng`."), program), "nobody knows the option --packng"
    yield unknown_keys(page("```yaml\npackng: true\n```"), program), "README.md:2: no option packng"
    yield unknown_keys(page("`packng: true`"), program), "no option packng"
    yield wrong_transcripts(page("```console\n$ build/hone version\nnone\n```"), program), "does not print: none"
    yield wrong_quickstart_quotes(page("```\n== a\nc\nb\n```"), "== a\nb\nc\n"), "in this order: b"
    yield wrong_quickstart_quotes(page("The quickstart: 3 of 4."), "2 of   4"), "does not have 3 of 4"
    yield wrong_quickstart_quotes(page("Nothing."), ""), "quotes nothing"


def test_each_check_can_fail(program):
    return [f"expected `{wanted}`, found {findings}" for findings, wanted in broken_pages(program)
            if len(findings) != 1 or wanted not in findings[0]]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hone", type=pathlib.Path, default=ROOT / "build" / "hone")
    args = parser.parse_args()
    failed = not args.hone.exists()
    if failed:
        print(f"not ok there_is_a_program\n  no {args.hone}: build it first, or name it with --hone")
        sys.exit(1)
    program = Program(args.hone.resolve())
    for name, test in [(n, f) for n, f in globals().items() if n.startswith("test_")]:
        try:
            findings = test(program)
        except Exception as error:  # a test that raises has failed, whatever it raised
            findings = [f"{type(error).__name__}: {error}"]
        failed = failed or bool(findings)
        print("\n  ".join([f"not ok {name[5:]}", *findings]) if findings else f"ok {name[5:]}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
