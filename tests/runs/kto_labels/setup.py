"""Rows of both kinds, out of balance, and rows of one kind."""
import json

row = {"prompt": "What is it?", "completion": " It is a test."}
with open("one.jsonl", "w", encoding="utf-8") as out:
    for i in range(8):
        out.write(json.dumps({**row, "prompt": f"What is {i}?", "label": True}) + "\n")
with open("both.jsonl", "w", encoding="utf-8") as out:
    for i in range(8):
        out.write(json.dumps({**row, "prompt": f"What is {i}?", "label": i > 0}) + "\n")
