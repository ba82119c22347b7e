#!/usr/bin/env python3
"""What the program and the pages say of GPUs is what the reports in bench/results/gpu show: src/base/gpu_reports.h counts them.

Usage: tests/house/gpu_reports_test.py
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
STANDING = "experimental: has not run on a GPU yet"
PAGES = ("README.md", "docs/limits.md", "docs/options.md")


def reports(folder):
    """Files of it that are not the page about it."""
    return sorted(one.name for one in folder.iterdir() if one.name != "README.md") if folder.is_dir() else []


def findings(counted, filed, pages):
    """What does not fit: `counted` in the header, names of reports, {page: text}."""
    if counted != len(filed):
        yield f"src/base/gpu_reports.h counts {counted} reports, bench/results/gpu has {len(filed)}: {', '.join(filed) or 'none'}"
    for page, text in pages.items():
        says = STANDING in " ".join(text.split())
        if says != (not filed):
            yield f"{page} {'says' if says else 'does not say'} `{STANDING}`, with {len(filed)} reports"


def main():
    header = (ROOT / "src/base/gpu_reports.h").read_text(encoding="utf-8")
    counted = int(re.search(r"kGpuReports = (\d+);", header)[1])
    pages = {page: (ROOT / page).read_text(encoding="utf-8") for page in PAGES}
    found = list(findings(counted, reports(ROOT / "bench/results/gpu"), pages))
    if STANDING not in header:
        found.append("src/base/gpu_reports.h has other words than the pages")
    for one in found:
        print(one)
    print("ok what is said of GPUs is what reports show" if not found else "not ok what is said of GPUs is what reports show")
    # It finds what it is for: a report that is not counted, one that is counted and not there, pages that stay behind.
    bare = {"README.md": STANDING}
    planted = [list(findings(0, ["h100.jsonl"], bare)), list(findings(1, [], bare)), list(findings(0, [], {"README.md": "GPUs work."}))]
    right = [len(one) for one in planted] == [2, 1, 1] and not list(findings(1, ["h100.jsonl"], {"README.md": "GPUs work."}))
    print("ok each planted mistake is found" if right else f"not ok each planted mistake is found: {planted}")
    return 1 if found or not right else 0


if __name__ == "__main__":
    sys.exit(main())
