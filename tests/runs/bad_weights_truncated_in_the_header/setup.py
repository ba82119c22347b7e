from staging import *

model = copy_model()
weights = model / WEIGHTS
weights.write_bytes(weights.read_bytes()[:100])
