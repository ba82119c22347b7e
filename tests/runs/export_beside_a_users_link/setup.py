"""A link by the name that hone once staged x.gguf under."""
import os
import pathlib

pathlib.Path("victim.txt").write_text("years of work\n", encoding="utf-8")
os.symlink("victim.txt", "x.gguf.partial")
