r"""Search for the weights at which the groups' gaps vanish, in few rounds and without a step size.

The weight of a group shifts its logits: by :math:`\theta=\log\omega` if one of its labels (or a
whole client) has weight :math:`\omega`, by :math:`\theta=\log\frac{\omega}{2-\omega}` if its labels
have the weights :math:`\omega` and :math:`2-\omega`. The gap of a group is nearly linear in its
shift:

.. math:: g_a\approx b_a-s_a\theta_a

The lines are fitted to the rounds so far. The next shifts are those at which all lines meet at one
level c, while the sum of the weights stays: :math:`\sum_a p_a\omega(\theta_a)=\sum_a p_a`. Of all
weights that make the groups equal, these cost the least accuracy (Lemma "solution" of the paper's
appendix).
"""

from typing import NamedTuple

import numpy as np

from fedfb.notions import Notion
from fedfb.notions.base import ratio
from fedfb.shapes import Array, Bool, Float, Num

CERTAINTY = 0.1
"""The sum of squared moves at which the measured slope counts as much as the guess."""

SLOPES = (0.02, 1.0)
"""The smallest and the largest slope of a line."""

LONGEST_FIRST, LONGEST_MOVE = 1.0, 1.5
"""The longest first and later move of a shift. The first slope is a guess, and models follow their
weights late: a move that is too long makes gaps swing for several rounds."""

FARTHEST = 6.0
"""The largest shift: a weight of 0.005 or 1.995 if two labels share 2. Beyond it, parity would make
the decision for a whole group constant."""

FADING_LEVEL = 0.5
"""The weight of a round halves with every later round. A mean reduces the noise of minibatches."""

SURPRISE = 0.02
"""At this distance from its line, a gap halves the weight of the past once more. Models follow
their weights late in the first rounds, so the past is then misleading."""

FADING_SLOPE = 0.8
"""The weight of a move in the slope after each later round."""

MOVED, UNANSWERED = 1.0, 0.15
"""After moves whose squares sum to MOVED a gap should have fallen. If its slope is below so small a
share of the guess, the gap does not answer to its weight. Measured (four groups given to the model,
30 local epochs, 10 rounds): .5 to 4 where rows are dealt at random, -.1 to .2 for most groups where
a client has one group."""

FREE = 1.0
"""The target without a constraint: weights stay 1, however far apart the groups are."""

FAR_LEVEL = 10.0
"""The level at which the lines meet is searched between minus this value and this value."""


class LineRecord(NamedTuple):
    r"""The record of all rounds for every group: the last shift and value, and sums that fade.

    ``drop`` sums :math:`-\Delta\theta\,\Delta v`, and ``spread`` sums :math:`\Delta\theta^2`, from
    round to round. A ``weight`` of 0 means that the group was never measured.
    """

    theta: Float[Array, "r *l"]
    value: Float[Array, "r *l"]
    mean_theta: Float[Array, "r *l"]
    mean_value: Float[Array, "r *l"]
    weight: Float[Array, "r *l"]
    drop: Float[Array, "r *l"]
    spread: Float[Array, "r *l"]


def empty_record(lam: Float[Array, "r *l"]) -> Float[Array, "r k *l"]:
    """Return the record before the first round."""
    return np.zeros((len(lam), len(LineRecord._fields), *lam.shape[1:]))


def compared(notion: Notion, counts: Num[Array, "*c"]) -> Bool[Array, "*l"]:
    """Return True for the parts of lambda that belong to compared groups."""
    shares = notion.init(counts)
    parts = np.zeros(shares.shape, dtype=bool)
    parts[..., notion.present(counts)] = True
    return parts


def gaps(
    signal: Float[Array, "r *l"], shares: Float[Array, "*l"], measured: Bool[Array, "*l"]
) -> Float[Array, "r *l"]:
    """Return the difference of each group to the mean of all; 0 for groups without measurement.

    Args:
        signal: values by group.
        shares: weights of the groups in the mean.
        measured: groups that have a value.

    >>> gaps(np.array([[0.0, 0.4]]), np.array([0.25, 0.75]), np.array([True, True]))
    array([[-0.3,  0.1]])
    """
    return np.where(measured, signal - mean_over_groups(signal, shares, measured), 0.0)


def mean_over_groups(
    values: Float[Array, "r *l"], shares: Float[Array, "*l"], measured: Bool[Array, "*l"]
) -> Float[Array, "r *m"]:
    """Return the mean over the measured groups, weighted by their shares."""
    weight = np.where(measured, shares, 0.0)
    weight = ratio(weight, weight.sum(axis=-1, keepdims=True), empty=0.0)
    return np.asarray(np.sum(weight * values, axis=-1, keepdims=True))


def add_round(
    memory: Float[Array, "r k *l"],
    theta: Float[Array, "r *l"],
    value: Float[Array, "r *l"],
    guess: Float[Array, "*l"],
    measured: Bool[Array, "*l"],
    error: Float[Array, "*l"] | float = 0.0,
) -> Float[Array, "r k *l"]:
    r"""Return the record with one more round.

    Gaps are differences to the groups' mean, and the mean moves too. A group's ``value`` is
    therefore its gap plus the mean that the lines predict, the mean of :func:`line_effect`.

    A round counts :math:`h=\tau^2/(\tau^2+e^2)` of a round without error, and the past then fades
    by the power h of the usual factor. So rounds in which a group has few rows are averaged.

    Args:
        memory: the record so far, a stack of :class:`LineRecord`.
        theta: shifts of the round.
        value: values of the round.
        guess: slopes before any measurement.
        measured: groups that have a value in this round.
        error: standard error e of the values, where a share of the clients takes part; it is set
            against SURPRISE, :math:`\tau`.
    """
    record = LineRecord(*np.moveaxis(memory, 1, 0))
    level, slope = lines(memory, guess)
    # The further a value is from its line, the less the past counts.
    off_line, noise = value - level + slope * theta, SURPRISE**2 + np.square(error)
    share = SURPRISE**2 / noise
    fading = FADING_LEVEL**share / (1.0 + off_line**2 / noise)
    # A slope needs two rounds in which the group was measured.
    repeated = (record.weight > 0) & measured
    shift_change = np.where(repeated, theta - record.theta, 0.0)
    value_change = np.where(repeated, value - record.value, 0.0)
    weight = np.where(measured, fading * record.weight + share, record.weight)
    newest = np.where(measured, ratio(share + np.zeros_like(weight), weight, empty=0.0), 0.0)
    return np.stack(
        LineRecord(
            theta=np.where(measured, theta, record.theta),
            value=np.where(measured, value, record.value),
            mean_theta=record.mean_theta + newest * (theta - record.mean_theta),
            mean_value=record.mean_value + newest * (value - record.mean_value),
            weight=weight,
            drop=FADING_SLOPE * record.drop - share * shift_change * value_change,
            spread=FADING_SLOPE * record.spread + share * shift_change**2,
        ),
        axis=1,
    )


def lines(
    memory: Float[Array, "r k *l"], guess: Float[Array, "*l"]
) -> tuple[Float[Array, "r *l"], Float[Array, "r *l"]]:
    r"""Return level :math:`b_a` and slope :math:`s_a` of every group's line."""
    record = LineRecord(*np.moveaxis(memory, 1, 0))
    # Ridge regression towards the guess: without moves, the slope is the guess.
    slope = (CERTAINTY * guess + record.drop) / (CERTAINTY + record.spread)
    # A slope of 0 or of the wrong sign is noise, and would send the shift to infinity or backwards.
    slope = np.clip(slope, *SLOPES)
    return record.mean_value + slope * record.mean_theta, slope


def ignores_weight(
    memory: Float[Array, "r k *l"], guess: Float[Array, "*l"]
) -> Bool[Array, "r *l"]:
    """Return True for the gaps that did not fall although their shifts moved.

    Args:
        memory: the record, a stack of :class:`LineRecord`.
        guess: slopes before any measurement.
    """
    record = LineRecord(*np.moveaxis(memory, 1, 0))
    moved = record.spread >= MOVED
    return moved & (record.drop < UNANSWERED * guess * record.spread)


def line_effect(
    memory: Float[Array, "r k *l"], theta: Float[Array, "r *l"], guess: Float[Array, "*l"]
) -> Float[Array, "r *l"]:
    r"""Return the effect of the shifts by the lines, :math:`-s_a\theta_a`."""
    return -lines(memory, guess)[1] * theta


def limit_shifts(
    memory: Float[Array, "r k *l"],
    theta: Float[Array, "r *l"],
    fall: Float[Array, "r *f"],
    guess: Float[Array, "*l"],
) -> Float[Array, "r *f"]:
    """Return the shifts that lower the groups' values by ``fall``, within the longest move.

    No shift moves by more than LONGEST_MOVE, at first LONGEST_FIRST.

    Args:
        memory: the record, a stack of :class:`LineRecord`.
        theta: shifts of the last round.
        fall: wanted values below the level of the line; several for one group are possible.
        guess: slopes before any measurement.
    """
    spread = LineRecord(*np.moveaxis(memory, 1, 0)).spread
    longest = np.where(spread > 0, LONGEST_MOVE, LONGEST_FIRST)
    move = np.clip(fall / lines(memory, guess)[1] - theta, -longest, longest)
    return np.clip(theta + move, -FARTHEST, FARTHEST)


def find_shifts(
    notion: Notion,
    memory: Float[Array, "r k *l"],
    theta: Float[Array, "r *l"],
    shares: Float[Array, "*l"],
    guess: Float[Array, "*l"],
    measured: Bool[Array, "*l"],
    target: Float[Array, " r"] | float = 0.0,
) -> Float[Array, "r *l"]:
    r"""Return the next shifts: the lines meet there, or come as near as the target allows.

    With a target all gaps shrink in the same proportion until the disparity is the target:
    :math:`\theta_a=(b_a(1-\tau/\max_b|b_b|)-c)/s_a`, with levels relative to their mean.

    Args:
        notion: relates shifts and weights, and computes the disparity.
        memory: the record, a stack of :class:`LineRecord`.
        theta: shifts of the last round.
        shares: shares p of the groups; 0 for groups that are never compared.
        guess: slopes before any measurement.
        measured: groups of this round; the other groups keep their shift.
        target: the largest disparity, one value per run.
    """
    # Levels at no shift at all: what the gaps would be without any weights.
    level = gaps(lines(memory, guess)[0], shares, measured)
    largest = notion.disparity(level).reshape(-1, *(1 for _ in shares.shape))
    # Losses may differ by more than FREE, so the target without a constraint becomes infinite.
    bound = np.where(np.asarray(target) >= FREE, np.inf, target)
    allowed = np.zeros_like(largest) + np.reshape(bound, (-1, *(1 for _ in shares.shape)))
    # Shrinking all gaps alike keeps their order: no group passes another to meet the target.
    aim = level * np.clip(1.0 - ratio(allowed, largest, 1.0), 0.0, 1.0)

    def shifts(c: Float[Array, "..."]) -> Float[Array, "r *l"]:
        return np.where(measured, limit_shifts(memory, theta, aim - c, guess), theta)

    low = np.full((*level.shape[:-1], 1), -FAR_LEVEL)
    high = -low
    for _ in range(60):  # bisection: the sum of the weights falls as c grows
        c = (low + high) / 2
        excess = np.sum(shares * (notion.omega(shifts(c)) - 1.0), axis=-1, keepdims=True)
        low, high = np.where(excess > 0, c, low), np.where(excess > 0, high, c)
    return shifts((low + high) / 2)
