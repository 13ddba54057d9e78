"""Bank Marketing as released: shuffled once, scaled before the split, three clients by loan."""

import numpy as np

from fedfb.data.datasets.bank import AGE_GROUPS
from fedfb.data.datasets.fetch import path_of
from fedfb.data.read import read_cells
from fedfb.released.rows import ReleasedData, in_shares, min_max, one_hot, with_group

NUMBERS = ("balance", "duration", "campaign", "pdays", "previous")
CATEGORIES = (
    *("job", "marital", "education", "default"),
    *("housing", "loan", "contact", "poutcome"),
)
SHARES = {"yes": (0.2, 0.6, 0.2), "no": (0.5, 0.1, 0.4)}
"""Each client's share of the rows with a loan, which stand first, and without."""
SPLIT_SEED = 1


def load_bank() -> ReleasedData:
    """Load the file; groups are fifths by age, numbered from the youngest."""
    cells = read_cells(path_of("bank-full.csv"), ";").columns
    numbers = [min_max(np.array(cells[name], float)) for name in NUMBERS]
    categories = [one_hot(cells[name], sorted(set(cells[name]))) for name in CATEGORIES]
    y = np.array([cell == "yes" for cell in cells["y"]])
    group = np.searchsorted(AGE_GROUPS.edges, np.array(cells["age"], float))
    order = np.random.RandomState(SPLIT_SEED).permutation(len(y))
    rows = with_group(np.column_stack([*numbers, *categories]), y, group).take(order)
    loan = np.array(cells["loan"], object)[order]
    cut = int(0.7 * len(y))
    parts = [
        in_shares(np.flatnonzero(loan[:cut] == answer), shares) for answer, shares in SHARES.items()
    ]
    clients = tuple(rows.take(np.concatenate(dealt)) for dealt in zip(*parts, strict=True))
    return ReleasedData("bank", 5, clients, rows.take(slice(cut, None)))
