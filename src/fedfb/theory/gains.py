r"""What accuracy gains when a threshold lets people in: :math:`H(t)=\int_t^\infty(2\eta-1)\,dP`.

Gauss-Legendre on pieces that end at the knots of the law and of eta; the piece that contains the
threshold is integrated from there. Ten nodes a piece leave an error of the order of rounding.
"""

from dataclasses import dataclass, replace

import numpy as np

from fedfb.shapes import Array, Float
from fedfb.theory.eta import Eta
from fedfb.theory.tails import GroupLaws

NODES, WEIGHTS = np.polynomial.legendre.leggauss(10)
FEW_NODES, FEW_WEIGHTS = np.polynomial.legendre.leggauss(4)


@dataclass(frozen=True)
class Gains:
    """Knots of every part and the gain above each of them."""

    laws: GroupLaws
    eta: Eta
    knots: Float[Array, "c n"]
    above: Float[Array, "c n"]

    def between(self, edges: Float[Array, " k"]) -> Float[Array, "i c"]:
        """Return the gain in each cell between neighbouring edges, at the price of four nodes.

        Meant for short cells; their errors are far below what a cell's width costs anyhow.
        """
        half, middle = 0.5 * np.diff(edges), 0.5 * (edges[1:] + edges[:-1])
        x = (middle[:, None] + half[:, None] * FEW_NODES).ravel()
        values = self.laws.ask("pdf", x[None, :]) * (self.eta.value(x) - self.eta.upper(x))
        return half * (values.reshape(len(values), -1, len(FEW_NODES)) @ FEW_WEIGHTS)

    def at(self, t: Float[Array, "j k"]) -> Float[Array, "i k"]:
        r"""Return :math:`H_i(t)` for each client at its row of thresholds (or at the only row)."""
        rows = np.broadcast_to(
            t if len(t) == 1 else t[self.laws.owner], (len(self.knots), t.shape[1])
        )
        clipped = np.clip(rows, self.knots[:, :1], self.knots[:, -1:])
        piece = np.minimum(_count_below(self.knots, clipped), self.knots.shape[1] - 1)
        end = np.take_along_axis(self.knots, piece, axis=1)
        values = np.take_along_axis(self.above, piece, axis=1)
        values = values + _integral(self.laws, self.eta, clipped, end)
        return np.add.reduceat(self.laws.weight[:, None] * values, self.laws.starts, axis=0)


def gains(laws: GroupLaws, eta: Eta) -> Gains:
    r"""Integrate :math:`2\eta-1` under every part of the laws, piece by piece.

    >>> from fedfb.theory.eta import logistic
    >>> from fedfb.theory.laws import Gaussian
    >>> from fedfb.theory.tails import group_laws
    >>> table = gains(group_laws([Gaussian(0.0, 1.0)]), logistic())
    >>> bool(abs(table.at(np.array([[-np.inf]]))[0, 0]) < 1e-15)   # eta - 1/2 is odd, the law even
    True
    """
    lists = [np.unique(np.concatenate([part.knots, eta.knots])) for part in laws.parts]
    width = max(len(knots) for knots in lists)
    knots = np.array([np.pad(k, (0, width - len(k)), mode="edge") for k in lists])
    pieces = np.concatenate(
        [_integral(laws, eta, knots[:, :-1], knots[:, 1:]), np.zeros((len(knots), 1))], axis=1
    )
    return Gains(laws, eta, knots, np.cumsum(pieces[:, ::-1], axis=1)[:, ::-1])


def _integral(
    laws: GroupLaws, eta: Eta, low: Float[Array, "c k"], high: Float[Array, "c k"]
) -> Float[Array, "c k"]:
    half, middle = 0.5 * (high - low), 0.5 * (high + low)
    x = (middle[..., None] + half[..., None] * NODES).reshape(len(low), -1)
    margin = eta.value(x) - eta.upper(x)
    values = _part_densities(laws, x) * margin
    return half * (values.reshape(*low.shape, len(NODES)) @ WEIGHTS)


def _part_densities(laws: GroupLaws, x: Float[Array, "c k"]) -> Float[Array, "c k"]:
    return replace(laws, owner=np.arange(len(x))).ask_parts("pdf", x)


def _count_below(knots: Float[Array, "c n"], x: Float[Array, "c k"]) -> Array:
    """Return for each x the index of the first knot above it, row by row."""
    if x.shape[1] == 1:
        return (knots <= x).sum(axis=1, keepdims=True)
    return np.array(
        [np.searchsorted(k, row, side="right") for k, row in zip(knots, x, strict=True)]
    )
