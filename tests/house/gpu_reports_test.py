#!/usr/bin/env python3
"""What the program and the pages say of GPUs is what the reports in bench/results/gpu show: src/base/gpu_reports.h names their cards.

Usage: tests/house/gpu_reports_test.py
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGES = ("README.md", "docs/limits.md", "docs/options.md", "docs/cuda.md")


def cards(folder):
    """Cards of the reports there, DATE-CARD.md; what is named otherwise is a card of its own."""
    names = sorted(one.stem for one in folder.iterdir() if one.name != "README.md") if folder.is_dir() else []
    return sorted({re.sub(r"^\d{4}-\d{2}-\d{2}-", "", name) for name in names})


def findings(standing, filed, pages):
    """What does not fit: the header's sentence, names of cards, {page: text}."""
    named = re.findall(r"\ban? ([A-Z]+\d+\w*)", standing)
    for card in sorted(set(named) ^ set(filed)):
        yield f"src/base/gpu_reports.h {'names' if card in named else 'does not name'} {card}, bench/results/gpu has {', '.join(filed) or 'none'}"
    for page, text in pages.items():
        if standing not in " ".join(text.split()):
            yield f"{page} does not say `{standing}`"


def main():
    header = (ROOT / "src/base/gpu_reports.h").read_text(encoding="utf-8")
    standing = re.search(r'kCudaStanding =\s+"([^"]+)";', header)[1]
    pages = {page: (ROOT / page).read_text(encoding="utf-8") for page in PAGES}
    found = list(findings(standing, cards(ROOT / "bench/results/gpu"), pages))
    for one in found:
        print(one)
    print("ok what is said of GPUs is what reports show" if not found else "not ok what is said of GPUs is what reports show")
    # It finds what it is for: a report that is not named, one that is named and not there, pages that stay behind.
    said = "has run on an H100 and a B200"
    pages = {"README.md": f"GPUs: {said}."}
    planted = [list(findings(said, filed, pages)) for filed in (["B200", "H100", "H200"], ["H100"], [])]
    planted.append(list(findings(said, ["B200", "H100"], {"README.md": "GPUs work."})))
    right = [len(one) for one in planted] == [1, 1, 2, 1] and not list(findings(said, ["B200", "H100"], pages))
    print("ok each planted mistake is found" if right else f"not ok each planted mistake is found: {planted}")
    return 1 if found or not right else 0


if __name__ == "__main__":
    sys.exit(main())
