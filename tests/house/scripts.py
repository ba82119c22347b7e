"""What tests of scripts share: a script of tools/ as a module, and test functions that each get an empty folder."""
import importlib.machinery
import importlib.util
import os
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def load(path):
    loader = importlib.machinery.SourceFileLoader(path.stem, str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(path.stem, loader))
    loader.exec_module(module)
    return module


def run_tests(names):
    """Every test_* of `names` (globals()), each an `ok` or `not ok` line; then the process ends."""
    failed = False
    for name, test in [(n, f) for n, f in names.items() if n.startswith("test_")]:
        with tempfile.TemporaryDirectory() as folder:
            os.environ["GIT_CEILING_DIRECTORIES"] = os.path.dirname(folder)  # a repository around it is another's
            try:
                test(pathlib.Path(folder))
                print(f"ok {name[5:]}")
            except Exception as error:  # a test that raises has failed, whatever it raised
                if getattr(error, "filename", "") == "git" and not (ROOT / ".git").exists():
                    print(f"skip {name[5:]}: there is no git here")
                    continue
                failed = True
                print(f"not ok {name[5:]}\n  {type(error).__name__}: {error}")
    sys.exit(1 if failed else 0)
