import pathlib

from staging import tiny_gguf

tiny_gguf("whole.gguf")
pathlib.Path("short.gguf").write_bytes(pathlib.Path("whole.gguf").read_bytes()[:-2000])
pathlib.Path("whole.gguf").unlink()
