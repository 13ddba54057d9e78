r"""Noise on uploads, in the one function that every upload passes.

A task declares how far one row can move each array of its upload (``ClientTask.sensitivity``). With
m such arrays and :math:`s_j` the sensitivity of array j, its noise has the standard deviation
:math:`\sigma_q\,s_j\sqrt m`. Together the arrays are one Gaussian upload with multiplier
:math:`\sigma_q`.

Under secure sums nobody sees a single upload, so each client adds only a share of the noise, with
variance :math:`\sigma^2/t`. Any t clients together add all of it. Every sum has the shares of at
least t clients, not counting one client that may reveal its own noise.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from fedfb.core import Arrays, ClientData, ClientTask, Key, generator
from fedfb.errors import DisclosureError
from fedfb.shapes import Array

ANSWERS = 42
"""The part of a key that draws the noise on uploads."""


class Protection(NamedTuple):
    """How uploads are protected.

    Args:
        answering: noise multiplier of uploads other than models.
        shared: t, the number of clients whose noise is certainly in every sum; 1 if single
            uploads are visible.
        secret: numbers that only the client knows; noise is drawn from them and the key. Without a
            secret noise follows from the experiment's seed: a simulation.
        clip: hides whole clients, not rows: the largest length of the change of a client's model.
            None: rows are hidden.
        training: with ``clip``, noise multiplier of the change of a model.
    """

    answering: float
    shared: int = 1
    secret: Key = ()
    clip: float | None = None
    training: float = 0.0


def protect(task: ClientTask, protection: Protection) -> ClientTask:
    """Return the task with noise on its uploads; refuse a task of unknown sensitivity.

    Args:
        task: the task.
        protection: the noise.

    >>> counts = {"rows": np.array([3.0])}
    >>> task = ClientTask("count", "sum", lambda *_: (counts, {}), sensitivity={"rows": 1.0})
    >>> noisy = protect(task, Protection(answering=2.0))
    >>> upload, _ = noisy.run({}, ClientData(0, *np.zeros((3, 1)), 1), {}, (0, 0, 0, 0))
    >>> bool(upload["rows"] == counts["rows"])
    False
    """
    whole = protection.clip is not None

    def run(broadcast: Arrays, data: ClientData, memory: Arrays, key: Key) -> tuple[Arrays, Arrays]:
        upload, memory = task.run(broadcast, data, memory, key)
        if whole:
            upload, scales = _hide_client(task, upload, broadcast, len(data.y), protection)
        else:
            scales = noise_scales(task, upload, protection)
        return _add_noise(upload, scales, (*key, ANSWERS, *protection.secret)), memory

    return task._replace(run=run, bits={})


def noise_scales(
    task: ClientTask, upload: Mapping[str, Array], protection: Protection
) -> dict[str, float]:
    """Return the standard deviation of the noise on each array of an upload that needs noise.

    Args:
        task: gives the sensitivities.
        upload: the arrays.
        protection: the noise.

    >>> task = ClientTask("ask", "sum", lambda *_: ({}, {}), sensitivity={"a": 1.0, "b": 0.0})
    >>> noise_scales(task, {"a": np.zeros(2), "b": np.zeros(1)}, Protection(6.0, shared=4))
    {'a': 3.0}
    """
    sensitivity = known_sensitivity(task, upload)
    movable = {name: sensitivity[name] for name in upload if sensitivity[name] > 0}
    share = (len(movable) / protection.shared) ** 0.5
    return {name: protection.answering * size * share for name, size in movable.items()}


def known_sensitivity(task: ClientTask, upload: Mapping[str, Array]) -> Mapping[str, float]:
    """Return how far one row can move each array; refuse a task that does not declare all."""
    sensitivity = task.sensitivity
    if sensitivity is None or any(name not in sensitivity for name in upload):
        raise DisclosureError(
            f"the task {task.name!r} sends {', '.join(upload)}, and how far one row can move that "
            "is not known: no noise hides it."
        )
    return sensitivity


def _hide_client(
    task: ClientTask, upload: Arrays, broadcast: Arrays, rows: int, protection: Protection
) -> tuple[Arrays, dict[str, float]]:
    """Return an upload in which every client has the same weight and a bounded length; its noise.

    The change of a model is limited to ``clip``. Sums over rows become means, limited to the
    sensitivity of the sum.
    """
    clip = protection.clip or 0.0
    protected_upload, scales = dict(upload), dict[str, float]()
    names = [name for name in upload if name not in ("weighted", "weight")]
    share = (1 / protection.shared) ** 0.5
    if task.epochs:
        before, weight = broadcast["params"], upload["weight"][:, None]
        trained = upload["weighted"] / np.where(weight > 0, weight, 1.0)
        change = _limit_length(np.where(weight > 0, trained - before, 0.0), clip)
        protected_upload |= {"weighted": before + change, "weight": np.ones_like(upload["weight"])}
        scales["weighted"] = protection.training * clip * share
    sensitivity = known_sensitivity(task, {name: upload[name] for name in names}) if names else {}
    for name in names:
        protected_upload[name] = _limit_length(upload[name] / rows, sensitivity[name])
        scales[name] = protection.answering * sensitivity[name] * share * len(names) ** 0.5
    return protected_upload, scales


def _limit_length(values: Array, length: float) -> Array:
    """Scale an array down to a Euclidean length; a shorter array stays."""
    return values * (length / max(float(np.linalg.norm(values)), length))


def _add_noise(upload: Arrays, scales: Mapping[str, float], key: Key) -> Arrays:
    rng = generator(key)
    noise = {name: rng.normal(0.0, scale, upload[name].shape) for name, scale in scales.items()}
    return {name: value + noise[name] if name in noise else value for name, value in upload.items()}
