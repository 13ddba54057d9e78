"""COMPAS (ProPublica): no new charge within two years? Groups by sex and race, or one of them."""

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
from fedfb.tables.table import Table

FEATURES = (
    "age",
    "juv_fel_count",
    "juv_misd_count",
    "juv_other_count",
    "priors_count",
    "age_cat",
    "c_charge_degree",
    "c_charge_desc",
)

_LABEL = "two_year_recid"

ATTRIBUTES = (("sex", "race"), ("sex",), ("race",))
"""Attributes that may form the groups. The first choice is the paper's."""

_RACE = Keep(source="race", target="race", values=("African-American",), other="Other")


def read(request: DataRequest, split_seed: int) -> PublicData:
    """Read COMPAS: the first 70 % of the rows, in file order, train; two clients by age.

    Label 1 is the favourable outcome, no new charge. Where race forms the groups, it is reduced to
    African-American and Other. An attribute that does not form the groups is a feature. The file
    holds names and dates of birth: only the columns in use are stored.
    """
    sensitive = choose_attributes(request, ATTRIBUTES)
    rules = (_RACE,) if "race" in sensitive else ()
    table = derive(_read_file(path_of("compas-scores-two-years.csv")), rules)
    training_rows = 7 * len(table) // 10
    source = Source(
        name="compas",
        table=table,
        train=np.arange(training_rows),
        test=np.arange(training_rows, len(table)),
        label=_LABEL,
        positive="0",
        sensitive=sensitive,
        features=(*FEATURES, *(name for name in ATTRIBUTES[0] if name not in sensitive)),
        derived=rules,
    )
    paper = PaperClients(
        names=("over 25", "25 and under"),
        values=(table.numbers("age") <= 25).astype(int),
        shares=np.eye(2),
    )
    return PublicData(source, paper)


@lru_cache(maxsize=1)  # the same rows are often dealt in several ways
def _read_file(path: Path) -> Table:
    # The file has two columns named priors_count, equal in all rows: the first is read.
    cells = read_cells(path, PLAIN, only=(*ATTRIBUTES[0], *FEATURES, _LABEL))
    (table,) = typed([cells], text=(*ATTRIBUTES[0], _LABEL))
    return replace(table, source="compas")
