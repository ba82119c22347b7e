import json

row = {"\x1b[2J\u009b31m\u202ecolumn": "value"}
open("rows.jsonl", "w", encoding="utf-8").write("".join(json.dumps(row, ensure_ascii=False) + "\n" for _ in range(4)))
