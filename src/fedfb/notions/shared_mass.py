r"""The rule that equal opportunity, equalized odds and client parity share.

A fixed mass s is dealt out over groups (or clients); those with a larger mean loss get more of it.
The first group present is the reference: its part is what the others leave, so
:math:`\Lambda=\{\lambda_{a\ge1}\in C(s)\}`. The symmetric form compares with the mean and moves all
parts on the simplex.
"""

import numpy as np

from fedfb.notions.projections import capped_simplex, simplex
from fedfb.shapes import Array, Float, Int


def differences(
    means: Float[Array, "r a"], here: Int[Array, " g"], symmetric: bool
) -> Float[Array, "r s"]:
    """Return what travels of the signal: means less the reference's, or the means themselves."""
    return means[:, here] if symmetric else means[:, here[1:]] - means[:, here[:1]]


def direction(
    total: Float[Array, "r s"], here: Int[Array, " g"], size: int, symmetric: bool
) -> Float[Array, "r a"]:
    """Return mu over all groups; 0 for the reference and for groups that are not compared."""
    mu = np.zeros((len(total), size))
    if symmetric:
        mu[:, here] = total - total.mean(axis=1, keepdims=True)
    else:
        mu[:, here[1:]] = total
    return mu


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
