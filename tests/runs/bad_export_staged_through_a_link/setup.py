"""A link by the very name that hone stages x.gguf under."""
import os
import pathlib

pathlib.Path("victim.txt").write_text("years of work\n", encoding="utf-8")
os.symlink("victim.txt", ".hone-partial.x.gguf")
