#!/usr/bin/env python3
"""The operators of tests/standin/operators.txt are implemented on CUDA by the pinned libtorch.

The wheel brings native_functions.yaml (torchgen), from which libtorch's registrations are generated for every device, also
those that this wheel has no code for. An operator runs on CUDA when its `dispatch` names CUDA, when it is composed of others
(no `dispatch`, or Composite...), or when it delegates to a structured one that does.

  operators_test.py            prints `ok NAME` or `not ok NAME`
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LIST = ROOT / "tests" / "standin" / "operators.txt"
TABLE = ROOT / "third_party" / "site" / "torchgen" / "packaged" / "ATen" / "native" / "native_functions.yaml"


def read_table(text):
    """name -> (dispatch keys, structured_delegate), of the simple YAML that the file is."""
    out = {}
    for entry in re.split(r"(?m)^- func: ", text)[1:]:
        name = entry.split("(")[0].strip()
        delegate = re.search(r"(?m)^  structured_delegate: (\S+)", entry)
        dispatch = re.search(r"(?m)^  dispatch:\n((?:    .*\n?)+)", entry)
        keys = {key.strip() for line in re.findall(r"(?m)^    ([\w, ]+):", dispatch.group(1) if dispatch else "") for key in line.split(",")}
        if re.search(r"(?m)^  ufunc_inner_loop:", entry):  # its kernels are generated for both
            keys |= {"CPU", "CUDA"}
        out[name] = (keys, delegate.group(1) if delegate else "")
        if autogen := re.search(r"(?m)^  autogen: (.*)", entry):  # made of the operator itself, for every device
            out |= {made.strip(): (keys, "") for made in autogen.group(1).split(",")}
    return out


def runs_on_cuda(table, name):
    keys, delegate = table[name]
    if delegate:
        return runs_on_cuda(table, delegate)
    return not keys or "CUDA" in keys or any(key.startswith("Composite") for key in keys)


def main():
    names = LIST.read_text(encoding="utf-8").split()
    table = read_table(TABLE.read_text(encoding="utf-8"))
    bare = [name.removeprefix("aten::") for name in names]
    wrong = [f"{name}: not in native_functions.yaml" for name in bare if name not in table]
    wrong += [f"{name}: not implemented on CUDA" for name in bare if name in table and not runs_on_cuda(table, name)]
    if names != sorted(set(names)):
        wrong.append(f"{LIST.name} is not sorted, or has a name twice")
    # The check can fail: libtorch has operators for the CPU only.
    if not names or runs_on_cuda(table, "mkldnn_linear"):
        wrong.append("the check itself: mkldnn_linear is for the CPU only")
    print(*(f"# {one}" for one in wrong), sep="\n", end="\n" if wrong else "")
    print(f"{'not ok' if wrong else 'ok'} operators_of_the_standin_run_on_cuda ({len(names)} operators)")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
