"""Random populations to hold the theory against, and ways to solve them that share no code."""

import numpy as np
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.special import expit, ndtr

from fedfb.data.datasets.gaussians import Gaussians
from fedfb.theory import Gaussian, client, population
from fedfb.theory.population import gaussian_population


@st.composite
def populations(draw, clients=(2, 3), equal_q=False, etas=("logistic", "probit"), shares=True):
    """Gaussian clients; deviations differ by client and group, shares need not be equal."""
    number = draw(st.integers(*clients))
    common = draw(st.floats(0.15, 0.85))
    sizes = [draw(st.floats(0.5, 2.0)) if shares else 1.0 for _ in range(number)]
    made = []
    for size in sizes:
        laws = [Gaussian(draw(st.floats(-2.5, 3.5)), draw(st.floats(0.3, 2.5))) for _ in range(2)]
        q = common if equal_q else draw(st.floats(0.15, 0.85))
        made.append(client(q, *laws, share=size / sum(sizes)))
    return population(made, draw(st.sampled_from(etas)))


def gaussians(means, sds, qs, eta="logistic"):
    return gaussian_population(Gaussians(means, sds, qs), eta)


def positive_chance(population, x):
    return {"logistic": expit, "probit": ndtr}[population.eta.name](x)


def cells(population, number=1500):
    """Cells over all laws: middles, the clients' masses [i, a, k] and the chance of a positive."""
    laws = population.laws
    low = min(float((one.mean - 8 * one.sd).min()) for one in laws)
    high = max(float((one.mean + 8 * one.sd).max()) for one in laws)
    edges = np.linspace(low, high, number + 1)
    masses = np.stack(
        [np.diff(ndtr((edges - one.mean[:, None]) / one.sd[:, None]), axis=1) for one in laws],
        axis=1,
    )
    middles = 0.5 * (edges[1:] + edges[:-1])
    return middles, masses, positive_chance(population, middles)


def program(population, rows, bounds, number=1500):
    """Maximise accuracy on cells with |rows . f| <= bounds; return accuracy and rates [i, a]."""
    _, masses, eta = cells(population, number)
    weight = np.einsum("ia,iak->ak", population.joint, masses)
    # The solver gives up at times where masses are tiny, or where two bounds leave no room at all.
    rows = np.where(np.abs(rows) < 1e-11, 0.0, rows)
    both = np.concatenate([rows, -rows]), np.concatenate([bounds, bounds]) + 1e-9
    gain = (weight * (2 * eta - 1)).ravel()
    solved = linprog(-gain, *both, bounds=(0, 1), method="highs")
    f = solved.x.reshape(2, -1)
    accuracy = -solved.fun + (weight * (1 - eta)).sum()
    return accuracy, np.einsum("iak,ak->ia", masses, f)


def cfl_by_program(population, eps, number=1500):
    _, masses, _ = cells(population, number)
    pooled = np.einsum("ia,iak->ak", population.client_weights, masses)
    return program(population, np.concatenate([pooled[0], -pooled[1]])[None, :], [eps], number)


def fedavg_by_program(population, eps, number=1500):
    _, masses, _ = cells(population, number)
    rows = np.concatenate([masses[:, 0], -masses[:, 1]], axis=1)
    return program(population, rows, eps, number)


def sampled(population, decide, draws, seed):
    """Return accuracy and mean difference of a rule on draws, with their standard errors."""
    rng = np.random.default_rng(seed)
    joint = population.joint.ravel()
    cell = rng.choice(len(joint), size=draws, p=joint / joint.sum())
    i, a = np.divmod(cell, population.groups)
    means = np.stack([one.mean for one in population.laws], axis=1)
    sds = np.stack([one.sd for one in population.laws], axis=1)
    x = rng.normal(means[i, a], sds[i, a])
    y = rng.random(draws) < positive_chance(population, x)
    chance = np.where(a == 0, decide(x, 0), decide(x, 1))
    decided = rng.random(draws) < chance
    rates = [decided[a == g].mean() for g in (0, 1)]
    errors = [np.sqrt(rates[g] * (1 - rates[g]) / (a == g).sum() + 1e-12) for g in (0, 1)]
    right = (decided == y).mean()
    return right, np.sqrt(right * (1 - right) / draws), rates[0] - rates[1], np.hypot(*errors)


def decisions(rule):
    """Return a rule made of steps as a function of the feature and the group."""

    def decide(x, group):
        steps = rule[group]
        return steps.values[np.searchsorted(steps.edges, x)]

    return decide
