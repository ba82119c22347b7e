from staging import WEIGHTS, copy_model

model = copy_model()
weights = model / WEIGHTS
weights.write_bytes(weights.read_bytes()[:-1000])
