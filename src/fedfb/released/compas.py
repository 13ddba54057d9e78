"""COMPAS as released: rows in the order of the file, scaled before they are split."""

import numpy as np

from fedfb.data.datasets.fetch import path_of
from fedfb.data.read import read_cells
from fedfb.released.rows import ReleasedData, Rows, min_max, one_hot, with_group

NUMBERS = ("age", "juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count")
CATEGORIES = ("age_cat", "c_charge_degree", "c_charge_desc")
OLDER = 0.1
"""The scaled age above which a row is the first client's."""


def load_compas() -> ReleasedData:
    """Load the file, the first 70 % of its rows to train on."""
    rows, _ = read_rows()
    cut = int(0.7 * len(rows.y))
    train, test = rows.take(slice(cut)), rows.take(slice(cut, None))
    older = train.x[:, 0] > OLDER
    clients = (train.take(np.flatnonzero(older)), train.take(np.flatnonzero(~older)))
    return ReleasedData("compas", 4, clients, test)


def read_rows(also: tuple[str, ...] = ()) -> tuple[Rows, dict[str, list[str]]]:
    """Read all rows, and some columns as they stand.

    Label 1 is no new charge, the group 2 * female + African-American.
    """
    cells = read_cells(
        path_of("compas-scores-two-years.csv"),
        ",",
        only=("sex", "race", *NUMBERS, *CATEGORIES, "two_year_recid"),
    ).columns
    numbers = [min_max(np.array(cells[name], float)) for name in NUMBERS]
    # A missing cell is no category here: its row is all zero.
    values = {name: sorted(set(cells[name]) - {""}) for name in CATEGORIES}
    categories = [one_hot(cells[name], values[name]) for name in CATEGORIES]
    female = np.array([cell == "Female" for cell in cells["sex"]], int)
    african_american = np.array([cell == "African-American" for cell in cells["race"]], int)
    y = np.array([cell == "0" for cell in cells["two_year_recid"]])
    rows = with_group(np.column_stack([*numbers, *categories]), y, 2 * female + african_american)
    return rows, {name: cells[name] for name in also}
