#!/usr/bin/env python3
"""Every operator of src/ops/backend/operators.h has a case in src/ops/cases, and every case names one of them.

  cases_test.py            prints `ok NAME` or `not ok NAME`
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TABLE = ROOT / "src" / "ops" / "backend" / "operators.h"
ROWS = ROOT / "src" / "ops" / "cases" / "without.cpp"
CASES = ROOT / "src" / "ops" / "cases"


def operators_in(header):
    """Functions of struct Operators that say whether they computed something. Those that only count bytes have no numbers."""
    body = re.search(r"(?ms)^struct Operators \{\n(.*?)^\};", header).group(1)
    body = re.sub(r"(?m)//.*$", "", body)
    return {name for name in re.findall(r"\bbool \(\*(\w+)\)\(", body) if not name.endswith("_bytes")}


def operators_of_cases(text):
    """`.op = "name"`, or the first argument of a function that makes cases of several operators."""
    return set(re.findall(r'\.op = "(\w+)"', text)) | set(re.findall(r'\b(?:made|sum_of)\("(\w+)", ', text))


def compare(operators, cases):
    wrong = [f"{name}: no case in {CASES.relative_to(ROOT)}" for name in sorted(operators - cases)]
    return wrong + [f"{name}: a case of no operator" for name in sorted(cases - operators)]


def rows_listed(text):
    """The list by name (ops/cases/without.h): each is the function that it says."""
    pairs = re.findall(r'row<&Operators::(\w+)>\("(\w+)"\)', text)
    return {function for function, name in pairs if function == name}


def main():
    header = TABLE.read_text(encoding="utf-8")
    text = "".join(path.read_text(encoding="utf-8") for path in sorted(CASES.glob("*.cpp")))
    operators = operators_in(header)
    wrong = compare(operators, operators_of_cases(text))
    rows = ROWS.read_text(encoding="utf-8")
    wrong += [f"{name}: not in {ROWS.relative_to(ROOT)}" for name in sorted(operators ^ rows_listed(rows))]
    if rows_listed(rows.replace('("swiglu")', '("soft_cap")')) == operators:
        wrong.append("the check itself: a row has the name of its function")
    # The check can fail: an operator that is new has no case, and a case of one that is gone is seen too.
    new = header.replace("\n};", "\n  bool (*softplus)(const Tensor& out) = nullptr;\n};", 1)
    left = compare(operators_in(new), operators_of_cases(text))
    gone = compare(operators_in(header.replace("(*swiglu)(", "(*swish)(")), operators_of_cases(text))
    if len(operators) < 20 or not any(one.startswith("softplus: no case") for one in left):
        wrong.append("the check itself: a new operator needs a case")
    if not any(one.startswith("swiglu: a case of no operator") for one in gone):
        wrong.append("the check itself: a case needs an operator")
    print(*(f"# {one}" for one in wrong), sep="\n", end="\n" if wrong else "")
    print(f"{'not ok' if wrong else 'ok'} every_operator_has_cases ({len(operators)} operators)")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
