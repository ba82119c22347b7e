from staging import *

model = copy_model()
weights = model / WEIGHTS
weights.rename(model / "pytorch_model.bin")
