"""What get_train_dataloader() gives: rows, in the number of batches that TRL's would have. The program makes its own batches of them."""
import collections.abc
import math

from hone.errors import Refused
from hone.trl import machine
from hone.trl.rows import is_named


class Rows:
    """Lists of rows, in the data set's own order; len() counts batches, `dataset` has the rows."""

    def __init__(self, dataset, batch_size, drop_last=False, num_workers=0):
        self.dataset, self.batch_size, self.drop_last, self.num_workers = dataset, batch_size, drop_last, num_workers

    def __len__(self):
        rows = len(self.dataset) / machine.world_size() / self.batch_size
        return math.floor(rows) if self.drop_last else math.ceil(rows)

    def __iter__(self):
        batch = []
        for row in self.dataset:
            batch.append(row)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch


def loader(data, batch_size, drop_last, where, num_workers=0):
    if data is None:
        raise Refused(where, "a data set", "none", "pass it to the trainer")
    if is_named(data) or not isinstance(data, collections.abc.Iterable):
        raise Refused(where, "rows of this process", f"{data!r}", "the program reads the file; load it with datasets.load_dataset, and pass the rows")
    return Rows(data, batch_size, drop_last, num_workers if hasattr(data, "__len__") else 0)
