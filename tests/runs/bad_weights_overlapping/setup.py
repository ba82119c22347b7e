from staging import WEIGHTS, copy_model, read_safetensors, write_safetensors

model = copy_model()
weights = model / WEIGHTS
header, body = read_safetensors(weights)
first, second = [t for name, t in header.items() if name.endswith("layernorm.weight")][:2]
second["data_offsets"] = [offset - 4 for offset in first["data_offsets"]]
write_safetensors(weights, header, body)
