r"""What may be shown: no count of fewer rows than the minimum, and none that could be worked out.

A cell is the rows of a group, of a group with one label, or either in one silo. What is published
is chosen here, once; **every other figure of an audit is a function of what is published**, so
nothing else can tell of a hidden cell. The rules:

1. A group with fewer rows than the minimum is hidden. A group with fewer rows of one label is shown
   as a whole only: neither its base rate nor anything that depends on labels.
2. Totals are sums over what is shown: rows of a hidden group are in none of them, and a silo's
   totals are over the groups that are shown by label.
3. A silo's cells and totals are hidden likewise. The groups' totals over silos stay, so the hidden
   cells of a group must hide each other: there are two at least, with as many rows as the minimum
   together. So must those of a silo whose total is shown. And no small cell may follow from all
   totals together. Else further cells are hidden, few and small ones.

A silo that has no row of a group at all is said to have none: that tells of nobody.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedfb.audit.tables import Tables
from fedfb.notions.values import enough
from fedfb.shapes import Array, Bool, Float


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


class SiloShown(NamedTuple):
    """What is shown of a silo: its groups, and all of them together as if one group."""

    groups: Published
    total: Published


def publish_silos(silos: Sequence[Tables], total: Published, minimum: int) -> list[SiloShown]:
    """Return what is shown of each silo, given that the total is shown."""
    by_label = np.stack([silo.confusion.sum(axis=1) for silo in silos], axis=1)
    rows = by_label.sum(axis=0)
    whole, whole_total = hide(rows[None], total.whole, total.split, minimum)
    split, split_total = hide(by_label, total.split, total.split, minimum)
    together = [np.where(total.split, s.confusion, 0.0).sum(axis=2, keepdims=True) for s in silos]
    found = []
    for number, silo in enumerate(silos):
        cells = published(silo.confusion, whole[number], whole[number] & split[number])
        # What depends on labels tells of the rows as well: it is not shown without them.
        both = whole_total[number] & split_total[number]
        all_of_it = published(together[number], whole_total[number, None], both[None])
        found.append(SiloShown(cells, all_of_it))
    return found


def hide(
    counts: Float[Array, "c i a"],
    groups: Bool[Array, " a"],
    in_total: Bool[Array, " a"],
    minimum: int,
) -> tuple[Bool[Array, "i a"], Bool[Array, " i"]]:
    """Say which cells (silo, group) and which silos' totals are shown, for counts of several kinds.

    ``groups`` have totals that are known to all, ``in_total`` are those of a silo's total.

    >>> counts = np.array([[[30.0, 40.0], [4.0, 60.0], [50.0, 70.0]]])
    >>> hide(counts, np.ones(2, bool), np.ones(2, bool), minimum=10)[0]
    array([[False, False],
           [False, False],
           [ True,  True]])
    """
    together = np.where(in_total, counts, 0.0).sum(axis=2, keepdims=True)
    table = np.concatenate([counts, together], axis=2)
    there = table.sum(axis=0) > 0.5
    small = np.asarray(~enough(table, minimum).all(axis=0))
    shown = ~small & np.append(groups, in_total.any())
    before = None
    while before is None or (before != shown).any():
        before = shown.copy()
        shown = hide_by_group(shown, there, table, minimum)
        shown = hide_by_silo(shown, there, table, in_total, minimum)
        shown = hide_exposed(shown, there, table, groups, in_total, small)
    return shown[:, :-1], shown[:, -1]


def hidden_well(hidden: Bool[Array, " k"], counts: Float[Array, "c k"], minimum: int) -> bool:
    """Tell whether hidden cells, whose sum is known, hide each other.

    >>> hidden_well(np.array([True, True, False]), np.array([[4.0, 9.0, 50.0]]), 10)
    True
    """
    if not hidden.any():
        return True
    return bool(hidden.sum() > 1 and enough(counts[:, hidden].sum(axis=1), minimum).all())


def hide_by_group(
    shown: Bool[Array, "i b"], there: Bool[Array, "i b"], table: Float[Array, "c i b"], minimum: int
) -> Bool[Array, "i b"]:
    """Hide further silos of a group until those hidden hide each other."""
    shown = shown.copy()
    for group in range(shown.shape[1]):
        while shown[:, group].any():
            hidden = ~shown[:, group] & there[:, group]
            if hidden_well(hidden, table[:, :, group], minimum):
                break
            shown[next_silo(shown, there, table, group), group] = False
    return shown


def hide_by_silo(
    shown: Bool[Array, "i b"],
    there: Bool[Array, "i b"],
    table: Float[Array, "c i b"],
    in_total: Bool[Array, " a"],
    minimum: int,
) -> Bool[Array, "i b"]:
    """Hide further groups of a silo whose total is shown, and at last the total."""
    shown = shown.copy()
    for silo in range(len(shown)):
        while shown[silo, -1]:
            hidden = ~shown[silo, :-1] & there[silo, :-1] & in_total
            if hidden_well(hidden, table[:, silo, :-1], minimum):
                break
            shown[silo, next_group(shown, there, table, silo, in_total)] = False
    return shown


def next_silo(
    shown: Bool[Array, "i b"], there: Bool[Array, "i b"], table: Float[Array, "c i b"], group: int
) -> int:
    """Return which silo of a group to hide next: one that hides others, and then the smallest."""
    alone = ~(~shown & there).any(axis=1)
    return _first(shown[:, group], alone, table[:, :, group].sum(axis=0))


def next_group(
    shown: Bool[Array, "i b"],
    there: Bool[Array, "i b"],
    table: Float[Array, "c i b"],
    silo: int,
    in_total: Bool[Array, " a"],
) -> int:
    """Return which group of a silo's total to hide next; if none is left, the total's place."""
    able = shown[silo, :-1] & in_total
    if not able.any():
        return shown.shape[1] - 1
    alone = ~(~shown & there)[:, :-1].any(axis=0)
    return _first(able, alone, table[:, silo, :-1].sum(axis=0))


def _first(able: Bool[Array, " k"], alone: Bool[Array, " k"], size: Float[Array, " k"]) -> int:
    """Return the able place that is not alone, if there is one, and the smallest of these."""
    return int(np.lexsort((size, alone, ~able))[0])


def hide_exposed(
    shown: Bool[Array, "i b"],
    there: Bool[Array, "i b"],
    table: Float[Array, "c i b"],
    groups: Bool[Array, " a"],
    in_total: Bool[Array, " a"],
    small: Bool[Array, "i b"],
) -> Bool[Array, "i b"]:
    """Hide more beside each small cell that follows from all known totals together."""
    shown = shown.copy()
    for silo, group in exposed(shown, there, groups, in_total):
        if not small[silo, group]:
            continue
        if shown[silo, -1] and (group == shown.shape[1] - 1 or in_total[group]):
            shown[silo, next_group(shown, there, table, silo, in_total)] = False
        elif shown[:, group].any():
            shown[next_silo(shown, there, table, group), group] = False
    return shown


def exposed(
    shown: Bool[Array, "i b"],
    there: Bool[Array, "i b"],
    groups: Bool[Array, " a"],
    in_total: Bool[Array, " a"],
) -> list[tuple[int, int]]:
    """Return the hidden cells that the totals determine, by linear algebra.

    Unknown are the hidden cells, totals of silos among them; known are the sums over silos, and for
    every silo the total less its groups. A cell is determined where its unit vector lies in the
    space of these equations.
    """
    summed = np.append(groups, in_total.any())
    unknown = np.argwhere(~shown & there & summed)
    if not len(unknown):
        return []
    silo, column = unknown.T
    last = shown.shape[1] - 1
    part = np.append(in_total, False)[column]
    by_group = (column[None, :] == np.unique(column)[:, None]).astype(np.float64)
    of_silo = silo[None, :] == np.unique(silo)[:, None]
    by_silo = of_silo * (part.astype(np.float64) - (column == last))
    equations = np.concatenate([by_group, by_silo[by_silo.any(axis=1)]])
    # Directions of the equations' space: of their small Gram matrix, as unknowns may be many.
    weights, vectors = np.linalg.eigh(equations @ equations.T)
    kept = weights > 1e-9
    directions = (vectors[:, kept] / np.sqrt(weights[kept])).T @ equations
    reached = (directions**2).sum(axis=0)
    return [(int(i), int(a)) for i, a in unknown[reached > 1 - 1e-9]]
