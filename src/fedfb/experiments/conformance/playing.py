"""Runs of a method on tiny federations, for the checks: clients, runs, uploads, comparisons.

Some federations are usual, some lack a group or a cell, and one has a client split in two. A check
that fails raises a :class:`ConformanceError` that says what is broken.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedfb.algorithms.method import Method, Problem
from fedfb.algorithms.tasks import confusion_task
from fedfb.core import Algorithm, Arrays, Ask, ClientData, ClientTask, Examples, Key, LocalSolver
from fedfb.engine import Engine, choose_engine
from fedfb.experiments.spec import Experiment
from fedfb.models import Network
from fedfb.notions import Notion, PooledClientParity, make_notion
from fedfb.runtime import Trained, make_ask, train
from fedfb.runtime.local import Memories
from fedfb.shapes import Array, Float

PLAYED_FEATURES = 3
_Clients = tuple[ClientData, ...]


def make_clients(sizes: Sequence[int] = (30, 18, 24), groups: int = 2, seed: int = 0) -> _Clients:
    """Draw clients. The first feature predicts the label; later groups are small and score lower.

    The first client has rows of every cell (label, group).

    Args:
        sizes: rows of each client.
        groups: number of groups.
        seed: of the random rows.
    """
    rng = np.random.default_rng(seed)
    clients = []
    for number, rows in enumerate(sizes):
        group = np.minimum(rng.geometric(0.8, rows) - 1, groups - 1)
        # Random draws may miss a rare cell. The first client has all, so every rate is defined.
        if number == 0:
            cells = np.arange(2 * groups)
            group[: 2 * groups] = cells % groups
        x = rng.normal(size=(rows, PLAYED_FEATURES)) - 1.5 * group[:, None] * (
            np.arange(PLAYED_FEATURES) == 0
        )
        y = (x[:, 0] + rng.logistic(size=rows) > 0).astype(np.int64)
        if number == 0:
            y[: 2 * groups] = cells // groups
        clients.append(ClientData(number, x, y, group, groups))
    return tuple(clients)


def odd_federations() -> Mapping[str, _Clients]:
    """Return federations that lack something, by what they lack."""
    first, second, third = make_clients()
    no_cell = second._replace(y=np.where(second.group == 1, 0, second.y))
    return {
        "a client without a group": (first, _all_of(second, 0), _all_of(third, 1)),
        "a client without a cell": (first, no_cell, third),
        "a single client": (first,),
        "one group only": make_clients(groups=1),
        "a group without rows": tuple(_all_of(c, 0) for c in (first, second, third)),
    }


def split(clients: _Clients, which: int) -> _Clients:
    """Return the federation with a third of one client's rows moved to a new client.

    Args:
        clients: the federation.
        which: the place of the client that is split.
    """
    whole = clients[which]
    cut = len(whole.y) // 3
    rest, new = (
        ClientData(number, whole.x[rows], whole.y[rows], whole.group[rows], whole.groups)
        for number, rows in ((whole.id, slice(cut, None)), (len(clients), slice(cut)))
    )
    return (*clients[:which], rest, *clients[which + 1 :], new)


def examples_of(clients: _Clients) -> Examples:
    """Return the first ten rows of every client, to predict."""
    everyone, owners = (
        merge(clients),
        np.repeat([c.id for c in clients], [len(c.y) for c in clients]),
    )
    first = np.concatenate([np.arange(len(client.y)) < 10 for client in clients])
    return Examples(everyone.x[first], everyone.y[first], everyone.group[first], owners[first])


def merge(clients: _Clients) -> ClientData:
    """Return one client that holds all rows."""
    return ClientData(
        0,
        np.concatenate([client.x for client in clients]),
        np.concatenate([client.y for client in clients]),
        np.concatenate([client.group for client in clients]),
        clients[0].groups,
    )


def _all_of(client: ClientData, group: int) -> ClientData:
    return client._replace(group=np.full_like(client.group, group))


SEED, ROUNDS = 7, 2
USUAL: Mapping[str, Any] = {"local_epochs": 1, "batch": 12, "rounds": ROUNDS}
ONE_STEP: Mapping[str, Any] = {"local_epochs": 1, "batch": 10**6, "optimiser": "sgd"}
"""Settings under which local training is one gradient step on all rows."""

MODEL, SCORES = "the model", "the scores"
"""The names of the common model and of what is predicted among the results of a run."""

MakeAsk = Callable[[Sequence[ClientData], Memories, int, int], Ask]


class Case(NamedTuple):
    """A method in one of its variants, aiming at one notion."""

    method: Method
    notion: str
    variant: str


class PlayedRun(NamedTuple):
    """A run and the algorithm that made it."""

    algorithm: Algorithm
    trained: Trained


class Answer(NamedTuple):
    """One client's upload for one task, with all that it was made from."""

    task: ClientTask
    broadcast: Arrays
    data: ClientData
    memory: Arrays
    key: Key
    upload: Arrays


def seen_by(case: Case, clients: _Clients) -> _Clients:
    """Return the clients that the method trains on; a pooled variant has one.

    Where the method compares clients, the group of a pooled row is the client the row came from.
    """
    if not case.method.is_pooled(case.variant):
        return clients
    everyone = merge(clients)
    if case.notion != "client_parity":
        return (everyone,)
    origin = np.repeat([client.id for client in clients], [len(client.y) for client in clients])
    return (everyone._replace(group=origin, groups=len(clients)),)


def notion_of(case: Case, clients: _Clients) -> Notion:
    """Return the notion that the method trains for on these clients."""
    if case.notion != "client_parity":
        return make_notion(case.notion, clients[0].groups, symmetric=clients[0].groups > 2)
    if case.method.is_pooled(case.variant):
        return PooledClientParity(len(clients), len(clients) > 2)
    return make_notion(case.notion, clients[0].groups, symmetric=len(clients) > 2)


def usual_setting(case: Case, **others: float) -> dict[str, float]:
    """Return a learning rate and the usual value of every knob; ``others`` replace those it has."""
    values = {name: knob.usual(case.notion)[0] for name, knob in case.method.knobs.items()}
    return {"lr": 0.05, **values, **{k: v for k, v in others.items() if k in values or k == "lr"}}


def build_algorithm(
    case: Case,
    clients: _Clients,
    settings: Sequence[Mapping[str, float]] = (),
    **changes: Any,
) -> Algorithm:
    """Return the method's algorithm for these clients and all settings of a grid.

    Args:
        case: method, notion and variant.
        clients: decide what is compared: groups, or clients.
        settings: one mapping of knobs to values for each run; empty: the usual values.
        **changes: other settings of the experiment.
    """
    method, notion, variant = case
    experiment = Experiment(
        algorithm=method.name,
        notion=notion,
        variant=variant,
        precision="float64",
        sensitive_at_prediction=True,
        **{**USUAL, **changes},
    )
    settings = settings or [usual_setting(case)]
    values = {knob: np.array([run_method[knob] for run_method in settings]) for knob in settings[0]}
    solver = LocalSolver(
        learning_rate=values.pop("lr"),
        epochs=experiment.local_epochs,
        batch=experiment.batch,
        optimiser="sgd" if experiment.optimiser == "sgd" else "adam",
        newton=experiment.solver == "newton",
        lbfgs=experiment.solver == "lbfgs",
    )
    trained_notion = notion_of(case, clients)
    return method.make(Problem(engine(), solver, trained_notion, values, variant, experiment))


def engine() -> Engine:
    """Return logistic regression in double precision, on the engine that is used by itself."""
    return choose_engine("auto", Network(PLAYED_FEATURES, ()), np.float64)


def start(runs: int) -> Float[Array, "r p"]:
    """Return the initial parameters, the same for every run."""
    return np.repeat(engine().model.init(SEED)[None], runs, axis=0)


def run_method(
    case: Case,
    clients: _Clients,
    settings: Sequence[Mapping[str, float]] = (),
    algorithm: Algorithm | None = None,
    **changes: Any,
) -> PlayedRun:
    """Train a method on clients with the loop of the runtime.

    Args:
        case: method, notion and variant.
        clients: the federation.
        settings: as in :func:`build`.
        algorithm: an algorithm that was built before; None builds one.
        **changes: other settings of the experiment.
    """
    algorithm = algorithm or build_algorithm(case, clients, settings, **changes)
    with np.errstate(all="ignore"):
        trained = train(
            algorithm,
            seen_by(case, clients),
            start(len(settings) or 1),
            seed=SEED,
            rounds=ROUNDS,
            watch=confusion_task(engine()),
            participation=changes.get("participation", 1.0),
            dropout=changes.get("dropout", 0.0),
        )
    return PlayedRun(algorithm, trained)


def run_asking(case: Case, clients: _Clients, asking: MakeAsk, **changes: Any) -> PlayedRun:
    """Train a method with another exchange of tasks and uploads than the runtime's.

    Args:
        case: method, notion and variant.
        clients: the federation.
        asking: makes the exchange of a round from clients, memories, seed and round.
        **changes: other settings of the experiment.
    """
    algorithm, trained_on = build_algorithm(case, clients, **changes), seen_by(case, clients)
    memories = {client.id: algorithm.memory(start(1)) for client in trained_on}
    with np.errstate(all="ignore"):
        state = algorithm.setup(start(1), asking(trained_on, memories, SEED, 0))
    begun = PlayedRun(algorithm, Trained(state, memories, []))
    _, (state, memories, history) = go_on(begun, trained_on, range(1, ROUNDS + 1), asking)
    if algorithm.finish is not None:
        with np.errstate(all="ignore"):
            state = algorithm.finish(state, asking(trained_on, memories, SEED, ROUNDS + 1))
    return PlayedRun(algorithm, Trained(state, memories, history))


def go_on(
    begun: PlayedRun, clients: _Clients, rounds: Sequence[int], asking: MakeAsk = make_ask
) -> PlayedRun:
    """Continue a run for the rounds with these numbers.

    Args:
        begun: the run so far; its memories are changed.
        clients: the clients that the method trains on.
        rounds: round numbers, from 1.
        asking: as in :func:`run_asking`.
    """
    state, memories, history = begun.trained
    for number in rounds:
        with np.errstate(all="ignore"):
            state, _ = begun.algorithm.round(state, asking(clients, memories, SEED, number))
    return PlayedRun(begun.algorithm, Trained(state, memories, history))


def ask_backwards(
    combine: Callable[[ClientTask, Sequence[Arrays]], Arrays],
    clients: Sequence[ClientData],
    memories: Memories,
    seed: int,
    round: int,
) -> Ask:
    """Exchange as the runtime does, but visit the last client first.

    Args:
        combine: reduces the uploads of a task, in the order of client ids.
        clients: the clients of the round.
        memories: by client id; replaced after each task.
        seed: part of each client's key.
        round: part of each client's key.
    """
    number = 0

    def ask(task: ClientTask, broadcast: Arrays) -> Arrays:
        nonlocal number
        uploads: list[Arrays] = []
        for client in sorted(clients, key=lambda client: -client.id):
            key = (seed, round, number, client.id)
            upload, memories[client.id] = task.run(broadcast, client, memories[client.id], key)
            uploads.insert(0, upload)
        number += 1
        return combine(task, uploads)

    return ask


def answers(case: Case, clients: _Clients) -> list[Answer]:
    """Return every upload of a run, with all that it was made from."""
    uploads: list[Answer] = []

    def asking(trained_on: Sequence[ClientData], memories: Memories, seed: int, round: int) -> Ask:
        ask, number = make_ask(trained_on, memories, seed, round), 0

        def listening(task: ClientTask, broadcast: Arrays) -> Arrays:
            nonlocal number
            for client in trained_on:
                key, memory = (seed, round, number, client.id), memories[client.id]
                upload, _ = task.run(copied(broadcast), client, copied(memory), key)
                uploads.append(Answer(task, copied(broadcast), client, copied(memory), key, upload))
            number += 1
            return ask(task, broadcast)

        return listening

    run_asking(case, clients, asking)
    return uploads


def copied(arrays: Arrays) -> Arrays:
    """Return a copy of each array."""
    return {name: np.array(value) for name, value in arrays.items()}


def results(done: PlayedRun, clients: _Clients) -> Arrays:
    """Return model, scores, signals and lambda of a run, each with a leading run axis."""
    state, memories, history = done.trained
    arrays: Arrays = {}
    params = done.algorithm.params(state)
    if params is not None:
        arrays[MODEL] = params
    with np.errstate(all="ignore"):
        arrays[SCORES] = done.algorithm.predict(state, memories, examples_of(clients)).score
    for number, record in enumerate(history, start=1):
        for name, value in (("the signal", record.signal), ("lambda", record.lam)):
            if value is not None:
                arrays[f"{name} of round {number}"] = value
    return arrays


class ConformanceError(AssertionError):
    """A method breaks a law of all methods; the message says which and how."""


def same(arrays: Arrays, others: Arrays, broken: str) -> None:
    differing = [n for n in arrays if n not in others or not np.array_equal(arrays[n], others[n])]
    demand(not differing and len(arrays) == len(others), f"{broken} ({', '.join(differing[:3])})")


def close(arrays: Arrays, others: Arrays, tolerance: float, broken: str) -> None:
    for name, value in arrays.items():
        same_shape = name in others and np.shape(value) == np.shape(others[name])
        demand(same_shape, f"{broken} ({name} has another shape)")
        gap = float(np.max(np.abs(value - others[name]), initial=0.0))
        demand(gap <= tolerance, f"{broken} ({name} by {gap:.1e})")


def finite(arrays: Arrays, where: str) -> None:
    for name, value in arrays.items():
        demand(bool(np.isfinite(value).all()), f"{where}: {name} is not finite")


def demand(holds: bool, broken: str) -> None:
    if not holds:
        raise ConformanceError(broken)
