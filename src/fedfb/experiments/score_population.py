"""A population read off data: the scores of a federated model, counted by client and group."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from fedfb.algorithms.hardt import histogram_task
from fedfb.core import generator
from fedfb.data import astype, load
from fedfb.errors import ConfigError
from fedfb.experiments.evaluation import Record
from fedfb.experiments.fit import fit, make_engine
from fedfb.experiments.resolve import given_grid, resolve
from fedfb.experiments.spec import Experiment
from fedfb.runtime import make_ask
from fedfb.shapes import Array, Float
from fedfb.theory import (
    Histogram,
    Population,
    cfl,
    client,
    ensemble_range,
    erm,
    identity,
    population,
)

BINS = 200
RESAMPLES = 40
LEVEL = 0.95


class Scored(NamedTuple):
    """How many rows of each client and group have their score in each bin, and the names."""

    counts: Float[Array, "i a k"]
    clients: tuple[str, ...]
    groups: tuple[str, ...]


def count_scores(experiment: Experiment) -> Scored:
    """Train FedAvg on the first seed and count every client's scores, by group."""
    experiment = resolve(replace(experiment, algorithm="fedavg", alpha=(), knobs=(), variant=None))
    seed = experiment.seeds[0]
    federation = astype(load(experiment.request, experiment.split_of(seed)), experiment.precision)
    if len(federation.group_names) != 2:
        raise ConfigError(
            f"fedfb achievable compares two groups, and {experiment.data} has "
            f"{len(federation.group_names)} ({', '.join(federation.group_names)}). Name one "
            "sensitive column with two values."
        )
    fitted = fit(experiment, federation, given_grid(experiment)[:1], seed)
    params = fitted.algorithm.params(fitted.trained.state)
    engine = make_engine(experiment, federation.clients[0].x.shape[1])
    ask = make_ask(federation.clients, {c.id: {} for c in federation.clients}, seed, round=0)
    task = histogram_task(engine, BINS)._replace(reduce="gather")
    counts = ask(task, {"params": np.asarray(params)})["rows"]
    by_group = counts[:, 0].sum(axis=1)
    refuse_tiny(by_group)
    return Scored(by_group, federation.client_names, federation.group_names)


def population_of(counts: Float[Array, "i a k"]) -> Population:
    r"""Return the population whose feature is the score, :math:`\eta(x)=x`, even within a bin."""
    edges, rows = np.linspace(0.0, 1.0, counts.shape[2] + 1), counts.sum(axis=(1, 2))
    members = []
    for own, share in zip(counts, rows / rows.sum(), strict=True):
        by_group = own.sum(axis=1)
        laws = [Histogram(edges, part / part.sum()) if part.sum() else None for part in own]
        members.append(client(by_group[1] / by_group.sum(), laws[0], laws[1], float(share)))
    return population(members, identity())


def intervals(counts: Float[Array, "i a k"], seed: int) -> Record:
    """Return 95% intervals by drawing every client's rows again from its own counts.

    The model stays the same: they tell the noise of the rows, not that of training.
    """
    rng, found = generator((seed, 30)), []
    total = counts.sum(axis=(1, 2))
    shape = counts.shape[1:]
    for _ in range(RESAMPLES):
        drawn = [
            rng.multinomial(int(n), own.ravel() / n).reshape(shape)
            for n, own in zip(total, counts, strict=True)
        ]
        again = population_of(np.stack(drawn).astype(np.float64))
        found.append(
            (
                erm(again).outcome.spd,
                ensemble_range(again).least_disparity,
                erm(again).outcome.accuracy - cfl(again, 0.0).outcome.accuracy,
            )
        )
    low, high = np.quantile(np.array(found), [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    names = ("erm_disparity", "lft_ensemble_min_disparity", "cost_of_parity")
    return {name: [float(a), float(b)] for name, a, b in zip(names, low, high, strict=True)}


def revealed(scored: Scored) -> str:
    """Say what each client had to show for this."""
    clients, groups, bins = scored.counts.shape
    return (
        f"Revealed: of each of the {clients} clients the number of its rows in each of {bins} bins "
        f"of the score, for each of {groups} groups, beside FedAvg's sums. Training together alone "
        "needs only the sum of these counts over clients."
    )


def refuse_tiny(counts: Array, least: int = 30) -> None:
    """Refuse clients whose groups are too few to speak of a law."""
    rows = counts.sum(axis=2)
    small = (rows > 0) & (rows < least)
    if small.any():
        number, group = np.argwhere(small)[0]
        raise ConfigError(
            f"client {number} has {int(rows[number, group])} rows of group {group}: too few to "
            f"tell a law from (at least {least}, or none). Merge clients or groups."
        )
