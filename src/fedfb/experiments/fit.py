"""One seed of an experiment: from clients to trained models, all settings of a grid at once."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import product

import numpy as np

from fedfb.algorithms import Method, find_method
from fedfb.algorithms.tasks import confusion_task
from fedfb.core import Algorithm, ClientData, Examples, LocalSolver, Prediction
from fedfb.data import Federation, astype, pooled
from fedfb.engine import Engine, NumpyEngine
from fedfb.errors import DivergenceError
from fedfb.experiments.spec import Experiment
from fedfb.models import make_model
from fedfb.notions import Notion, PooledClientParity, long_name, make_notion
from fedfb.runtime import DivergedError, Progress, Saving, Trained, train

Setting = Mapping[str, float]
"""What one run of a grid is set to: its learning rate and its method's own knobs."""

LOWER = "Lower the learning rate (--lr)."

LR_GRID = (0.001, 0.005, 0.01)
"""The learning rates that tuning tries (paper, Appendix C)."""


@dataclass(frozen=True)
class Fitted:
    """The trained runs of one seed and what is needed to predict with them."""

    seed: int
    settings: tuple[Setting, ...]
    algorithm: Algorithm
    trained: Trained

    def predict(self, examples: Examples) -> Prediction:
        """Score and decide rows with every run; scores that are not finite are an error."""
        state, memories, history = self.trained
        with np.errstate(all="ignore"):
            prediction = self.algorithm.predict(state, memories, examples)
        bad = np.flatnonzero(~np.isfinite(prediction.score).all(axis=1)).tolist()
        if bad:
            raise DivergenceError(
                f"training diverged: after round {len(history)} the model's scores are not finite "
                f"(seed {self.seed}, {_in_words(self.settings, bad)}). {LOWER}"
            )
        return prediction


def given_grid(experiment: Experiment) -> list[Setting]:
    """Return every combination of the values that the experiment gives."""
    method = find_method(experiment.algorithm)
    return _combinations({knob: getattr(experiment, knob) for knob in (*method.grid, "lr")})


def tuning_grid(experiment: Experiment) -> list[Setting]:
    """Return what tuning tries: a knob's values where they are not its default, else the usual."""
    usual = {**find_method(experiment.algorithm).grid, "lr": LR_GRID}
    given = {f.name: getattr(experiment, f.name) for f in fields(experiment) if f.name in usual}
    default = {f.name: f.default for f in fields(experiment)}
    return _combinations({k: usual[k] if given[k] == default[k] else given[k] for k in usual})


def _combinations(values: Mapping[str, Sequence[float]]) -> list[Setting]:
    return [
        dict(zip(values, map(float, combination), strict=True))
        for combination in product(*values.values())
    ]


def fit(
    experiment: Experiment,
    federation: Federation,
    settings: Sequence[Setting],
    seed: int,
    saving: Saving | None = None,
    on_round: Callable[[Progress], None] = lambda progress: None,
) -> Fitted:
    """Train every setting on a federation with one seed."""
    method = find_method(experiment.algorithm)
    clients, notion = training_view(experiment, method, astype(federation, experiment.precision))
    model = make_model(experiment.model, clients[0].x.shape[1], experiment.hidden)
    engine = NumpyEngine(model, np.dtype(experiment.precision))
    algorithm = build(experiment, method, engine, notion, settings)
    start = np.repeat(model.init(seed)[None], len(settings), axis=0)
    try:
        # What overflows is found by looking at every upload, and told once, with its round.
        with np.errstate(all="ignore"):
            trained = train(
                algorithm,
                clients,
                start,
                seed=seed,
                rounds=experiment.rounds,
                watch=confusion_task(engine),
                saving=saving,
                on_round=on_round,
            )
    except DivergedError as error:
        names = ("all rows pooled",) if method.pooled else federation.client_names
        raise DivergenceError(_diverged(error, names, settings, seed)) from error
    return Fitted(seed, tuple(settings), algorithm, trained)


def training_view(
    experiment: Experiment, method: Method, federation: Federation
) -> tuple[tuple[ClientData, ...], Notion]:
    """Return the clients a method trains on, and its notion; a pooled method sees one client."""
    groups = len(federation.group_names)
    notion = make_notion(experiment.notion, groups, experiment.symmetric)
    if not method.pooled:
        return federation.clients, notion
    [everyone] = pooled(federation).clients
    if long_name(experiment.notion) != "client_parity":
        return (everyone,), notion
    sizes = [len(client.y) for client in federation.clients]
    origin = np.repeat(np.arange(len(sizes)), sizes)
    by_client = everyone._replace(group=origin, groups=len(sizes))
    return (by_client,), PooledClientParity(len(sizes), experiment.symmetric)


def build(
    experiment: Experiment,
    method: Method,
    engine: Engine,
    notion: Notion,
    settings: Sequence[Setting],
) -> Algorithm:
    """Return the method's algorithm for all settings together."""
    values = {knob: np.array([run[knob] for run in settings]) for knob in settings[0]}
    solver = LocalSolver(
        learning_rate=values.pop("lr"),
        epochs=experiment.local_epochs,
        batch=experiment.batch,
        optimiser="sgd" if experiment.optimiser == "sgd" else "adam",
        weight_decay=experiment.weight_decay,
    )
    return method.make(engine, solver, notion, values, asdict(experiment))


def _diverged(
    error: DivergedError, client_names: Sequence[str], settings: Sequence[Setting], seed: int
) -> str:
    return (
        f"training diverged in round {error.round} on client {client_names[error.client]!r} "
        f"(seed {seed}, {_in_words(settings, error.runs)}): what it sends ({error.upload}) is not "
        f"finite. {LOWER}"
    )


def _in_words(settings: Sequence[Setting], runs: Sequence[int]) -> str:
    return "; ".join(
        ", ".join(f"{knob} {value:g}" for knob, value in settings[run].items()) for run in runs
    )
