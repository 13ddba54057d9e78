import os
from collections.abc import Callable

import numpy as np
import pytest

from fedfb.data import Federation, federate
from fedfb.data.federation import Source
from fedfb.data.partition import Clients
from fedfb.tables.table import Table

OPTIONS = ("sensitive_at_prediction", "learn", "precision", "rest")


@pytest.fixture
def published() -> None:
    """Skip a test of the published files where they are not at hand."""
    if not os.environ.get("FEDFB_DATA"):
        pytest.skip("FEDFB_DATA does not name a folder with the published files")


@pytest.fixture
def small_table() -> Table:
    """Ten rows: a number with a gap, a category with a gap, a group, a label."""
    return Table(
        {
            "age": np.array([20.0, 30, 40, np.nan, 50, 60, 25, 35, 45, 55]),
            "job": np.array(["a", "b", "", "a", "b", "a", "b", "a", "c", "a"], object),
            "sex": np.array(["F", "M"] * 5, object),
            "y": np.array(["yes", "no", "no", "yes", "yes"] * 2, object),
        },
        "small.csv",
    )


@pytest.fixture
def make_federation(small_table: Table) -> Callable[..., Federation]:
    """Federate the small table: eight training rows, two clients; any argument can be changed."""

    def make(**changes: object) -> Federation:
        source: dict[str, object] = {
            "table": small_table,
            "label": "y",
            "positive": "yes",
            "sensitive": ("sex",),
            "features": ("age", "job"),
            "train": np.arange(8),
            "test": np.arange(8, 10),
            "client": np.array([0, 1, 1, 0, 1, 0, 1, 1, 0, -1]),
            "client_names": ("north", "south"),
            "sensitive_at_prediction": True,
            **changes,
        }
        clients = Clients(source.pop("client"), source.pop("client_names"))
        options = {name: source.pop(name) for name in OPTIONS if name in source}
        return federate(Source("small", **source), clients, **options)

    return make
