"""A population from data: scores of a federated model, counted by client and group."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from fedfb.core import generator
from fedfb.data import astype
from fedfb.errors import ConfigError
from fedfb.experiments.outcome import load_federations
from fedfb.experiments.resolve import given_grid
from fedfb.experiments.rule import FEWEST_SCORES, scores_task, tiny, without_fairness
from fedfb.experiments.spec import Experiment
from fedfb.experiments.train import fit, make_engine
from fedfb.notions.critical import LEVEL, normal_quantile
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


class _Scored(NamedTuple):
    """Number of rows of each client and group in each bin of the score, with the names."""

    counts: Float[Array, "i a k"]
    clients: tuple[str, ...]
    groups: tuple[str, ...]


def count_scores(experiment: Experiment) -> _Scored:
    """Train FedAvg on the first seed, and count each client's scores by group."""
    experiment = without_fairness(experiment)
    seed = experiment.seeds[0]
    [loaded] = load_federations(replace(experiment, seeds=(seed,))).values()
    federation = astype(loaded, experiment.precision)
    fitted = fit(experiment, federation, given_grid(experiment)[:1], seed)
    params = fitted.algorithm.params(fitted.trained.state)
    engine = make_engine(experiment, federation.clients[0].x.shape[1])
    ask = make_ask(federation.clients, {c.id: {} for c in federation.clients}, seed, round=0)
    counts = ask(scores_task(engine), {"params": np.asarray(params)})["rows"]
    return score_counts(counts, federation.client_names, federation.group_names)


def score_counts(
    rows: Float[Array, "i r 2 a k"], clients: tuple[str, ...], groups: tuple[str, ...]
) -> _Scored:
    """Return the counts of the first run by client and group; refuse groups that are too small.

    Args:
        rows: counts by client, run, label, group and bin.
        clients: names of the clients.
        groups: names of the groups.
    """
    by_group = rows[:, 0].sum(axis=1)
    refuse_tiny(by_group)
    return _Scored(by_group, clients, groups)


def population_of(counts: Float[Array, "i a k"]) -> Population:
    r"""Return the population whose feature is the score, :math:`\eta(x)=x`.

    For two groups scores are uniform within a bin. For more groups they are at the middle of the
    bin, as the linear programs need atoms; accuracies then have an error of the order of the
    squared width.
    """
    edges, rows = np.linspace(0.0, 1.0, counts.shape[2] + 1), counts.sum(axis=(1, 2))

    def law(part: Float[Array, " k"]) -> Histogram | Atoms | None:
        if not part.sum():
            return None
        if counts.shape[1] == 2:
            return Histogram(edges, part / part.sum())
        return Atoms(0.5 * (edges[1:] + edges[:-1]), part / part.sum())

    members = [
        Client(
            tuple(client_counts.sum(axis=1) / client_counts.sum()),
            tuple(map(law, client_counts)),
            float(share),
        )
        for client_counts, share in zip(counts, rows / rows.sum(), strict=True)
    ]
    return population(members, identity())


def score_intervals(counts: Float[Array, "i a k"], seed: int) -> dict[str, Any]:
    r"""Return 95% intervals, by drawing every client's rows again from its counts.

    .. math:: \min\big(q_{.025},\; \hat\theta - |b| - t s\big) \;\text{ to }\;
              \max\big(q_{.975},\; \hat\theta + |b| + t s\big), \qquad b = \bar\theta - \hat\theta

    with the quantiles q, the mean and the standard deviation s of the drawn figures, and Student's
    t for as many draws. The model stays the same: the intervals cover other rows, not another
    training.

    Args:
        counts: rows by client, group and bin.
        seed: of the draws.
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
        # Figures have a kink at 0, where draws are too large. So the bias widens the interval to
        # both sides and is not subtracted: quantiles alone never cover a true figure of 0.
        half = abs(float(drawn.mean()) - figure) + t * float(drawn.std(ddof=1))
        ends[name] = [max(min(float(low), figure - half), 0.0), max(float(high), figure + half)]
    return ends


def _figures(resampled: Population) -> dict[str, float]:
    plain = erm(resampled).outcome
    cost = {"cost_of_parity": plain.accuracy - cfl(resampled, 0.0).outcome.accuracy}
    if resampled.groups > 2:
        return {"erm_disparity": plain.demographic_parity, **cost}
    least = ensemble_range(resampled).least_disparity
    return {"erm_disparity": plain.spd, "lft_ensemble_min_disparity": least, **cost}


def describe_scores(scored: _Scored, seed: int) -> dict[str, Any]:
    """Return the parts of the record beside the optima: intervals, exchange and names.

    Args:
        scored: counts of scores.
        seed: of the intervals.
    """
    return {
        "intervals": score_intervals(scored.counts, seed),
        "revealed": describe_exchange(scored),
        "clients": list(scored.clients),
        "groups": list(scored.groups),
    }


def describe_exchange(scored: _Scored) -> str:
    """Return the sentence that says what the server received from each client."""
    clients, groups, bins = scored.counts.shape
    return (
        f"The server received of each of the {clients} clients the number of its rows in each of "
        f"{bins} bins of the score, for each of {groups} groups, beside what FedAvg exchanges. "
        "Training together alone needs only the sum of these counts over clients."
    )


def refuse_tiny(counts: Float[Array, "i a k"]) -> None:
    """Refuse a client with too few rows of a group to estimate a law."""
    places = np.argwhere(tiny(counts))
    if len(places):
        number, group = places[0]
        raise ConfigError(
            f"client {number} has {int(counts[number, group].sum())} rows of group {group}: too "
            f"few to tell a law from (at least {FEWEST_SCORES}, or none). Merge clients or groups."
        )
