from staging import WEIGHTS, copy_model, edit_json, read_safetensors, write_safetensors

model = copy_model()
edit_json(model / "config.json", intermediate_size=128)
header, body = read_safetensors(model / WEIGHTS)
grown, data = {}, b""
for name, entry in header.items():
    if name == "__metadata__":
        continue
    raw, shape = body[slice(*entry["data_offsets"])], entry["shape"]
    if ".mlp." in name:
        raw, shape = b"\0" * (4 * 128 * 64), [128 if n == 96 else n for n in shape]
    grown[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
    data += raw
write_safetensors(model / WEIGHTS, grown, data)
