r"""What may be shown: no count of fewer rows than the minimum, and none that could be worked out.

A cell is the rows of a group, of a group with one label, or either in one silo. What is published
is chosen here, once; **every other figure of an audit is a function of what is published**, so
nothing else can tell of a hidden cell. Three rules:

1. A group with fewer rows than the minimum is hidden. A group with fewer rows of one label is shown
   as a whole only: neither its base rate nor anything that depends on labels.
2. Totals are sums over what is shown: hidden rows are in none of them.
3. A silo's cell is hidden likewise. The group's total over silos stays, so the hidden cells of a
   group must hide each other: there are two at least, with as many rows as the minimum together;
   else the smallest that is shown is hidden too.

A silo that has no row of a group at all is said to have none: that tells of nobody.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedfb.audit.tables import Tables
from fedfb.notions.disparity import enough
from fedfb.shapes import Array, Bool, Float

FEWEST_HIDDEN = 2


class Published(NamedTuple):
    """What is shown of a table: zeros stand for hidden cells.

    ``rows`` and ``selected`` by group; ``confusion[label, decision, group]`` of the groups that are
    also shown by label; ``whole`` and ``split`` say which groups are shown, ``none`` which have no
    rows here.
    """

    rows: Float[Array, " a"]
    selected: Float[Array, " a"]
    confusion: Float[Array, "2 2 a"]
    whole: Bool[Array, " a"]
    split: Bool[Array, " a"]
    none: Bool[Array, " a"]

    @property
    def by_label(self) -> Float[Array, "2 a"]:
        """Rows by label and group."""
        return self.confusion.sum(axis=1)


def published(
    confusion: Float[Array, "2 2 a"], whole: Bool[Array, " a"], split: Bool[Array, " a"]
) -> Published:
    """Return a table with only these cells in it."""
    rows = confusion.sum(axis=(0, 1))
    return Published(
        rows=np.where(whole, rows, 0.0),
        selected=np.where(whole, confusion[:, 1].sum(axis=0), 0.0),
        confusion=np.where(split, confusion, 0.0),
        whole=whole,
        split=split,
        none=rows < 0.5,
    )


def publish(total: Tables, minimum: int) -> Published:
    """Return what is shown of all silos together.

    >>> confusion = np.array([[[30, 4, 30], [10, 3, 30.0]], [[9, 1, 0], [12, 0, 4.0]]])
    >>> shown = publish(Tables(confusion), minimum=10)
    >>> shown.rows, shown.split
    (array([61.,  0., 64.]), array([ True, False, False]))
    """
    by_label = total.confusion.sum(axis=1)
    whole = enough(by_label.sum(axis=0), minimum)
    return published(total.confusion, whole, whole & enough(by_label, minimum).all(axis=0))


def publish_silos(silos: Sequence[Tables], total: Published, minimum: int) -> list[Published]:
    """Return what is shown of each silo, given that the total is shown."""
    by_label = np.stack([silo.confusion.sum(axis=1) for silo in silos])
    rows = by_label.sum(axis=1)
    whole = hide_more(enough(rows, minimum) & total.whole, rows[None], minimum)
    small = ~enough(by_label, minimum).all(axis=1)
    split = hide_more(whole & ~small & total.split, by_label.transpose(1, 0, 2), minimum)
    return [
        published(silo.confusion, *shown) for silo, *shown in zip(silos, whole, split, strict=True)
    ]


def hide_more(
    shown: Bool[Array, "i a"], rows: Float[Array, "c i a"], minimum: int
) -> Bool[Array, "i a"]:
    """Hide further cells until those that are hidden hide each other, for every count ``c``.

    >>> shown = np.array([[True], [False], [True]])
    >>> hide_more(shown, np.array([[[30.0], [4.0], [50.0]]]), 10).ravel()
    array([False, False,  True])
    """
    shown = shown.copy()
    there = rows.sum(axis=0) > 0.5
    for group in range(shown.shape[1]):
        while shown[:, group].any():
            hidden = ~shown[:, group] & there[:, group]
            together = rows[:, hidden, group].sum(axis=1)
            if not hidden.any() or (
                hidden.sum() >= FEWEST_HIDDEN and enough(together, minimum).all()
            ):
                break
            sizes = np.where(shown[:, group], rows[:, :, group].sum(axis=0), np.inf)
            shown[np.argmin(sizes), group] = False
    return shown
