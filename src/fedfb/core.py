"""The words everything else is written in. Imports nothing of ours but shapes.

Every array of an algorithm's state has a leading run axis ``r``: the runs of a grid (step sizes,
learning rates) share the data and the order of the minibatches, so one pass over the rows serves
them all. A single run is ``r = 1``.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np

from fedfb.shapes import Array, Float, Int

Arrays = dict[str, Array]
"""All that ever travels between server and clients: arrays with names."""

Key = tuple[int, ...]
"""Where randomness is drawn: (seed, round, question, client). Indexed, never sequential."""


MINIMUM_ROWS = 10
"""A rate of fewer rows is not reported: at 10 its own 95 % band is already 0.6 wide."""


def generator(key: Key) -> np.random.Generator:
    """Return the random generator of one key; the order in which keys are used does not matter.

    >>> bool(generator((0, 1)).random() == generator((0, 1)).random())
    True
    >>> bool(generator((0, 1)).random() == generator((0, 1, 0)).random())
    False
    """
    # A seed sequence fills short keys up with zeros: with its length in front, a key stays its own.
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence((len(key), *key))))


class ClientData(NamedTuple):
    """One client's rows.

    ``id`` is its identity: randomness and the order of sums follow it, never its position.
    """

    id: int
    x: Float[Array, "n d"]
    y: Int[Array, " n"]
    group: Int[Array, " n"]
    groups: int

    @property
    def cell(self) -> Int[Array, " n"]:
        """The cell (label, group) of each row as one number, ``y * groups + group``."""
        cell: Int[Array, " n"] = self.y * self.groups + self.group
        return cell

    def read_only(self) -> "ClientData":
        """Make the rows read-only: what an engine makes of them may then be kept."""
        for array in (self.x, self.y, self.group):
            array.flags.writeable = False
        return self


class Examples(NamedTuple):
    """Rows to evaluate on.

    ``client`` is the id of the client a row belongs to, -1 where it belongs to none.
    """

    x: Float[Array, "n d"]
    y: Int[Array, " n"]
    group: Int[Array, " n"]
    client: Int[Array, " n"]


class Prediction(NamedTuple):
    """Scores P(y=1) and decisions.

    A decision is the probability that the row is decided positively: 0 or 1 unless randomised.
    """

    score: Float[Array, "r n"]
    decision: Float[Array, "r n"]


@runtime_checkable  # so that annotated shapes can be checked
class Asked(Protocol):
    """A question as those see it who carry its answers: its name, and what becomes of uploads.

    ``reduce`` says what the method needs: only the ``sum`` of the uploads, or each of them
    (``gather``, stacked in the order of client ids). What the server receives is another matter:
    without secure sums, each upload. ``bits`` is the size of uploads that are
    codes, not numbers. ``bounds`` are the largest absolute values of uploads that are small or
    large by nature: secure sums carry numbers in fixed point, and without a bound take one that is
    usual (``runtime/secure.py``).
    """

    @property
    def name(self) -> str: ...

    @property
    def reduce(self) -> Literal["sum", "gather"]: ...

    @property
    def bits(self) -> Mapping[str, int]: ...

    @property
    def bounds(self) -> Mapping[str, float]: ...


class ClientTask(NamedTuple):
    """A question that the server may put to every client: one that is :class:`Asked`, with ``run``.

    ``run`` answers: broadcast, data, memory, key -> upload, memory.

    ``sensitivity`` says how far one row can move each upload of a run, in Euclidean length: what
    differential privacy adds noise in proportion to (``fedfb.privacy``). An upload of sensitivity 0
    needs none: it does not depend on rows, or came out of private training. None is not known, and
    such a question is not put where privacy is asked for. ``epochs`` are those of local training
    that an answer takes.
    """

    name: str
    reduce: Literal["sum", "gather"]
    run: Callable[[Arrays, ClientData, Arrays, Key], tuple[Arrays, Arrays]]
    bits: Mapping[str, int] = MappingProxyType({})
    bounds: Mapping[str, float] = MappingProxyType({})
    sensitivity: Mapping[str, float] | None = None
    epochs: int = 0


Ask = Callable[[ClientTask, Arrays], Arrays]
"""Put a question to all clients and return the sum (or the stack) of their answers."""


class Info(NamedTuple):
    """What one round is worth looking at, beside the state that must be carried on."""

    signal: Float[Array, "r *s"] | None = None
    lam: Float[Array, "r *l"] | None = None


class Algorithm(NamedTuple):
    """A federated algorithm. It never sees clients, only ``ask``.

    ``setup`` takes the initial parameters, ``round`` one state to the next, ``memory`` gives what a
    client keeps for itself at the start, ``params`` the global model of a state, ``predict``
    decides rows from the final state (and, for personal models, the memories by client id).
    ``tell`` says of a final state what a report should know, one record of plain values per run.
    """

    name: str
    tasks: tuple[ClientTask, ...]
    state: type[Any]
    memory: Callable[[Float[Array, "r p"]], Arrays]
    setup: Callable[[Float[Array, "r p"], Ask], Any]
    round: Callable[[Any, Ask], tuple[Any, Info]]
    params: Callable[[Any], Float[Array, "r p"] | None]
    predict: Callable[[Any, Mapping[int, Arrays], Examples], Prediction]
    tell: Callable[[Any], list[dict[str, Any]]] | None = None


class PrivateTraining(NamedTuple):
    """How local training hides every single row: DP-SGD (Abadi et al. 2016).

    The gradient of a row is cut to the length ``clip``, and every sum of them gets Gaussian noise
    of ``clip`` times the client's multiplier (``noise``, by client id). ``secret`` is what only the
    client knows and draws batches and noise from, beside the key; without it they follow from the
    experiment's seed, which is a simulation.
    """

    clip: float
    noise: Mapping[int, float]
    secret: Key = ()


class LocalSolver(NamedTuple):
    """How one client trains in one round: E epochs of minibatches from the received parameters.

    ``prox`` is the weight of the pull towards an anchor, one per run; None is no pull.
    """

    learning_rate: Float[Array, " r"]
    epochs: int = 30
    batch: int = 128
    optimiser: Literal["adam", "sgd"] = "adam"
    weight_decay: float = 0.0
    prox: Float[Array, " r"] | None = None
    private: PrivateTraining | None = None
