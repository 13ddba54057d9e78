"""Bank Marketing (UCI): does a client subscribe to a term deposit? Groups by age."""

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from fedfb.data.datasets.builtin import PaperClients, Source, deal, split_at_random
from fedfb.data.datasets.fetch import path_of
from fedfb.data.derive import Bins, derive
from fedfb.data.federation import Federation
from fedfb.data.groups import groups_in
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


def load_bank(
    partition: str = "paper",
    split_seed: int = 0,
    sensitive_at_prediction: bool = False,
    resplit: bool = False,
    client_rows: int = 2,
) -> Federation:
    """Load Bank Marketing: 70 % of the rows, drawn by the split seed, train; three clients.

    The clients receive 50, 10 and 40 % of the rows without a loan, 20, 60 and 20 % of the others.

    Args:
        partition: how rows are dealt to clients, as text; 'paper' for the paper's way.
        split_seed: seed of all random choices about the data.
        sensitive_at_prediction: whether the model reads the group.
        resplit: as in the other loaders; this split is drawn in any case.
        client_rows: fewest rows of a client; clients with fewer sit out.

    """
    table = derive(_read(path_of("bank-full.csv")), (AGE_GROUPS,))
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
        paper=PaperClients(
            names=("client 0", "client 1", "client 2"),
            values=(table.text("loan") == "yes").astype(int),
            shares=np.array([[0.5, 0.1, 0.4], [0.2, 0.6, 0.2]]),
        ),
        derived=(AGE_GROUPS,),
        group_order=AGE_GROUPS.names,
    )
    return deal(
        source, partition, split_seed, sensitive_at_prediction, resplit, client_rows=client_rows
    )


@lru_cache(maxsize=1)  # the same rows are often dealt in several ways
def _read(path: Path) -> Table:
    (table,) = typed([read_cells(path, replace(PLAIN, separator=";"))], text=("y",))
    return replace(table, source="bank")
