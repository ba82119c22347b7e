import pathlib
import struct

from staging import gguf_string, tiny_gguf

tiny_gguf("whole.gguf")
raw = bytearray(pathlib.Path("whole.gguf").read_bytes())
shape = raw.index(gguf_string("token_embd.weight")) + 8 + len("token_embd.weight") + 4
struct.pack_into("<Q", raw, shape + 8, 1 << 40)  # its rows
pathlib.Path("lies.gguf").write_bytes(raw)
pathlib.Path("whole.gguf").unlink()
