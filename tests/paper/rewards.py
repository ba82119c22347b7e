"""Rewards of completions that are all the same. None is the mean of its group, which would leave it out of the pass."""


def by_place(completions, **_columns):
    return [float(place) for place in range(len(completions))]
