r"""The protocol of a fairness notion, notions by their names, and the steps of lambda they share.

A notion holds no data. Counts and losses are arguments.

Equal opportunity, equalized odds and client parity distribute a fixed mass s over groups (or
clients). A larger mean loss gets a larger part. The first group present is the reference: its part
is the mass that the other groups leave, so :math:`\Lambda=\{\lambda_{a\ge1}\in C(s)\}`. The
symmetric form compares with the mean of all groups, and moves all parts on the simplex.

The feasible sets are the box of demographic parity, the capped simplex
:math:`C(s)=\{v\ge 0, \sum v\le s\}` and the simplex. Projections act on the last axis and accept
leading run axes.
"""

from dataclasses import replace
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from fedfb.errors import ConfigError, unknown_name
from fedfb.shapes import Array, Bool, Float, Int, Num


def box(v: Float[Array, "*r a"], upper: Float[Array, " a"]) -> Float[Array, "*r a"]:
    """Return the point of ``[0, upper]`` nearest to v.

    >>> box(np.array([-0.5, 3.0]), np.array([1.0, 2.0]))
    array([0., 2.])
    """
    nearest: Float[Array, "*r a"] = np.clip(v, 0.0, upper)
    return nearest


def simplex(v: Float[Array, "*r a"], total: float) -> Float[Array, "*r a"]:
    r"""Return the point of :math:`\{u\ge 0, \sum u=s\}` nearest to v.

    With v sorted in descending order and the *inclusive* prefix sums,

    .. math:: \rho=\max\{j: v_{(j)}-\tfrac1j(\textstyle\sum_{r\le j}v_{(r)}-s)>0\},\quad
              \theta=\tfrac1\rho(\textstyle\sum_{r\le\rho}v_{(r)}-s),\quad u=[v-\theta]_+

    Args:
        v: the points, on the last axis.
        total: the sum s; 0 or less returns zeros.

    >>> simplex(np.array([1.3, 0.2]), 1.0)
    array([1., 0.])
    """
    if total <= 0 or v.shape[-1] == 0:
        return np.zeros_like(v)
    descending = -np.sort(-v, axis=-1)
    place = np.arange(1, v.shape[-1] + 1)
    excess = (np.cumsum(descending, axis=-1) - total) / place
    rho = np.count_nonzero(descending > excess, axis=-1, keepdims=True)
    theta = np.take_along_axis(excess, rho - 1, axis=-1)
    return np.maximum(v - theta, 0.0)


def capped_simplex(v: Float[Array, "*r a"], total: float) -> Float[Array, "*r a"]:
    r"""Return the point of :math:`\{u\ge 0, \sum u\le s\}` nearest to v.

    >>> capped_simplex(np.array([-0.2, 0.3]), 1.0)
    array([0. , 0.3])
    """
    positive = np.maximum(v, 0.0)
    inside = positive.sum(axis=-1, keepdims=True) <= total
    return np.where(inside, positive, simplex(v, total))


def subtract_reference(
    means: Float[Array, "r a"], compared: Int[Array, " g"]
) -> Float[Array, "r s"]:
    """Return the part of the signal that a client sends: each mean less that of the reference.

    Args:
        means: mean losses by run and group.
        compared: numbers of the compared groups; the first is the reference.
    """
    return means[:, compared[1:]] - means[:, compared[:1]]


def place_gaps(
    total: Float[Array, "r s"],
    compared: Int[Array, " g"],
    size: int,
    lacking: Bool[Array, " a"] | None,
) -> Float[Array, "r a"]:
    """Return the gaps to the reference for all groups; 0 for groups that are not compared.

    Args:
        total: the gaps of all compared groups but the reference, summed over clients.
        compared: numbers of the compared groups; the first is the reference.
        size: the number of groups.
        lacking: groups of which no participant of the round has rows; their gap is 0. Without the
            reference no group can be compared, and all gaps are 0.
    """
    gaps = np.zeros((len(total), size))
    gaps[:, compared[1:]] = total
    if lacking is not None:
        gaps[:, lacking | lacking[compared[:1]].any()] = 0.0
    return gaps


def make_signal(
    total: Float[Array, "r s"],
    compared: Int[Array, " g"],
    size: int,
    symmetric: bool,
    lacking: Bool[Array, " a"] | None,
) -> Float[Array, "r a"]:
    r"""Return the signal mu for all groups; 0 for groups that are not compared.

    The reference has 0 too, except in the symmetric form. There
    :math:`m_a-\bar m=(m_a-m_0)-\overline{(m-m_0)}` follows from the same differences. The
    arguments are those of :func:`place_gaps`.
    """
    gaps = place_gaps(total, compared, size, lacking)
    return centre(gaps, compared, lacking) if symmetric else gaps


def centre(
    gaps: Float[Array, "r a"], compared: Int[Array, " g"], lacking: Bool[Array, " a"] | None
) -> Float[Array, "r a"]:
    """Return the gaps to the mean of the compared groups that have rows in this round."""
    measured = compared if lacking is None else compared[~lacking[compared]]
    from_mean = np.zeros_like(gaps)
    if len(measured):
        from_mean[:, measured] = gaps[:, measured] - gaps[:, measured].mean(axis=1, keepdims=True)
    return from_mean


def move_mass(
    lam: Float[Array, "r a"],
    step: Float[Array, "r a"],
    mass: float,
    compared: Int[Array, " g"],
    symmetric: bool,
) -> Float[Array, "r a"]:
    """Return the projection of ``lam + step``; groups that are not compared keep their part.

    Args:
        lam: parts of the mass by run and group.
        step: the step before the projection.
        mass: the sum of the compared groups' parts.
        compared: numbers of the compared groups; the first is the reference.
        symmetric: whether all parts move on the simplex, the reference included.
    """
    after = lam.copy()
    target = (lam + step)[:, compared]
    if symmetric:
        after[:, compared] = simplex(target, mass)
    elif len(compared):
        parts = capped_simplex(target[:, 1:], mass)
        after[:, compared[1:]] = parts
        after[:, compared[0]] = np.maximum(mass - parts.sum(axis=1), 0.0)
    return after


def has_mass(lam: Float[Array, "r a"], mass: float, compared: Int[Array, " g"]) -> bool:
    """Return True if the compared groups share exactly the mass, and no part is negative."""
    parts = lam[:, compared]
    return bool(np.all(parts >= 0) and np.allclose(parts.sum(axis=1), mass, atol=1e-12))


Surrogate = Literal["zero_one", "prob", "ce"]
"""The loss that the unfairness signal is made of: 0-1 loss, ``|y - p|``, or cross-entropy."""


@runtime_checkable
class Notion(Protocol):
    """A fairness notion, and how FairBatch's weights move towards it.

    The order of calls in a round is weights -> (clients train) -> share -> (sum over clients) ->
    signal -> step. Arguments that several methods share:

    Args:
        counts: pooled rows by (label, group), or by client where ``reduce`` is ``gather``.
        lam: the parameter of the weights, with a leading run axis.
        loss_sums: losses of one client, summed by run, label and group.
        client: id of the client.
        step_size: one value per run.
    """

    @property
    def name(self) -> str: ...

    @property
    def reduce(self) -> Literal["sum", "gather"]:
        """``sum`` if the sum of the clients' shares suffices, ``gather`` if each is needed."""

    @property
    def minimum(self) -> int:
        """The smallest number of training rows with which a group (or client) is compared."""

    def init(self, counts: Num[Array, "*c"]) -> Float[Array, "*l"]:
        """Return the lambda at which every weight is 1. The first round is then FedAvg's."""

    def present(self, counts: Num[Array, "*c"]) -> Int[Array, " g"]:
        """Return the groups (or clients) that are compared; the first of them is the reference."""

    def omega(self, shift: Float[Array, "*s"]) -> Float[Array, "*s"]:
        """Return the weight, as a multiple of the initial lambda, for a shift of the logits."""

    def shift(self, omega: Float[Array, "*s"]) -> Float[Array, "*s"]:
        """Return the shift of the logits for a weight. The inverse of :meth:`omega`."""

    def guess_slope(self, counts: Num[Array, "*c"]) -> Float[Array, "*l"]:
        """Guess from counts how fast a group's value falls when its logits are shifted."""

    def disparity(self, gaps: Float[Array, "r *l"]) -> Float[Array, " r"]:
        """Return the disparity of each run from the gaps of all groups to the pooled value."""

    def weights(self, lam: Float[Array, "r *l"], counts: Num[Array, "*c"]) -> Float[Array, "r *w"]:
        """Return the weight omega of a row by its cell (label, group), or by client."""

    def cell_weights(
        self, weights: Float[Array, "r *w"], client: int, groups: int
    ) -> Float[Array, "r 2 a"]:
        """Return the weights of one client's rows, by cell."""

    def share(
        self, loss_sums: Float[Array, "r 2 a"], counts: Num[Array, "*c"], client: int
    ) -> Float[Array, "r s"]:
        """Return the upload of one client: linear in its loss sums, without constants."""

    def signal(
        self,
        total: Float[Array, "*i r s"],
        counts: Num[Array, "*c"],
        lacking: Bool[Array, " a"] | None = None,
    ) -> Float[Array, "r *l"]:
        """Return the signal mu from the sum (or stack) of shares. Constants are added here, once.

        Args:
            total: the sum of the clients' shares, or their stack where ``reduce`` is ``gather``.
            counts: pooled counts.
            lacking: groups (or clients) of which no participant of the round has rows. The signal
                leaves them out. None: every group has rows.
        """

    def step(
        self,
        lam: Float[Array, "r *l"],
        signal: Float[Array, "r *l"],
        counts: Num[Array, "*c"],
        step_size: Float[Array, " r"],
    ) -> Float[Array, "r *l"]:
        """Return the projection of ``lam + step_size * signal`` onto the feasible set."""

    @property
    def values(self) -> int:
        """The number of values that a client sends for the signal if all groups are compared."""

    @property
    def reach(self) -> tuple[float, float]:
        """The range of one client's share under a bounded loss: the range of the quantiser."""

    def feasible(self, lam: Float[Array, "r *l"], counts: Num[Array, "*c"]) -> bool:
        """Return True if every run's lambda lies in the feasible set, up to rounding."""


def ratio(numerator: Array, denominator: Array, empty: float) -> Float[Array, "..."]:
    """Divide; return ``empty`` where the denominator is 0.

    Args:
        numerator: any shape that fits the denominator.
        denominator: any shape; zeros are allowed.
        empty: the result where the denominator is 0.

    >>> ratio(np.array([1.0, 2.0]), np.array([2, 0]), empty=1.0)
    array([0.5, 1. ])
    """
    safe = np.where(denominator == 0, 1, denominator)
    return np.where(denominator == 0, empty, numerator / safe)


def normalise(signal: Float[Array, "r *l"], by: Literal["none", "l2"]) -> Float[Array, "r *l"]:
    r"""Return the signal mu, or the signal scaled to length 1.

    Args:
        signal: mu, with a leading run axis. A signal of length at most 1e-12 has no direction:
            it becomes 0, and lambda does not move.
        by: ``none`` keeps mu (the authors' code), ``l2`` gives :math:`\mu/\lVert\mu\rVert_2`
            (the paper).
    """
    length = np.sqrt(np.sum(signal**2, axis=tuple(range(1, signal.ndim)), keepdims=True))
    scale = 1.0 if by == "none" else 1.0 / np.where(length > 0, length, 1.0)
    return np.where(length > 1e-12, signal * scale, 0.0)


def decay(update: int, kind: Literal["const", "inv_sqrt", "inv"]) -> float:
    """Return the factor on the step size.

    Args:
        update: number of the move of lambda: 1, 2, ...
        kind: constant, 1 / sqrt(update), or 1 / update.

    >>> [decay(4, kind) for kind in ("const", "inv_sqrt", "inv")]
    [1.0, 0.5, 0.25]
    """
    factors: dict[str, float] = {"const": 1.0, "inv_sqrt": update**-0.5, "inv": 1.0 / update}
    return factors[kind]


def largest_size(gaps: Float[Array, "r *l"]) -> Float[Array, " r"]:
    """Return the largest absolute gap of each run.

    >>> largest_size(np.array([[0.1, -0.3], [0.0, 0.2]]))
    array([0.3, 0.2])
    """
    largest: Float[Array, " r"] = np.abs(gaps).max(axis=tuple(range(1, gaps.ndim)))
    return largest


SHORT_NAMES = {
    "dp": "demographic_parity",
    "eo": "equal_opportunity",
    "eod": "equalized_odds",
    "cp": "client_parity",
}


def long_name(name: str) -> str:
    """Return the long name of a notion given either name.

    >>> long_name("eo"), long_name("client_parity")
    ('equal_opportunity', 'client_parity')
    """
    full = SHORT_NAMES.get(name, name.replace("-", "_"))
    if full not in SHORT_NAMES.values():
        raise ConfigError(unknown_name("notion", name, [*SHORT_NAMES, *SHORT_NAMES.values()]))
    return full


def labels_of(name: str) -> tuple[int, ...]:
    """Return the labels among whose rows a notion compares rates; empty: among all rows.

    >>> labels_of("eo"), labels_of("dp")
    ((1,), ())
    """
    return {"equal_opportunity": (1,), "equalized_odds": (0, 1)}.get(long_name(name), ())


def make_notion(name: str, groups: int, symmetric: bool = False, minimum: int = 1) -> Notion:
    """Return the notion of that name for a number of groups.

    Args:
        name: the short or the long name.
        groups: number of groups in the data.
        symmetric: whether groups are compared with their mean, not with the first group.
        minimum: the smallest number of training rows with which a group (or client) is compared.

    >>> make_notion("dp", groups=3).name
    'demographic_parity'
    """
    # Imported at use: a run needs one notion.
    match long_name(name):
        case "demographic_parity":
            from fedfb.notions.demographic_parity import DemographicParity

            return DemographicParity(groups, symmetric, minimum=minimum)
        case "equal_opportunity":
            from fedfb.notions.equalized_odds import EqualOpportunity

            return EqualOpportunity(groups, symmetric, minimum=minimum)
        case "equalized_odds":
            from fedfb.notions.equalized_odds import EqualizedOdds

            return EqualizedOdds(groups, symmetric, minimum=minimum)
        case _:
            from fedfb.notions.client_parity import ClientParity

            return ClientParity(symmetric, minimum=minimum)


def symmetric(notion: Notion) -> Notion:
    """Return the notion in the form that compares groups with their mean, not with the first."""
    form: Any = notion  # the protocol does not say that notions are dataclasses
    centred: Notion = replace(form, symmetric=True)
    return centred
