r"""Noise on what leaves a silo, in the one place that every answer passes.

A task declares how far one row can move each array of its answer (``ClientTask.sensitivity``). With
m such arrays and :math:`s_j` the sensitivity of array j, the noise on it has the standard deviation
:math:`\sigma_q\,s_j\sqrt m`: together they are one Gaussian answer of multiplier :math:`\sigma_q`.

Under secure sums nobody sees a single answer, so each silo adds a share only, of variance
:math:`\sigma^2/t`: any t of them have all of it, and every sum has the shares of at least t silos
beside that of one who might tell its own.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from fedfb.core import Arrays, ClientData, ClientTask, Key, generator
from fedfb.errors import DisclosureError
from fedfb.shapes import Array

ANSWERS = 42
"""Marks the key that draws the noise on answers."""


class Protection(NamedTuple):
    """How answers are protected: the multiplier of the noise, and how many silos share it.

    ``shared`` is t, the number of silos whose noise is in every sum for certain: 1 where answers
    are seen one by one. ``secret`` is what only the silo knows and draws its noise from, beside the
    key; without it noise follows from the experiment's seed, which is a simulation. ``clip`` hides
    whole silos in place of rows: the length to which the change of a silo's model is cut, and
    ``training`` the multiplier of the noise on it.
    """

    answering: float
    shared: int = 1
    secret: Key = ()
    clip: float | None = None
    training: float = 0.0


def protected(task: ClientTask, protection: Protection) -> ClientTask:
    """Return the same question with noise on its answers; one of unknown sensitivity is refused.

    >>> told = {"rows": np.array([3.0])}
    >>> task = ClientTask("count", "sum", lambda *_: (told, {}), sensitivity={"rows": 1.0})
    >>> noisy = protected(task, Protection(answering=2.0))
    >>> upload, _ = noisy.run({}, ClientData(0, *np.zeros((3, 1)), 1), {}, (0, 0, 0, 0))
    >>> bool(upload["rows"] == told["rows"])
    False
    """
    whole = protection.clip is not None

    def run(broadcast: Arrays, data: ClientData, memory: Arrays, key: Key) -> tuple[Arrays, Arrays]:
        upload, memory = task.run(broadcast, data, memory, key)
        if whole:
            upload, scales = _of_a_silo(task, upload, broadcast, len(data.y), protection)
        else:
            scales = noise_scales(task, upload, protection)
        return _with_noise(upload, scales, (*key, ANSWERS, *protection.secret)), memory

    return task._replace(run=run, bits={})


def noise_scales(
    task: ClientTask, upload: Mapping[str, Array], protection: Protection
) -> dict[str, float]:
    """Return the standard deviation of the noise on each array of an answer.

    >>> task = ClientTask("ask", "sum", lambda *_: ({}, {}), sensitivity={"a": 1.0, "b": 0.0})
    >>> noise_scales(task, {"a": np.zeros(2), "b": np.zeros(1)}, Protection(6.0, shared=4))
    {'a': 3.0}
    """
    sensitivity = known_sensitivity(task, upload)
    moved = {name: sensitivity[name] for name in upload if sensitivity[name] > 0}
    share = (len(moved) / protection.shared) ** 0.5
    return {name: protection.answering * size * share for name, size in moved.items()}


def known_sensitivity(task: ClientTask, upload: Mapping[str, Array]) -> Mapping[str, float]:
    """Return how far one row can move each array; refuse a task that does not say so of all."""
    known = task.sensitivity
    if known is None or any(name not in known for name in upload):
        raise DisclosureError(
            f"the question {task.name!r} sends {', '.join(upload)}, and how far one row can move "
            "that is not known: no noise hides it."
        )
    return known


def _of_a_silo(
    task: ClientTask, upload: Arrays, broadcast: Arrays, rows: int, protection: Protection
) -> tuple[Arrays, dict[str, float]]:
    """Return an answer in which every silo counts alike and is cut to a length, and its noise.

    A model counts by its change, cut to ``clip``; sums over rows become means, cut to the length by
    which one row moves the sum.
    """
    clip = protection.clip or 0.0
    found, scales = dict(upload), dict[str, float]()
    answers = [name for name in upload if name not in ("weighted", "weight")]
    share = (1 / protection.shared) ** 0.5
    if task.epochs:
        before, weight = broadcast["params"], upload["weight"][:, None]
        trained = upload["weighted"] / np.where(weight > 0, weight, 1.0)
        change = _cut(np.where(weight > 0, trained - before, 0.0), clip)
        found |= {"weighted": before + change, "weight": np.ones_like(upload["weight"])}
        scales["weighted"] = protection.training * clip * share
    known = known_sensitivity(task, {name: upload[name] for name in answers}) if answers else {}
    for name in answers:
        found[name] = _cut(upload[name] / rows, known[name])
        scales[name] = protection.answering * known[name] * share * len(answers) ** 0.5
    return found, scales


def _cut(values: Array, length: float) -> Array:
    """Cut all values of an array together to a Euclidean length."""
    return values * (length / max(float(np.linalg.norm(values)), length))


def _with_noise(upload: Arrays, scales: Mapping[str, float], key: Key) -> Arrays:
    rng = generator(key)
    noise = {name: rng.normal(0.0, scale, upload[name].shape) for name, scale in scales.items()}
    return {name: value + noise[name] if name in noise else value for name, value in upload.items()}
