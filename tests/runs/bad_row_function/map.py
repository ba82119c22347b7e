def row(row):
    return {"text": row["input"] + row["missing"]}
