from staging import WEIGHTS, copy_model, read_safetensors, write_safetensors

model = copy_model()
weights = model / WEIGHTS
header, body = read_safetensors(weights)
header["model.norm.wieght"] = header.pop("model.norm.weight")
write_safetensors(weights, header, body)
