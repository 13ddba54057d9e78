r"""Train without each client in turn, and measure the model on the client that it never saw.

A model meets clients later that took no part in training. For client k the model is trained on the
rows of all other clients, and decides the test rows of client k:

.. math:: \hat y_j = f_{-k(j)}(x_j), \qquad
          f_{-k} \text{ trained on } \textstyle\bigcup_{i \ne k} D_i

Beside it stands the model of all clients, on the same rows. Settings that were chosen on validation
rows, and the encoding of features, are those of the full model.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import ceil
from typing import Any, NamedTuple

import msgspec
import numpy as np

from fedfb.core import Algorithm, Examples, Prediction
from fedfb.data import Federation
from fedfb.errors import ConfigError, DivergenceError
from fedfb.experiments.evaluate import (
    confusion_table,
    cross_entropy,
    evaluate,
    evaluate_counts,
    few_of,
)
from fedfb.experiments.seed_result import (
    EVERYONE,
    ClientLeftOut,
    Evaluation,
    LeaveOut,
    SeedResult,
)
from fedfb.experiments.seeds import chance_of
from fedfb.experiments.spec import Resolved
from fedfb.experiments.train import FittedGrid, fit_grid, sketch
from fedfb.runtime import Progress, Saving
from fedfb.shapes import Array, Bool, Float, Int

MOST_TRAININGS = 20
"""With more clients, several are left out together: each seed trains so many models more."""

PHASE = "leave-out"
"""The phase of the ledger; the number of the training follows."""

Ids = tuple[int, ...]


def plan_trainings(clients: int) -> list[Ids]:
    """Return the ids of the clients that each training leaves out.

    >>> plan_trainings(3), len(plan_trainings(100)), plan_trainings(100)[1]
    ([(0,), (1,), (2,)], 20, (1, 21, 41, 61, 81))
    """
    trainings = min(clients, MOST_TRAININGS)
    return [tuple(range(first, clients, trainings)) for first in range(trainings)]


def describe_plan(clients: int, seeds: int) -> str:
    """Say before training what leaving clients out costs.

    >>> describe_plan(3, 1)
    '--leave-out-clients: 3 more trainings, each without one of 3 clients'
    >>> describe_plan(100, 5)
    '--leave-out-clients: 20 more trainings for each of 5 seeds, each without 5 of 100 clients'
    """
    plan = plan_trainings(clients)
    most = len(plan[0])
    each = "one" if most == 1 else f"{most}" if clients % len(plan) == 0 else f"up to {most}"
    of_seeds = f" for each of {seeds} seeds" if seeds > 1 else ""
    return (
        f"--leave-out-clients: {len(plan)} more trainings{of_seeds}, each without {each} of "
        f"{clients} clients"
    )


def plan_leaving_out(experiment: Resolved, federation: Federation) -> str:
    """Refuse to leave clients out where that makes no sense; else say what it costs."""
    clients = len(federation.clients)
    refuse_leaving_out(experiment, clients, sketch(experiment, len(federation.group_names)))
    return describe_plan(clients, len(experiment.seeds))


def refuse_leaving_out(experiment: Resolved, clients: int, algorithm: Algorithm) -> None:
    """Refuse to leave clients out where it makes no sense, before anything is trained.

    Args:
        experiment: the settings.
        clients: number of clients.
        algorithm: the method; a client's own model cannot decide for a client without one.
    """
    if experiment.privacy_epsilon is not None:
        raise ConfigError(
            "--leave-out-clients trains on the rows of a client many times, and each time would "
            "cost the client's privacy budget once more. Leave it out, or leave out "
            "--privacy-epsilon."
        )
    if "personal" in algorithm.memory(np.zeros((1, 1))):
        raise ConfigError(
            f"--leave-out-clients: {experiment.algorithm} gives every client a model of its own, "
            "and a client that was left out has none. Leave it out, or choose a method with one "
            "common model (fedfb list)."
        )
    if clients < 2:
        raise ConfigError(
            "--leave-out-clients needs at least 2 clients: without the only one there are no rows "
            "to train on. Leave it out, or name the clients (--client-column)."
        )
    if experiment.secure:
        from fedfb.runtime.secure import refuse_too_few  # here: it needs cryptography

        fewest = clients - ceil(clients / min(clients, MOST_TRAININGS))
        try:
            refuse_too_few(fewest, experiment.participation, experiment.dropout)
        except ConfigError as error:
            raise ConfigError(
                f"--leave-out-clients leaves {fewest} of {clients} clients: {error}"
            ) from None


def without_clients(federation: Federation, ids: Ids) -> Federation:
    """Return the federation without some clients; the others are numbered anew, in their order.

    Test rows stay; those of the clients that are left out belong to no client.
    """
    stay = [client for client in federation.clients if client.id not in ids]
    number = np.full(len(federation.client_names) + 1, -1)  # the last is that of no client
    number[[client.id for client in stay]] = np.arange(len(stay))
    return replace(
        federation,
        clients=tuple(client._replace(id=place) for place, client in enumerate(stay)),
        client_names=tuple(federation.client_names[client.id] for client in stay),
        test=federation.test._replace(client=number[federation.test.client]),
    )


class LeftOutTraining(NamedTuple):
    """A training without some clients: its seed, its number, and their ids."""

    seed: int
    number: int
    ids: Ids


Decided = Mapping[int, tuple[Float[Array, " n"], Float[Array, " n"]]]
"""Scores and decisions by setting, for the rows that a training left out; no setting diverged."""


OnRound = Callable[[Progress], None]
SavingOf = Callable[[str, int, Federation], Saving | None]
"""Phase, seed and rows -> where the checkpoint of the training lies."""


def with_clients_left_out(
    experiment: Resolved,
    federations: Mapping[int, Federation],
    grids: Sequence[FittedGrid],
    results: Sequence[Sequence[SeedResult]],
    settings: int,
    for_each: Callable[[Sequence[Any], Callable[[Any, OnRound], Any]], list[Any]],
    saving: SavingOf,
) -> list[list[SeedResult]]:
    """Return results with the figures of clients that were left out.

    Args:
        experiment: a resolved experiment.
        federations: all clients, by seed.
        grids: the trainings with all clients, by seed.
        results: by seed, then by setting.
        settings: how many settings were asked for; further ones are not trained again.
        for_each: runs a task for every part, on threads where that is worth it.
        saving: where checkpoints lie.
    """
    by_seed = {grid.fitted.seed: grid for grid in grids}
    trainings = [
        LeftOutTraining(seed, number, ids)
        for seed in by_seed
        for number, ids in enumerate(plan_trainings(len(federations[seed].clients)), start=1)
    ]

    def train_part(training: LeftOutTraining, on_round: OnRound) -> Decided:
        full, rows = by_seed[training.seed], federations[training.seed]
        return train_without(experiment, rows, full, settings, training, saving, on_round)

    decided = for_each(trainings, train_part)

    def measured(seed: int, place: int) -> LeaveOut:
        grid, of_all = by_seed[seed], zip(trainings, decided, strict=True)
        run = [at for at in range(len(grid.settings)) if at not in grid.diverged].index(place)
        full = Prediction(*(part[[run]] for part in grid.prediction))
        pairs = [(training.ids, rows) for training, rows in of_all if training.seed == seed]
        return measure_left_out(federations[seed], experiment.minimum_group, full, pairs, place)

    return [
        [
            result
            if result.diverged or place >= settings
            else msgspec.structs.replace(result, leave_out=measured(result.seed, place))
            for place, result in enumerate(of_seed)
        ]
        for of_seed in results
    ]


def rows_of(test: Examples, ids: Ids) -> Int[Array, " n"]:
    """Return the places of the test rows of some clients."""
    return np.flatnonzero(np.isin(test.client, ids))


def train_without(
    experiment: Resolved,
    federation: Federation,
    full: FittedGrid,
    settings: int,
    training: LeftOutTraining,
    saving: SavingOf,
    on_round: OnRound,
) -> Decided:
    """Train every setting without some clients and decide the test rows of these clients.

    An exact fit starts where the full model ended, which saves exchanges and changes nothing.
    Local training starts as the full training did: from the full model it would remember rows of
    the clients that are left out.

    Args:
        experiment: a resolved experiment.
        federation: all clients.
        full: the training with all clients.
        settings: number of settings that were asked for; further ones are not trained again.
        training: whom to leave out.
        saving: where the checkpoint lies.
        on_round: called after every round.
    """
    reduced, test = without_clients(federation, training.ids), federation.test
    places = [place for place in range(settings) if place not in full.diverged]
    rows = rows_of(test, training.ids)
    examples = Examples(*(part[rows] for part in test))._replace(client=np.full(len(rows), -1))
    params = full.fitted.algorithm.params(full.fitted.trained.state)
    warm = experiment.solver == "newton" and params is not None
    start = np.asarray(params)[: len(places)] if warm else None
    phase = f"{PHASE}-{training.number}"
    try:
        grid = fit_grid(
            experiment,
            reduced,
            [full.settings[place] for place in places],
            training.seed,
            examples,
            saving(phase, training.seed, reduced),
            on_round,
            watched=False,
            start=start,
        )
    except DivergenceError:
        return {}
    trained = [place for run, place in enumerate(places) if run not in grid.diverged]
    pairs = zip(*grid.prediction, strict=True)
    return dict(zip(trained, pairs, strict=True))


def measure_left_out(
    federation: Federation,
    minimum: int,
    full: Prediction,
    trainings: Sequence[tuple[Ids, Decided]],
    place: int,
) -> LeaveOut:
    """Return the figures of one setting of one seed.

    Args:
        federation: all clients.
        minimum: least training rows of a group that is compared.
        full: prediction of the full model of this setting on the test rows (an axis of one run).
        trainings: of each training the clients that it left out, and what it decided.
        place: of the setting.
    """
    test, names, groups = federation.test, federation.client_names, federation.group_names
    score, decision = (np.full(part.shape, np.nan) for part in full)
    for ids, decided in trainings:
        if place in decided:
            rows = rows_of(test, ids)
            score[0, rows], decision[0, rows] = decided[place]
    owned = test.client >= 0
    mine = Examples(*(part[owned] for part in test))
    few = few_of(federation, minimum)
    predictions = [
        Prediction(*(part[:, owned] for part in prediction))
        for prediction in (full, Prediction(score, decision))
    ]
    loss = [cross_entropy(prediction.score[0], mine.y) for prediction in predictions]
    tables = [_count_by_client(prediction, mine, federation) for prediction in predictions]

    def one(client: int) -> list[Evaluation]:
        return [
            evaluation
            for table in tables
            for evaluation in evaluate_counts(
                table[[client]], None, federation.group_names, few=few
            )
        ]

    def describe(
        name: str, evaluations: Sequence[Evaluation], of: Bool[Array, " n"]
    ) -> ClientLeftOut:
        is_certain = not np.isnan(loss[1][of]).any()
        beside = is_certain and (name == EVERYONE or len(names) <= MOST_TRAININGS)
        with_client, without = evaluations
        means = [float(part[of].mean()) if of.any() else None for part in loss]
        return ClientLeftOut(
            name=name,
            included=with_client,
            excluded=without if is_certain else None,
            included_loss=means[0],
            excluded_loss=means[1] if is_certain else None,
            chance=chance_of(without) if beside else {},
        )

    with np.errstate(invalid="ignore"):  # what diverged has no figures
        clients = [
            describe(name, one(number), mine.client == number) for number, name in enumerate(names)
        ]
        everyone = [
            evaluation
            for prediction in predictions
            for evaluation in evaluate(prediction, mine, groups, names, few=few)
        ]
    return LeaveOut(
        trainings=len(trainings),
        everyone=describe(EVERYONE, everyone, np.full(len(mine.y), True)),
        clients=tuple(clients),
    )


def _count_by_client(
    prediction: Prediction, rows: Examples, federation: Federation
) -> Float[Array, "i 2 2 a"]:
    """Return the confusion table of each client; NaN where a client has no decisions.

    Args:
        prediction: of one run.
        rows: rows that belong to clients.
        federation: names groups and clients.
    """
    groups, clients = len(federation.group_names), len(federation.client_names)
    crossed = rows._replace(group=rows.client * groups + rows.group)
    table = confusion_table(prediction.decision[0], crossed, clients * groups)
    return table.reshape(2, 2, clients, groups).transpose(2, 0, 1, 3)
