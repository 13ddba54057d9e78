"""What a method exchanges, read off the objects that run: a round is played and listened to."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from fedfb.algorithms import find_method
from fedfb.core import Algorithm, Arrays, Ask, ClientData, ClientTask, generator
from fedfb.experiments.fit import QUIET, build, make_engine, training_notion
from fedfb.experiments.resolve import given_grid, resolve
from fedfb.experiments.spec import Experiment
from fedfb.notions import long_name
from fedfb.runtime import bits_of, make_ask
from fedfb.shapes import Array, Float

OF_A_MODEL = ("weight", "client")
"""Uploads that go with a model or a value: what it weighs, and whose it is."""


WHEN = ("set-up", "first round", "round", "end")
LAST = 3
"""The rounds that are played: a first, a usual one and a last."""


class Sent(NamedTuple):
    """One upload of one client: its name, how many numbers, their size, and whether a model."""

    name: str
    numbers: int
    bits: int
    is_model: bool


class Exchange(NamedTuple):
    """One question: when it is put, what each client sends, what the server sees of it."""

    when: str
    question: str
    reduce: str
    sent: tuple[Sent, ...]

    @property
    def numbers(self) -> int:
        """How many numbers a client sends."""
        return sum(sent.numbers for sent in self.sent)

    @property
    def bytes(self) -> int:
        """How many bytes they take, codes packed."""
        return -(-sum(sent.bits for sent in self.sent) // 8)


class Explained(NamedTuple):
    """The exchanges of the set-up and of one round, and the size of the model."""

    exchanges: tuple[Exchange, ...]
    parameters: int

    @property
    def in_a_round(self) -> tuple[Exchange, ...]:
        """The exchanges of one round."""
        return tuple(one for one in self.exchanges if one.when == "round")

    @property
    def sums_only(self) -> bool:
        """Whether the server sees nothing but sums."""
        return all(one.reduce == "sum" for one in self.exchanges)

    @property
    def beyond_the_model(self) -> int:
        """How many numbers a client sends in a round beside models and the weights they have."""
        return sum(
            sent.numbers
            for one in self.in_a_round
            for sent in one.sent
            if not sent.is_model and sent.name not in OF_A_MODEL
        )


def explain(
    experiment: Experiment, groups: int = 2, clients: int = 3, features: int = 8
) -> Explained:
    """Play a few rounds of a method on random rows and return what was exchanged.

    >>> explained = explain(Experiment(algorithm="fedfb"), groups=4)
    >>> [one.question for one in explained.in_a_round], explained.sums_only
    (['fit', 'measure'], True)
    """
    # One epoch says as much about what is exchanged as thirty. Random rows are nobody's, so a
    # method that decides by the group can be shown before anybody has chosen to use it.
    experiment = replace(
        resolve(experiment), local_epochs=1, rounds=LAST, sensitive_at_prediction=True
    )
    method = find_method(experiment.algorithm)
    pooled = method.is_pooled(experiment.variant or "")
    comparing = clients if pooled and long_name(experiment.notion) == "client_parity" else groups
    rows = [random_client(number, comparing, features) for number in range(clients)]
    engine = make_engine(experiment, features)
    notion = training_notion(experiment, groups, clients)
    algorithm = build(experiment, engine, notion, given_grid(experiment)[:1], QUIET)
    asked = rows[:1] if pooled else rows
    heard = listen(algorithm, asked, engine.model.init(0)[None])
    return Explained(tuple(heard), engine.model.size)


def random_client(number: int, groups: int, features: int) -> ClientData:
    """Return a few random rows with every cell (label, group) present."""
    rng, rows = generator((number, 30)), 4 * groups
    cells = np.arange(rows) % (2 * groups)
    x = rng.normal(size=(rows, features))
    return ClientData(number, x, cells // groups, cells % groups, groups)


def listen(
    algorithm: Algorithm, clients: Sequence[ClientData], params: Float[Array, "r p"]
) -> list[Exchange]:
    """Run set-up and three rounds, and return what was said in set-up, second round and at the end.

    What is asked in the last round only belongs to the end.
    """
    memories = {client.id: algorithm.memory(params) for client in clients}
    heard: list[Exchange] = []

    def listening(ask: Ask, when: str) -> Ask:
        def listened(task: ClientTask, broadcast: Arrays) -> Arrays:
            first = clients[0]
            upload, _ = task.run(broadcast, first, memories[first.id], (0, 0, 0, first.id))
            sent = _sent(task, upload, params.shape[1])
            heard.append(Exchange(when, task.name, task.reduce, sent))
            return ask(task, broadcast)

        return listened

    state = algorithm.setup(params, listening(make_ask(clients, memories, 0, 0), "set-up"))
    for number, when in enumerate(WHEN[1:], start=1):
        ask = listening(make_ask(clients, memories, 0, number), when)
        state, _ = algorithm.round(state, ask)
    said = {when: [one for one in heard if one.when == when] for when in WHEN}
    # A method that asks once and for all (an ensemble) has said everything in its first round.
    rounds = said["round"] or [one._replace(when="round") for one in said["first round"]]
    usual = {one.question for one in rounds}
    return said["set-up"] + rounds + [one for one in said["end"] if one.question not in usual]


def _sent(task: ClientTask, upload: Arrays, parameters: int) -> tuple[Sent, ...]:
    bits = bits_of(task, upload)
    return tuple(
        Sent(name, value.size, bits[name], value.ndim > 1 and value.shape[-1] == parameters)
        for name, value in upload.items()
    )
