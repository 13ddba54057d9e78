"""Tables of many clients in a few rows: the worst, quantiles of all, and the best."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

MOST_CLIENTS = 20
"""Of more clients a table has these rows in place of one for each."""

FEW = 3
"""How many of the worst and of the best clients are named."""

QUANTILES = {"least": 0.0, "lower quarter": 0.25, "median": 0.5, "upper quarter": 0.75,
             "largest": 1.0}  # fmt: skip


class ManyValues(NamedTuple):
    """A column: the number of each client, None where it has none, and how it is written."""

    values: Sequence[float | None]
    write: Callable[[float | None], str]


def summarise(
    names: Sequence[str], columns: Sequence[ManyValues], badness: Sequence[float | None]
) -> tuple[tuple[str, ...], ...]:
    """Return rows of the worst clients, of quantiles of each column alone, and of the best clients.

    Where all are equally bad, there are no worst and no best.

    Args:
        names: names of the clients.
        columns: columns of the table after that of names.
        badness: what clients are ranked by, the largest is the worst; None: not ranked.

    >>> def write(number):
    ...     return "-" if number is None else f"{number:g}"
    >>> values = [*map(float, range(30)), None]
    >>> rows = summarise([f"c{i}" for i in range(31)], [ManyValues(values, write)], values)
    >>> rows[0], rows[4], rows[5], rows[-1]
    (('worst: c29', '29'), ('lower quarter', '7.25'), ('median', '14.5'), ('best: c0', '0'))
    """
    ranked = sorted(
        (place for place, value in enumerate(badness) if value is not None),
        key=lambda place: -(badness[place] or 0.0),
    )
    differ = len({badness[place] for place in ranked}) > 1
    few = min(FEW, len(ranked) // 2) if differ else 0
    present = [[value for value in column.values if value is not None] for column in columns]

    def row_of(rank: str, place: int) -> tuple[str, ...]:
        cells = (column.write(column.values[place]) for column in columns)
        return (f"{rank}: {names[place]}", *cells)

    quantiles = (
        (
            name,
            *(
                column.write(float(np.quantile(values, share)) if values else None)
                for column, values in zip(columns, present, strict=True)
            ),
        )
        for name, share in QUANTILES.items()
    )
    worst = (row_of("worst", place) for place in ranked[:few])
    best = (row_of("best", place) for place in ranked[len(ranked) - few :])
    return (*worst, *quantiles, *best)


def note_on_many(clients: int, measure: str) -> str:
    """Say what the rows of :func:`summarise` are.

    >>> note_on_many(1000, "loss")
    '1,000 clients: worst and best by loss; quantiles of each column alone. JSON has every client.'
    """
    return (
        f"{clients:,} clients: worst and best by {measure}; quantiles of each column alone. JSON "
        "has every client."
    )


def write_count(number: float | None) -> str:
    """Write a number of rows or bytes.

    >>> write_count(1234.4), write_count(None)
    ('1,234', '-')
    """
    return "-" if number is None else f"{round(number):,}"
