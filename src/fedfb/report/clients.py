"""What many clients came to, in a few rows: the table of a terminal and of a page."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedfb.report.numbers import number
from fedfb.shapes import Array, Float

Report = Mapping[str, Any]

QUANTILES = {"least": 0.0, "lower quarter": 0.25, "median": 0.5, "upper quarter": 0.75,
             "largest": 1.0}  # fmt: skip
SUMMARY = "Each column is sorted alone. The run's JSON has every client."


def summary_rows(runs: Sequence[Report], notion: str | None) -> list[tuple[str, ...]]:
    """Return least, quarters and largest of the clients' means over seeds, column by column.

    Columns are test rows, accuracy, loss, and with a notion the disparity of a client's own rows.
    A column leaves out clients of which it is not estimable.
    """
    columns = [
        _means([[one[key] for one in run["clients"]] for run in runs])
        for key in ("n", "accuracy", "loss")
    ]
    if notion is not None:
        own = [[one["disparity"][notion] for one in run["clients"]] for run in runs]
        columns.append(_means(own))
    rows = []
    for name, share in QUANTILES.items():
        first, *others = (np.quantile(one, share) if len(one) else None for one in columns)
        rows.append((name, str(round(first or 0)), *(number(other) for other in others)))
    return rows


def _means(values: Sequence[Sequence[Any]]) -> Float[Array, " i"]:
    """Return every client's mean over the seeds that have a value; clients without are left out."""
    table = np.array(values, dtype=np.float64)  # None becomes NaN
    seeds = np.sum(~np.isnan(table), axis=0)
    means: Float[Array, " i"] = np.nansum(table, axis=0)[seeds > 0] / seeds[seeds > 0]
    return means
