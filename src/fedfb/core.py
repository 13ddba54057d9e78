"""The types that all packages share: data, tasks, algorithms and local training.

Every array of an algorithm's state has a leading run axis ``r``. The runs of a grid (step sizes,
learning rates) share the data and the order of the minibatches, so one pass over the rows trains
all of them. A single run is ``r = 1``.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np

from fedfb.shapes import Array, Float, Int

Arrays = dict[str, Array]
"""Named arrays. Nothing else is sent between server and clients."""

Key = tuple[int, ...]
"""The index of random numbers: (seed, round, exchange, client). Randomness is never sequential."""


MINIMUM_ROWS = 10
"""A rate of fewer rows is not reported: the 95 % band of a rate of 10 rows is 0.6 wide."""


def generator(key: Key) -> np.random.Generator:
    """Return the random generator of a key. The order in which keys are used does not matter.

    >>> bool(generator((0, 1)).random() == generator((0, 1)).random())
    True
    >>> bool(generator((0, 1)).random() == generator((0, 1, 0)).random())
    False
    """
    # A seed sequence pads short keys with zeros: the length keeps (0, 1) and (0, 1, 0) apart.
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence((len(key), *key))))


class ClientData(NamedTuple):
    """One client's rows.

    ``id`` identifies the client. Randomness and the order of sums depend on it, never on the
    position in a list.
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
        """Make the rows read-only, so that an engine may cache what it computes from them."""
        for array in (self.x, self.y, self.group):
            array.flags.writeable = False
        return self


class Examples(NamedTuple):
    """Rows to evaluate on.

    ``client`` is the id of the client that a row belongs to, or -1.
    """

    x: Float[Array, "n d"]
    y: Int[Array, " n"]
    group: Int[Array, " n"]
    client: Int[Array, " n"]


class Prediction(NamedTuple):
    """Scores P(y=1) and decisions.

    A decision is the probability of a positive decision: 0 or 1, unless decisions are randomised.
    """

    score: Float[Array, "r n"]
    decision: Float[Array, "r n"]


@runtime_checkable  # so that annotated shapes can be checked
class Task(Protocol):
    """The part of a task that the transport needs: its name, and how uploads are reduced.

    ``reduce`` states what the method needs: only the ``sum`` of the uploads, or each of them
    (``gather``, stacked in the order of client ids). Without secure sums the server receives each
    upload in both cases. ``bits`` is the size of uploads that are codes, not numbers. ``bounds``
    are the largest absolute values of uploads. Secure sums use fixed point, and need a bound where
    the default does not fit (``runtime/secure.py``).
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
    """A task that the server puts to every client: a :class:`Task` with the client's part, ``run``.

    Args:
        name: name of the task, as the ledger shows it.
        reduce: see :class:`Task`.
        run: broadcast, data, memory, key -> upload, memory. Runs at the client.
        bits: see :class:`Task`.
        bounds: see :class:`Task`.
        sensitivity: how far one row can move each array of the upload, in Euclidean length, for
            one run of the grid. The noise of differential privacy is proportional to it
            (``fedfb.privacy``). An array of sensitivity 0 needs no noise: it does not depend on
            rows, or private training made it. None: unknown, and the task is refused under privacy.
        epochs: epochs of local training that ``run`` takes.
    """

    name: str
    reduce: Literal["sum", "gather"]
    run: Callable[[Arrays, ClientData, Arrays, Key], tuple[Arrays, Arrays]]
    bits: Mapping[str, int] = MappingProxyType({})
    bounds: Mapping[str, float] = MappingProxyType({})
    sensitivity: Mapping[str, float] | None = None
    epochs: int = 0


Ask = Callable[[ClientTask, Arrays], Arrays]
"""One exchange: put a task, with a broadcast, to all clients; return the total of their uploads.

The total is the sum of the uploads, or their stack, as the task's ``reduce`` says.
"""


class Info(NamedTuple):
    """The values of one round that a report shows, besides the state."""

    signal: Float[Array, "r *s"] | None = None
    lam: Float[Array, "r *l"] | None = None


class Algorithm(NamedTuple):
    """A federated algorithm. It has no access to clients, only to ``ask``.

    Args:
        name: name of the algorithm.
        tasks: the tasks that it may put to clients.
        state: type of the state, a NamedTuple; its fields are the names in a checkpoint.
        memory: initial parameters -> what a client keeps for itself at the start.
        setup: initial parameters, ask -> first state.
        round: state, ask -> next state, and what a report shows.
        params: state -> the common model, or None if there is none.
        predict: final state, memories by client id (for personal models), rows -> prediction.
        describe: final state -> facts for a report, one record of plain values per run.
        finish: state after the last round, ask -> final state. Here ``ask`` puts tasks to all
            clients, also if a share of them takes part in a round. The state then has a field
            ``finished``, 0 until the runtime has finished it.
    """

    name: str
    tasks: tuple[ClientTask, ...]
    state: type[Any]
    memory: Callable[[Float[Array, "r p"]], Arrays]
    setup: Callable[[Float[Array, "r p"], Ask], Any]
    round: Callable[[Any, Ask], tuple[Any, Info]]
    params: Callable[[Any], Float[Array, "r p"] | None]
    predict: Callable[[Any, Mapping[int, Arrays], Examples], Prediction]
    describe: Callable[[Any], list[dict[str, Any]]] | None = None
    finish: Callable[[Any, Ask], Any] | None = None


class PrivateTraining(NamedTuple):
    """Parameters of DP-SGD (Abadi et al. 2016), which hides every single row in local training.

    Args:
        clip: largest Euclidean length of one row's gradient; longer gradients are scaled down.
        noise: by client id, the noise multiplier: the standard deviation of the Gaussian noise on
            a sum of gradients, divided by ``clip``.
        secret: numbers that only the client knows; batches and noise are drawn from them and the
            key. Without a secret they follow from the experiment's seed: a simulation.
    """

    clip: float
    noise: Mapping[int, float]
    secret: Key = ()


class LocalSolver(NamedTuple):
    """How one client trains in one round: E epochs of minibatches from the received parameters.

    Args:
        learning_rate: one value per run.
        epochs: passes over the client's rows.
        batch: rows of a minibatch.
        optimiser: its moments start at 0 in every round.
        weight_decay: adds ``weight_decay * w`` to the gradient.
        prox: weight of the pull towards an anchor, one value per run; None: no pull.
        private: DP-SGD; None: plain training.
        newton: whether logistic regressions are fitted exactly, by sums
            (``fedfb.algorithms.newton``). Of the other fields only ``weight_decay`` and ``fading``
            are read then.
        lbfgs: whether networks are fitted by summed gradients (``fedfb.algorithms.descent``). Of
            the other fields only ``weight_decay`` is read then.
        fading: what the second derivatives of earlier rounds count in an exact fit, 0 to 1: for
            rounds in which other clients take part.
    """

    learning_rate: Float[Array, " r"]
    epochs: int = 30
    batch: int = 128
    optimiser: Literal["adam", "sgd"] = "adam"
    weight_decay: float = 0.0
    prox: Float[Array, " r"] | None = None
    private: PrivateTraining | None = None
    newton: bool = False
    lbfgs: bool = False
    fading: float = 0.0

    @property
    def by_sums(self) -> bool:
        """Whether a round is a fit by sums; otherwise clients train and the server averages."""
        return self.newton or self.lbfgs
