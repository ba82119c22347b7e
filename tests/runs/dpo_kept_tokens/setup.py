import json
import pathlib

# More than a million tokens, so that they are kept (data/pair_cache.h).
with pathlib.Path("pairs.jsonl").open("w") as file:
    for i in range(2000):
        row = {"prompt": " ".join(f"word{(i * 7 + k) % 997}" for k in range(60)), "chosen": f" {i}", "rejected": f" not {i}"}
        file.write(json.dumps(row) + "\n")
