r"""Projections onto the sets in which lambda lives.

The box of demographic parity, the capped simplex :math:`C(s)=\{v\ge 0, \sum v\le s\}` of the other
notions, and the simplex of their symmetric form. All act on the last axis and accept leading run
axes.
"""

import numpy as np

from fedfb.shapes import Array, Float


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
