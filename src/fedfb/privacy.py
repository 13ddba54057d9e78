r"""Differential privacy: noise on every upload, and the epsilon of a whole run.

A task declares how far one row can move each array of its upload (``ClientTask.sensitivity``). With
m such arrays and :math:`s_j` the sensitivity of array j, its noise has the standard deviation
:math:`\sigma_q\,s_j\sqrt m`. Together the arrays are one Gaussian upload with multiplier
:math:`\sigma_q`.

Under secure sums nobody sees a single upload, so each client adds only a share of the noise, with
variance :math:`\sigma^2/t`. Any t clients together add all of it. Every sum has the shares of at
least t clients, not counting one client that may reveal its own noise.

The epsilon. A client takes T steps of training, each on a Poisson sample of its rows with noise
:math:`\sigma C` on clipped gradients. It also makes m other uploads, each with noise
:math:`\sigma_q` times the sensitivity: how far one row can move the upload. All of it composes,

.. math:: \text{Poisson}(q,\mathcal N(\sigma))^{\circ T}\circ\mathcal N(\sigma_q)^{\circ m},

and ``dp_accounting`` computes epsilon from the privacy loss distribution. Neighbouring data sets
differ in one row, present or absent. The number of rows of a client is public.
"""

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fedfb.core import Arrays, ClientData, ClientTask, Key, generator
from fedfb.errors import ConfigError, DisclosureError
from fedfb.extras import refuse_without
from fedfb.shapes import Array

if TYPE_CHECKING:
    from dp_accounting import DpEvent, PrivacyAccountant


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


FINEST, WIDEST = 1e-6, 1e-3
"""Limits of the grid on which privacy losses are composed; it is 3e-4 of epsilon in between."""

_NEAR = 1e-3
"""Multipliers are at most this much above the smallest that keeps the budget."""

ORDERS = (*range(2, 65), 96, 128, 256, 512, 1024)
"""Orders of the Renyi divergences. Their rougher bound shows where to search a multiplier."""

LEAST = 0.1
"""The smallest multiplier: less noise hides nothing."""


class Budget(NamedTuple):
    """The privacy budget of a run: (epsilon, delta), and the share that is not for training.

    The noise on counts, signals and histograms is set so that these alone would cost the share
    ``signals`` of epsilon. Training gets the remainder, by composition of both.
    """

    epsilon: float
    delta: float
    signals: float = 0.3


class Workload(NamedTuple):
    """The uploads of a client in a whole run that cost privacy.

    ``sampling`` is the probability with which a training step draws a row, ``steps`` the number of
    training steps, ``answers`` the number of other uploads.
    """

    sampling: float
    steps: int
    answers: int


class Spent(NamedTuple):
    """A client's workload, the noise multipliers of gradients and of other uploads, its epsilon."""

    workload: Workload
    training: float
    answering: float
    epsilon: float


def calibrate(budget: Budget, workload: Workload) -> Spent:
    """Return the smallest noise with which a client's whole run keeps the budget.

    Args:
        budget: what the run may cost.
        workload: the client's uploads in the run.

    >>> spent = calibrate(Budget(3.0, 1e-5), Workload(sampling=0.01, steps=1000, answers=11))
    >>> 2.98 < spent.epsilon <= 3.0, spent.training < spent.answering
    (True, True)
    """
    refuse_without_accounting()
    return _calibrate(budget, workload)


@cache  # clients of the same size, and all seeds, share the result
def _calibrate(budget: Budget, workload: Workload) -> Spent:
    share = budget.signals if workload.steps else 1.0
    grid = grid_of(budget.epsilon)
    alone = Workload(1.0, 0, workload.answers)
    answering = _least(budget.epsilon * share, budget.delta, alone, 0.0, grid)
    training = _least(budget.epsilon, budget.delta, workload, answering, grid)
    epsilon = epsilon_of(workload, training, answering, budget.delta, grid)
    return Spent(workload, training, answering, epsilon)


def grid_of(epsilon: float) -> float:
    """Return the grid for a budget. Losses are rounded up to it, so epsilon is never too small.

    >>> grid_of(1.0), grid_of(100.0)
    (0.0003, 0.001)
    """
    return min(max(epsilon * 3e-4, FINEST), WIDEST)


def _least(
    epsilon: float, delta: float, workload: Workload, answering: float, grid: float
) -> float:
    """Return the smallest multiplier of training; without training, of the other uploads."""
    if not (workload.steps or workload.answers):
        return 0.0
    from dp_accounting import ExplicitBracketInterval, LowerEndpointAndGuess
    from dp_accounting import calibrate_dp_mechanism as least
    from dp_accounting.mechanism_calibration import NoBracketIntervalFoundError
    from dp_accounting.rdp import RdpAccountant

    def event(noise: float) -> Any:
        return event_of(workload, *((noise, answering) if workload.steps else (noise, noise)))

    try:
        # The privacy loss distribution of very little noise does not fit into memory: the Renyi
        # bound narrows the search first.
        somewhere = LowerEndpointAndGuess(LEAST, 1.0)
        rough = least(lambda: RdpAccountant(ORDERS), event, epsilon, delta, somewhere, tol=_NEAR)
        around = ExplicitBracketInterval(rough / 2, rough * 1.05)
        return float(least(lambda: _accountant(grid), event, epsilon, delta, around, tol=_NEAR))
    except (NoBracketIntervalFoundError, ValueError):
        raise ConfigError(
            f"no sensible noise keeps epsilon {epsilon:g} at delta {delta:g} over {workload.steps} "
            f"steps and {workload.answers} answers. Give another --privacy-epsilon (inf switches "
            "privacy off)."
        ) from None


def epsilon_of(
    workload: Workload, training: float, answering: float, delta: float, grid: float = WIDEST
) -> float:
    """Return the epsilon of a client's whole run.

    Args:
        workload: the client's uploads in the run.
        training: noise multiplier of gradients.
        answering: noise multiplier of other uploads.
        delta: the delta at which epsilon is computed.
        grid: the grid of privacy losses.
    """
    if not (workload.steps or workload.answers):
        return 0.0
    accountant = _accountant(grid).compose(event_of(workload, training, answering))
    return float(accountant.get_epsilon(delta))


def event_of(workload: Workload, training: float, answering: float) -> "DpEvent":
    """Return a client's whole run as an event of ``dp_accounting``."""
    from dp_accounting import (
        ComposedDpEvent,
        GaussianDpEvent,
        PoissonSampledDpEvent,
        SelfComposedDpEvent,
    )

    step = PoissonSampledDpEvent(workload.sampling, GaussianDpEvent(training))
    parts = [SelfComposedDpEvent(step, workload.steps)] * bool(workload.steps)
    parts += [SelfComposedDpEvent(GaussianDpEvent(answering), workload.answers)] * bool(
        workload.answers
    )
    return ComposedDpEvent(parts)


def _accountant(grid: float) -> "PrivacyAccountant":
    from dp_accounting.pld import PLDAccountant

    return PLDAccountant(value_discretization_interval=grid)


def refuse_without_accounting() -> None:
    """Raise an error if the package that computes epsilon is not installed."""
    refuse_without("privacy", "--privacy-epsilon", "dp_accounting")
