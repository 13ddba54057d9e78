r"""What the noise of a whole run adds up to, and how much noise a budget asks for.

A silo takes T steps of training, each on a Poisson sample of its rows with noise
:math:`\sigma C` on clipped gradients, and answers m other questions, each with noise
:math:`\sigma_q` times how far one row can move the answer. All of it composes,

.. math:: \text{Poisson}(q,\mathcal N(\sigma))^{\circ T}\circ\mathcal N(\sigma_q)^{\circ m},

and ``dp_accounting`` turns it into epsilon by its privacy loss distribution. Neighbouring data
differ in whether one row is there; how many rows a silo has is public.
"""

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from fedfb.errors import ConfigError
from fedfb.extras import refuse_without

if TYPE_CHECKING:
    from dp_accounting import DpEvent, PrivacyAccountant

FINEST, WIDEST = 1e-6, 1e-3
"""The grid on which privacy losses are composed: 3e-4 of epsilon, within these."""

NEAR = 1e-3
"""Multipliers are found this near to the least that keeps the budget, from above."""

ORDERS = (*range(2, 65), 96, 128, 256, 512, 1024)
"""Of the Renyi divergences whose rougher bound says where to look for a multiplier."""

LEAST = 0.1
"""Less noise than this hides nothing worth a number."""


class Budget(NamedTuple):
    """What a run may cost: (epsilon, delta), and the share of it that is not for training.

    The noise on counts, signals and histograms is such that these alone would cost ``signals`` of
    epsilon; training gets what composing both leaves.
    """

    epsilon: float
    delta: float
    signals: float = 0.3


class Silo(NamedTuple):
    """What a silo is asked in a whole run: training steps on samples of its rows, other answers."""

    sampling: float
    steps: int
    answers: int


class Spent(NamedTuple):
    """What a silo is asked, with how much noise on gradients and on answers, and its epsilon."""

    silo: Silo
    training: float
    answering: float
    epsilon: float


def calibrate(budget: Budget, silo: Silo) -> Spent:
    """Return the least noise under which a silo's whole run keeps the budget.

    >>> spent = calibrate(Budget(3.0, 1e-5), Silo(sampling=0.01, steps=1000, answers=11))
    >>> 2.98 < spent.epsilon <= 3.0, spent.training < spent.answering
    (True, True)
    """
    refuse_without_accounting()
    return _calibrate(budget, silo)


@cache  # silos of one size, and seeds, share the answer
def _calibrate(budget: Budget, silo: Silo) -> Spent:
    share = budget.signals if silo.steps else 1.0
    grid = grid_of(budget.epsilon)
    alone = Silo(1.0, 0, silo.answers)
    answering = _least(budget.epsilon * share, budget.delta, alone, 0.0, grid)
    training = _least(budget.epsilon, budget.delta, silo, answering, grid)
    epsilon = epsilon_of(silo, training, answering, budget.delta, grid)
    return Spent(silo, training, answering, epsilon)


def grid_of(epsilon: float) -> float:
    """Return the grid for a budget; losses are rounded up to it, so epsilon is never too small.

    >>> grid_of(1.0), grid_of(100.0)
    (0.0003, 0.001)
    """
    return min(max(epsilon * 3e-4, FINEST), WIDEST)


def _least(epsilon: float, delta: float, silo: Silo, answering: float, grid: float) -> float:
    """Return the least multiplier: of the training, or of the answers where there is none."""
    if not (silo.steps or silo.answers):
        return 0.0
    from dp_accounting import ExplicitBracketInterval, LowerEndpointAndGuess
    from dp_accounting import calibrate_dp_mechanism as least
    from dp_accounting.mechanism_calibration import NoBracketIntervalFoundError
    from dp_accounting.rdp import RdpAccountant

    def event(noise: float) -> Any:
        return event_of(silo, *((noise, answering) if silo.steps else (noise, noise)))

    try:
        # Privacy loss distributions of far too little noise would not fit into memory.
        somewhere = LowerEndpointAndGuess(LEAST, 1.0)
        rough = least(lambda: RdpAccountant(ORDERS), event, epsilon, delta, somewhere, tol=NEAR)
        around = ExplicitBracketInterval(rough / 2, rough * 1.05)
        return float(least(lambda: _accountant(grid), event, epsilon, delta, around, tol=NEAR))
    except (NoBracketIntervalFoundError, ValueError):
        raise ConfigError(
            f"no sensible noise keeps epsilon {epsilon:g} at delta {delta:g} over {silo.steps} "
            f"steps and {silo.answers} answers. Give another --privacy-epsilon (inf switches "
            "privacy off)."
        ) from None


def epsilon_of(
    silo: Silo, training: float, answering: float, delta: float, grid: float = WIDEST
) -> float:
    """Return the epsilon of a silo's whole run, for noise of these multipliers."""
    if not (silo.steps or silo.answers):
        return 0.0
    accountant = _accountant(grid).compose(event_of(silo, training, answering))
    return float(accountant.get_epsilon(delta))


def event_of(silo: Silo, training: float, answering: float) -> "DpEvent":
    """Return a silo's whole run in the words of ``dp_accounting``."""
    from dp_accounting import (
        ComposedDpEvent,
        GaussianDpEvent,
        PoissonSampledDpEvent,
        SelfComposedDpEvent,
    )

    step = PoissonSampledDpEvent(silo.sampling, GaussianDpEvent(training))
    parts = [SelfComposedDpEvent(step, silo.steps)] * bool(silo.steps)
    parts += [SelfComposedDpEvent(GaussianDpEvent(answering), silo.answers)] * bool(silo.answers)
    return ComposedDpEvent(parts)


def _accountant(grid: float) -> "PrivacyAccountant":
    from dp_accounting.pld import PLDAccountant

    return PLDAccountant(value_discretization_interval=grid)


def refuse_without_accounting() -> None:
    """Refuse privacy where nothing is installed that could account for it."""
    refuse_without("privacy", "--privacy-epsilon", "dp_accounting")
