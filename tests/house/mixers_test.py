#!/usr/bin/env python3
"""Everything asks a layer's parts and its mixer. One file of src/ names the kinds of layers, and every mixer has its file, line and row.
So has every part, and only the parts look at the fields of a layer that hold their linears.

The last check feeds files with a fault of each sort, so that the others cannot pass by finding nothing.

  mixers_test.py            prints `ok NAME` or `not ok NAME`
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TABLE, LIST, FOLDER, CONFIG = "model/config/mixer.cpp", "model/mixers/mixers.h", "model/mixers/", "model/config/model_config.h"
PARTS, PART_LIST, PART_FOLDER = "model/config/layer_part.cpp", "model/parts/parts.h", "model/parts/"
# What a layer has only with one sort of part, and the question which sort that is.
FIELDS = r"\blayer_?(?:\.|->)(?:experts|gate_up|down|per_layer)\b|\blayers\(\)\S*(?:\.|->)(?:experts|gate_up|down|per_layer)\b|\bhas_experts\("


def words(pattern, text):
    return set(re.findall(pattern, re.sub(r"//[^\n]*", "", text)))


def part_faults(sources):
    """`sources`: path below src/ -> text."""
    out = [f"{path} looks into a layer's MLP, experts or own input; only {PART_FOLDER} does" for path, text in sources.items()
           if words(FIELDS, text) and not path.startswith(PART_FOLDER) and path not in (PARTS, CONFIG)]
    listed = words(r"const LayerPart& (\w+)\(\);", sources[PART_LIST])
    made = [name for path, text in sources.items() if path.startswith(PART_FOLDER) for name in words(r"const LayerPart& (\w+)\(\) \{", text)]
    classes = sum(text.count("final : public LayerPart") for path, text in sources.items() if path.startswith(PART_FOLDER))
    used = words(r"&(\w+_part)\(\)", sources[PARTS])
    if not set(made) == listed == used or len(made) != classes:
        out.append(f"{PART_FOLDER} has {classes} parts and gives {sorted(made)}, {PART_LIST} {sorted(listed)}, {PARTS} {sorted(used)}")
    return out


def faults(sources):
    """`sources`: path below src/ -> text."""
    out = [f"{path} names a kind of layers; only {TABLE} does" for path, text in sources.items() if "LayerKind::" in text and path != TABLE]
    listed = words(r"const Mixer& (\w+)\(\);", sources[LIST])
    made = {path: words(r"const Mixer& (\w+)\(\) \{", text) for path, text in sources.items() if path.startswith(FOLDER)}
    for path, text in sources.items():
        if path.startswith(FOLDER) and "final : public Mixer" in text and len(made[path]) != 1:
            out.append(f"{path} has a mixer and not one function that gives it")
    named = set().union(*made.values())
    rows = words(r"LayerKind::k\w+, (\w+)\}", sources[TABLE])
    if not named == listed == rows:
        out.append(f"{FOLDER} has {sorted(named)}, {LIST} {sorted(listed)}, the table {sorted(rows)}")
    kinds = words(r"\bk\w+", re.search(r"enum class LayerKind \{(.*?)\n\};", sources[CONFIG], re.S).group(1))
    known = words(r"LayerKind::(k\w+)", sources[TABLE])
    if kinds != known:
        out.append(f"LayerKind has {sorted(kinds)}, the table {sorted(known)}")
    return out + part_faults(sources)


def finds_faults(sources):
    """One fault of each sort is found."""
    planted = [
        {"train/x.cpp": "if (kind == LayerKind::kAttention) return;"},
        {FOLDER + "x.cpp": "class X final : public Mixer {};\nconst Mixer& x_mixer() { return x; }\n"},
        {FOLDER + "y.cpp": "class Y final : public Mixer {};\n"},
        {CONFIG: sources[CONFIG].replace("enum class LayerKind {", "enum class LayerKind {\n  kOther,")},
        {LIST: ""},
        {"train/x.cpp": "if (layer.experts) return;"},
        {"doctor/x.cpp": "use(model.layers()[i].gate_up);"},
        {"train/x.cpp": "if (config.has_experts(0)) return;"},
        {PART_FOLDER + "x.cpp": "class X final : public LayerPart {};\n"},
        {PART_LIST: ""},
    ]
    return all(faults({**sources, **one}) for one in planted)


def main():
    src = ROOT / "src"
    sources = {str(path.relative_to(src)): path.read_text(encoding="utf-8") for path in sorted(src.rglob("*")) if path.suffix in (".cpp", ".h")}
    found = faults(sources)
    print(*(f"# {one}" for one in found), sep="\n", end="\n" if found else "")
    print(f"{'not ok' if found else 'ok'} kinds_of_layers_and_of_parts_are_known_to_their_tables_alone")
    works = not found and finds_faults(sources)
    print(f"{'ok' if works else 'not ok'} the_check_finds_a_planted_fault_of_each_sort")
    sys.exit(0 if works else 1)


if __name__ == "__main__":
    main()
