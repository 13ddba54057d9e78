"""A population read off data: the scores of a federated model, counted by client and group."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from fedfb.core import generator
from fedfb.data import astype
from fedfb.errors import ConfigError
from fedfb.experiments.outcome import load_federations
from fedfb.experiments.resolve import given_grid
from fedfb.experiments.scores import FEWEST_ROWS, scores_task, tiny, without_fairness
from fedfb.experiments.spec import Experiment
from fedfb.experiments.train import fit, make_engine
from fedfb.notions.intervals import LEVEL, normal_quantile
from fedfb.notions.over_seeds import student_quantile
from fedfb.runtime import make_ask
from fedfb.shapes import Array, Float
from fedfb.theory import (
    Atoms,
    Client,
    Histogram,
    Population,
    cfl,
    ensemble_range,
    erm,
    identity,
    population,
)

RESAMPLES = 40


class Scored(NamedTuple):
    """How many rows of each client and group have their score in each bin, and the names."""

    counts: Float[Array, "i a k"]
    clients: tuple[str, ...]
    groups: tuple[str, ...]


def count_scores(experiment: Experiment) -> Scored:
    """Train FedAvg on the first seed and count every client's scores, by group."""
    experiment = without_fairness(experiment)
    seed = experiment.seeds[0]
    [loaded] = load_federations(replace(experiment, seeds=(seed,))).values()
    federation = astype(loaded, experiment.precision)
    fitted = fit(experiment, federation, given_grid(experiment)[:1], seed)
    params = fitted.algorithm.params(fitted.trained.state)
    engine = make_engine(experiment, federation.clients[0].x.shape[1])
    ask = make_ask(federation.clients, {c.id: {} for c in federation.clients}, seed, round=0)
    counts = ask(scores_task(engine), {"params": np.asarray(params)})["rows"]
    return scored_from(counts, federation.client_names, federation.group_names)


def scored_from(
    rows: Float[Array, "i r 2 a k"], clients: tuple[str, ...], groups: tuple[str, ...]
) -> Scored:
    """Return the counts of the first run by client and group; groups that are tiny are refused."""
    by_group = rows[:, 0].sum(axis=1)
    refuse_tiny(by_group)
    return Scored(by_group, clients, groups)


def population_of(counts: Float[Array, "i a k"]) -> Population:
    r"""Return the population whose feature is the score, :math:`\eta(x)=x`.

    Two groups: scores lie evenly within a bin. More: they stand in its middle, as the linear
    programs need it; accuracies err by the square of a bin's width.
    """
    edges, rows = np.linspace(0.0, 1.0, counts.shape[2] + 1), counts.sum(axis=(1, 2))

    def law(part: Float[Array, " k"]) -> Histogram | Atoms | None:
        if not part.sum():
            return None
        if counts.shape[1] == 2:
            return Histogram(edges, part / part.sum())
        return Atoms(0.5 * (edges[1:] + edges[:-1]), part / part.sum())

    members = [
        Client(tuple(own.sum(axis=1) / own.sum()), tuple(map(law, own)), float(share))
        for own, share in zip(counts, rows / rows.sum(), strict=True)
    ]
    return population(members, identity())


def intervals(counts: Float[Array, "i a k"], seed: int) -> dict[str, Any]:
    r"""Return 95% intervals by drawing every client's rows again from its own counts.

    .. math:: \min\big(q_{.025},\; \hat\theta - |b| - t s\big) \;\text{ to }\;
              \max\big(q_{.975},\; \hat\theta + |b| + t s\big), \qquad b = \bar\theta - \hat\theta

    with the quantiles q, the mean and the standard deviation s of the figures drawn, and Student's
    t for as many draws. The model stays the same: intervals cover other rows, not another training.
    """
    rng, total = generator((seed, 30)), counts.sum(axis=(1, 2))
    figures, draws = _figures(population_of(counts)), []
    for _ in range(RESAMPLES):
        rows = [
            rng.multinomial(int(n), cells.ravel() / n).reshape(cells.shape)
            for n, cells in zip(total, counts, strict=True)
        ]
        draws.append(_figures(population_of(np.stack(rows).astype(np.float64))))
    t = float(student_quantile(np.array(normal_quantile(LEVEL)), RESAMPLES - 1))
    ends = {}
    for name, figure in figures.items():
        drawn = np.array([draw[name] for draw in draws])
        low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        # Figures are kinked at 0, where draws err to the large side. So the bias is allowed for on
        # both sides, not taken off; quantiles alone cover 0 of a figure that is truly 0 never.
        half = abs(float(drawn.mean()) - figure) + t * float(drawn.std(ddof=1))
        ends[name] = [max(min(float(low), figure - half), 0.0), max(float(high), figure + half)]
    return ends


def _figures(again: Population) -> dict[str, float]:
    plain = erm(again).outcome
    cost = {"cost_of_parity": plain.accuracy - cfl(again, 0.0).outcome.accuracy}
    if again.groups > 2:
        return {"erm_disparity": plain.demographic_parity, **cost}
    least = ensemble_range(again).least_disparity
    return {"erm_disparity": plain.spd, "lft_ensemble_min_disparity": least, **cost}


def told_of(scored: Scored, seed: int) -> dict[str, Any]:
    """Return what is told beside the optima: intervals, what was received, and the names."""
    return {
        "intervals": intervals(scored.counts, seed),
        "revealed": revealed(scored),
        "clients": list(scored.clients),
        "groups": list(scored.groups),
    }


def revealed(scored: Scored) -> str:
    """Say what the server received from each client for this."""
    clients, groups, bins = scored.counts.shape
    return (
        f"The server received of each of the {clients} clients the number of its rows in each of "
        f"{bins} bins of the score, for each of {groups} groups, beside what FedAvg exchanges. "
        "Training together alone needs only the sum of these counts over clients."
    )


def refuse_tiny(counts: Float[Array, "i a k"]) -> None:
    """Refuse clients whose groups are too few to speak of a law."""
    found = np.argwhere(tiny(counts))
    if len(found):
        number, group = found[0]
        raise ConfigError(
            f"client {number} has {int(counts[number, group].sum())} rows of group {group}: too "
            f"few to tell a law from (at least {FEWEST_ROWS}, or none). Merge clients or groups."
        )
