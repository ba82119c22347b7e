import pathlib

# The first 256 rows are read before step 1.
rows = ['{"text": "row %d"}\n' % i for i in range(1500)]
rows[1299] = '{"text": 7}\n'
pathlib.Path("rows.jsonl").write_text("".join(rows))
