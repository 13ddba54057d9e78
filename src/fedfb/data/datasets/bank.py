"""Bank Marketing (UCI): does a client subscribe to a term deposit? Groups by age."""

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from fedfb.data.datasets.fetch import path_of
from fedfb.data.derive import Bins, derive
from fedfb.data.federation import Source
from fedfb.data.groups import groups_in
from fedfb.data.loading import PaperClients, PublicData, split_at_random
from fedfb.data.request import DataRequest
from fedfb.tables.cells import typed
from fedfb.tables.csv_file import read_cells
from fedfb.tables.dialect import PLAIN
from fedfb.tables.table import Table

AGE_GROUPS = Bins(
    source="age",
    target="age group",
    edges=(32.0, 36.0, 42.0, 51.0),
    names=("age <= 32", "age 33-36", "age 37-42", "age 43-51", "age > 51"),
)
"""Five groups of about equal size, at declared ages."""

_NOT_FEATURES = ("age", "age group", "day", "month", "y")


def read(request: DataRequest, split_seed: int) -> PublicData:
    """Read Bank Marketing: 70 % of the rows, drawn by the split seed, train; three clients.

    The clients receive 50, 10 and 40 % of the rows without a loan, 20, 60 and 20 % of the others.
    """
    table = derive(_read_file(path_of("bank-full.csv")), (AGE_GROUPS,))
    group = groups_in(table, (AGE_GROUPS.target,)).group_of(table)
    train, test = split_at_random(group, split_seed)
    source = Source(
        name="bank",
        table=table,
        train=train,
        test=test,
        label="y",
        positive="yes",
        sensitive=(AGE_GROUPS.target,),
        features=tuple(name for name in table.columns if name not in _NOT_FEATURES),
        derived=(AGE_GROUPS,),
        group_order=AGE_GROUPS.names,
    )
    paper = PaperClients(
        names=("client 0", "client 1", "client 2"),
        values=(table.text("loan") == "yes").astype(int),
        shares=np.array([[0.5, 0.1, 0.4], [0.2, 0.6, 0.2]]),
    )
    return PublicData(source, paper)


@lru_cache(maxsize=1)  # the same rows are often dealt in several ways
def _read_file(path: Path) -> Table:
    (table,) = typed([read_cells(path, replace(PLAIN, separator=";"))], text=("y",))
    return replace(table, source="bank")
