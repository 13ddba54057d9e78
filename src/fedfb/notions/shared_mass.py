r"""The rule that equal opportunity, equalized odds and client parity share.

A fixed mass s is dealt out over groups (or clients); those with a larger mean loss get more of it.
The first group present is the reference: its part is what the others leave, so
:math:`\Lambda=\{\lambda_{a\ge1}\in C(s)\}`. The symmetric form compares with the mean and moves all
parts on the simplex.
"""

import numpy as np

from fedfb.notions.projections import capped_simplex, simplex
from fedfb.shapes import Array, Bool, Float, Int


def differences(means: Float[Array, "r a"], here: Int[Array, " g"]) -> Float[Array, "r s"]:
    """Return the parts of the signal that travel: the others' means less the reference's."""
    return means[:, here[1:]] - means[:, here[:1]]


def gaps_to_reference(
    total: Float[Array, "r s"],
    here: Int[Array, " g"],
    size: int,
    lacking: Bool[Array, " a"] | None,
) -> Float[Array, "r a"]:
    """Return the differences over all groups; 0 for the reference and those not compared.

    A group that is lacking today (nobody who took part has rows of it) is left out; without the
    reference nothing can be compared.
    """
    gaps = np.zeros((len(total), size))
    gaps[:, here[1:]] = total
    if lacking is not None:
        gaps[:, lacking | lacking[here[:1]].any()] = 0.0
    return gaps


def direction(
    total: Float[Array, "r s"],
    here: Int[Array, " g"],
    size: int,
    symmetric: bool,
    lacking: Bool[Array, " a"] | None,
) -> Float[Array, "r a"]:
    r"""Return mu over all groups; 0 for those that are not compared.

    The reference has 0 too, unless all are compared with their mean: then
    :math:`m_a-\bar m=(m_a-m_0)-\overline{(m-m_0)}` follows from the same differences.
    """
    mu = gaps_to_reference(total, here, size, lacking)
    return centred(mu, here, lacking) if symmetric else mu


def centred(
    gaps: Float[Array, "r a"], here: Int[Array, " g"], lacking: Bool[Array, " a"] | None
) -> Float[Array, "r a"]:
    """Return the gaps to the mean of the groups that are compared and there today."""
    there = here if lacking is None else here[~lacking[here]]
    from_mean = np.zeros_like(gaps)
    if len(there):
        from_mean[:, there] = gaps[:, there] - gaps[:, there].mean(axis=1, keepdims=True)
    return from_mean


def move(
    lam: Float[Array, "r a"],
    step: Float[Array, "r a"],
    mass: float,
    here: Int[Array, " g"],
    symmetric: bool,
) -> Float[Array, "r a"]:
    """Return lambda after the step, back in its set; groups that are not compared keep theirs."""
    after = lam.copy()
    moved = (lam + step)[:, here]
    if symmetric:
        after[:, here] = simplex(moved, mass)
    elif len(here):
        others = capped_simplex(moved[:, 1:], mass)
        after[:, here[1:]] = others
        after[:, here[0]] = np.maximum(mass - others.sum(axis=1), 0.0)
    return after


def within(lam: Float[Array, "r a"], mass: float, here: Int[Array, " g"]) -> bool:
    """Tell whether the compared groups share exactly the mass, none of them a negative part."""
    parts = lam[:, here]
    return bool(np.all(parts >= 0) and np.allclose(parts.sum(axis=1), mass, atol=1e-12))
