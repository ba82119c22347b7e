import pathlib

pathlib.Path("train.jsonl").write_bytes(b'{"text": "good"}\n{"text": "caf\xe9"}\n')
