"""Functions of the methods that compare clients: a client's loss, and one value for each client.

At set-up a roll call lists the clients. The server keeps one value for each client in this order.
Later only some clients may take part, so every upload that is not summed carries the client's id.
"""

import numpy as np

from fedfb.algorithms.tasks import make_task
from fedfb.core import Arrays, ClientData, ClientTask
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
    """Return exp with the exponent limited to +-500, so that products with counts stay finite.

    >>> bounded_exp(np.array([0.0, 1e6])) < 1e218
    array([ True,  True])
    """
    return np.exp(np.clip(exponent, -500.0, 500.0))


def roll_call_task(sizes: bool) -> ClientTask:
    """Ask every client for its id and, if ``sizes``, for its number of rows (otherwise 1)."""

    def measure(_: Arrays, data: ClientData) -> Arrays:
        size = len(data.y) if sizes else 1
        return {"client": np.asarray(data.id), "size": np.asarray(size)}

    return make_task("roll call", "gather", measure)


def losses_task(engine: Engine) -> ClientTask:
    """Ask every client for its mean loss at the common model."""

    def measure(broadcast: Arrays, data: ClientData) -> Arrays:
        loss = mean_loss(engine, broadcast["params"], data)
        return {"client": np.asarray(data.id), "loss": loss}

    return make_task("losses", "gather", measure)


def select_client(
    values: Float[Array, "r i"], ids: Int[Array, " i"], client: int, absent: float
) -> Float[Array, " r"]:
    """Return one client's values.

    Args:
        values: by run and client, in the order of the roll call.
        ids: client ids in the order of the roll call.
        client: id of the client.
        absent: the value of a client that missed the roll call.

    >>> select_client(np.array([[0.2, 0.8]]), np.array([3, 7]), client=7, absent=0.0)
    array([0.8])
    """
    at = np.flatnonzero(ids == client)
    return values[:, at[0]] if len(at) else np.full(len(values), absent)


def place_losses(
    uploads: Arrays, ids: Int[Array, " i"]
) -> tuple[Int[Array, " h"], Float[Array, "r h"]]:
    """Return the places in the roll call of the clients that took part, and their losses by run.

    Args:
        uploads: the stack of :func:`losses_task`.
        ids: client ids in the order of the roll call.

    >>> uploads = {"client": np.array([3, 9]), "loss": np.array([[0.5], [0.7]])}
    >>> place_losses(uploads, np.array([1, 3, 9]))
    (array([1, 2]), array([[0.5, 0.7]]))
    """
    _, places, of_uploads = np.intersect1d(ids, uploads["client"], return_indices=True)
    return places, uploads["loss"][of_uploads].T
