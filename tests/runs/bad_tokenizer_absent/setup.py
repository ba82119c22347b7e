from staging import *

model = copy_model()
(model / "tokenizer.json").unlink()
