#!/usr/bin/env python3
"""One version in every place, and tools/release refuses a tree that is not that version's."""
import re
import subprocess
import sys

sys.dont_write_bytecode = True
from scripts import ROOT, load, run_tests

sys.path.insert(0, str(ROOT / "tools"))
# Where the version stands beside CMakeLists.txt: the whole one, or only its major and minor number.
WHOLE = {"docs/python.md": r"hone_train-([0-9.]+)-py3"}
MINOR = {"docs/library.md": r"find_package\(hone ([0-9.]+) ", "examples/library/CMakeLists.txt": r"find_package\(hone ([0-9.]+) "}

release = load(ROOT / "tools" / "release")


def version_of(root):
    return re.search(r"project\(hone VERSION (\S+)", (root / "CMakeLists.txt").read_text(encoding="utf-8"))[1]


def test_one_version_everywhere(_):
    version = version_of(ROOT)
    assert release.newest((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))[0] == version, "CHANGELOG.md"
    for places, wanted in ((WHOLE, version), (MINOR, version.rsplit(".", 1)[0])):
        for name, pattern in places.items():
            found = re.findall(pattern, (ROOT / name).read_text(encoding="utf-8"))
            assert found and set(found) == {wanted}, (name, found, wanted)


def git(root, *words):
    identity = ("-c", "user.name=hone", "-c", "user.email=hone@example.com", "-c", "commit.gpgsign=false", "-c", "tag.gpgsign=false")
    return subprocess.run(["git", "-C", str(root), *identity, *words], check=True, capture_output=True, text=True).stdout.strip()


def planted(root, section="0.3.0 (2026-12-01)"):
    (root / "CHANGELOG.md").write_text(f"# Changelog\n\n## {section}\n\n- A change.\n\n## 0.2.0 (2026-11-29)\n")
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "one")


def test_release_takes_a_clean_commit(root):
    planted(root)
    assert release.refusal(root, "0.3.0") is None
    line = release.tag_line(root, "0.3.0")
    assert line == f"tag: git tag -a v0.3.0 -m 'hone 0.3.0' {git(root, 'rev-parse', '--short=8', 'HEAD')}", line
    git(root, "tag", "-a", "v0.3.0", "-m", "hone 0.3.0")
    assert release.refusal(root, "0.3.0") is None
    assert release.tag_line(root, "0.3.0") == "tag: v0.3.0 is on this commit"


def test_release_refuses_what_is_in_no_commit(root):
    assert "no git repository" in release.refusal(root, "0.3.0")
    planted(root)
    (root / "new.cpp").write_text("")
    assert "new.cpp is the first" in release.refusal(root, "0.3.0"), release.refusal(root, "0.3.0")
    (root / "new.cpp").unlink()
    (root / "CHANGELOG.md").write_text("other")
    assert "in 1 files (CHANGELOG.md" in release.refusal(root, "0.3.0"), release.refusal(root, "0.3.0")


def test_release_refuses_another_version(root):
    planted(root)
    assert "newest section of CHANGELOG.md is of 0.3.0" in release.refusal(root, "0.4.0")


def test_release_refuses_a_section_without_a_day(root):
    planted(root, "0.3.0 (unreleased)")
    assert "`0.3.0 (unreleased)`" in release.refusal(root, "0.3.0")


def test_release_refuses_a_newer_section_without_parentheses(root):
    planted(root, "0.3.0")
    assert "newest section of CHANGELOG.md is of 0.3.0" in release.refusal(root, "0.2.0")
    assert "`0.3.0 (no day)`" in release.refusal(root, "0.3.0")


def test_release_refuses_a_tag_elsewhere(root):
    planted(root)
    first = git(root, "rev-parse", "--short=8", "HEAD")
    git(root, "tag", "v0.3.0")
    git(root, "commit", "-q", "--allow-empty", "-m", "two")
    assert f"the tag v0.3.0 is on {first}" in release.refusal(root, "0.3.0"), release.refusal(root, "0.3.0")


def test_release_refuses_the_tag_of_another_version_here(root):
    planted(root)
    git(root, "tag", "v0.2.9")
    assert "has the tag v0.2.9" in release.refusal(root, "0.3.0"), release.refusal(root, "0.3.0")


if __name__ == "__main__":
    run_tests(globals())
