"""The data sets of the paper's tables, prepared, split and drawn as the released code does it.

Every data set is a ``ReleasedData``: clients, each with its last tenth for validation, and test
rows.

- Adult: each file is scaled by its own extremes; two clients by workclass.
- Bank: shuffled once, scaled before the split; three clients by loan.
- COMPAS: rows in the order of the file, scaled before the split; two clients by age.
- FairFed's setting (``adult-*``, ``compas-*``): five clients, rows drawn with replacement. On
  Adult the code takes race by its number and assumes that 1 is White and 0 all others. It so
  trains and compares Asian-Pac-Islander and Amer-Indian-Eskimo, 1,350 rows, and tests on rows of
  all races. The number of rows of a client is known; the rows, and COMPAS's shares, are drawn here
  from our own seeds.
- Synthetic: numpy's legacy generator, row by row, seed 123.
"""

import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from fedfb.data.datasets.adult import COLUMNS
from fedfb.data.datasets.bank import AGE_GROUPS
from fedfb.data.datasets.fetch import path_of
from fedfb.data.datasets.synthetic import COVARIANCES, MEANS
from fedfb.errors import ConfigError, unknown_name
from fedfb.shapes import Array, Float, Int
from fedfb.tables.csv_file import read_cells
from fedfb.tables.dialect import PLAIN
from fedfb.tables.table import Table, Words


class ReleasedRows(NamedTuple):
    """Features (the last one is the group's number), labels, groups."""

    x: Float[Array, "n d"]
    y: Int[Array, " n"]
    group: Int[Array, " n"]

    def take(self, rows: Int[Array, " m"] | slice) -> "ReleasedRows":
        """Return the given rows, in the given order."""
        return ReleasedRows(self.x[rows], self.y[rows], self.group[rows])


class ReleasedData(NamedTuple):
    """A data set of the paper as its released code makes it."""

    name: str
    groups: int
    clients: tuple[ReleasedRows, ...]
    test: ReleasedRows


def with_group(
    x: Float[Array, "n d"], y: Int[Array, " n"], group: Int[Array, " n"]
) -> ReleasedRows:
    """Return rows whose last feature is the group's number: the released classifiers see it.

    Features are rounded to float32, as they are before they enter torch's layers.

    Args:
        x: features.
        y: labels, 0 or 1.
        group: number of each row's group.
    """
    features = np.column_stack([x, group]).astype(np.float32)
    return ReleasedRows(features.astype(np.float64), y.astype(int), group.astype(int))


def hold_out_last_tenth(rows: ReleasedRows) -> tuple[ReleasedRows, ReleasedRows]:
    """Return the first nine tenths of a client's rows to train on, the rest to validate."""
    cut = int(0.9 * len(rows.y))
    return rows.take(slice(cut)), rows.take(slice(cut, None))


def pool_clients(parts: tuple[ReleasedRows, ...]) -> ReleasedRows:
    """Return the rows of all clients, one after another."""
    return ReleasedRows(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def count_cells(rows: ReleasedRows, groups: int) -> Float[Array, "2 a"]:
    """Return the number of rows by label and group."""
    cell = rows.y * groups + rows.group
    return np.bincount(cell, minlength=2 * groups).reshape(2, groups).astype(np.float64)


def cut_by_shares(rows: Int[Array, " n"], shares: tuple[float, ...]) -> list[Int[Array, " m"]]:
    """Cut rows, in their order, at the rounded-down sums of shares; the last part takes the rest.

    Args:
        rows: numbers of rows.
        shares: of each part; they sum to 1, or to more by the slip of the pen in ``SPLITS``.

    >>> [part.tolist() for part in cut_by_shares(np.arange(7), (0.5, 0.3, 0.2))]
    [[0, 1, 2], [3, 4], [5, 6]]
    """
    ends = np.cumsum(shares)[:-1]
    return np.split(rows, [min(int(end * len(rows)), len(rows)) for end in ends])


def scale_min_max(values: Float[Array, " n"]) -> Float[Array, " n"]:
    """Return values scaled to 0..1 by their own extremes, whichever file or split they are of."""
    return (values - values.min()) / (values.max() - values.min())


def one_hot(cells: Iterable[str], categories: list[str]) -> Float[Array, "n c"]:
    """Return one column for each category; a cell of no category is all zero.

    Args:
        cells: the column.
        categories: in the order of the result's columns.

    >>> one_hot(["b", "c"], ["a", "b"])
    array([[0., 1.],
           [0., 0.]])
    """
    place = {category: number for number, category in enumerate(categories)}
    numbers = np.array([place.get(cell, -1) for cell in cells])
    return (numbers[:, None] == np.arange(len(categories))).astype(np.float64)


ADULT_NUMBERS = (
    *("age", "fnlwgt", "education-num"),
    *("capital-gain", "capital-loss", "hours-per-week"),
)
ADULT_CATEGORIES = (
    *("workclass", "education", "marital-status", "occupation"),
    *("relationship", "race", "native-country"),
)
ADULT_SPLIT_SEED = 1


def _load_adult() -> ReleasedData:
    """Load the published files; a missing cell is a category of its own."""
    train = read_cells(path_of("adult.data"), PLAIN, header=COLUMNS).as_text()
    test = read_cells(path_of("adult.test"), PLAIN, header=COLUMNS, skip=1).as_text()
    values = {name: sorted(train.text(name).counts()) for name in ADULT_CATEGORIES}
    rows = _adult_rows_by_sex(train, values)
    private = train.text("workclass") == "Private"
    clients = tuple(rows.take(numbers) for numbers in _clients(private))
    return ReleasedData("adult", 2, clients, _adult_rows_by_sex(test, values))


def _adult_rows_by_sex(cells: Table, values: dict[str, list[str]]) -> ReleasedRows:
    numbers = [scale_min_max(cells.numbers(name)) for name in ADULT_NUMBERS]
    categories = [one_hot(cells.text(name), values[name]) for name in ADULT_CATEGORIES]
    y = np.array([cell.startswith(">50K") for cell in cells.text("income")])
    group = cells.text("sex") == "Male"
    return with_group(np.column_stack([*numbers, *categories]), y, group)


def _clients(private: Int[Array, " n"]) -> tuple[Int[Array, " m"], Int[Array, " k"]]:
    """Deal 80 % of the private sector and 20 % of the others, drawn in turn, to the first client.

    The first client's rows stand as they were drawn, the second's in the order of the file.
    """
    rng = np.random.RandomState(ADULT_SPLIT_SEED)
    drawn = [
        rng.permutation(numbers)[: int(share * len(numbers))]
        for numbers, share in ((np.flatnonzero(private), 0.8), (np.flatnonzero(~private), 0.2))
    ]
    first = np.concatenate(drawn)
    return first, np.setdiff1d(np.arange(len(private)), first)


BANK_NUMBERS = ("balance", "duration", "campaign", "pdays", "previous")
BANK_CATEGORIES = (
    *("job", "marital", "education", "default"),
    *("housing", "loan", "contact", "poutcome"),
)
_SHARES = {"yes": (0.2, 0.6, 0.2), "no": (0.5, 0.1, 0.4)}
"""Each client's share of the rows with a loan, which stand first, and without."""
BANK_SPLIT_SEED = 1


def _load_bank() -> ReleasedData:
    """Load the file; groups are fifths by age, numbered from the youngest."""
    cells = read_cells(path_of("bank-full.csv"), replace(PLAIN, separator=";")).as_text()
    numbers = [scale_min_max(cells.numbers(name)) for name in BANK_NUMBERS]
    categories = [
        one_hot(cells.text(name), sorted(cells.text(name).counts())) for name in BANK_CATEGORIES
    ]
    y = cells.text("y") == "yes"
    group = np.searchsorted(AGE_GROUPS.edges, cells.numbers("age"))
    order = np.random.RandomState(BANK_SPLIT_SEED).permutation(len(y))
    rows = with_group(np.column_stack([*numbers, *categories]), y, group).take(order)
    loan = cells.text("loan")[order]
    cut = int(0.7 * len(y))
    parts = [
        cut_by_shares(np.flatnonzero(loan[:cut] == answer), shares)
        for answer, shares in _SHARES.items()
    ]
    clients = tuple(rows.take(np.concatenate(dealt)) for dealt in zip(*parts, strict=True))
    return ReleasedData("bank", 5, clients, rows.take(slice(cut, None)))


COMPAS_NUMBERS = ("age", "juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count")
COMPAS_CATEGORIES = ("age_cat", "c_charge_degree", "c_charge_desc")
OLDER = 0.1
"""The scaled age above which a row is the first client's."""


def _load_compas() -> ReleasedData:
    """Load the file; the first 70 % of its rows are for training."""
    rows, _ = read_compas_rows()
    cut = int(0.7 * len(rows.y))
    train, test = rows.take(slice(cut)), rows.take(slice(cut, None))
    older = train.x[:, 0] > OLDER
    clients = (train.take(np.flatnonzero(older)), train.take(np.flatnonzero(~older)))
    return ReleasedData("compas", 4, clients, test)


def read_compas_rows(also: tuple[str, ...] = ()) -> tuple[ReleasedRows, dict[str, Words]]:
    """Return all rows of COMPAS, and some columns as they are in the file.

    Label 1 is no new charge; the group is 2 * female + African-American.
    """
    cells = read_cells(
        path_of("compas-scores-two-years.csv"),
        PLAIN,
        only=("sex", "race", *COMPAS_NUMBERS, *COMPAS_CATEGORIES, "two_year_recid"),
    ).as_text()
    numbers = [scale_min_max(cells.numbers(name)) for name in COMPAS_NUMBERS]
    # A missing cell is no category here: its row is all zero.
    values = {name: sorted(cells.text(name).counts().keys() - {""}) for name in COMPAS_CATEGORIES}
    categories = [one_hot(cells.text(name), values[name]) for name in COMPAS_CATEGORIES]
    female = (cells.text("sex") == "Female").astype(int)
    african_american = (cells.text("race") == "African-American").astype(int)
    y = cells.text("two_year_recid") == "0"
    rows = with_group(np.column_stack([*numbers, *categories]), y, 2 * female + african_american)
    return rows, {name: cells.text(name) for name in also}


ALPHAS = {"0_1": 0.1, "0_2": 0.2, "0_5": 0.5, "10": 10.0, "5000": 5000.0}

CLIENTS = 5
_FEWEST = 100
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
    train = read_cells(path_of("adult.data"), PLAIN, header=COLUMNS).as_text()
    test = read_cells(path_of("adult.test"), PLAIN, header=COLUMNS, skip=1).as_text()
    categories = [*(name for name in ADULT_CATEGORIES if name != "race"), "sex"]
    values = {name: sorted(train.text(name).counts()) for name in [*categories, "race"]}
    rows = _adult_rows_by_race(train, values)
    rng = np.random.RandomState(0)
    compared = np.flatnonzero(rows.group < 2)
    # A client has the same share of both groups: one number of a drawn pair serves them.
    clients = tuple(rows.take(rng.choice(compared, size)) for size in ADULT_SIZES[alpha])
    return ReleasedData(f"adult-{alpha}", 2, clients, _adult_rows_by_race(test, values))


def _adult_rows_by_race(cells: Table, values: dict[str, list[str]]) -> ReleasedRows:
    numbers = [scale_min_max(cells.numbers(name)) for name in ADULT_NUMBERS]
    categories = [
        one_hot(cells.text(name), categories_of)
        for name, categories_of in values.items()
        if name != "race"
    ]
    y = np.array([cell.startswith(">50K") for cell in cells.text("income")])
    race = np.array([values["race"].index(cell) for cell in cells.text("race")])
    return with_group(np.column_stack([*numbers, *categories]), y, race)


def load_compas_by_sex(alpha: str) -> ReleasedData:
    """Load COMPAS: every client draws its own shares of men and of women; clients overlap."""
    rows, race = read_compas_rows(("sex", "race"))
    features = np.column_stack(
        [rows.x[:, :-1], one_hot(race["race"], sorted(race["race"].counts()))]
    )
    female = (race["sex"] == "Female").astype(int)
    everyone = with_group(features, rows.y, 1 - female)
    cut = int(0.7 * len(female))
    train, test = everyone.take(slice(cut)), everyone.take(slice(cut, None))
    rng = np.random.RandomState(0)
    shares = rng.dirichlet([ALPHAS[alpha]] * 2, size=CLIENTS)
    clients = tuple(train.take(_draw_rows(train.group, share, rng)) for share in shares)
    return ReleasedData(f"compas-{alpha}", 2, clients, test)


def _draw_rows(
    group: Int[Array, " n"], share: Array, rng: np.random.RandomState
) -> Int[Array, " m"]:
    """Draw a client's rows with replacement: a share of the men and one of the women."""
    parts = []
    for number, part in zip((1, 0), share, strict=True):
        rows = np.flatnonzero(group == number)
        parts.append(rng.choice(rows, max(int(part * len(rows)), _FEWEST)))
    return rng.permutation(np.concatenate(parts))


SEED = 123
INVERSES = np.linalg.inv(COVARIANCES[:2])
SCALES = 1 / np.sqrt(np.linalg.det(COVARIANCES[:2]))


class Split(NamedTuple):
    """Number of training and test rows, and each client's shares of group 0 and of group 1."""

    train: int
    test: int
    group_0: tuple[float, ...]
    group_1: tuple[float, ...]


SPLITS = {
    "synthetic": Split(3500, 1500, (0.2, 0.4, 0.4), (0.5, 0.3, 0.2)),
    "synthetic-low": Split(3500, 1500, (0.33, 0.33, 0.34), (0.33, 0.33, 0.34)),
    "synthetic-high": Split(3500, 1500, (0.1, 0.8, 0.1), (0.7, 0.1, 0.2)),
    # A slip of the pen, 1. for .1: the third client has no group 1. It gives the printed digits.
    "synthetic-high-slip": Split(3500, 1500, (0.1, 0.8, 0.1), (0.7, 1.0, 0.2)),
    "synthetic-2": Split(2333, 1000, (0.6, 0.4), (0.2, 0.8)),
    "synthetic-4": Split(4667, 2000, (0.2, 0.2, 0.2, 0.4), (0.2, 0.2, 0.2, 0.4)),
}
"""The paper states the shares of ``synthetic`` the other way round."""


def _load_synthetic(name: str) -> ReleasedData:
    """Draw the rows; the first are for training. A client has group 1, then 0, shuffled."""
    split = SPLITS[name]
    drawn = draw_released(split.train + split.test)
    train = drawn.take(slice(split.train))
    shuffler = random.Random(SEED)
    parts = [
        cut_by_shares(np.flatnonzero(train.group == group), shares)
        for group, shares in ((1, split.group_1), (0, split.group_0))
    ]
    clients = []
    for of_group_1, of_group_0 in zip(*parts, strict=True):
        numbers = np.concatenate([of_group_1, of_group_0]).tolist()
        shuffler.shuffle(numbers)
        clients.append(train.take(np.array(numbers, int)))
    return ReleasedData(name, 2, tuple(clients), drawn.take(slice(split.train, None)))


def draw_released(rows: int) -> ReleasedRows:
    r"""Draw all labels, then the point and the group of each row.

    .. math:: y \sim \mathrm{Bern}(0.6),\quad x \mid y \sim N(\mu_y, \Sigma_y),\quad
              P(a = 1 \mid x) = \frac{p_1(x')}{p_0(x') + p_1(x')},\quad x' = R(+\pi/4)\, x
    """
    rng = np.random.RandomState(SEED)
    y = rng.binomial(1, 0.6, rows)
    x, group = np.empty((rows, 2)), np.empty(rows, int)
    factors = _factors()
    for row, label in enumerate(y):
        x[row] = rng.standard_normal(2) @ factors[label] + MEANS[label]
        group[row] = rng.binomial(1, _share_of_group_1(x[row]))
    return with_group(x, y, group)


def _factors() -> Float[Array, "3 2 2"]:
    """Return the roots of the covariances that ``multivariate_normal`` takes, once for all rows."""
    _, squares, directions = np.linalg.svd(COVARIANCES)
    roots: Array = np.sqrt(squares)[:, :, None] * directions
    return roots


def _share_of_group_1(x: Float[Array, " 2"]) -> float:
    cosine, sine = np.cos(np.pi / 4), np.sin(np.pi / 4)
    centred = np.array([cosine * x[0] - sine * x[1], sine * x[0] + cosine * x[1]]) - MEANS[:2]
    distances = np.einsum("ki,kij,kj->k", centred, INVERSES, centred)
    densities = np.exp(-0.5 * distances) * SCALES
    return float(densities[1] / densities.sum())


RELEASED_DATA: dict[str, Callable[[], ReleasedData]] = {
    **{name: partial(_load_synthetic, name) for name in SPLITS},
    "adult": _load_adult,
    "compas": _load_compas,
    "bank": _load_bank,
    **{f"adult-{name}": partial(load_adult_by_race, name) for name in ALPHAS},
    **{f"compas-{name}": partial(load_compas_by_sex, name) for name in ALPHAS},
}


@lru_cache(maxsize=1)  # cells of one table follow each other on the same rows
def load_released(name: str) -> ReleasedData:
    """Load a data set as the released code makes it."""
    if name not in RELEASED_DATA:
        raise ConfigError(unknown_name("released data set", name, RELEASED_DATA))
    return RELEASED_DATA[name]()
