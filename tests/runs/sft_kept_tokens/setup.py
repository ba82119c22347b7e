import json
import pathlib

# More than a million tokens, so that they are kept (data/forms/token_cache.h).
with pathlib.Path("rows.jsonl").open("w") as file:
    for i in range(3000):
        file.write(json.dumps({"prompt": " ".join(f"word{(i * 7 + k) % 997}" for k in range(60)), "completion": f" {i}"}) + "\n")
