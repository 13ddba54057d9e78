"""The cells (label, group) of a client's rows."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedfb.core import ClientData
from fedfb.engine.kept import Kept
from fedfb.shapes import Array, Int

KEPT_ROWS = 2**18
"""Cells of up to so many rows are kept: for more, memory counts and passes take long anyway."""


@dataclass(frozen=True)
class Cells:
    """``data.cell`` in four bytes a row, and what follows from it."""

    number: Int[Array, " n"]
    groups: int

    @cached_property
    def counts(self) -> Int[Array, "2 a"]:
        """The number of rows of each cell."""
        counts = np.bincount(self.number, minlength=2 * self.groups)
        return counts.reshape(2, self.groups)

    @cached_property
    def rows(self) -> list[Int[Array, " m"]]:
        """The rows of each cell, in their order."""
        return [np.flatnonzero(self.number == cell) for cell in range(2 * self.groups)]


_KEPT: Kept[Cells] = Kept()


def cells_of(data: ClientData) -> Cells:
    """Return the cells of a client's rows; kept where the rows are read-only."""
    if len(data.y) > KEPT_ROWS:
        return _made(data)
    return _KEPT.of((data.y, data.group), data.groups, lambda: _made(data))


def cell_counts(data: ClientData) -> Int[Array, "2 a"]:
    """Return the number of rows of each cell (label, group)."""
    return cells_of(data).counts.copy()


def _made(data: ClientData) -> Cells:
    """Return the cells' numbers, made without more memory than they take."""
    cell = np.empty(len(data.y), np.int32)
    np.multiply(data.y, data.groups, out=cell, casting="unsafe")
    return Cells(np.add(cell, data.group, out=cell, casting="unsafe"), data.groups)
