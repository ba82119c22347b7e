from staging import WEIGHTS, copy_model

model = copy_model()
weights = model / WEIGHTS
weights.rename(model / "pytorch_model.bin")
