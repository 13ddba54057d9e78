r"""Who shares masks with whom, and how many must answer.

Up to 50 parties everybody is everybody's neighbour. Above, the graph is the one of Bell et al.
(CCS 2020, section 3): the parties in a random order on a ring, each tied to the :math:`k/2` next
ones on either side. The order follows from a public seed, a hash of the roster.

The secrets of a party are shared among its :math:`d = k + 1` holders (its neighbours and itself)
with threshold :math:`t`. Let :math:`C` of the :math:`n` parties collude with the server and
:math:`D` drop out, wherever they sit; let :math:`H(c)` be hypergeometric, the number of :math:`c`
marked parties among :math:`k` of the other :math:`n - 1`. A sum leaks at most with probability

.. math:: n \Pr[H(C) \ge 2t - d] + n \left(\frac{C + D}{n}\right)^{k/2}

(first term: some party's holders can be split into two quorums; second: :math:`k/2` in a row are
gone, so that the ring may fall apart and parts of the sum show), and fails at most with probability
:math:`n \Pr[H(D) > d - t]`. We take the smallest even :math:`k` for which a :math:`t` keeps the
first below :math:`2^{-40}` and the second below :math:`2^{-20}`. On the complete graph nothing is
left to chance: :math:`2t > n + C`, and up to :math:`n - t` may drop out.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from fedfb.secure.encoding import number
from fedfb.secure.errors import ThresholdError
from fedfb.secure.keys import sha256

COMPLETE_UP_TO = 50
LEAK_BITS = 40
FAILURE_BITS = 20
FEWEST = 3
"""With two, each would learn the other's value from the sum."""


class Plan(NamedTuple):
    """How a roster is tied together.

    ``degree`` neighbours each; ``threshold`` of the degree + 1 holders open a secret; a sum is made
    of at least ``fewest`` parties; up to ``colluders`` may tell the server all they know and up to
    ``dropouts`` fall silent.
    """

    degree: int
    threshold: int
    fewest: int
    colluders: int
    dropouts: int


def make_plan(
    parties: int,
    colluders: int | None = None,
    dropouts: int | None = None,
    threshold: int | None = None,
) -> Plan:
    """Choose degree and threshold for so many parties.

    On the complete graph two thirds must answer unless a threshold is declared, and those whom it
    spares may drop out. On a sparse graph a twentieth may collude and a tenth drop out unless
    other numbers are declared. A declared threshold always means the complete graph.

    >>> make_plan(5)
    Plan(degree=4, threshold=4, fewest=4, colluders=0, dropouts=1)
    >>> make_plan(1000, colluders=50, dropouts=100)
    Plan(degree=74, threshold=50, fewest=900, colluders=50, dropouts=100)
    """
    if parties > COMPLETE_UP_TO and threshold is None:
        allied = parties // 20 if colluders is None else colluders
        spared = parties // 10 if dropouts is None else dropouts
        sparse = _sparse_plan(parties, allied, spared)
        if sparse is not None:
            return check_plan(sparse, parties)
    return check_plan(_complete_plan(parties, colluders or 0, threshold), parties)


def _complete_plan(parties: int, colluders: int, threshold: int | None) -> Plan:
    least = max(2 * parties // 3, (parties + colluders) // 2) + 1
    quorum = least if threshold is None else threshold
    fewest = max(FEWEST, colluders + 2, quorum)
    return Plan(parties - 1, quorum, fewest, colluders, parties - fewest)


def _sparse_plan(parties: int, colluders: int, dropouts: int) -> Plan | None:
    fewest = max(FEWEST, colluders + 2, parties - dropouts)
    for degree in range(4, parties - 1, 2):
        # The largest threshold that fails rarely enough leaves the least to those who collude.
        threshold = _largest_threshold(parties, degree, dropouts)
        plan = Plan(degree, threshold, fewest, colluders, dropouts)
        if 2 * threshold > degree + 1 and leak_log2(plan, parties) <= -LEAK_BITS:
            return plan
    return None


def _largest_threshold(parties: int, degree: int, dropouts: int) -> int:
    for threshold in range(degree + 1, degree // 2, -1):
        plan = Plan(degree, threshold, FEWEST, 0, dropouts)
        if failure_log2(plan, parties) <= -FAILURE_BITS:
            return threshold
    return 0


def leak_log2(plan: Plan, parties: int) -> float:
    """Return log2 of the bound on the probability that a sum over a sparse graph leaks."""
    needed = 2 * plan.threshold - (plan.degree + 1)
    quorums = tail_log2(parties - 1, plan.colluders, plan.degree, needed)
    gone = plan.colluders + plan.dropouts
    apart = plan.degree / 2 * math.log2(gone / parties) if gone else -math.inf
    return math.log2(parties) + _log2_sum(quorums, apart)


def failure_log2(plan: Plan, parties: int) -> float:
    """Return log2 of the bound on the probability that too few holders of a secret answer."""
    needed = plan.degree + 1 - plan.threshold + 1
    return math.log2(parties) + tail_log2(parties - 1, plan.dropouts, plan.degree, needed)


def tail_log2(population: int, marked: int, drawn: int, at_least: int) -> float:
    """Return log2 of the chance to draw at least so many marked ones without replacement.

    >>> round(2 ** tail_log2(population=5, marked=2, drawn=2, at_least=1), 6)
    0.7
    """
    # Whole numbers: a tail of 2^-60 is lost in the rounding of floats that start at one.
    ways = sum(
        math.comb(marked, hit) * math.comb(population - marked, drawn - hit)
        for hit in range(max(at_least, 0), min(marked, drawn) + 1)
    )
    return math.log2(ways) - math.log2(math.comb(population, drawn)) if ways else -math.inf


def _log2_sum(first: float, second: float) -> float:
    large, small = max(first, second), min(first, second)
    return large if small == -math.inf else large + math.log2(1 + 2 ** (small - large))


def check_plan(plan: Plan, parties: int) -> Plan:
    """Refuse a plan that protects less than the threat model promises."""
    holders, complete = plan.degree + 1, plan.degree == parties - 1
    if parties < FEWEST or not 0 <= plan.colluders < parties:
        raise ThresholdError(f"a secure sum needs 3 parties or more, not {parties}.")
    if not complete and (plan.degree % 2 or not 4 <= plan.degree < parties - 1):
        raise ThresholdError(f"{plan.degree} neighbours do not fit into a ring of {parties}.")
    if not holders < 2 * plan.threshold <= 2 * holders:
        raise ThresholdError(
            f"a threshold of {plan.threshold} among {holders} holders is refused: more than half "
            "must agree, or a server could open both secrets of a party."
        )
    if complete and 2 * plan.threshold <= parties + plan.colluders:
        raise ThresholdError(
            f"a threshold of {plan.threshold} among {parties} does not hold against "
            f"{plan.colluders} colluders; at least {(parties + plan.colluders) // 2 + 1} is needed."
        )
    if not complete and leak_log2(plan, parties) > -LEAK_BITS:
        raise ThresholdError(
            f"{plan.degree} neighbours with threshold {plan.threshold} may leak with a "
            f"probability of 2^{leak_log2(plan, parties):.0f}, at most 2^-{LEAK_BITS} is allowed."
        )
    # A sum of fewer than are planned for may be one that the ring no longer holds together.
    least = max(FEWEST, plan.colluders + 2, parties - plan.dropouts)
    if not least <= plan.fewest <= parties:
        raise ThresholdError(
            f"a sum of {plan.fewest} of {parties} is refused: at least {least} are needed, that is "
            f"3, two more than the {plan.colluders} who may collude, and all but the "
            f"{plan.dropouts} who may drop out."
        )
    return plan


def neighbours(ids: Sequence[int], degree: int, seed: bytes) -> dict[int, tuple[int, ...]]:
    """Return each party's neighbours, in the order of ids.

    >>> neighbours([1, 2, 3], degree=2, seed=b"")
    {1: (2, 3), 2: (1, 3), 3: (1, 2)}
    """
    if degree == len(ids) - 1:
        return {party: tuple(other for other in ids if other != party) for party in ids}
    ring = sorted(ids, key=lambda party: sha256(b"ring", seed, number(party)))
    steps = [step for step in range(-(degree // 2), degree // 2 + 1) if step]
    return {
        party: tuple(sorted(ring[(place + step) % len(ring)] for step in steps))
        for place, party in enumerate(ring)
    }
