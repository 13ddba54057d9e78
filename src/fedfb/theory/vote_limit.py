r"""Mean differences against the multiplier, and the lemma that keeps two clients' vote unfair.

A pair of thresholds with multiplier :math:`\lambda` has the mean difference

.. math:: g_i(\lambda) = P_0^{(i)}\big[\eta > \tfrac12 - \tfrac{\lambda}{2n_{i0}}\big]
          - P_1^{(i)}\big[\eta > \tfrac12 + \tfrac{\lambda}{2n_{i1}}\big]

at client i, increasing in :math:`\lambda`; g is the same on the pooled laws. Lemma "ufl_limit" (two
clients of equal size, one q) bounds the disparity of a vote through

.. math:: \psi(\epsilon_0,\epsilon_1) = \tfrac14\big[g_0(\lambda_0) + g_1(\lambda_0)
          + g_0(\lambda_1) + g_1(\lambda_1)\big], \qquad
          \lambda_i = g_i^{-1}(\operatorname{sign}(g_i(0))\,\epsilon_i)

on :math:`[0,c]^2`, :math:`c=\min_i|g_i(0)|`: if :math:`g_0(0)g_1(0)<0` and :math:`\psi` has the
sign of :math:`g_0(0)+g_1(0)` everywhere, no budgets reach less than :math:`\delta=\min|\psi|`.
:math:`\psi` rises with the budget of the client that favours group 0 and falls with the other's, so
its values lie between two corners: no search is needed.
"""

from typing import NamedTuple

import numpy as np

from fedfb.shapes import Array, Float
from fedfb.theory.atoms import pooled_masses
from fedfb.theory.cfl import local_problem, signs_at
from fedfb.theory.lft_ensemble import lft_ensemble
from fedfb.theory.measures import refuse_densities_of_many_groups, refuse_more_than_two_groups
from fedfb.theory.population import AtomPopulation, ContinuousPopulation, Population
from fedfb.theory.tails import GroupLaws, rate_gap

EQUAL = 1e-9
"""Shares that differ by less are equal."""


class GapCurves(NamedTuple):
    """g and every g_i at given multipliers; a client that lacks a group has nan."""

    lam: Float[Array, " k"]
    together: Float[Array, " k"]
    clients: Float[Array, "i k"]


class Condition(NamedTuple):
    """A condition of a lemma, whether the population meets it, and the numbers that decide."""

    statement: str
    holds: bool
    numbers: str


class VoteLimit(NamedTuple):
    r"""What Lemma "ufl_limit" says about a population.

    Conditions that cannot be evaluated because an earlier one fails are left out. ``bound`` is
    :math:`\delta`, or None if the lemma does not apply: then a vote may still be unfair, and
    ``ensemble_range`` has the exact least disparity.
    """

    conditions: tuple[Condition, ...]
    bound: float | None

    @property
    def applies(self) -> bool:
        return self.bound is not None


def gap_curves(population: Population, lam: Float[Array, " k"]) -> GapCurves:
    """Return the mean differences of all clients together and of each client, at many multipliers.

    Args:
        population: a population of two groups.
        lam: the multipliers.

    >>> from fedfb.theory.population import fig2
    >>> gap_curves(fig2(), np.zeros(1)).clients.ravel().round(7)
    array([-0.0013496,  0.6826895])
    """
    refuse_more_than_two_groups(population, "g against lambda")
    lam = np.asarray(lam, float)
    if isinstance(population, AtomPopulation):
        shares = np.concatenate([population.group_shares[None, :], population.within])
        masses = np.concatenate([pooled_masses(population)[None], population.masses])
        pairs = zip(shares, masses, strict=True)
        rows = np.array([_on_atoms(population.eta, *pair, lam) for pair in pairs])
        together, clients = rows[0], rows[1:]
    else:
        refuse_densities_of_many_groups(population)
        together = _on_densities(population, population.group_shares[None], population.pooled, lam)[
            0
        ]
        clients = _on_densities(population, population.within, population.laws, lam)
    return GapCurves(lam, together, np.where(population.constrained[:, None], clients, np.nan))


def _on_densities(
    population: ContinuousPopulation,
    shares: Float[Array, "i 2"],
    laws: tuple[GroupLaws, ...],
    lam: Float[Array, " k"],
) -> Float[Array, "i k"]:
    # Beyond [0, 1] a group is decided all alike. A client that lacks a group is left out later.
    nonzero_shares = np.where(shares > 0, shares, 1.0)
    below = np.clip(0.5 - lam / (2 * nonzero_shares[:, :1]), 0.0, 1.0)
    above = np.clip(0.5 + lam / (2 * nonzero_shares[:, 1:]), 0.0, 1.0)
    return rate_gap(laws[0], laws[1], population.eta.inverse(below), population.eta.inverse(above))


def _on_atoms(
    eta: Float[Array, " n"],
    shares: Float[Array, " 2"],
    masses: Float[Array, "2 n"],
    lam: Float[Array, " k"],
) -> Float[Array, " k"]:
    first = shares[0] * (2 * eta[:, None] - 1) + lam > 0
    second = shares[1] * (2 * eta[:, None] - 1) - lam > 0
    return np.asarray(masses[0] @ first - masses[1] @ second)


def vote_limit(population: Population) -> VoteLimit:
    """Return the conditions of Lemma "ufl_limit" on a population, and the bound if all hold.

    >>> from fedfb.theory.population import example1, fig1c
    >>> round(vote_limit(fig1c()).bound, 7)
    0.1646474
    >>> [condition.holds for condition in vote_limit(example1()).conditions]  # g_0(0) = 0
    [True, True, True, True, False]
    """
    refuse_more_than_two_groups(population, "the lemma on the limit of LFT+Ensemble")
    setting = _setting(population)
    if not all(condition.holds for condition in setting):
        return VoteLimit(setting, None)
    assert isinstance(population, ContinuousPopulation)
    gaps = gap_curves(population, np.zeros(1)).clients[:, 0]
    # The signs survive where the gaps underflow.
    signs = signs_at(local_problem(population), np.zeros(2))
    opposed = Condition(
        "the clients favour different groups, g_0(0) g_1(0) < 0",
        bool(signs[0] * signs[1] < 0),
        f"g_0(0) = {gaps[0]:.4g}, g_1(0) = {gaps[1]:.4g}",
    )
    if not opposed.holds:
        return VoteLimit((*setting, opposed), None)
    low, high = _ends_of_psi(population, gaps)
    total = float(gaps.sum())
    least = low if total > 0 else -high
    keeps = Condition(
        "psi has the sign of g_0(0) + g_1(0) for all budgets in [0, c]",
        least > 0,
        f"g_0(0) + g_1(0) = {total:.4g}, c = {np.abs(gaps).min():.4g}, "
        f"psi from {low:.4g} to {high:.4g}",
    )
    return VoteLimit((*setting, opposed, keeps), least if keeps.holds else None)


def _ends_of_psi(population: ContinuousPopulation, gaps: Float[Array, " 2"]) -> tuple[float, float]:
    c = np.abs(gaps).min()
    favours_0 = gaps > 0
    corners = [np.where(favours_0, 0.0, c), np.where(favours_0, c, 0.0)]
    low, high = (lft_ensemble(population, eps).outcome.mean_difference for eps in corners)
    return low, high


def _setting(population: Population) -> tuple[Condition, ...]:
    clients, q = population.clients, population.within[:, 1]
    values = ", ".join(f"{share:.4g}" for share in q[:4]) + (", .." if clients > 4 else "")
    parts = population.shares
    return (
        Condition("there are two clients", clients == 2, f"{clients} clients"),
        Condition(
            "the laws have densities",
            isinstance(population, ContinuousPopulation),
            "densities" if isinstance(population, ContinuousPopulation) else "atoms, g has steps",
        ),
        Condition(
            "the clients are of equal size",
            bool(np.ptp(parts) < EQUAL),
            f"shares from {parts.min():.4g} to {parts.max():.4g}",
        ),
        Condition(
            "all clients have one q, between 0 and 1",
            bool(np.ptp(q) < EQUAL and population.constrained.all()),
            f"q = {values}",
        ),
    )


def lambda_axis(population: Population, points: int = 401) -> Float[Array, " k"]:
    """Return multipliers that cover the range in which g moves, 0 among them.

    Args:
        population: a population of two groups.
        points: number of multipliers, odd.

    >>> from fedfb.theory.population import fig2
    >>> lambda_axis(fig2(), 5)
    array([-0.5 , -0.25,  0.  ,  0.25,  0.5 ])
    """
    shares: Array = np.concatenate([population.group_shares[None], population.within])
    most = float(shares.min(axis=1).max())
    return np.linspace(-most, most, points)
