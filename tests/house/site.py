#!/usr/bin/env python3
"""The pages as a site (tools/site): it is built without a warning, no link is dead, and the check finds those that are. ./test --slow runs it."""
import pathlib
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from scripts import ROOT, load



def planted(site, folder):
    """What the check says of pages with a dead file, a dead heading, and a script of another server."""
    (folder / "one").mkdir(parents=True)
    (folder / "one/index.html").write_text('<h1 id="here">1</h1><a href="#here">a</a> <a href="../two.html">b</a> <a href="#there">c</a>'
                                           '<script src="https://example.org/x.js"></script>', encoding="utf-8")
    followed, found = site.dead(folder)
    return followed == 3 and [line.split(": ", 1)[1] for line in found] == [
        "../two.html leads to no file", "#there leads to no heading", "loads https://example.org/x.js"]


def headers_without_page(site):
    """Headers of the library whose page is not there, lacks their first sentence, or has no link from the page of the library."""
    library, found = (site / "docs/library/index.html").read_text(encoding="utf-8"), []
    for header in sorted(ROOT.glob("include/hone/*.h")):
        page = site / f"api/{header.stem}_8h.html"
        first = re.match(r"// ([\w ]+)", header.read_text(encoding="utf-8"))[1]
        if not page.is_file() or first not in page.read_text(encoding="utf-8") or f'api/{page.name}"' not in library:
            found.append(header.name)
    return found


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        if planted(load(ROOT / "tools/site"), folder / "planted"):
            print("ok the check of a site's links finds dead ones")
        else:
            failed = 1
            print("not ok the check of a site's links finds dead ones")
        ended = subprocess.run([str(ROOT / "tools/site"), "--out", str(folder / "site")], capture_output=True, encoding="utf-8")
        if ended.returncode and "pip could not install" in ended.stderr:
            print("skip the pages as a site: PyPI does not answer")
        elif ended.returncode and "doxygen" in ended.stderr and "is missing" in ended.stderr:
            print("skip the pages as a site: doxygen is not installed")
        elif ended.returncode or not (folder / "site/docs/symptoms/loss-is-0/index.html").is_file():
            failed = 1
            print("not ok the pages as a site have no dead link, and mkdocs and doxygen warn of nothing\n" + ended.stdout + ended.stderr)
        elif headers_without_page(folder / "site"):
            failed = 1
            print(f"not ok the headers have pages: {', '.join(headers_without_page(folder / 'site'))} not, or not from docs/library.md")
        else:
            print("ok the pages as a site have no dead link, and mkdocs and doxygen warn of nothing")
    sys.exit(failed)


main()
