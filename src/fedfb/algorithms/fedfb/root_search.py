r"""The weights at which the groups' gaps vanish, found in few rounds and with no step to choose.

Weighing a group shifts its logits: by :math:`\theta=\log\omega` where one of its labels (or a whole
client) weighs :math:`\omega`, by :math:`\theta=\log\frac{\omega}{2-\omega}` where its labels weigh
:math:`\omega` and :math:`2-\omega`. A group's gap answers to its own shift, nearly along a line:

.. math:: g_a\approx b_a-s_a\theta_a

The lines are fitted to the rounds so far, and the next shifts are where they all meet in one level
c, with the sum of the weights kept, :math:`\sum_a p_a\omega(\theta_a)=\sum_a p_a`: of all weights
that make the groups equal these cost the least accuracy (Lemma "solution" of the paper's appendix).
"""

from typing import NamedTuple

import numpy as np

from fedfb.notions import Notion
from fedfb.notions.base import ratio
from fedfb.shapes import Array, Bool, Float, Num

CERTAINTY = 0.1
"""How much movement (squared shift) it takes for what was seen to count as much as the guess."""

SLOPES = (0.02, 1.0)
LONGEST_FIRST, LONGEST_MOVE = 1.0, 1.5
"""The first slope is a guess, and models lag: what is moved too far swings for rounds."""

FARTHEST = 6.0
"""The largest shift: a weight of 0.005 or 1.995 where two labels share 2. Parity beyond it would
make the decision of a whole group constant."""

FADING_LEVEL = 0.5
"""A round counts half as much one round later: minibatches make noise, which a mean takes away."""

SURPRISE = 0.02
"""A gap this far off its line says that the past is over: it counts half as much again. Models lag
behind their weights in the first rounds."""

FADING_SLOPE = 0.8

FREE = 1.0
"""The target that asks for nothing: weights stay 1, however far apart the groups are."""

FAR_LEVEL = 10.0
"""The level at which lines meet is sought between this and its negative."""


class Seen(NamedTuple):
    r"""What the rounds so far say of every group: the last shift and value, and sums that fade.

    ``drop`` sums :math:`-\Delta\theta\,\Delta v` and ``spread`` :math:`\Delta\theta^2` from
    round to round; a ``weight`` of 0 says that the group was never seen.
    """

    theta: Float[Array, "r *l"]
    value: Float[Array, "r *l"]
    mean_theta: Float[Array, "r *l"]
    mean_value: Float[Array, "r *l"]
    weight: Float[Array, "r *l"]
    drop: Float[Array, "r *l"]
    spread: Float[Array, "r *l"]


def nothing_seen(lam: Float[Array, "r *l"]) -> Float[Array, "r k *l"]:
    """Return the memory of a search that has not begun."""
    return np.zeros((len(lam), len(Seen._fields), *lam.shape[1:]))


def compared(notion: Notion, counts: Num[Array, "*c"]) -> Bool[Array, "*l"]:
    """Tell which parts of lambda belong to groups that are compared."""
    shares = notion.init(counts)
    here = np.zeros(shares.shape, dtype=bool)
    here[..., notion.present(counts)] = True
    return here


def gaps(
    signal: Float[Array, "r *l"], shares: Float[Array, "*l"], there: Bool[Array, "*l"]
) -> Float[Array, "r *l"]:
    """Return how far each group lies from all of them together; 0 for those not there.

    >>> gaps(np.array([[0.0, 0.4]]), np.array([0.25, 0.75]), np.array([True, True]))
    array([[-0.3,  0.1]])
    """
    return np.where(there, signal - mean_of(signal, shares, there), 0.0)


def mean_of(
    values: Float[Array, "r *l"], shares: Float[Array, "*l"], there: Bool[Array, "*l"]
) -> Float[Array, "r *m"]:
    """Return the mean over the groups that are there, weighed by their shares."""
    weight = np.where(there, shares, 0.0)
    weight = ratio(weight, weight.sum(axis=-1, keepdims=True), empty=0.0)
    return np.asarray(np.sum(weight * values, axis=-1, keepdims=True))


def look(
    memory: Float[Array, "r k *l"],
    theta: Float[Array, "r *l"],
    value: Float[Array, "r *l"],
    guess: Float[Array, "*l"],
    there: Bool[Array, "*l"],
) -> Float[Array, "r k *l"]:
    """Add a round to what was seen, for the groups that were there.

    Gaps are measured from the groups' mean, which moves as well: a group's ``value`` is its gap and
    where the mean should be by the lines so far, the mean of :func:`by_line`.
    """
    seen = Seen(*np.moveaxis(memory, 1, 0))
    level, slope = lines(memory, guess)
    fading = FADING_LEVEL / (1.0 + ((value - level + slope * theta) / SURPRISE) ** 2)
    known = (seen.weight > 0) & there
    moved = np.where(known, theta - seen.theta, 0.0)
    changed = np.where(known, value - seen.value, 0.0)
    weight = np.where(there, fading * seen.weight + 1.0, seen.weight)
    newest = np.where(there, ratio(np.ones_like(weight), weight, empty=0.0), 0.0)
    return np.stack(
        Seen(
            theta=np.where(there, theta, seen.theta),
            value=np.where(there, value, seen.value),
            mean_theta=seen.mean_theta + newest * (theta - seen.mean_theta),
            mean_value=seen.mean_value + newest * (value - seen.mean_value),
            weight=weight,
            drop=FADING_SLOPE * seen.drop - moved * changed,
            spread=FADING_SLOPE * seen.spread + moved**2,
        ),
        axis=1,
    )


def lines(
    memory: Float[Array, "r k *l"], guess: Float[Array, "*l"]
) -> tuple[Float[Array, "r *l"], Float[Array, "r *l"]]:
    r"""Return level :math:`b_a` and slope :math:`s_a` of every group's line."""
    seen = Seen(*np.moveaxis(memory, 1, 0))
    slope = (CERTAINTY * guess + seen.drop) / (CERTAINTY + seen.spread)
    slope = np.clip(slope, *SLOPES)
    return seen.mean_value + slope * seen.mean_theta, slope


def by_line(
    memory: Float[Array, "r k *l"], theta: Float[Array, "r *l"], guess: Float[Array, "*l"]
) -> Float[Array, "r *l"]:
    r"""Return what the shift alone does to every group by its line, :math:`-s_a\theta_a`."""
    return -lines(memory, guess)[1] * theta


def towards(
    memory: Float[Array, "r k *l"],
    theta: Float[Array, "r *l"],
    fall: Float[Array, "r *f"],
    guess: Float[Array, "*l"],
) -> Float[Array, "r *f"]:
    """Return the shifts by which the groups' values fall so far, or as near as one move goes.

    No shift moves by more than LONGEST_MOVE, at first LONGEST_FIRST. Several falls of one group
    may be asked for at once.
    """
    spread = Seen(*np.moveaxis(memory, 1, 0)).spread
    longest = np.where(spread > 0, LONGEST_MOVE, LONGEST_FIRST)
    move = np.clip(fall / lines(memory, guess)[1] - theta, -longest, longest)
    return np.clip(theta + move, -FARTHEST, FARTHEST)


def meet(
    notion: Notion,
    memory: Float[Array, "r k *l"],
    theta: Float[Array, "r *l"],
    shares: Float[Array, "*l"],
    guess: Float[Array, "*l"],
    there: Bool[Array, "*l"],
    target: Float[Array, " r"] | float = 0.0,
) -> Float[Array, "r *l"]:
    r"""Return the next shifts: where the lines meet, or come as near as the target allows.

    Groups that are not there keep theirs; ``shares`` is 0 for those that are never compared.

    With a target all gaps shrink in the same proportion, until the disparity is the target:
    :math:`\theta_a=(b_a(1-\tau/\max_b|b_b|)-c)/s_a`, the levels taken from their
    mean.
    """
    level = gaps(lines(memory, guess)[0], shares, there)
    largest = notion.disparity(level).reshape(-1, *(1 for _ in shares.shape))
    # Losses may lie further apart than 1, the target that asks for nothing.
    asked = np.where(np.asarray(target) >= FREE, np.inf, target)
    allowed = np.zeros_like(largest) + np.reshape(asked, (-1, *(1 for _ in shares.shape)))
    aim = level * np.clip(1.0 - ratio(allowed, largest, 1.0), 0.0, 1.0)

    def shifts(c: Float[Array, "..."]) -> Float[Array, "r *l"]:
        return np.where(there, towards(memory, theta, aim - c, guess), theta)

    low = np.full((*level.shape[:-1], 1), -FAR_LEVEL)
    high = -low
    for _ in range(60):  # bisection: the sum of the weights falls as c grows
        c = (low + high) / 2
        excess = np.sum(shares * (notion.omega(shifts(c)) - 1.0), axis=-1, keepdims=True)
        low, high = np.where(excess > 0, c, low), np.where(excess > 0, high, c)
    return shifts((low + high) / 2)
