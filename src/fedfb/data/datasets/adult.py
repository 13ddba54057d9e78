"""Adult (UCI): does a person earn more than 50,000 a year? Groups by sex, or by race."""

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from fedfb.data.datasets.fetch import path_of
from fedfb.data.derive import Keep, derive
from fedfb.data.federation import Source
from fedfb.data.loading import PaperClients, PublicData, choose_attributes
from fedfb.data.request import DataRequest
from fedfb.tables.cells import typed
from fedfb.tables.csv_file import read_cells
from fedfb.tables.dialect import PLAIN
from fedfb.tables.table import Table, concat

COLUMNS = (
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
    "income",
)
"""The files have no header; these are the publisher's names."""

ATTRIBUTES = (("sex",), ("race",), ("sex", "race"))
"""Attributes that may form the groups. The first choice is the paper's."""

_RACE = Keep(source="race", target="race", values=("White",), other="Other")


def read(request: DataRequest, split_seed: int) -> PublicData:
    """Read Adult: the publisher's training and test files, two clients in the paper.

    Client 0 holds 80 % of the rows with workclass Private and 20 % of all others. Where groups are
    formed by race, it is reduced to White and Other.

    Departs from the reference code: numbers are standardised by the training rows (there: each
    file is scaled by its own extremes), and the model reads the group as 0/1 columns, not as a
    code.
    """
    sensitive = choose_attributes(request, ATTRIBUTES)
    table, training_rows = _read_file(path_of("adult.data"), path_of("adult.test"))
    rules = (_RACE,) if "race" in sensitive else ()
    table = derive(table, rules)
    source = Source(
        name="adult",
        table=table,
        train=np.arange(training_rows),
        test=np.arange(training_rows, len(table)),
        label="income",
        positive=">50K",
        sensitive=sensitive,
        features=tuple(name for name in COLUMNS if name not in (*sensitive, "income")),
        derived=rules,
    )
    paper = PaperClients(
        names=("mostly private", "mostly other"),
        values=(table.text("workclass") != "Private").astype(int),
        shares=np.array([[0.8, 0.2], [0.2, 0.8]]),
    )
    return PublicData(source, paper)


@lru_cache(maxsize=1)  # the same rows are often dealt in several ways
def _read_file(training: Path, testing: Path) -> tuple[Table, int]:
    train = read_cells(training, PLAIN, header=COLUMNS)
    test = read_cells(testing, PLAIN, header=COLUMNS, skip=1)
    tables = typed([train, test], text=("income", "sex", "race"))
    table = replace(concat(tables), source="adult")
    # Labels of the test file end in a dot.
    income = table.text("income").rename(lambda cell: cell.rstrip("."))
    return table.with_column("income", income), len(tables[0])
