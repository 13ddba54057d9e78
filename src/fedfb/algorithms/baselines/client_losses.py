"""What the methods that compare clients share: a client's loss, and one value per client.

The server keeps such values in the order of a roll call at set-up; later only some clients may
answer, so every answer that is not summed carries its client's id.
"""

import numpy as np

from fedfb.core import Arrays, ClientData, ClientTask, Key
from fedfb.engine import Engine
from fedfb.shapes import Array, Float, Int


def mean_loss(engine: Engine, params: Float[Array, "r p"], data: ClientData) -> Float[Array, " r"]:
    r"""Return the mean cross-entropy :math:`F_i(w)` of one client's rows."""
    sums = engine.loss_sums(params, data, "ce")
    return sums.sum(axis=(1, 2)) / len(data.y)


def mean_gradient(
    engine: Engine, params: Float[Array, "r p"], data: ClientData
) -> Float[Array, "r p"]:
    r"""Return :math:`\nabla F_i(w)` over all rows of one client."""
    ones = np.ones((len(params), 2, data.groups))
    return engine.gradient(params, data, ones) / len(data.y)


def bounded_exp(exponent: Float[Array, " r"]) -> Float[Array, " r"]:
    """Return exp, the exponent cut off at +-500: that leaves room for counts and parameters.

    >>> bounded_exp(np.array([0.0, 1e6])) < 1e218
    array([ True,  True])
    """
    return np.exp(np.clip(exponent, -500.0, 500.0))


def roll_call_task(sizes: bool) -> ClientTask:
    """Ask every client who it is and, where ``sizes`` matter, how many rows it has (else 1)."""

    def run(_: Arrays, data: ClientData, memory: Arrays, key: Key) -> tuple[Arrays, Arrays]:
        size = len(data.y) if sizes else 1
        return {"client": np.asarray(data.id), "size": np.asarray(size)}, memory

    return ClientTask("roll call", "gather", run)


def losses_task(engine: Engine) -> ClientTask:
    """Ask every client for its mean loss at the common model."""

    def run(broadcast: Arrays, data: ClientData, memory: Arrays, key: Key) -> tuple[Arrays, Arrays]:
        loss = mean_loss(engine, broadcast["params"], data)
        return {"client": np.asarray(data.id), "loss": loss}, memory

    return ClientTask("losses", "gather", run)


def own(
    values: Float[Array, "r i"], ids: Int[Array, " i"], client: int, absent: float
) -> Float[Array, " r"]:
    """Return one client's values, or ``absent`` for a client that missed the roll call.

    >>> own(np.array([[0.2, 0.8]]), np.array([3, 7]), client=7, absent=0.0)
    array([0.8])
    """
    at = np.flatnonzero(ids == client)
    return values[:, at[0]] if len(at) else np.full(len(values), absent)


def placed(answers: Arrays, ids: Int[Array, " i"]) -> tuple[Int[Array, " h"], Float[Array, "r h"]]:
    """Return the places in the roll call of those who answered, and their losses run by run.

    >>> answers = {"client": np.array([3, 9]), "loss": np.array([[0.5], [0.7]])}
    >>> placed(answers, np.array([1, 3, 9]))
    (array([1, 2]), array([[0.5, 0.7]]))
    """
    _, here, of_answers = np.intersect1d(ids, answers["client"], return_indices=True)
    return here, answers["loss"][of_answers].T
