"""FairFed's setting as released: five clients, rows drawn with replacement, Adult's wrong races.

On Adult the code takes race by its number and means 1 to be White and 0 all others: it trains and
compares Asian-Pac-Islander and Amer-Indian-Eskimo, 1,350 rows, and tests on rows of all races. How
many rows a client has is known; which, and COMPAS's shares, are drawn here, from seeds of our own.
"""

import numpy as np

from fedfb.data.datasets.adult import COLUMNS
from fedfb.data.datasets.fetch import path_of
from fedfb.data.read import Cells, read_cells
from fedfb.released import adult, compas
from fedfb.released.rows import ReleasedData, Rows, min_max, one_hot, with_group
from fedfb.shapes import Array, Int

ALPHAS = {"0_1": 0.1, "0_2": 0.2, "0_5": 0.5, "10": 10.0, "5000": 5000.0}

CLIENTS = 5
FEWEST = 100
"""No client has fewer rows."""

ADULT_SIZES = {
    "0_1": (884, 29967, 492, 435, 4399),
    "0_2": (100, 100, 1315, 210, 100),
    "0_5": (583, 1016, 106, 1305, 1234),
    "10": (5090, 6571, 8239, 6449, 9828),
    "5000": (667, 684, 673, 677, 674),
}


def load_adult_by_race(alpha: str) -> ReleasedData:
    """Load Adult as the code splits it for one parameter of the Dirichlet distribution."""
    train = read_cells(path_of("adult.data"), ",", header=COLUMNS)
    test = read_cells(path_of("adult.test"), ",", header=COLUMNS, skip=1)
    categories = [*(name for name in adult.CATEGORIES if name != "race"), "sex"]
    values = {name: sorted(set(train.columns[name])) for name in [*categories, "race"]}
    rows = _adult_rows(train, values)
    rng = np.random.RandomState(0)
    compared = np.flatnonzero(rows.group < 2)
    # A client has the same share of both groups: one number of a drawn pair serves them.
    clients = tuple(rows.take(rng.choice(compared, size)) for size in ADULT_SIZES[alpha])
    return ReleasedData(f"adult-{alpha}", 2, clients, _adult_rows(test, values))


def _adult_rows(cells: Cells, values: dict[str, list[str]]) -> Rows:
    numbers = [min_max(np.array(cells.columns[name], float)) for name in adult.NUMBERS]
    categories = [
        one_hot(cells.columns[name], own) for name, own in values.items() if name != "race"
    ]
    y = np.array([cell.startswith(">50K") for cell in cells.columns["income"]])
    race = np.array([values["race"].index(cell) for cell in cells.columns["race"]])
    return with_group(np.column_stack([*numbers, *categories]), y, race)


def load_compas_by_sex(alpha: str) -> ReleasedData:
    """Load COMPAS: every client draws its own shares of men and of women, who then overlap."""
    rows, race = compas.read_rows(("sex", "race"))
    features = np.column_stack([rows.x[:, :-1], one_hot(race["race"], sorted(set(race["race"])))])
    female = np.array([cell == "Female" for cell in race["sex"]], int)
    everyone = with_group(features, rows.y, 1 - female)
    cut = int(0.7 * len(female))
    train, test = everyone.take(slice(cut)), everyone.take(slice(cut, None))
    rng = np.random.RandomState(0)
    shares = rng.dirichlet([ALPHAS[alpha]] * 2, size=CLIENTS)
    clients = tuple(train.take(_drawn(train.group, share, rng)) for share in shares)
    return ReleasedData(f"compas-{alpha}", 2, clients, test)


def _drawn(group: Int[Array, " n"], share: Array, rng: np.random.RandomState) -> Int[Array, " m"]:
    """Draw a client's rows with replacement: a share of the men and one of the women."""
    parts = []
    for number, part in zip((1, 0), share, strict=True):
        rows = np.flatnonzero(group == number)
        parts.append(rng.choice(rows, max(int(part * len(rows)), FEWEST)))
    return rng.permutation(np.concatenate(parts))
