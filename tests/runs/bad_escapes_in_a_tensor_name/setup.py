from staging import WEIGHTS, copy_model, read_safetensors, write_safetensors

weights = copy_model() / WEIGHTS
header, body = read_safetensors(weights)
names = [name for name in header if name != "__metadata__"]
header["\x1b[2J\u009b31m\u202e"] = {**header.pop(names[0]), "dtype": "F\x1b[2J"}
write_safetensors(weights, header, body)
