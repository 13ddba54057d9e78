"""Running an experiment: every seed, tuned where asked, evaluated on the test rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from hashlib import blake2b
from os import cpu_count
from threading import Event
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fedfb.algorithms import find_method
from fedfb.algorithms.fedfb.root_search import FREE
from fedfb.core import Examples
from fedfb.data import Federation, hold_out, load
from fedfb.data.notes import small_note
from fedfb.engine import is_native
from fedfb.errors import ConfigError, DivergenceError
from fedfb.experiments.evaluate import evaluate, few_of
from fedfb.experiments.leave_out import plan_leaving_out, with_clients_left_out
from fedfb.experiments.measure import seed_results
from fedfb.experiments.reporting import make_result
from fedfb.experiments.resolve import (
    chooses,
    given_grid,
    outer_rule,
    resolve,
    trial_grid,
    tuning_grid,
)
from fedfb.experiments.result import Result
from fedfb.experiments.secure import make_add
from fedfb.experiments.seed_result import Divergence, Evaluation, SeedResult, Setting
from fedfb.experiments.seeds import shared_test_rows
from fedfb.experiments.spec import Experiment, Resolved
from fedfb.experiments.targets import warn_of_target
from fedfb.experiments.train import (
    LOWER,
    WORTH_THREADS,
    Fitted,
    check_runnable,
    fit_grid,
    training_names,
)
from fedfb.experiments.tune import (
    HELD_OUT,
    Candidate,
    Choice,
    Choices,
    candidates,
    choose,
    pick,
    validation_loss,
)
from fedfb.models import is_own
from fedfb.notions import labels_of, long_name
from fedfb.runtime import Ledger, Progress, Saving

if TYPE_CHECKING:  # pathlib takes longer to import than the rest of this file
    from pathlib import Path

OnRound = Callable[[Progress], None]


@dataclass(frozen=True)
class Outcome:
    """What an experiment came to: the result, and the models by seed.

    The result is made of ``by_seed``, the results of every seed, and ``choices``.
    """

    experiment: Resolved
    result: Result
    fitted: tuple[Fitted, ...]
    federation: Federation
    by_seed: tuple[Sequence[SeedResult], ...]
    choices: Choices


def run(
    experiment: Experiment,
    *,
    jobs: int | None = None,
    on_round: OnRound = lambda progress: None,
    federations: Mapping[int, Federation] | None = None,
    watched: bool = True,
    warn: bool = True,
) -> Result:
    """Run an experiment and return its result; :func:`train` returns the models too.

    Args:
        experiment: what is trained, and on which rows.
        jobs: how many seeds are trained at a time; by default one for each processor.
        on_round: called after every round.
        federations: rows that were loaded before, by seed.
        watched: look at the model after each round; without, the result has no curves.
        warn: raise a warning for every promise that the result does not keep
            (``result.shortfalls``).

    >>> tiny = Experiment(rows=200, test_rows=200, rounds=1, local_epochs=1)
    >>> 0 <= run(tiny).summary.accuracy.mean <= 1
    True
    """
    result = train(
        experiment, jobs=jobs, on_round=on_round, federations=federations, watched=watched
    ).result
    if warn and result.shortfalls:
        from fedfb.experiments.shortfall_warnings import warn_of  # here: it needs scikit-learn

        warn_of(result.shortfalls, stacklevel=2)
    return result


def train(
    experiment: Experiment,
    *,
    checkpoints: "Path | None" = None,
    ledger: "Path | None" = None,
    jobs: int | None = None,
    on_round: OnRound = lambda progress: None,
    federations: Mapping[int, Federation] | None = None,
    watched: bool = True,
    on_note: Callable[[str], None] = lambda note: None,
) -> Outcome:
    """Run an experiment and return its result with the models.

    Args:
        experiment: what is trained, and on which rows.
        checkpoints: a folder; training continues where it stopped.
        ledger: a file for every message that leaves a client.
        jobs: as in :func:`run`, like the other arguments.
        on_round: called after every round.
        federations: rows that were loaded before, by seed.
        watched: look at the model after each round.
        on_note: called before training with what a reader should know by then.
    """
    resolved = resolve(experiment)
    check_runnable(resolved)
    solving = outer_rule(experiment, find_method(experiment.algorithm)) == "solve"
    tuned = experiment.tune and not solving
    tried = tuning_grid(experiment) if tuned else trial_grid(experiment)
    federations = federations or load_federations(resolved, ledger)
    federation, notion = federations[resolved.seeds[0]], long_name(resolved.notion)
    warnings = warn_of_target(
        experiment.target, notion, federation.test, len(federation.group_names)
    )
    for warning in warnings:
        on_note(warning)
    if resolved.leave_out_clients:
        on_note(plan_leaving_out(resolved, federation))
    work = _Work(resolved, federations, checkpoints, ledger, jobs or cpu_count() or 1, on_round)
    choices = _choices(work, tried, tuned) if chooses(experiment) else Choices()
    settings = {seed: _settings(resolved, choices.of(seed)) for seed in resolved.seeds}
    # A free model is one more that clients send: where that counts there is none.
    compared = solving and not resolved.secure and resolved.privacy_epsilon is None
    free = {
        seed: _free(settings[seed], choices.of(seed)) if compared else [] for seed in resolved.seeds
    }
    grids = work.for_each_seed(
        lambda seed, on_round: fit_grid(
            resolved,
            federations[seed],
            [*settings[seed], *free[seed]],
            seed,
            federations[seed].test,
            work.saving("run", seed),
            on_round,
            watched,
            needed=len(settings[seed]),
        )
    )
    fitted = tuple(grid.fitted for grid in grids)
    results = [seed_results(resolved, grid, federations[grid.fitted.seed]) for grid in grids]
    number = len(settings[resolved.seeds[0]])
    if resolved.leave_out_clients:
        results = with_clients_left_out(
            resolved, federations, grids, results, number, work.for_each, work.saving
        )
    notes = (*warnings, *federation.notes, *small_client_notes(resolved, federation))
    shared = shared_test_rows(resolved, federations)
    result = make_result(resolved, notes, federation.group_names, number, results, choices, shared)
    return Outcome(resolved, result, fitted, federation, tuple(results), choices)


def small_client_notes(experiment: Experiment, federation: Federation) -> tuple[str, ...]:
    """Name the clients that are too small to be compared, where clients are compared."""
    if long_name(experiment.notion) != "client_parity":
        return ()
    minimum, names = experiment.minimum_group, federation.client_names
    sizes = [(names[client.id], len(client.y)) for client in federation.clients]
    few = [f"{name} ({rows})" for name, rows in sizes if rows < minimum]
    return small_note("clients", few, minimum, "", "Merge them with other clients.")


def _settings(experiment: Resolved, choice: Choice | None) -> list[Setting]:
    """Return what is trained on all rows: the values given, and what was chosen."""
    grid = given_grid(experiment)
    if choice is None:
        return grid
    if len(grid) > 1 and choice.rates:
        pairs = zip(grid, choice.rates, strict=False)
        return [{**setting, "lr": rate} for setting, rate in pairs]
    return [{**grid[0], **choice.setting}]


def _free(settings: Sequence[Setting], choice: Choice | None) -> list[Setting]:
    """Return the setting that is trained beside the others to show what fairness costs.

    Its target is always met, and its learning rate picked for it. Where several rates were given
    there is no one model to compare with.
    """
    met = any(setting["target"] == FREE for setting in settings)
    rates = {setting.get("lr") for setting in settings}
    if met or (choice is None and len(rates) > 1):
        return []
    picked = {"lr": choice.rates[-1]} if choice and choice.rates else {}
    return [{**settings[0], "target": FREE, **picked}]


@dataclass(frozen=True)
class _Work:
    """What the phases of an experiment have in common."""

    experiment: Resolved
    federations: Mapping[int, Federation]
    checkpoints: "Path | None"
    ledger: "Path | None"
    jobs: int
    on_round: OnRound

    def for_each_seed(self, task: Callable[[int, OnRound], Any]) -> list[Any]:
        """Run a task for every seed; see :meth:`for_each`."""
        return self.for_each(self.experiment.seeds, task)

    def for_each(self, parts: Sequence[Any], task: Callable[[Any, OnRound], Any]) -> list[Any]:
        """Run a task for every part, on threads; when one fails, the others end with their round.

        Small matrices gain nothing from threads of their own; a small job needs none at all, and
        is done before they would have started.
        """
        rows = sum(len(c.y) for c in self.federations[self.experiment.seeds[0]].clients)
        own = is_own(self.experiment.model) or is_native(self.experiment.engine)
        blas_is_idle = own and self.experiment.solver != "newton"
        if len(parts) == 1 and rows < WORTH_THREADS and blas_is_idle:
            return [task(part, self.on_round) for part in parts]
        from concurrent.futures import CancelledError, ThreadPoolExecutor

        from threadpoolctl import threadpool_limits

        over = Event()

        def on_round(progress: Progress) -> None:
            # A thread cannot be stopped from outside: a task gives up at the end of its round.
            if over.is_set():
                raise CancelledError
            self.on_round(progress)

        # Seeds already use all processors; more threads inside a seed would only compete with them.
        with threadpool_limits(limits=1), ThreadPoolExecutor(self.jobs) as pool:
            try:
                return list(pool.map(lambda part: task(part, on_round), parts))
            finally:
                over.set()

    def saving(self, phase: str, seed: int, rows: Federation | None = None) -> Saving | None:
        """Return where the checkpoint of a seed lies, marked with the experiment and its rows.

        Args:
            phase: of the ledger.
            seed: of the training.
            rows: what is trained on; None: the rows of the seed.
        """
        if self.checkpoints is None:
            return None
        rows = rows or self.federations[seed]
        owner = f"{self.experiment.hash}-{fingerprint(rows)}-{phase}"
        names = training_names(self.experiment, rows)
        ledger = Ledger(self.ledger, phase, seed, names) if self.ledger else None
        return Saving(self.checkpoints / f"{phase}-seed-{seed}.npz", owner, ledger=ledger)


def load_federations(experiment: Experiment, ledger: "Path | None" = None) -> dict[int, Federation]:
    """Read or draw the rows of every seed; seeds of one split share them.

    Args:
        experiment: names the data, the split and the seeds.
        ledger: a file for the messages of the preparation of columns.
    """

    def loaded(split: int) -> Federation:
        add, labels = make_add(experiment, ledger, split), labels_of(experiment.notion)
        return load(experiment.request, split, add, experiment.precision, labels)

    # Seeds of one split get the same object. Others rely on it: they compare by identity.
    cached = lru_cache(maxsize=None)(loaded)
    return {seed: cached(experiment.split_of(seed)) for seed in experiment.seeds}


def fingerprint(federation: Federation) -> str:
    """Return a short name of the training rows: a checkpoint is never continued on others."""
    digest = blake2b(digest_size=8)
    for client in federation.clients:
        for part in (client.x, client.y, client.group):
            digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()


class _Tried(NamedTuple):
    """What one seed found on its validation rows, for every setting that did not diverge."""

    evaluations: list[Evaluation]
    losses: list[float]
    off_target: list[float]
    rows: int
    diverged: Mapping[int, Divergence]


def _choices(work: _Work, settings: Sequence[Setting], tuned: bool) -> Choices:
    """Train the grid on nine tenths of every client's rows and choose on the rest.

    What is tuned is chosen for all seeds together; what is picked, by each seed for itself, so that
    its result does not depend on which others were run.

    Args:
        work: what the phases have in common.
        settings: what is tried.
        tuned: whether the user asked for tuning; otherwise learning rates and targets are picked.
    """
    experiment = work.experiment
    method, notion = find_method(experiment.algorithm), long_name(experiment.notion)

    def try_out(seed: int, on_round: OnRound) -> _Tried:
        federation, validation = hold_out(work.federations[seed], HELD_OUT, seed)
        _refuse_no_rows(validation)
        saving = work.saving("tune", seed)
        grid = fit_grid(
            experiment, federation, settings, seed, validation, saving, on_round, watched=False
        )
        prediction = grid.prediction
        few = few_of(federation, experiment.minimum_group)
        names = (federation.group_names, federation.client_names)
        evaluations = evaluate(prediction, validation, *names, minimum=1, few=few)
        off = [account.get("off_target", 0.0) for account in grid.fitted.tell()]
        losses = validation_loss(prediction, validation)
        return _Tried(evaluations, losses, off, len(validation.y), grid.diverged)

    def chosen(tried: Sequence[_Tried], rule: Callable[[tuple[Candidate, ...]], Choice]) -> Choice:
        """Apply a rule to the settings that diverged on no seed; the others are never chosen."""
        lost = dict(item for trial in tried for item in trial.diverged.items())
        able = [place for place in range(len(settings)) if place not in lost]
        if not able:
            raise DivergenceError(f"every setting that was tried diverged on some seed. {LOWER}")
        of_able = [_of_places(trial, able, len(settings)) for trial in tried]
        evaluations, losses, off = zip(*of_able, strict=True)
        able_settings = [settings[place] for place in able]
        able_candidates = candidates(able_settings, evaluations, losses, off, notion, method.local)
        in_vain = [(dict(settings[place]), lost[place]) for place in sorted(lost)]
        return rule(able_candidates)._replace(diverged=tuple(in_vain))

    tried = work.for_each_seed(try_out)
    if not tuned:
        picked = {
            seed: chosen(
                [trial], partial(pick, rows=trial.rows, cost=experiment.cost, tried=settings)
            )
            for seed, trial in zip(experiment.seeds, tried, strict=True)
        }
        return Choices(by_seed=picked)
    majority = float(np.mean([of_seed.evaluations[0].majority_accuracy for of_seed in tried]))
    floor = experiment.accuracy_floor
    rule = partial(choose, fair=method.fair, majority=majority, floor_share=floor)
    return Choices(chosen(tried, rule))


def _of_places(
    tried: _Tried, places: Sequence[int], number: int
) -> tuple[list[Evaluation], list[float], list[float]]:
    """Return what a seed found, of these places in the grid alone."""
    trained = [place for place in range(number) if place not in tried.diverged]
    at = [trained.index(place) for place in places]
    evaluations = [tried.evaluations[place] for place in at]
    return evaluations, [tried.losses[p] for p in at], [tried.off_target[p] for p in at]


def _refuse_no_rows(validation: Examples) -> None:
    if not len(validation.y):
        raise ConfigError(
            f"a learning rate is chosen on {HELD_OUT:.0%} of every client's rows, and no client "
            "has enough to spare one. Add rows, or give one rate (--lr) without --tune."
        )
