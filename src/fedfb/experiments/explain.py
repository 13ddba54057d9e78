"""What a run exchanges, before it is made: the same run on random rows, and what its ledger holds.

Nothing is described twice. :func:`explain` calls ``fedfb.experiments.outcome.run`` with the
experiment itself, so that trials of learning rates, the free model beside the others and the look
at every round's model are in it, and reads the exchanges off the ledger which that run writes.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr
from dataclasses import replace
from io import StringIO
from math import inf
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fedfb.algorithms import find_method
from fedfb.core import ClientData, Examples, generator
from fedfb.data import Federation
from fedfb.data.columns import NumberColumn
from fedfb.data.encode import Encoder
from fedfb.data.groups import Groups
from fedfb.experiments.effect import is_read
from fedfb.experiments.resolve import given_grid, resolve
from fedfb.experiments.spec import Experiment
from fedfb.experiments.train import Fitted, fit, make_engine, training_names
from fedfb.runtime import Ledger, Saving
from fedfb.runtime.ledger import (
    NEEDS_SUM,
    RECEIVED_SUM,
    Account,
    Entry,
    Visibility,
    phase_kind,
    read_ledger,
)

if TYPE_CHECKING:  # pathlib takes longer to import than the rest of this file
    from pathlib import Path

_PLAYED = 3
"""The rounds that are played of a longer run: a first, a usual one and a last."""

ROWS_OF_A_CELL = 20
"""Random rows of each label and group at each client: a tenth can be spared to choose on."""

SET_UP, FIRST, USUAL, LAST = "set-up", "first round", "round", "last round"
END = "after the last round"

Shapes = tuple[tuple[str, tuple[int, ...]], ...]
"""The shapes of an upload's arrays by name."""


class ExplainedExchange(NamedTuple):
    """One task that clients are asked: when, what each of them sends, and what becomes of it.

    Args:
        phase: ``tune`` (what is tried on validation rows), ``run``, or ``leave-out`` (a training
            without some clients).
        when: the set-up, every round, or which rounds.
        question: the name of the task.
        seen: what becomes of the uploads, as the ledger has it.
        parts: the arrays that a client sends.
        bytes: the size of all that a client sends for it, codes packed.
        times: how often it is asked in such a round, at least and at most.
        models: the names of arrays that grow with the model: parameters and gradients.

    """

    phase: str
    when: str
    question: str
    seen: Visibility
    parts: Shapes
    bytes: int
    times: tuple[int, int]
    models: frozenset[str] = frozenset()

    @property
    def numbers(self) -> int:
        """How many numbers a client sends each time."""
        return sum(int(np.prod(shape)) for _, shape in self.parts)

    @property
    def beyond_the_model(self) -> int:
        """How many of these numbers belong neither to a model nor to its weight."""
        beside = {*self.models, "weight"} if self.models else set()
        return sum(int(np.prod(shape)) for name, shape in self.parts if name not in beside)


class Explained(NamedTuple):
    """The exchanges of a run, how many settings it trains side by side, and the model's size."""

    exchanges: tuple[ExplainedExchange, ...]
    settings: int
    parameters: int
    pooled: bool

    @property
    def in_a_round(self) -> tuple[ExplainedExchange, ...]:
        """The exchanges of a usual round of the run itself; those of every k-th round too."""
        rare = (SET_UP, FIRST, LAST, END)
        return tuple(e for e in self.exchanges if e.phase == "run" and e.when not in rare)

    @property
    def exchanges_a_round(self) -> int:
        """How many exchanges a round has, at most."""
        return sum(exchange.times[1] for exchange in self.in_a_round)

    @property
    def bytes_a_round(self) -> int:
        """How many bytes a client sends in a round, at most."""
        return sum(exchange.times[1] * exchange.bytes for exchange in self.in_a_round)

    @property
    def needs_only_sums(self) -> bool:
        """Whether sums over clients are all that the method needs."""
        return all(NEEDS_SUM[exchange.seen] for exchange in self.exchanges)

    @property
    def server_receives_only_sums(self) -> bool:
        """Whether the server receives only sums over clients."""
        return all(RECEIVED_SUM[exchange.seen] for exchange in self.exchanges)

    @property
    def beyond_the_model(self) -> int:
        """How many numbers a client sends in a round, at most, beside models and their weights."""
        return sum(exchange.times[1] * exchange.beyond_the_model for exchange in self.in_a_round)


def explain(
    experiment: Experiment, groups: int = 2, clients: int = 3, features: int = 8
) -> Explained:
    """Make a short run of an experiment on random rows and return what was exchanged.

    Of a longer run only as many rounds are made as show what is asked first, usually and last.

    Args:
        experiment: the experiment; its data are not read.
        groups: number of groups of the random rows.
        clients: number of clients.
        features: number of features, which decides the size of the model.

    >>> explained = explain(Experiment(algorithm="fedfb", solver="local"), groups=4)
    >>> [one.question for one in explained.in_a_round], explained.needs_only_sums
    (['fit', 'measure', 'confusion'], True)
    """
    from fedfb.experiments.outcome import train  # here: privacy imports this file

    def play(short: Experiment, federation: Federation, folder: "Path", path: "Path") -> Fitted:
        rows = {short.seeds[0]: federation}
        outcome = train(short, checkpoints=folder, ledger=path, jobs=1, federations=rows)
        return outcome.fitted[0]

    return _explained(experiment, groups, clients, features, play)


def explain_alone(experiment: Experiment, groups: int, clients: int, features: int) -> Explained:
    """Return what a method exchanges to train one setting, and nothing else.

    Trials on validation rows, the free model and the look at every round's model are left out, so
    that methods can be compared.

    Args:
        experiment: the experiment; its data are not read.
        groups: number of groups of the random rows.
        clients: number of clients.
        features: number of features.
    """
    return _explained(experiment, groups, clients, features, _play_alone)


def _play_alone(short: Experiment, rows: Federation, folder: "Path", path: "Path") -> Fitted:
    resolved = resolve(short)
    seed, names = short.seeds[0], training_names(resolved, rows)
    saving = Saving(folder / "run.npz", "", ledger=Ledger(path, "run", seed, names))
    return fit(resolved, rows, given_grid(short)[:1], seed, saving, watched=False)


Play = Callable[[Experiment, Federation, "Path", "Path"], Fitted]
"""Make a run of an experiment on these rows, in this folder, with a ledger at this path."""


def _explained(
    experiment: Experiment, groups: int, clients: int, features: int, play: Play
) -> Explained:
    whole = resolve(experiment)
    rounds = min(whole.rounds, max(_PLAYED, 2 * experiment.period + 1))
    # One epoch says as much about what is exchanged as thirty. Random rows are nobody's, so a
    # method that decides by the group can be shown before anybody has chosen to use it.
    short = replace(
        experiment,
        local_epochs=1 if is_read(experiment, "local_epochs") else experiment.local_epochs,
        rounds=rounds,
        seeds=experiment.seeds[:1],
        solver=whole.solver,
        sensitive_at_prediction=True,
    )
    if experiment.privacy_epsilon is not None:  # no noise changes the size of what is sent
        short = replace(short, privacy_epsilon=inf)
    fitted, accounts = _listen(short, random_federation(groups, clients, features), play)
    # Trainings without some clients are alike: the first stands for all of them.
    shown = {phase_kind(account.phase): account for account in reversed(accounts)}
    exchanges = [e for a in accounts if a in shown.values() for e in exchanges_of(a, rounds)]
    periods = (whole.rounds - rounds) // experiment.period
    if periods > 0 and any(exchange.when == END for exchange in exchanges):
        more = rounds + experiment.period
        rows = random_federation(groups, clients, features)
        _, longer = _listen(replace(short, rounds=more), rows, play)
        at_end = [e for a in longer for e in exchanges_of(a, more) if e.when == END]
        exchanges = [_of_all_rounds(e, at_end, periods) for e in exchanges]
    # What grows with the features is a model; sizes alone may be the same by chance.
    _, [wider] = _listen(
        replace(short, secure=False), random_federation(groups, clients, features + 1), _play_alone
    )
    other = {exchange.question: dict(exchange.parts) for exchange in exchanges_of(wider, rounds)}
    method = find_method(experiment.algorithm)
    return Explained(
        tuple(
            exchange._replace(models=_growing(exchange.parts, other.get(exchange.question, {})))
            for exchange in exchanges
        ),
        len(fitted.settings),
        make_engine(short, features).model.size,
        method.is_pooled(whole.variant),
    )


def _of_all_rounds(
    exchange: ExplainedExchange, longer: Sequence[ExplainedExchange], periods: int
) -> ExplainedExchange:
    """Return what is sent after the rounds in the size that it has after all of them.

    Args:
        exchange: as it is after the rounds that were played.
        longer: what is sent after the rounds if one period more is played.
        periods: how many periods were not played.
    """
    like = [e for e in longer if (e.phase, e.question) == (exchange.phase, exchange.question)]
    if exchange.when != END or not like:
        return exchange
    parts = tuple(
        (name, (shape[0] + periods * (other[0] - shape[0]), *shape[1:]) if shape else shape)
        for (name, shape), (_, other) in zip(exchange.parts, like[0].parts, strict=True)
    )
    size = exchange.bytes + periods * (like[0].bytes - exchange.bytes)
    return exchange._replace(parts=parts, bytes=size)


def _listen(short: Experiment, rows: Federation, play: Play) -> tuple[Fitted, list[Account]]:
    """Make a run in a folder of its own, and return its end and its ledger."""
    from pathlib import Path
    from tempfile import TemporaryDirectory

    # Warnings about random rows would mislead.
    with TemporaryDirectory() as name, redirect_stderr(StringIO()):
        folder = Path(name)
        fitted = play(short, rows, folder, folder / "ledger.jsonl")
        return fitted, read_ledger(folder / "ledger.jsonl")


def _growing(parts: Shapes, other: Mapping[str, tuple[int, ...]]) -> frozenset[str]:
    """Return the names of arrays whose shapes differ, but for how many settings they are of."""
    return frozenset(name for name, shape in parts if shape[1:] != other.get(name, shape)[1:])


def exchanges_of(account: Account, rounds: int) -> Iterator[ExplainedExchange]:
    """Yield what left the clients in one phase of a run; equal exchanges are put together.

    A fit by sums asks only for the runs of a grid that are not done: their number does not tell
    exchanges apart, and the largest is told.

    Args:
        account: the ledger of the phase.
        rounds: number of rounds of the run.
    """
    rounds_of_kind: dict[_Kind, dict[int, set[int]]] = {}
    largest: dict[_Kind, Entry] = {}
    for entry in account.entries:
        if entry.way == "up":
            kind = _kind(entry, rounds)
            rounds_of_kind.setdefault(kind, defaultdict(set))[entry.round].add(entry.question)
            if kind not in largest or entry.bytes > largest[kind].bytes:
                largest[kind] = entry
    for kind, by_round in rounds_of_kind.items():
        _, question, visibility, _ = kind
        parts, size = _shapes(largest[kind]), largest[kind].bytes
        often = [len(numbers) for numbers in by_round.values()]
        when = _when(by_round, rounds)
        times = (min(often), max(often))
        yield ExplainedExchange(
            phase_kind(account.phase), when, question, visibility, parts, size, times
        )


_Kind = tuple[int, str, Visibility, Shapes]
"""When something is asked (set-up, rounds, after them), what, how it is seen, and its shapes, but
for the first axis."""


def _kind(entry: Entry, rounds: int) -> _Kind:
    when = min(entry.round, 1) + (entry.round > rounds)
    of_run = tuple((name, shape[1:]) for name, shape in _shapes(entry))
    return when, entry.task, entry.seen, of_run


def _shapes(entry: Entry) -> Shapes:
    return tuple((name, tuple(shape)) for name, shape in entry.parts.items())


def _when(by_round: Mapping[int, object], rounds: int) -> str:
    """Say in which of so many rounds something is asked; the set-up is round 0.

    >>> [_when(dict.fromkeys(asked), 5) for asked in ([0], [1], [1, 2, 3, 4, 5], [5], [2, 4], [6])]
    ['set-up', 'first round', 'round', 'last round', 'rounds 2, 4', 'after the last round']
    """
    numbers = sorted(by_round)
    if numbers == [0]:
        return SET_UP
    if len(numbers) == rounds:
        return USUAL
    alone = {1: FIRST, rounds: LAST, rounds + 1: END}
    if len(numbers) == 1 and numbers[0] in alone:
        return alone[numbers[0]]
    return f"round{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def random_federation(groups: int, clients: int, features: int) -> Federation:
    """Return clients of random rows, every cell (label, group) present, and test rows."""
    rows = [random_client(n, groups, features, ROWS_OF_A_CELL) for n in range(clients)]
    origin = np.repeat(np.arange(clients), [len(client.y) for client in rows])
    x, y, group = (
        np.concatenate([getattr(client, name) for client in rows]) for name in ("x", "y", "group")
    )
    names = tuple(f"x{number}" for number in range(features))
    columns = tuple(NumberColumn(name, 0.0, 1.0, False) for name in names)
    grouped = Groups(("group",), tuple(map(str, range(groups))))
    return Federation(
        name="random rows",
        clients=tuple(rows),
        test=Examples(x, y, group, origin),
        group_names=grouped.names,
        client_names=tuple(f"client {number}" for number in range(clients)),
        feature_names=names,
        encoder=Encoder(columns, grouped, "label", "1", False),
    )


def random_client(number: int, groups: int, features: int, each: int = 2) -> ClientData:
    """Return a few random rows, ``each`` of every cell (label, group).

    Args:
        number: id of the client, and seed of its rows.
        groups: number of groups.
        features: number of features.
        each: rows of each cell.
    """
    rng, rows = generator((number, 30)), 2 * each * groups
    cells = np.arange(rows) % (2 * groups)
    x = rng.normal(size=(rows, features))
    return ClientData(number, x, cells // groups, cells % groups, groups)
