"""Adult as released: each file scaled by its own extremes, two clients by workclass."""

import numpy as np

from fedfb.data.datasets.adult import COLUMNS
from fedfb.data.datasets.fetch import path_of
from fedfb.data.read import Cells, read_cells
from fedfb.released.rows import ReleasedData, Rows, min_max, one_hot, with_group
from fedfb.shapes import Array, Int

NUMBERS = (
    *("age", "fnlwgt", "education-num"),
    *("capital-gain", "capital-loss", "hours-per-week"),
)
CATEGORIES = (
    *("workclass", "education", "marital-status", "occupation"),
    *("relationship", "race", "native-country"),
)
SPLIT_SEED = 1


def load_adult() -> ReleasedData:
    """Load the publisher's files; a missing cell is a category of its own."""
    train = read_cells(path_of("adult.data"), ",", header=COLUMNS)
    test = read_cells(path_of("adult.test"), ",", header=COLUMNS, skip=1)
    values = {name: sorted(set(train.columns[name])) for name in CATEGORIES}
    rows = _rows(train, values)
    private = np.array([cell == "Private" for cell in train.columns["workclass"]])
    clients = tuple(rows.take(numbers) for numbers in _clients(private))
    return ReleasedData("adult", 2, clients, _rows(test, values))


def _rows(cells: Cells, values: dict[str, list[str]]) -> Rows:
    numbers = [min_max(np.array(cells.columns[name], float)) for name in NUMBERS]
    categories = [one_hot(cells.columns[name], values[name]) for name in CATEGORIES]
    y = np.array([cell.startswith(">50K") for cell in cells.columns["income"]])
    group = np.array([cell == "Male" for cell in cells.columns["sex"]])
    return with_group(np.column_stack([*numbers, *categories]), y, group)


def _clients(private: Int[Array, " n"]) -> tuple[Int[Array, " m"], Int[Array, " k"]]:
    """Deal 80 % of the private sector and 20 % of the others, drawn in turn, to the first client.

    The first client's rows stand as they were drawn, the second's in the order of the file.
    """
    rng = np.random.RandomState(SPLIT_SEED)
    drawn = [
        rng.permutation(numbers)[: int(share * len(numbers))]
        for numbers, share in ((np.flatnonzero(private), 0.8), (np.flatnonzero(~private), 0.2))
    ]
    first = np.concatenate(drawn)
    return first, np.setdiff1d(np.arange(len(private)), first)
