"""Encode one feature column: numbers are standardised, categories are one-hot."""

from dataclasses import dataclass, replace

import numpy as np

from fedfb.data.statistics import Spread, counts_below, steps_by
from fedfb.errors import DataError
from fedfb.shapes import Array, Float
from fedfb.tables.table import Table, Words

MISSING_CATEGORY = "missing"
"""Name of the category of empty cells."""

MAX_CATEGORIES = 2000
"""The most categories of a column. More values look like an identifier or free text."""


@dataclass(frozen=True)
class NumberColumn:
    """A numeric column as (x - mean) / sd of the training rows.

    A missing value becomes the mean. If training rows had missing values, a second column marks
    them. A clipped column is cut to ``low`` and ``high`` first. In a robust column ``mean`` is the
    median and ``sd`` is the distance of the quartiles divided by 1.349, which is the standard
    deviation of a normal distribution. ``error`` bounds the error of the quantiles. Each
    number of ``steps`` adds a 0/1 column: whether a value is above it. A missing value is above
    none.
    """

    name: str
    mean: float
    sd: float
    indicator: bool
    low: float | None = None
    high: float | None = None
    error: float = 0.0
    steps: tuple[float, ...] = ()

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the columns that :meth:`fill` writes."""
        indicator = (f"{self.name} is missing",) if self.indicator else ()
        return (self.name, *indicator, *(f"{self.name} > {step:g}" for step in self.steps))

    def fill(self, table: Table, x: Float[Array, "n k"]) -> None:
        """Write the standardised column, then the 0/1 columns of gaps and of steps, if any."""
        values = table.numbers(self.name)
        missing = np.isnan(values)
        if self.low is not None and self.high is not None:
            values = np.clip(values, self.low, self.high)
        with np.errstate(
            over="ignore", invalid="ignore"
        ):  # an overflow is not finite, and refuse_infinite names the column later
            scaled = (values - self.mean) / self.sd
            scaled[missing] = 0.0
            x[:, 0] = scaled
        if self.indicator:
            x[:, 1] = missing
        if self.steps:  # a comparison with nan is False
            x[:, -len(self.steps) :] = values[:, None] > np.array(self.steps)


@dataclass(frozen=True)
class CategoryColumn:
    """A text column, one-hot over the categories of training. Other values are all zeros."""

    name: str
    categories: tuple[str, ...]

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the columns that :meth:`fill` writes."""
        return tuple(f"{self.name}={category}" for category in self.categories)

    def fill(self, table: Table, x: Float[Array, "n k"]) -> None:
        """Write 1 into the column of each row's category. ``x`` holds zeros before."""
        index = {category: number for number, category in enumerate(self.categories)}
        cells = table.text(self.name)
        places = [index.get(cell or MISSING_CATEGORY, -1) for cell in cells.values]
        numbers = cells.look_up(places, np.int64)
        rows = np.flatnonzero(numbers >= 0)
        x[rows, numbers[rows]] = 1.0


Column = NumberColumn | CategoryColumn


def fit_column(table: Table, name: str, with_steps: bool = False) -> Column:
    """Learn how to encode one column from training rows.

    Args:
        table: training rows.
        name: name of the column.
        with_steps: whether a number gets steps at its quantiles.

    """
    if not isinstance(table.column(name), Words):
        column = _fit_numbers(name, table.numbers(name))
        return add_steps(column, table.numbers(name)) if with_steps else column
    categories = sorted({cell or MISSING_CATEGORY for cell in table.text(name).counts()})
    if len(categories) > MAX_CATEGORIES:
        raise DataError(
            f"{table.source}: column {name!r} has {len(categories)} different values in "
            f"{len(table)} training rows, at most {MAX_CATEGORIES} can be categories. If it is an "
            "identifier or free text, remove the column; else merge its values."
        )
    return CategoryColumn(name, tuple(categories))


def add_steps(column: NumberColumn, values: Float[Array, " n"]) -> NumberColumn:
    """Return a column with steps at the quantiles of its values, as sums over clients find them."""
    spread = Spread(np.array([column.mean]), np.array([column.sd]), np.zeros(1, np.int64))
    [steps] = steps_by("steps", spread, lambda _, edges: counts_below([values], **edges))
    return replace(column, steps=steps)


def _fit_numbers(name: str, values: Float[Array, " n"]) -> NumberColumn:
    missing = np.isnan(values)
    present = values[~missing]
    if not len(present) or present.min() == present.max():
        # The mean of equal numbers is not exact, so a constant column would get a tiny sd.
        mean, sd = (float(present[0]) if len(present) else 0.0), 1.0
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            mean = float(present.mean())
            # The squares of tiny differences may vanish, and the standard deviation is 0 then.
            sd = float(present.std()) or float(np.ptp(present))
    return NumberColumn(name, mean, sd, bool(missing.any()))
