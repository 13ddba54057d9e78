r"""LFT+FedAvg on atoms: a linear program, exact; its trade-off by trying budgets, a heuristic.

At a tie the optimum of given budgets is not unique, so disparities jump as budgets move and there
is no smooth search. Budgets are tried on a grid, and between the best that meets a level and the
best that does not. ``gap`` is the distance to CFL's accuracy, which nothing can exceed. For an
exact curve give histograms, whose densities have no ties, in place of atoms.
"""

from itertools import product

import numpy as np

from fedfb.shapes import Array, Float
from fedfb.theory.atoms import cfl, erm, gap_rows
from fedfb.theory.cells import solve_program
from fedfb.theory.measures import Decisions, outcome
from fedfb.theory.population import AtomPopulation
from fedfb.theory.solution import CurvePoint, Solution

PARTS = (0.0, 0.25, 0.5, 0.75, 1.0)
MOST_PROGRAMS = 130


def optimum(population: AtomPopulation, eps: Float[Array, " i"]) -> Solution:
    """Return the optimum of given budgets; for more than two groups they bound max |P_a - P|.

    ``multipliers`` has one number for each client with both groups known to it, or one for each
    client and group if there are more than two groups.
    """
    clients, groups = population.clients, population.groups
    weight = np.einsum("ia,iak->ak", population.joint, population.masses)
    gain = (weight * (2 * population.eta - 1)).ravel()
    rows, bounds, places = _constraints(population, eps)
    f, found = solve_program(gain, rows, bounds)
    lam = np.zeros((clients, groups if groups > 2 else 1))
    for (i, a), value in zip(places, found, strict=True):
        lam[i, a] = value
    rule = Decisions(f.reshape(groups, -1))
    dual = np.maximum(gain + found @ rows, 0.0).sum() + bounds @ np.abs(found)
    gap = max(float(dual - gain @ f), 0.0)
    return Solution(rule, outcome(population, rule), lam.ravel(), eps, gap)


def _constraints(
    population: AtomPopulation, eps: Float[Array, " i"]
) -> tuple[Float[Array, "r n"], Float[Array, " r"], list[tuple[int, int]]]:
    rows: list[Array] = []
    bounds: list[float] = []
    places: list[tuple[int, int]] = []
    for i in np.flatnonzero(population.constrained):
        masses = population.masses[i]
        if population.groups == 2:
            rows.append(np.concatenate([masses[0], -masses[1]]))
            bounds.append(float(eps[i]))
            places.append((int(i), 0))
        else:
            rows.extend(gap_rows(population.within[i], masses))
            bounds.extend([float(eps[i])] * population.groups)
            places.extend((int(i), a) for a in range(population.groups))
    width = population.groups * len(population.eta)
    return np.array(rows).reshape(-1, width), np.array(bounds), places


def _tried(population: AtomPopulation) -> list[Solution]:
    own = np.nan_to_num(np.abs(erm(population).outcome.client_gaps), nan=1.0)
    clients = population.clients
    parts = next(
        (p for p in (PARTS, PARTS[::2], (0.0, 1.0)) if len(p) ** clients <= MOST_PROGRAMS), None
    )
    if parts is not None:
        budgets = [np.array(p) * own for p in product(parts, repeat=clients)]
    else:
        budgets = [p * own for p in PARTS] + [np.full(clients, p * own.max()) for p in PARTS]
    return [optimum(population, eps) for eps in budgets]


def curve(population: AtomPopulation, levels: list[float]) -> list[CurvePoint]:
    """Return the best optimum found at each level of spd, None where none was found."""
    tried = _tried(population)
    points = []
    for level in levels:
        ceiling = cfl(population, level).outcome.accuracy
        best = _best(population, tried, level)
        gap = 0.0 if best is None else max(ceiling - best.outcome.accuracy, 0.0)
        points.append(CurvePoint(level, best, gap, exact=gap < 1e-9))
    return points


def _best(population: AtomPopulation, tried: list[Solution], level: float) -> Solution | None:
    inside = [one for one in tried if one.outcome.spd <= level + 1e-12]
    if not inside:
        return None
    best = max(inside, key=lambda one: one.outcome.accuracy)
    better = [one for one in tried if one.outcome.accuracy > best.outcome.accuracy]
    for target in sorted(better, key=lambda one: one.outcome.spd)[:3]:
        assert best.budgets is not None
        assert target.budgets is not None
        low, high = best.budgets, target.budgets
        for _ in range(12):
            middle = 0.5 * (low + high)
            there = optimum(population, middle)
            fits = there.outcome.spd <= level + 1e-12
            low, high = (middle, high) if fits else (low, middle)
            if fits and there.outcome.accuracy > best.outcome.accuracy:
                best = there
    return best


def least_disparity(population: AtomPopulation) -> Solution:
    """Return the optimum of least disparity among the budgets tried."""
    return min(_tried(population), key=lambda one: (one.outcome.spd, -one.outcome.accuracy))
