"""The training of one seed of an experiment, for all settings of a grid at once."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fedfb.algorithms import Method, Problem, find_method
from fedfb.algorithms.newton import FADING
from fedfb.algorithms.tasks import confusion_task
from fedfb.core import (
    Algorithm,
    ClientData,
    Examples,
    LocalSolver,
    Prediction,
    PrivateTraining,
)
from fedfb.data import Federation, astype, pooled
from fedfb.engine import Engine, choose_engine
from fedfb.errors import ConfigError, DivergenceError
from fedfb.experiments.codec import to_builtins
from fedfb.experiments.effect import refuse_too_many
from fedfb.experiments.resolve import given_grid
from fedfb.experiments.secure import make_carry, refuse_disclosure
from fedfb.experiments.seed_result import Divergence, Setting
from fedfb.experiments.spec import Experiment, Resolved
from fedfb.models import make_model
from fedfb.notions import Notion, long_name, make_notion
from fedfb.runtime import DivergedError, Progress, Saving, Trained, cores, train
from fedfb.shapes import Array, Float

if TYPE_CHECKING:
    from fedfb.experiments.privacy import PrivateRun

LOWER = "Lower the learning rate (--lr)."
WORTH_THREADS = 20_000
"""Rows from which on clients are trained on several threads."""

WORTH_A_CLIENT = 1_000
"""And so many on average: with fewer, threads wait for each other's Python more than they work."""


@dataclass(frozen=True)
class Fitted:
    """The trained runs of one seed and what is needed to predict with them."""

    seed: int
    settings: tuple[Setting, ...]
    algorithm: Algorithm
    trained: Trained
    privacy: "PrivateRun | None" = None

    def tell(self) -> list[dict[str, Any]]:
        """Return what the method has to say of every run's end."""
        describe = self.algorithm.describe
        return [{} for _ in self.settings] if describe is None else describe(self.trained.state)

    def predict(self, examples: Examples) -> Prediction:
        """Score and decide rows with every run; scores that are not finite are an error."""
        state, memories, history = self.trained
        with np.errstate(all="ignore"):
            prediction = self.algorithm.predict(state, memories, examples)
        bad = np.flatnonzero(~np.isfinite(prediction.score).all(axis=1)).tolist()
        if bad:
            raise SettingsDivergedError(
                f"training diverged: after round {len(history)} the model's scores are not finite "
                f"(seed {self.seed}, {_in_words(self.settings, bad)}). {LOWER}",
                {run: Divergence(round=len(history), client=None) for run in bad},
            )
        return prediction


class SettingsDivergedError(DivergenceError):
    """Some settings of a grid diverged: ``runs`` says where, by their places in the grid."""

    def __init__(self, message: str, runs: Mapping[int, Divergence]) -> None:
        super().__init__(message)
        self.runs = runs


class FittedGrid(NamedTuple):
    """All settings of a grid: those that were trained, how they decide, and those that diverged.

    ``fitted`` and ``prediction`` have one run for every setting that did not diverge, in order;
    ``diverged`` is by place among all ``settings``.
    """

    settings: tuple[Setting, ...]
    fitted: Fitted
    prediction: Prediction
    diverged: Mapping[int, Divergence]


def fit_grid(
    experiment: Resolved,
    federation: Federation,
    settings: Sequence[Setting],
    seed: int,
    examples: Examples,
    saving: Saving | None = None,
    on_round: Callable[[Progress], None] = lambda progress: None,
    watched: bool = True,
    needed: int | None = None,
    start: Float[Array, "r p"] | None = None,
) -> FittedGrid:
    """Train every setting and decide the examples; a setting that diverges does not stop others.

    The grid is trained again without it. A run does not depend on the grid it sits in, so the
    others have the bits that they have without it.

    Args:
        experiment: what is trained.
        federation: the rows.
        settings: what the runs of the grid are set to.
        seed: of the models and of the order of rows.
        examples: the rows to decide.
        saving: where the checkpoint lies; each part of the grid that is tried has its own.
        on_round: is called once for every round, however often the grid is trained.
        watched: whether to look at the model after each round.
        needed: how many settings, from the first on, must not all diverge (default: all).
        start: parameters before training, by setting; None: those of :func:`start_params`.

    Raises:
        DivergenceError: all settings that are needed diverged.

    """
    diverged: dict[int, Divergence] = {}
    done = 0

    def tell_new(progress: Progress) -> None:
        nonlocal done
        if progress.round > done:
            done = progress.round
            on_round(progress)

    while True:
        places = [place for place in range(len(settings)) if place not in diverged]
        # Runs of the smaller grid have other places than in `settings`: `places` maps them back.
        some = [settings[place] for place in places]
        checkpoint = saving and _saving_without(saving, diverged)
        try:
            first = None if start is None else start[places]
            fitted = fit(experiment, federation, some, seed, checkpoint, tell_new, watched, first)
            prediction = fitted.predict(examples)
            return FittedGrid(tuple(settings), fitted, prediction, diverged)
        except SettingsDivergedError as error:
            diverged |= {places[run]: where for run, where in error.runs.items()}
            if all(place in diverged for place in range(needed or len(settings))):
                raise


def _saving_without(saving: Saving, diverged: Mapping[int, Divergence]) -> Saving:
    """Return where the checkpoint of a smaller grid lies, so that none is taken for another's."""
    if not diverged:
        return saving
    without = "without-" + "-".join(map(str, sorted(diverged)))
    path = saving.path.with_name(f"{saving.path.stem}-{without}{saving.path.suffix}")
    return replace(saving, path=path, owner=f"{saving.owner}-{without}")


def fit(
    experiment: Resolved,
    federation: Federation,
    settings: Sequence[Setting],
    seed: int,
    saving: Saving | None = None,
    on_round: Callable[[Progress], None] = lambda progress: None,
    watched: bool = True,
    start: Float[Array, "r p"] | None = None,
) -> Fitted:
    """Train every setting on a federation with one seed, and look at the model after each round.

    Args:
        experiment: what is trained.
        federation: the rows.
        settings: what the runs of the grid are set to.
        seed: of the models and of the order of rows.
        saving: where the checkpoint lies; None writes none.
        on_round: is called after every round.
        watched: whether to look at the model after each round.
        start: parameters before training; None: those of :func:`start_params`.
    """
    method = find_method(experiment.algorithm)
    federation = astype(federation, experiment.precision)
    clients = training_clients(experiment, method, federation)
    notion = training_notion(experiment, len(federation.group_names), len(federation.clients))
    engine = make_engine(experiment, clients[0].x.shape[1])
    privacy = _privacy_of(experiment, clients)
    algorithm = build(experiment, engine, notion, settings, privacy.noise if privacy else QUIET)
    if start is None:
        start = start_params(experiment, engine, seed, len(settings))
    names = training_names(experiment, federation)
    if privacy and saving and saving.ledger:
        ledger = replace(saving.ledger, privacy=to_builtins(privacy.account(names)))
        saving = replace(saving, ledger=ledger)
    carry = make_carry(experiment, names, saving.ledger if saving else None)
    try:
        # Nobody looks at training rows of a private run: that exchange would cost privacy too.
        # What overflows is found by looking at every upload, and told once, with its round.
        with np.errstate(all="ignore"):
            trained = train(
                algorithm,
                clients,
                start,
                seed=seed,
                rounds=experiment.rounds,
                watch=confusion_task(engine) if watched and not privacy else None,
                participation=experiment.participation,
                dropout=experiment.dropout,
                carry=carry,
                guard=privacy.guard() if privacy else None,
                saving=saving and replace(saving, instructions=engine.instructions),
                on_round=on_round,
                threads=threads_for(engine, clients),
            )
    except DivergedError as error:
        where = {
            run: Divergence(round=error.round, client=names[client])
            for run, client in error.clients.items()
        }
        message = _diverged(error, names, settings, seed)
        raise SettingsDivergedError(message, where) from error
    return Fitted(seed, tuple(settings), algorithm, trained, privacy)


def start_params(experiment: Resolved, engine: Engine, seed: int, runs: int) -> Float[Array, "r p"]:
    """Return the parameters before training: drawn from the seed, or 0 for an exact fit.

    An exact fit ends at the same parameters from any start, up to rounding.
    """
    drawn = engine.model.init(seed)
    return np.repeat([0 * drawn if experiment.solver == "newton" else drawn], runs, axis=0)


def _privacy_of(experiment: Resolved, clients: Sequence[ClientData]) -> "PrivateRun | None":
    if experiment.privacy_epsilon is None:
        return None
    from fedfb.experiments.privacy import plan_privacy  # here: it needs dp-accounting

    return plan_privacy(experiment, {client.id: len(client.y) for client in clients})


def threads_for(engine: Engine, clients: Sequence[ClientData]) -> int:
    """Return the number of threads for the tasks of clients: 1 where threads would cost more."""
    rows = sum(len(client.y) for client in clients)
    worth = rows >= max(WORTH_THREADS, WORTH_A_CLIENT * len(clients))
    return cores() if engine.releases_gil and worth else 1


def training_clients(
    experiment: Resolved, method: Method, federation: Federation
) -> tuple[ClientData, ...]:
    """Return the clients that a method trains on; a pooled method has one.

    Where the method compares clients, the group of a pooled row is the client the row came from.
    """
    refuse_too_many(method, len(federation.group_names))
    if not method.is_pooled(experiment.variant):
        return federation.clients
    [everyone] = pooled(federation).clients
    if long_name(experiment.notion) != "client_parity":
        return (everyone,)
    sizes = [len(client.y) for client in federation.clients]
    origin = np.repeat(np.arange(len(sizes)), sizes)
    return (everyone._replace(group=origin, groups=len(sizes)),)


def training_names(experiment: Resolved, federation: Federation) -> tuple[str, ...]:
    """Return the names of the clients a method trains on, in the order of their ids."""
    method = find_method(experiment.algorithm)
    pooled = method.is_pooled(experiment.variant)
    return ("all rows pooled",) if pooled else federation.client_names


def check_runnable(experiment: Resolved, groups: int | None = None) -> None:
    """Refuse what cannot be run, before anything is trained.

    Args:
        experiment: what is to be run.
        groups: number of groups, None before rows are read. Rows with more groups than two may
            need more bits.

    """
    method, groups = find_method(experiment.algorithm), groups or experiment.groups
    refuse_too_many(method, groups)
    algorithm = sketch(experiment, groups)
    if experiment.secure:
        refuse_disclosure(method, experiment.variant, algorithm)
    if experiment.privacy_epsilon is not None:
        from fedfb.experiments.privacy import check_privacy  # here: it needs dp-accounting

        check_privacy(experiment)


def sketch(experiment: Resolved, groups: int) -> Algorithm:
    """Return the algorithm of an experiment for one feature and one setting, to look at its tasks.

    Neither the model nor the number of clients changes the tasks.
    """
    experiment = replace(experiment, model="logistic")
    engine, notion = make_engine(experiment, inputs=1), training_notion(experiment, groups, 3)
    return build(experiment, engine, notion, given_grid(experiment)[:1], QUIET)


def training_notion(experiment: Resolved, groups: int, clients: int) -> Notion:
    """Return the notion a method trains for, with what its groups (or clients) are compared to.

    Args:
        experiment: names notion, reference and method.
        groups: number of groups.
        clients: number of clients.
    """
    method = find_method(experiment.algorithm)
    comparing_clients = long_name(experiment.notion) == "client_parity"
    many = (clients if comparing_clients else groups) > 2
    symmetric = experiment.reference == "mean" or (experiment.reference == "auto" and many)
    if comparing_clients and method.is_pooled(experiment.variant):
        from fedfb.notions import PooledClientParity

        return PooledClientParity(clients, symmetric, minimum=experiment.minimum_group)
    return make_notion(experiment.notion, groups, symmetric, experiment.minimum_group)


def make_engine(experiment: Experiment, inputs: int) -> Engine:
    """Return the engine for an experiment's model and precision.

    Args:
        experiment: names model, engine and precision.
        inputs: number of features.
    """
    model = make_model(experiment.model, inputs, experiment.hidden)
    return choose_engine(experiment.engine, model, np.dtype(experiment.precision))


QUIET: Mapping[int, float] = defaultdict(float)
"""No noise for anybody: for an algorithm that is asked to predict, or played on random rows."""


def build(
    experiment: Resolved,
    engine: Engine,
    notion: Notion,
    settings: Sequence[Setting],
    noise: Mapping[int, float] | None = None,
) -> Algorithm:
    """Return the method's algorithm for all settings together.

    A private experiment without ``noise`` is refused: its caller does not know of privacy.

    Args:
        experiment: a resolved experiment.
        engine: trains and evaluates the model.
        notion: what the method trains for.
        settings: one mapping of knobs to values for each run.
        noise: multipliers of private training by client id.
    """
    if experiment.privacy_epsilon is not None and noise is None:
        raise ConfigError(
            "--privacy-epsilon is offered where all clients are in this process (fedfb run, "
            "compare, frontier), not here yet. Leave it out."
        )
    method = find_method(experiment.algorithm)
    values = {knob: np.array([run[knob] for run in settings]) for knob in settings[0]}
    solver = LocalSolver(
        learning_rate=values.pop("lr", np.zeros(len(settings))),
        epochs=experiment.local_epochs,
        batch=experiment.batch,
        optimiser="sgd" if experiment.optimiser == "sgd" else "adam",
        weight_decay=experiment.weight_decay,
        private=_private_training(experiment, noise),
        newton=experiment.solver == "newton",
        lbfgs=experiment.solver == "lbfgs",
        fading=FADING if experiment.participation < 1 else 0.0,
    )
    variant = experiment.variant
    return method.make(Problem(engine, solver, notion, values, variant, experiment))


def _private_training(
    experiment: Resolved, noise: Mapping[int, float] | None
) -> PrivateTraining | None:
    if experiment.privacy_epsilon is None or experiment.privacy_level != "record":
        return None
    return PrivateTraining(experiment.privacy_clip, noise or QUIET)


def _diverged(
    error: DivergedError, client_names: Sequence[str], settings: Sequence[Setting], seed: int
) -> str:
    return (
        f"training diverged in round {error.round} on client {client_names[error.client]!r} "
        f"(seed {seed}, {_in_words(settings, error.runs)}): what it {error.what} {error.reason}. "
        f"{LOWER}"
    )


def _in_words(settings: Sequence[Setting], runs: Sequence[int]) -> str:
    return "; ".join(
        ", ".join(f"{knob} {value:g}" for knob, value in settings[run].items()) for run in runs
    )
