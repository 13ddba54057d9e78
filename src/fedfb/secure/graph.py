r"""Which clients share masks, and how many clients must answer.

Up to 50 clients the graph is complete: every client is a neighbour of every other. Above 50 the
graph is that of Bell et al. (CCS 2020, section 3): the clients stand in a random order on a ring,
and each is linked to the next :math:`k/2` clients on either side. The order follows from a public
seed, a hash of the roster.

The secrets of a client are shared among its :math:`d = k + 1` holders (its neighbours and itself)
with threshold :math:`t`. Let :math:`C` of the :math:`n` clients collude with the server and let
:math:`D` drop out, at any places. Let :math:`H(c)` be hypergeometric: the number of :math:`c`
marked clients among :math:`k` of the other :math:`n - 1`. A sum leaks with probability at most

.. math:: n \Pr[H(C) \ge 2t - d] + n \left(\frac{C + D}{n}\right)^{k/2}

First term: the holders of a client can be split into two quorums. Second term: :math:`k/2` clients
in a row are lost, so that the ring may fall apart and sums over its parts become visible. A sum
fails with probability at most :math:`n \Pr[H(D) > d - t]`. We take the smallest even :math:`k` for
which some :math:`t` keeps the first bound below :math:`2^{-40}` and the second below
:math:`2^{-20}`. On the complete graph nothing depends on chance: :math:`2t > n + C`, and up to
:math:`n - t` clients may drop out.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from fedfb.secure.encoding import ThresholdError, pack_number
from fedfb.secure.keys import sha256

COMPLETE_UP_TO = 50
LEAK_BITS = 40
FAILURE_BITS = 20
FEWEST_CLIENTS = 3
"""From a sum over two clients, each of them would learn the upload of the other."""


class Plan(NamedTuple):
    """Degree and thresholds of a roster.

    Each client has ``degree`` neighbours. ``threshold`` of the degree + 1 holders open a secret. A
    sum has at least ``fewest`` clients. Up to ``colluders`` clients may tell the server all they
    know, and up to ``dropouts`` clients may drop out.
    """

    degree: int
    threshold: int
    fewest: int
    colluders: int
    dropouts: int


def make_plan(
    clients: int,
    colluders: int | None = None,
    dropouts: int | None = None,
    threshold: int | None = None,
) -> Plan:
    """Choose degree and threshold.

    On the complete graph two thirds of the clients must answer unless ``threshold`` is declared. On
    a sparse graph a twentieth may collude and a tenth may drop out unless other numbers are
    declared.

    Args:
        clients: how many clients the roster has.
        colluders: how many may collude with the server.
        dropouts: how many may drop out; used on the sparse graph only.
        threshold: how many holders must answer; a declared threshold means the complete graph.

    >>> make_plan(5)
    Plan(degree=4, threshold=4, fewest=4, colluders=0, dropouts=1)
    >>> make_plan(1000, colluders=50, dropouts=100)
    Plan(degree=74, threshold=50, fewest=900, colluders=50, dropouts=100)
    """
    if clients > COMPLETE_UP_TO and threshold is None:
        sparse = _sparse_plan(
            clients,
            clients // 20 if colluders is None else colluders,
            clients // 10 if dropouts is None else dropouts,
        )
        if sparse is not None:
            return check_plan(sparse, clients)
    return check_plan(_complete_plan(clients, colluders or 0, threshold), clients)


def _complete_plan(clients: int, colluders: int, threshold: int | None) -> Plan:
    # Two quorums then share an honest client, which reveals one kind of secret only.
    usual = max(2 * clients // 3, (clients + colluders) // 2) + 1
    quorum = usual if threshold is None else threshold
    fewest = max(FEWEST_CLIENTS, colluders + 2, quorum)
    return Plan(clients - 1, quorum, fewest, colluders, clients - fewest)


def _sparse_plan(clients: int, colluders: int, dropouts: int) -> Plan | None:
    fewest = max(FEWEST_CLIENTS, colluders + 2, clients - dropouts)
    # Even, because a client has as many neighbours before as after itself on the ring.
    for degree in range(4, clients - 1, 2):
        # Of all thresholds that fail rarely enough, the largest protects best against collusion.
        threshold = _largest_threshold(clients, degree, dropouts)
        plan = Plan(degree, threshold, fewest, colluders, dropouts)
        if 2 * threshold > degree + 1 and leak_log2(plan, clients) <= -LEAK_BITS:
            return plan
    return None


def _largest_threshold(clients: int, degree: int, dropouts: int) -> int:
    for threshold in range(degree + 1, degree // 2, -1):
        plan = Plan(degree, threshold, FEWEST_CLIENTS, 0, dropouts)
        if failure_log2(plan, clients) <= -FAILURE_BITS:
            return threshold
    return 0


def leak_log2(plan: Plan, clients: int) -> float:
    """Return log2 of the bound on the probability that a sum on a sparse graph leaks."""
    # Two quorums of holders overlap in so many. If all of these collude, both secrets open.
    needed = 2 * plan.threshold - (plan.degree + 1)
    quorums = tail_log2(clients - 1, plan.colluders, plan.degree, needed)
    lost = plan.colluders + plan.dropouts
    # The ring falls apart where all next neighbours on one side are lost: colluders or drop-outs.
    gaps = plan.degree / 2 * math.log2(lost / clients) if lost else -math.inf
    return math.log2(clients) + _log2_sum(quorums, gaps)


def failure_log2(plan: Plan, clients: int) -> float:
    """Return log2 of the bound on the probability that too few holders of a secret answer."""
    needed = plan.degree + 1 - plan.threshold + 1
    return math.log2(clients) + tail_log2(clients - 1, plan.dropouts, plan.degree, needed)


def tail_log2(population: int, marked: int, draws: int, at_least: int) -> float:
    """Return log2 of the probability to draw at least ``at_least`` marked ones without replacement.

    >>> round(2 ** tail_log2(population=5, marked=2, draws=2, at_least=1), 6)
    0.7
    """
    # Exact integers: floats near one cannot represent a tail of 2^-60.
    ways = sum(
        math.comb(marked, hit) * math.comb(population - marked, draws - hit)
        for hit in range(max(at_least, 0), min(marked, draws) + 1)
    )
    return math.log2(ways) - math.log2(math.comb(population, draws)) if ways else -math.inf


def _log2_sum(first: float, second: float) -> float:
    large, small = max(first, second), min(first, second)
    return large if small == -math.inf else large + math.log2(1 + 2 ** (small - large))


def check_plan(plan: Plan, clients: int) -> Plan:
    """Return the plan, or refuse it if it protects less than the threat model promises."""
    holders, complete = plan.degree + 1, plan.degree == clients - 1
    if clients < FEWEST_CLIENTS or not 0 <= plan.colluders < clients:
        raise ThresholdError(f"a secure sum needs 3 clients or more, not {clients}.")
    if not complete and (plan.degree % 2 or not 4 <= plan.degree < clients - 1):
        raise ThresholdError(f"{plan.degree} neighbours do not fit into a ring of {clients}.")
    if not holders < 2 * plan.threshold <= 2 * holders:
        raise ThresholdError(
            f"a threshold of {plan.threshold} among {holders} holders is refused: more than half "
            "must agree, or a server could open both secrets of a client."
        )
    if complete and 2 * plan.threshold <= clients + plan.colluders:
        raise ThresholdError(
            f"a threshold of {plan.threshold} among {clients} does not hold against "
            f"{plan.colluders} colluders; at least {(clients + plan.colluders) // 2 + 1} is needed."
        )
    if not complete and leak_log2(plan, clients) > -LEAK_BITS:
        raise ThresholdError(
            f"{plan.degree} neighbours with threshold {plan.threshold} may leak with a "
            f"probability of 2^{leak_log2(plan, clients):.0f}, at most 2^-{LEAK_BITS} is allowed."
        )
    # With more drop-outs than planned the ring may fall apart, and sums over its parts would show.
    minimum = max(FEWEST_CLIENTS, plan.colluders + 2, clients - plan.dropouts)
    if not minimum <= plan.fewest <= clients:
        raise ThresholdError(
            f"a sum of {plan.fewest} of {clients} is refused: at least {minimum} are needed: "
            f"3, two more than the {plan.colluders} that may collude, and all but the "
            f"{plan.dropouts} that may drop out."
        )
    return plan


def find_neighbours(ids: Sequence[int], degree: int, seed: bytes) -> dict[int, tuple[int, ...]]:
    """Return the neighbours of each client, by id.

    Args:
        ids: the clients of the roster.
        degree: how many neighbours each client has.
        seed: public bytes from which the order on the ring follows.

    >>> find_neighbours([1, 2, 3], degree=2, seed=b"")
    {1: (2, 3), 2: (1, 3), 3: (1, 2)}
    """
    if degree == len(ids) - 1:
        return {client: tuple(other for other in ids if other != client) for client in ids}
    # The order follows from public bytes, so that every client computes the same ring.
    ring = sorted(ids, key=lambda client: sha256(b"ring", seed, pack_number(client)))
    steps = [step for step in range(-(degree // 2), degree // 2 + 1) if step]
    return {
        client: tuple(sorted(ring[(place + step) % len(ring)] for step in steps))
        for place, client in enumerate(ring)
    }
