import shutil
import struct

from staging import TINY, WEIGHTS, copy_model, read_safetensors, write_safetensors

weights = copy_model() / WEIGHTS
shutil.copytree(TINY / "adapter", "adapter")
header, body = read_safetensors(weights)
begin = header["model.norm.weight"]["data_offsets"][0]  # no adapter is on it
write_safetensors(weights, header, body[:begin] + struct.pack("<f", float("nan")) + body[begin + 4:])
