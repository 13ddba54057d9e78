r"""The steps of lambda that notions share: signals, and projections onto the feasible sets.

Equal opportunity, equalized odds and client parity distribute a fixed mass s over groups (or
clients). A larger mean loss gets a larger part. The first group present is the reference: its part
is the mass that the other groups leave, so :math:`\Lambda=\{\lambda_{a\ge1}\in C(s)\}`. The
symmetric form compares with the mean of all groups, and moves all parts on the simplex.

The feasible sets are the box of demographic parity, the capped simplex
:math:`C(s)=\{v\ge 0, \sum v\le s\}` and the simplex. Projections act on the last axis and accept
leading run axes.
"""

import numpy as np

from fedfb.shapes import Array, Bool, Float, Int


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
