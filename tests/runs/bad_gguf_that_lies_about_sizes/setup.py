import pathlib
import struct

from staging import SOURCE

raw = bytearray((SOURCE / "tests" / "fixtures" / "gguf" / "tiny.gguf").read_bytes())
struct.pack_into("<Q", raw, 8, 1 << 60)  # the number of tensors
pathlib.Path("lies.gguf").write_bytes(raw)
