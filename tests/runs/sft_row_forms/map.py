def row(row):
    return row if row["output"] else None
