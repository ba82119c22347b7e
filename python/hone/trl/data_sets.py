"""train_dataset and eval_dataset of a trainer."""
from hone.trl.rows import raw_of


class Data:
    """train_dataset and eval_dataset of a trainer: `_train_rows` and `_eval_rows` are what the program reads."""
    _train_rows = _eval_rows = None

    def _shown(self, split, data):
        """Made once, and again where its rows or an option of theirs are others."""
        known = self.__dict__.setdefault("_prepared", {})
        key = (id(data), repr(self.args.settings()))
        if split not in known or known[split][0] != key:
            from hone.trl.prepared_rows import prepared  # which a run whose rows nobody looks at does not need
            known[split] = (key, prepared(data, self, split.partition(":")[0]))
        return known[split][1]

    @property
    def train_dataset(self):
        return self._shown("train", self._train_rows) if self._train_rows is not None else None

    @train_dataset.setter
    def train_dataset(self, data):
        self._train_rows = raw_of(data)

    @property
    def eval_dataset(self):
        if isinstance(self._eval_rows, dict):
            return {name: self._shown(f"eval:{name}", data) for name, data in self._eval_rows.items()}
        return self._shown("eval", self._eval_rows) if self._eval_rows is not None else None

    @eval_dataset.setter
    def eval_dataset(self, data):
        self._eval_rows = {name: raw_of(one) for name, one in data.items()} if isinstance(data, dict) else raw_of(data)
