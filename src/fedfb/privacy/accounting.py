r"""The privacy loss of a whole run, and the noise that a budget needs.

A client takes T steps of training, each on a Poisson sample of its rows with noise
:math:`\sigma C` on clipped gradients. It also makes m other uploads, each with noise
:math:`\sigma_q` times the sensitivity: how far one row can move the upload. All of it composes,

.. math:: \text{Poisson}(q,\mathcal N(\sigma))^{\circ T}\circ\mathcal N(\sigma_q)^{\circ m},

and ``dp_accounting`` computes epsilon from the privacy loss distribution. Neighbouring data sets
differ in one row, present or absent. The number of rows of a client is public.
"""

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from fedfb.errors import ConfigError
from fedfb.extras import refuse_without

if TYPE_CHECKING:
    from dp_accounting import DpEvent, PrivacyAccountant

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
