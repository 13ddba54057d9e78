r"""Divide a total among clients at the least cost, where each client has its own cost curve.

.. math:: \min_y \sum_j c_j(y_j) \quad\text{s.t.}\quad \sum_j y_j = Y,\; 0\le y_j\le Y_j

The lower convex envelopes of the curves give a lower bound. Where the curves are convex this bound
is the optimum: take the cheapest slopes first (water-filling). Elsewhere dynamic programming on a
grid, refined around its optimum, finds the optimum. ``bound`` is valid in both cases.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedfb.shapes import Array, Float, Int

GRID = 1500
ZOOMS = 4
MOST_ON_GRIDS = 12
"""Beyond, the program by grids is left out: one client of many off its envelope costs little."""


class Cost(NamedTuple):
    """A cost curve through points; ``amount`` and ``cost`` increase from 0."""

    amount: Float[Array, " k"]
    cost: Float[Array, " k"]

    def at(self, y: Array) -> Array:
        return np.interp(y, self.amount, self.cost)


class Allocation(NamedTuple):
    """Each client's amount, the total cost, and a lower bound on the cost of any allocation."""

    amounts: Float[Array, " j"]
    cost: float
    bound: float


def allocate(costs: Sequence[Cost], total: float) -> Allocation:
    """Return the cheapest division of a total.

    Args:
        costs: one increasing curve for each client; its last amount is the most the client can
            take.
        total: the amount to divide, at most the sum of what all clients can take.

    >>> quadratic = Cost(np.linspace(0, 1, 101), np.linspace(0, 1, 101) ** 2)
    >>> allocate([quadratic, quadratic], 0.5).amounts.round(2)
    array([0.25, 0.25])
    """
    filled = _by_envelopes(costs, total)
    # An allocation that costs as much as its lower bound is optimal.
    if filled.cost - filled.bound < 1e-8 or len(costs) > MOST_ON_GRIDS:
        return filled
    amounts = _by_grids(costs, total)
    cost = sum(float(c.at(y)) for c, y in zip(costs, amounts, strict=True))
    return Allocation(amounts, cost, filled.bound) if cost < filled.cost else filled


def _by_envelopes(costs: Sequence[Cost], total: float) -> Allocation:
    hulls = [lower_hull(c.amount, c.cost) for c in costs]
    widths = [np.diff(c.amount[h]) for c, h in zip(costs, hulls, strict=True)]
    rises = [np.diff(c.cost[h]) for c, h in zip(costs, hulls, strict=True)]
    owner = np.concatenate([np.full(len(w), j) for j, w in enumerate(widths)])
    width, rise = np.concatenate(widths), np.concatenate(rises)
    # Stable: equal slopes are taken client by client, however the sort works.
    order = np.argsort(rise / width, kind="stable")
    offsets = np.concatenate([[0.0], np.cumsum(width[order])[:-1]])
    portions = np.clip(total - offsets, 0.0, width[order])
    bound = float((rise[order] * portions / width[order]).sum())
    amounts = np.bincount(owner[order], weights=portions, minlength=len(costs))
    cost = sum(float(c.at(y)) for c, y in zip(costs, amounts, strict=True))
    # Rounding may put the bound a little above the cost.
    return Allocation(amounts, cost, min(bound, cost))


def lower_hull(x: Float[Array, " k"], y: Float[Array, " k"]) -> Int[Array, " h"]:
    """Return the indices of the points on the lower convex hull.

    Args:
        x: coordinates, increasing; of equal ones the first counts.
        y: values at x.

    >>> lower_hull(np.array([0.0, 1.0, 2.0]), np.array([0.0, 2.0, 1.0]))
    array([0, 2])
    """
    hull: list[int] = []
    for k in range(len(x)):
        if hull and x[k] <= x[hull[-1]]:
            continue
        while len(hull) > 1:
            i, j = hull[-2], hull[-1]
            if (y[j] - y[i]) * (x[k] - x[i]) < (y[k] - y[i]) * (x[j] - x[i]):
                break
            hull.pop()
        hull.append(k)
    return np.array(hull)


def _by_grids(costs: Sequence[Cost], total: float) -> Float[Array, " j"]:
    most = np.array([c.amount[-1] for c in costs])
    low, high = np.zeros(len(costs)), np.minimum(most, total)
    amounts, points = low, GRID
    for _ in range(ZOOMS):
        step = max((high - low).max() / points, 1e-15)
        amounts = _one_grid(costs, total, low, high, step)
        # The next grid covers four steps to both sides, so that a neighbour's optimum stays inside.
        low = np.maximum(amounts - 4 * step, 0.0)
        high = np.minimum(amounts + 4 * step, np.minimum(most, total))
        points = 80
    return amounts


def _one_grid(costs: Sequence[Cost], total: float, low: Array, high: Array, step: float) -> Array:
    """Solve with all clients but one on grids; the client of the widest range takes the rest."""
    # One client needs no grid, as it takes the rest: that of the widest range.
    rest = int(np.argmax(high - low))
    others = [j for j in range(len(costs)) if j != rest]
    sums, values = np.zeros(1), np.zeros(1)
    choices: list[tuple[Array, Int[Array, " n"]]] = []
    for j in others:
        grid = np.append(np.arange(low[j], high[j], step), high[j])
        # The best cost of the clients so far for every sum: a (min, +) convolution.
        values, pick = _merge(values, costs[j].at(grid))
        sums = low[others[: len(choices) + 1]].sum() + step * np.arange(len(values))
        choices.append((grid, pick))
    remainder = total - sums
    slack = len(costs) * step  # a grid's last step may be shorter than the others
    fits = (remainder >= -slack) & (remainder <= costs[rest].amount[-1] + slack)
    total_cost = np.where(fits, values + costs[rest].at(remainder), np.inf)
    at = int(np.argmin(total_cost))
    amounts = np.zeros(len(costs))
    for j, (grid, pick) in zip(reversed(others), reversed(choices), strict=True):
        amounts[j] = grid[pick[at]]
        at = at - int(pick[at])
    amounts[rest] = total - amounts.sum()
    return _repair(amounts, np.array([c.amount[-1] for c in costs]), total)


def _repair(amounts: Array, most: Array, total: float) -> Float[Array, " j"]:
    """Move the small amount that does not fit one client to clients that have room for it."""
    amounts = np.clip(amounts, 0.0, most)
    for _ in range(2):
        missing = total - amounts.sum()
        room = most - amounts if missing > 0 else amounts
        if room.sum() > 0:
            # In proportion to the room, so that nobody is pushed beyond a limit.
            amounts = np.clip(amounts + missing * room / room.sum(), 0.0, most)
    return amounts


def _merge(first: Float[Array, " m"], second: Float[Array, " n"]) -> tuple[Array, Array]:
    r"""Return :math:`\min_k (first_{t-k} + second_k)` for every t, and the best k."""
    size = len(first) + len(second) - 1
    best, pick = np.full(size, np.inf), np.zeros(size, dtype=int)
    for k, value in enumerate(second):
        window = slice(k, k + len(first))
        better = first + value < best[window]
        best[window] = np.where(better, first + value, best[window])
        pick[window] = np.where(better, k, pick[window])
    return best, pick
