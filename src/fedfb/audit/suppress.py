r"""What may be published: no count below the minimum, and no count that follows from others.

A cell is the rows of a group, of a group with one label, or either at one client. This module
chooses once what is published. **Every other figure of an audit is a function of what is
published**, so no other figure can reveal a hidden cell. The rules:

1. A group with fewer rows than the minimum is hidden. A group with fewer rows of one label is
   published as a whole only: without its base rate and without figures that depend on labels.
2. Totals are sums over published groups. Rows of a hidden group are in no total. A client's totals
   are over the groups that are published by label.
3. A client's cells and totals are hidden likewise. The groups' totals over clients stay published.
   The hidden cells of a group must therefore protect each other: at least two, with as many rows
   together as the minimum. The same holds for the hidden cells of a client whose total is
   published. And no small cell may follow from all totals together. Where one does, further cells
   are hidden, few and small ones.

A client without any row of a group is published as having none: that describes nobody.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedfb.audit.rows import Tables
from fedfb.notions.values import enough
from fedfb.shapes import Array, Bool, Float


class PublishedTable(NamedTuple):
    """What is published of a table. Zeros stand for hidden cells.

    ``rows`` and ``selected`` by group; ``confusion[label, decision, group]`` of the groups that are
    published by label. ``whole`` and ``split`` mark the groups that are published, as a whole and
    by label. ``none`` marks the groups without rows.
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


def blank_hidden(
    confusion: Float[Array, "2 2 a"], whole: Bool[Array, " a"], split: Bool[Array, " a"]
) -> PublishedTable:
    """Return a table with zeros in its hidden cells.

    Args:
        confusion: rows by label, decision and group.
        whole: groups that are published as a whole.
        split: groups that are published by label.

    """
    rows = confusion.sum(axis=(0, 1))
    return PublishedTable(
        rows=np.where(whole, rows, 0.0),
        selected=np.where(whole, confusion[:, 1].sum(axis=0), 0.0),
        confusion=np.where(split, confusion, 0.0),
        whole=whole,
        split=split,
        # Counts of randomised decisions and of secure sums carry rounding errors: half a row is
        # none. The same half stands wherever a cell is tested for rows.
        none=rows < 0.5,
    )


def publish(total: Tables, minimum: int) -> PublishedTable:
    """Return what is published of all clients together.

    Args:
        total: sum of all clients' tables.
        minimum: fewest rows of a cell that may be published.

    >>> confusion = np.array([[[30, 4, 30], [10, 3, 30.0]], [[9, 1, 0], [12, 0, 4.0]]])
    >>> published = publish(Tables(confusion), minimum=10)
    >>> published.rows, published.split
    (array([61.,  0., 64.]), array([ True, False, False]))
    """
    by_label = total.confusion.sum(axis=1)
    whole = enough(by_label.sum(axis=0), minimum)
    return blank_hidden(total.confusion, whole, whole & enough(by_label, minimum).all(axis=0))


class PublishedClient(NamedTuple):
    """What is published of a client: its groups, and all of them together as one group."""

    groups: PublishedTable
    total: PublishedTable


def publish_clients(
    clients: Sequence[Tables], total: PublishedTable, minimum: int
) -> list[PublishedClient]:
    """Return what is published of each client, beside the published total.

    Args:
        clients: table of each client.
        total: what is published of all clients together.
        minimum: fewest rows of a cell that may be published.

    """
    by_label = np.stack([client.confusion.sum(axis=1) for client in clients], axis=1)
    rows = by_label.sum(axis=0)
    whole, whole_total = hide_small_cells(rows[None], total.whole, total.split, minimum)
    # Both labels at once: a cell is published by label for both labels or for none. With one label
    # published, the other one would follow from the published rows.
    split, split_total = hide_small_cells(by_label, total.split, total.split, minimum)
    parts = []
    for number, client in enumerate(clients):
        groups = blank_hidden(client.confusion, whole[number], whole[number] & split[number])
        together = np.where(total.split, client.confusion, 0.0).sum(axis=2, keepdims=True)
        # Figures by label reveal the rows as well: they are not published without the rows.
        by_label_too = whole_total[number] & split_total[number]
        client_total = blank_hidden(together, whole_total[number, None], by_label_too[None])
        parts.append(PublishedClient(groups, client_total))
    return parts


def hide_small_cells(
    counts: Float[Array, "c i a"],
    groups: Bool[Array, " a"],
    in_total: Bool[Array, " a"],
    minimum: int,
) -> tuple[Bool[Array, "i a"], Bool[Array, " i"]]:
    """Choose which cells (client, group) and which clients' totals are published.

    Args:
        counts: rows by kind (one, or two labels), client and group. A cell is published for all
            kinds or for none.
        groups: groups whose totals over clients are published.
        in_total: groups that a client's total adds up.
        minimum: fewest rows of a cell that may be published.

    >>> counts = np.array([[[30.0, 40.0], [4.0, 60.0], [50.0, 70.0]]])
    >>> hide_small_cells(counts, np.ones(2, bool), np.ones(2, bool), minimum=10)[0]
    array([[False, False],
           [False, False],
           [ True,  True]])
    """
    # A client's total is treated as one more group, in the last column.
    together = np.where(in_total, counts, 0.0).sum(axis=2, keepdims=True)
    table = np.concatenate([counts, together], axis=2)
    nonempty = table.sum(axis=0) > 0.5
    # An empty cell counts as small too, so it is never published with a rate; but as it is known
    # to be empty, it protects no other cell (`nonempty` below).
    small = np.asarray(~enough(table, minimum).all(axis=0))
    open_cells = ~small & np.append(groups, in_total.any())
    before = None
    # Each step may undo what another one has reached. Cells are only ever closed, so the loop ends.
    while before is None or (before != open_cells).any():
        before = open_cells.copy()
        open_cells = hide_by_group(open_cells, nonempty, table, minimum)
        open_cells = hide_by_client(open_cells, nonempty, table, in_total, minimum)
        open_cells = hide_exposed(open_cells, nonempty, table, groups, in_total, small)
    return open_cells[:, :-1], open_cells[:, -1]


def is_protected(hidden: Bool[Array, " k"], counts: Float[Array, "c k"], minimum: int) -> bool:
    """Return True if hidden cells, whose sum is published, protect each other.

    Args:
        hidden: cells that are hidden.
        counts: rows by kind and cell.
        minimum: fewest rows that the hidden cells must have together.

    >>> is_protected(np.array([True, True, False]), np.array([[4.0, 9.0, 50.0]]), 10)
    True
    """
    if not hidden.any():
        return True
    # A single hidden cell is the total less the published cells. Two cells of few rows together
    # would be bounded by their sum, which is then itself a count below the minimum.
    return bool(hidden.sum() > 1 and enough(counts[:, hidden].sum(axis=1), minimum).all())


def hide_by_group(
    open_cells: Bool[Array, "i b"],
    nonempty: Bool[Array, "i b"],
    table: Float[Array, "c i b"],
    minimum: int,
) -> Bool[Array, "i b"]:
    """Hide further clients of each group until the hidden ones protect each other.

    Arguments are those of :func:`hide_exposed`.
    """
    open_cells = open_cells.copy()
    for group in range(open_cells.shape[1]):
        while open_cells[:, group].any():
            hidden = ~open_cells[:, group] & nonempty[:, group]
            if is_protected(hidden, table[:, :, group], minimum):
                break
            open_cells[choose_client(open_cells, nonempty, table, group), group] = False
    return open_cells


def hide_by_client(
    open_cells: Bool[Array, "i b"],
    nonempty: Bool[Array, "i b"],
    table: Float[Array, "c i b"],
    in_total: Bool[Array, " a"],
    minimum: int,
) -> Bool[Array, "i b"]:
    """Hide further groups of each client whose total is published, and at last the total.

    Arguments are those of :func:`hide_exposed`.
    """
    open_cells = open_cells.copy()
    for client in range(len(open_cells)):
        while open_cells[client, -1]:
            hidden = ~open_cells[client, :-1] & nonempty[client, :-1] & in_total
            if is_protected(hidden, table[:, client, :-1], minimum):
                break
            open_cells[client, choose_group(open_cells, nonempty, table, client, in_total)] = False
    return open_cells


def choose_client(
    open_cells: Bool[Array, "i b"],
    nonempty: Bool[Array, "i b"],
    table: Float[Array, "c i b"],
    group: int,
) -> int:
    """Return the client whose cell of a group is hidden next.

    A client that already has a hidden cell comes first: the new cell protects that one too. Among
    equals the smallest cell comes first.
    """
    without_hidden = ~(~open_cells & nonempty).any(axis=1)
    return _pick(open_cells[:, group], without_hidden, table[:, :, group].sum(axis=0))


def choose_group(
    open_cells: Bool[Array, "i b"],
    nonempty: Bool[Array, "i b"],
    table: Float[Array, "c i b"],
    client: int,
    in_total: Bool[Array, " a"],
) -> int:
    """Return the group of a client that is hidden next; if none is left, the column of the total.

    The order is that of :func:`choose_client`.
    """
    candidates = open_cells[client, :-1] & in_total
    if not candidates.any():
        return open_cells.shape[1] - 1
    without_hidden = ~(~open_cells & nonempty)[:, :-1].any(axis=0)
    return _pick(candidates, without_hidden, table[:, client, :-1].sum(axis=0))


def _pick(candidates: Bool[Array, " k"], last: Bool[Array, " k"], size: Float[Array, " k"]) -> int:
    """Return the smallest candidate, one that is not ``last`` where there is any."""
    # lexsort sorts by its last key first.
    return int(np.lexsort((size, last, ~candidates))[0])


def hide_exposed(
    open_cells: Bool[Array, "i b"],
    nonempty: Bool[Array, "i b"],
    table: Float[Array, "c i b"],
    groups: Bool[Array, " a"],
    in_total: Bool[Array, " a"],
    small: Bool[Array, "i b"],
) -> Bool[Array, "i b"]:
    """Hide more beside each small cell that follows from all published totals together.

    Args:
        open_cells: cells that are published, the clients' totals in the last column.
        nonempty: cells with rows.
        table: rows by kind, client and column.
        groups: groups whose totals over clients are published.
        in_total: groups that a client's total adds up.
        small: cells below the minimum. A large cell that follows harms nobody.

    """
    open_cells = open_cells.copy()
    for client, group in find_exposed(open_cells, nonempty, groups, in_total):
        if not small[client, group]:
            continue
        # Hide a further unknown in the equation of the client, or else in that of the group.
        if open_cells[client, -1] and (group == open_cells.shape[1] - 1 or in_total[group]):
            open_cells[client, choose_group(open_cells, nonempty, table, client, in_total)] = False
        elif open_cells[:, group].any():
            open_cells[choose_client(open_cells, nonempty, table, group), group] = False
    return open_cells


def find_exposed(
    open_cells: Bool[Array, "i b"],
    nonempty: Bool[Array, "i b"],
    groups: Bool[Array, " a"],
    in_total: Bool[Array, " a"],
) -> list[tuple[int, int]]:
    """Return the hidden cells that the published totals determine, by linear algebra.

    The unknowns are the hidden cells, clients' totals among them. The equations are the sums over
    clients, and for every client its total less its groups. A cell is determined where its unit
    vector lies in the row space of these equations.

    Args:
        open_cells: cells that are published, the clients' totals in the last column.
        nonempty: cells with rows; an empty cell is known.
        groups: groups whose totals over clients are published.
        in_total: groups that a client's total adds up.

    """
    summed = np.append(groups, in_total.any())
    unknown = np.argwhere(~open_cells & nonempty & summed)
    if not len(unknown):
        return []
    client, column = unknown.T
    last = open_cells.shape[1] - 1
    part = np.append(in_total, False)[column]
    by_group = (column[None, :] == np.unique(column)[:, None]).astype(np.float64)
    of_client = client[None, :] == np.unique(client)[:, None]
    # A client's groups enter with 1 and its total with -1. Where the total is published it is no
    # unknown, and the groups alone are the equation.
    by_client = of_client * (part.astype(np.float64) - (column == last))
    equations = np.concatenate([by_group, by_client[by_client.any(axis=1)]])
    # An orthonormal basis of the row space, from the Gram matrix: equations are few (clients plus
    # groups) where unknowns may be many (clients times groups).
    eigenvalues, vectors = np.linalg.eigh(equations @ equations.T)
    independent = eigenvalues > 1e-9
    basis = (vectors[:, independent] / np.sqrt(eigenvalues[independent])).T @ equations
    # The squared length of a unit vector's projection: 1 if the vector lies in the row space.
    projection = (basis**2).sum(axis=0)
    return [(int(i), int(a)) for i, a in unknown[projection > 1 - 1e-9]]
