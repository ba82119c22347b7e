"""What scripts of the test use of the package `datasets`, where that is not installed."""
import json


class Dataset:
    def __init__(self, rows):
        self.rows = rows
        self.column_names = list(rows[0]) if rows else []

    @classmethod
    def from_list(cls, rows):
        return cls([dict(row) for row in rows])

    def __len__(self):
        return len(self.rows)

    def __iter__(self):
        return iter(self.rows)

    def __getitem__(self, at):
        return self.rows[at] if isinstance(at, int) else [row[at] for row in self.rows]

    def map(self, function, batched=False, remove_columns=(), **_):
        if batched:
            made = function({name: self[name] for name in self.column_names})
            rows = [{**row, **{name: values[at] for name, values in made.items()}} for at, row in enumerate(self.rows)]
        else:
            rows = [{**row, **function(dict(row))} for row in self.rows]
        return Dataset([{name: value for name, value in row.items() if name not in remove_columns} for row in rows])

    def filter(self, function, **_):
        return Dataset([row for row in self.rows if function(row)])


def load_dataset(kind, data_files=None, split=None):
    with open(data_files, encoding="utf-8") as file:
        return Dataset([json.loads(line) for line in file])
