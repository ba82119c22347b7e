"""Folders of the user's own, by names that hone once staged under."""
import pathlib

for name in ("mine.partial", "mine.hone-old"):
    pathlib.Path(name).mkdir()
    (pathlib.Path(name) / "thesis.txt").write_text("years of work\n", encoding="utf-8")
