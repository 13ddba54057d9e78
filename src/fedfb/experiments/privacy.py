"""Privacy of an experiment: what is refused, how much noise is added, what is reported."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from fedfb.algorithms import find_method
from fedfb.core import Algorithm, Arrays, Ask, ClientTask
from fedfb.engine.optimise import sampling_rate, steps_of_an_epoch
from fedfb.errors import ConfigError, DisclosureError
from fedfb.experiments.explain import random_client
from fedfb.experiments.resolve import given_grid
from fedfb.experiments.seed_result import ClientPrivacy, Privacy
from fedfb.experiments.spec import Resolved
from fedfb.experiments.train import QUIET, build, make_engine, training_notion
from fedfb.privacy import (
    Budget,
    Protection,
    Spent,
    Workload,
    calibrate,
    known_sensitivity,
    protect,
    refuse_without_accounting,
)
from fedfb.runtime import Guard, make_ask, number_taking_part

MANY_CLIENTS = 100
"""Among fewer clients, the noise that hides a whole client is larger than what clients share."""

_PLAYED = 3
"""The clients of random rows on which a method is played to count its tasks."""

COVERED = {
    "record": (
        "the model of every round, thus the final model and all that is computed from it",
        "counts by label and group, fairness signals and histograms of scores",
    ),
    "client": (
        "each client's change of the model in every round, thus the final model",
        "each client's shares by label and group, fairness signals and histograms of scores",
    ),
}
NOT_COVERED = (
    "how many rows a client has: it is treated as public",
    "means and scales of columns whose range no schema declares, and which categories occur: they "
    "are learnt from rows without noise, and taken as public",
    "figures on test rows: they are computed without noise",
    "settings that somebody chose by looking at these rows; several runs (seeds, points of a "
    "frontier) on the same rows: their epsilons add up",
)
SIMULATED = (
    "a simulation: noise and batches follow from the seed, and protect only those from whom the "
    "seed is kept"
)


class Asked(NamedTuple):
    """How often a run trains, for how many epochs in all, and how many other uploads it has."""

    trainings: int = 0
    epochs: int = 0
    answers: int = 0

    def after(self, task: ClientTask) -> "Asked":
        """Return the counts after one more task."""
        moved = any(size > 0 for size in (task.sensitivity or {}).values())
        trainings, answers = self.trainings + (task.epochs > 0), self.answers + moved
        return Asked(trainings, self.epochs + task.epochs, answers)


class PrivateRun(NamedTuple):
    """How a run is protected, and what every client spends by it."""

    budget: Budget
    level: str
    clip: float
    asked: Asked
    shared: int
    rows: Mapping[int, int]
    spent: Mapping[int, Spent]

    @property
    def noise(self) -> Mapping[int, float]:
        """The multipliers of private training, by client id."""
        return {client: spent.training for client, spent in self.spent.items()}

    def guard(self) -> Guard:
        """Return what every task passes: it adds noise to uploads and refuses unplanned tasks."""
        # Any client will do. The noise of uploads other than models depends on their number, which
        # is the same for all; the noise of training is read at level client only, where all spend
        # the same.
        first = next(iter(self.spent.values()))
        whole = self.level == "client"
        protection = Protection(
            first.answering,
            self.shared,
            clip=self.clip if whole else None,
            training=first.training if whole else 0.0,
        )
        count = Asked()

        def guard(task: ClientTask) -> ClientTask:
            nonlocal count
            count = count.after(task)
            if any(done > planned for done, planned in zip(count, self.asked, strict=True)):
                raise DisclosureError(
                    f"the question {task.name!r} was not planned for: to answer it would cost more "
                    "than the epsilon asked for."
                )
            return protect(task, protection)

        return guard

    def account(self, names: Sequence[str]) -> Privacy:
        """Return what is hidden, how well, and what every client spends, for result and ledger."""
        return Privacy(
            level=self.level,
            epsilon=self.budget.epsilon,
            delta=self.budget.delta,
            most=max(spent.epsilon for spent in self.spent.values()),
            clip=self.clip,
            signals=self.budget.signals,
            shared_by=self.shared,
            clients=tuple(
                ClientPrivacy(
                    client=names[client],
                    rows=self.rows[client],
                    epsilon=spent.epsilon,
                    **spent.workload._asdict(),
                    training_noise=spent.training,
                    answering_noise=spent.answering,
                )
                for client, spent in sorted(self.spent.items())
            ),
            covered=COVERED[self.level],
            not_covered=NOT_COVERED,
            trust=(_trust(self.shared), SIMULATED),
        )


def _trust(shared: int) -> str:
    if shared == 1:
        return "each client adds all of the noise itself, and need trust nobody"
    return (
        f"each client adds a share of the noise on counts and signals, 1/{shared} of its variance, "
        "before the secure sum: it must trust that the others add theirs, and that at most one of "
        "them tells the server its share; training has all of its noise from the client itself"
    )


def check_privacy(experiment: Resolved) -> None:
    """Refuse what privacy cannot be had for, before rows are read or anything is trained."""
    refuse_without_accounting()
    method = find_method(experiment.algorithm)
    if method.is_pooled(experiment.variant):
        raise ConfigError(
            f"{method.name} trains on all rows in one place, and --privacy-epsilon hides what "
            "leaves a client. Choose a method that leaves rows where they are (fedfb list)."
        )
    if experiment.tune or experiment.cost is not None:
        raise ConfigError(
            "to choose on validation rows (--tune, --cost) costs privacy too, which is not "
            "accounted for. Give one --lr and one --target."
        )
    if len(given_grid(experiment)) > 1:
        raise ConfigError(
            "every value of a grid is a model of its own that costs privacy. Under "
            "--privacy-epsilon give one --lr, --target, --alpha and --set each."
        )
    questions(experiment)


def plan_privacy(experiment: Resolved, rows: Mapping[int, int]) -> PrivateRun:
    """Return how much noise each client needs for a whole run.

    Args:
        experiment: epsilon, delta and level, and what is trained.
        rows: training rows by client id.
    """
    planned = questions(experiment)
    budget = Budget(
        experiment.privacy_epsilon or 0.0, experiment.privacy_delta, experiment.privacy_signals
    )
    level = experiment.privacy_level
    if level == "client" and len(rows) < MANY_CLIENTS:
        sys.stderr.write(
            f"Warning: --privacy-level client hides whole clients among {len(rows)}; below "
            f"{MANY_CLIENTS} the noise drowns what they have in common.\n"
        )
    workloads = {
        client: Workload(1.0, planned.trainings, planned.answers)
        if level == "client"
        else Workload(
            sampling_rate(size, experiment.batch),
            planned.epochs * steps_of_an_epoch(size, experiment.batch),
            planned.answers,
        )
        for client, size in rows.items()
    }
    return PrivateRun(
        budget,
        level,
        experiment.privacy_clip,
        planned,
        _noise_is_shared_by(experiment, len(rows)),
        rows,
        {client: calibrate(budget, load) for client, load in workloads.items()},
    )


def _noise_is_shared_by(experiment: Resolved, clients: int) -> int:
    """Return t: of the fewest in a secure sum, all but one who may tell the server its share."""
    if not experiment.secure:
        return 1
    from fedfb.runtime.boundary import number_leaving
    from fedfb.runtime.secure import plan_for, refuse_too_few

    refuse_too_few(clients, experiment.participation, experiment.dropout)
    taking_part = number_taking_part(clients, experiment.participation)
    return plan_for(taking_part, number_leaving(taking_part, experiment.dropout)).fewest - 1


def questions(experiment: Resolved) -> Asked:
    """Play a whole run on random rows, and return how often clients train and upload.

    What cannot be protected is refused: single values, codes, sums that a row may move by any
    amount, and what a method draws from rows without saying how far one row can move it.
    """
    engine, notion = make_engine(experiment, 1), training_notion(experiment, 2, _PLAYED)
    algorithm = build(experiment, engine, notion, given_grid(experiment)[:1], QUIET)
    count = Asked()
    for task, upload in _played(algorithm, engine.model.init(0)[None], experiment.rounds or 1):
        _refuse_unprotected(experiment, task, upload)
        count = count.after(task)
    return count


def _played(algorithm: Algorithm, params: Any, rounds: int) -> Iterator[tuple[ClientTask, Arrays]]:
    """Run a method on random rows, and yield each task with the upload of one client."""
    clients = [random_client(number, 2, 1) for number in range(_PLAYED)]
    memories = {client.id: algorithm.memory(params) for client in clients}
    heard: list[tuple[ClientTask, Arrays]] = []

    def listening(ask: Ask) -> Ask:
        def listened(task: ClientTask, broadcast: Arrays) -> Arrays:
            upload, _ = task.run(broadcast, clients[0], memories[0], (0, 0, 0, 0))
            heard.append((task, upload))
            return ask(task, broadcast)

        return listened

    state = algorithm.setup(params, listening(make_ask(clients, memories, 0, 0)))
    yield from heard
    for number in range(1, rounds + 1):
        heard.clear()
        state, _ = algorithm.round(state, listening(make_ask(clients, memories, 0, number)))
        yield from heard
    if algorithm.finish is not None:
        heard.clear()
        algorithm.finish(state, listening(make_ask(clients, memories, 0, rounds + 1)))
        yield from heard


def _refuse_unprotected(experiment: Resolved, task: ClientTask, upload: Arrays) -> None:
    whole = experiment.privacy_level == "client" and task.epochs > 0
    named = [name for name in upload if not (whole and name in ("weighted", "weight"))]
    try:
        known_sensitivity(task, {name: upload[name] for name in named})
        single = task.reduce == "gather" or any(name in task.bits for name in upload)
    except DisclosureError:
        single = True
    if named and single:
        raise DisclosureError(
            f"{experiment.algorithm} cannot be run under --privacy-epsilon with these settings: "
            f"its question {task.name!r} sends {', '.join(upload)}, and it is not known how far "
            "one row can move that. FedAvg, FedProx, reweighing, FedFB (dp, eo, eod; --signal-loss "
            "zero_one or prob; every client in every round) and fedfb-thresholds can."
        )
