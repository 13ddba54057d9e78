r"""A quick look at LFT+FedAvg rules: many multipliers at once, or one with smooth gradients.

Decisions are softened, :math:`f_a = \operatorname{expit}(T_a/\tau)` at the middle of each of some
hundred cells with exact masses. That costs a few matrix products, errs by about :math:`\tau^2` at
a plain end of an interval, and rounds off the square-root kinks at which intervals are born.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import expit

from fedfb.shapes import Array, Float
from fedfb.theory.cells import first_edges
from fedfb.theory.overlap import SIGN, Overlap, gaps_of, outcome_of, ratio

SOFTNESS = 2e-3


class Sketch(NamedTuple):
    """For each group: 2 eta - 1 and r in the middle of the cells, their masses and gains."""

    margin: tuple[Float[Array, " k"], ...]
    ratios: tuple[Float[Array, "k i"], ...]
    masses: tuple[Float[Array, "i k"], ...]
    gain: tuple[Float[Array, " k"], ...]
    client_weights: Float[Array, "i 2"]
    negatives: float


class Glance(NamedTuple):
    """Accuracy, mean difference and every client's gap for a batch of multipliers."""

    lam: Float[Array, "b i"]
    accuracy: Float[Array, " b"]
    mean_difference: Float[Array, " b"]
    gaps: Float[Array, "b i"]


class Linearised(NamedTuple):
    """The same at one place, with gradients."""

    accuracy: float
    mean_difference: float
    gaps: Float[Array, " i"]
    accuracy_slope: Float[Array, " i"]
    parity_slope: Float[Array, " i"]
    gaps_slope: Float[Array, "i i"]


def sketch(grid: Overlap, cells: int = 800) -> Sketch:
    """Return cells dense where there is mass.

    >>> from fedfb.theory.overlap import overlap
    >>> from fedfb.theory.settings import fig2
    >>> look = glance(sketch(overlap(fig2())), np.zeros((1, 2)))
    >>> bool(abs(look.accuracy[0] - 0.8476605) < 1e-4)
    True
    """
    population = grid.population
    margin, ratios, masses, gain = [], [], [], []
    for group, edges in enumerate(first_edges(grid, cells)):
        ends = np.concatenate([[grid.nodes[0]], edges, [grid.nodes[-1]]])
        middle = 0.5 * (ends[1:] + ends[:-1])
        margin.append(population.eta.value(middle) - population.eta.upper(middle))
        ratios.append(ratio(population, group, middle))
        masses.append(np.diff(population.laws[group].ask("cdf", ends[None, :]), axis=1))
        table = population.pooled_gains[group].at(ends[None, :])[0]
        gain.append(-population.group_shares[group] * np.diff(table))
    return Sketch(
        tuple(margin),
        tuple(ratios),
        tuple(masses),
        tuple(gain),
        population.client_weights,
        grid.negatives,
    )


def glance(seen: Sketch, lam: Float[Array, "b i"]) -> Glance:
    """Return what the rules of many multipliers do."""
    accuracy = np.full(len(lam), seen.negatives)
    rates: list[Array] = []
    for group in (0, 1):
        values = seen.margin[group][:, None] + SIGN[group] * (seen.ratios[group] @ lam.T)
        inside = (values > 0).astype(float)
        accuracy = accuracy + seen.gain[group] @ inside
        rates.append((seen.masses[group] @ inside).T)
    by_group = [rates[a] @ seen.client_weights[:, a] for a in (0, 1)]
    return Glance(lam, accuracy, by_group[0] - by_group[1], rates[0] - rates[1])


def softened(seen: Sketch, lam: Float[Array, " i"], softness: float = SOFTNESS) -> Linearised:
    """Return what a softened rule does, with gradients."""
    accuracy, accuracy_slope = seen.negatives, np.zeros(len(lam))
    gaps, gaps_slope = np.zeros(len(lam)), np.zeros((len(lam), len(lam)))
    gap, parity_slope = 0.0, np.zeros(len(lam))
    for group, sign in enumerate(SIGN):
        ratios, masses = seen.ratios[group], seen.masses[group]
        f = expit((seen.margin[group] + sign * (ratios @ lam)) / softness)
        slope = (f * (1 - f) / softness)[:, None] * ratios
        rates, rates_slope = masses @ f, masses @ slope
        weights = seen.client_weights[:, group]
        accuracy += float(seen.gain[group] @ f)
        accuracy_slope = accuracy_slope + sign * (seen.gain[group] @ slope)
        gaps, gaps_slope = gaps + sign * rates, gaps_slope + rates_slope
        gap, parity_slope = (
            gap + sign * float(weights @ rates),
            parity_slope + weights @ rates_slope,
        )
    return Linearised(accuracy, gap, gaps, accuracy_slope, parity_slope, gaps_slope)


def exactly(grid: Overlap, lam: Float[Array, " i"]) -> Linearised:
    r"""Return what the rule of given multipliers does, with gradients.

    .. math:: \partial M = J_0 + J_1, \quad \partial\mathrm{Acc} = -\lambda^\top(J_0 + J_1), \quad
              \partial\mathrm{MD} = w_0^\top J_0 + w_1^\top J_1
    """
    at = gaps_of(grid, lam)
    weights = grid.population.client_weights
    parity = weights[:, 0] @ at.slopes[0] + weights[:, 1] @ at.slopes[1]
    reached = outcome_of(grid, at)
    return Linearised(
        reached.accuracy,
        reached.mean_difference,
        at.gaps,
        -at.jacobian @ lam,
        parity,
        at.jacobian,
    )
