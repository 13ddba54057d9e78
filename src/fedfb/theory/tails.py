r"""The laws of one group at all clients, and the gain of a threshold under these laws.

A client's law is a mixture :math:`P_a^{(i)} = \sum_c w_c P_c` of parts. Gaussian parts are
evaluated together, so a thousand clients cost about as much as one large array.

``Gains`` is the accuracy that a threshold gains, :math:`H(t)=\int_t^\infty(2\eta-1)\,dP`:
Gauss-Legendre quadrature on pieces that end at the knots of the law and of eta. The piece that
contains the threshold is integrated from the threshold on. Ten nodes a piece leave an error of the
order of rounding.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from scipy.special import log_ndtr, ndtr

from fedfb.shapes import Array, Bool, Float, Int
from fedfb.theory.eta import Eta
from fedfb.theory.laws import LOG_ROOT_TWO_PI, AnyLaw, Gaussian, Law, components

Question = Literal["pdf", "cdf", "sf"]
LogQuestion = Literal["logpdf", "logcdf", "logsf"]


@dataclass(frozen=True)
class GroupLaws:
    """The parts of all clients' laws, sorted by client.

    Attributes:
        weight: of each part in its client's law.
        owner: the client of each part.
        starts: the first part of each client.
        mean: of Gaussian parts; meaningless for ``others``.
        sd: of Gaussian parts; meaningless for ``others``.
        others: parts that are not Gaussian, with their places.
        parts: all parts.
        plain: True if every client's law is a single part, so that nothing must be summed.
    """

    weight: Float[Array, " c"]
    owner: Int[Array, " c"] = field(repr=False)
    starts: Int[Array, " i"] = field(repr=False)
    mean: Float[Array, " c"]
    sd: Float[Array, " c"]
    others: tuple[tuple[int, Law], ...]
    parts: tuple[Law, ...] = field(repr=False)
    plain: bool = field(repr=False)

    def ask(self, question: Question, x: Float[Array, "j k"]) -> Float[Array, "i k"]:
        """Return density or tail of each client's law.

        Args:
            question: the function of the law.
            x: one row of points for each client, or a single row for all.
        """
        values = self.ask_parts(question, x)
        if self.plain:
            return values
        return np.add.reduceat(self.weight[:, None] * values, self.starts, axis=0)

    def ask_log(self, question: LogQuestion, x: Float[Array, "j k"]) -> Float[Array, "i k"]:
        r"""Return logarithms, :math:`\log\sum_c w_c e^{l_c}` without underflow.

        Args:
            question: the function of the law.
            x: one row of points for each client, or a single row for all.
        """
        values = self.ask_parts(question, x)
        if self.plain:
            return values
        values = values + np.log(self.weight)[:, None]
        top = np.maximum.reduceat(values, self.starts, axis=0)
        # Where all parts have no mass the top is -inf, and -inf - -inf would be nan.
        top = np.where(np.isfinite(top), top, 0.0)
        total = np.add.reduceat(np.exp(values - top[self.owner]), self.starts, axis=0)
        with np.errstate(divide="ignore"):  # a sum of zeros is a law without mass there
            return np.log(total) + top

    def ask_parts(
        self, question: Question | LogQuestion, x: Float[Array, "j k"]
    ) -> Float[Array, "c k"]:
        """Return density or tail of each part.

        Args:
            question: the function of the law.
            x: one row of points for each client, or a single row for all.
        """
        rows = x if len(x) == 1 else x[self.owner]
        values = evaluate_gaussian(question, rows, self.mean[:, None], self.sd[:, None])
        for part, law in self.others:
            values[part] = getattr(law, question)(rows[0 if len(rows) == 1 else part])
        return values


def make_group_laws(laws: Sequence[AnyLaw]) -> GroupLaws:
    """Return the laws of one group, one for each client, ready for evaluation.

    >>> pair = make_group_laws([Gaussian(0.0, 1.0), Gaussian(1.0, 2.0)])
    >>> pair.ask("cdf", np.array([[0.0], [1.0]])).ravel()
    array([0.5, 0.5])
    """
    flat = [(i, w, part) for i, law in enumerate(laws) for w, part in components(law)]
    return _assemble([i for i, _, _ in flat], [w for _, w, _ in flat], [p for _, _, p in flat])


def pool_laws(laws: GroupLaws, client_weights: Float[Array, " i"]) -> GroupLaws:
    r"""Return :math:`\sum_i w_i P_a^{(i)}` as the law of a single client.

    Args:
        laws: of each client.
        client_weights: P(i | a); they sum to one.

    >>> two = make_group_laws([Gaussian(0.0, 1.0), Gaussian(0.0, 2.0)])
    >>> pool_laws(two, np.array([0.5, 0.5])).ask("sf", np.array([[0.0]]))
    array([[0.5]])
    """
    weight = laws.weight * client_weights[laws.owner]
    present = np.flatnonzero(weight > 0)
    parts = [laws.parts[c] for c in present]
    return _assemble([0] * len(parts), weight[present].tolist(), parts)


def _assemble(owner: list[int], weight: list[float], parts: list[Law]) -> GroupLaws:
    owners = np.array(owner)
    starts = np.flatnonzero(np.diff(owners, prepend=-1))
    is_gaussian = [isinstance(part, Gaussian) for part in parts]
    return GroupLaws(
        weight=np.array(weight),
        owner=owners,
        starts=starts,
        mean=np.array([part.mean if isinstance(part, Gaussian) else 0.0 for part in parts]),
        sd=np.array([part.sd if isinstance(part, Gaussian) else 1.0 for part in parts]),
        others=tuple((c, parts[c]) for c in range(len(parts)) if not is_gaussian[c]),
        parts=tuple(parts),
        plain=len(parts) == len(starts) and all(w == 1.0 for w in weight),
    )


def evaluate_gaussian(question: str, x: Array, mean: Array, sd: Array) -> Array:
    """Return one function of many Gaussian laws at once.

    Args:
        question: pdf, cdf, sf, or their logarithms.
        x: points.
        mean: of each law.
        sd: of each law.

    >>> evaluate_gaussian("sf", np.zeros((1, 1)), np.zeros((2, 1)), np.ones((2, 1))).ravel()
    array([0.5, 0.5])
    """
    z = (x - mean) / sd
    # The upper tail is ndtr(-z), not 1 - ndtr(z): far out the difference would be 0.
    match question:
        case "cdf":
            return ndtr(z)
        case "sf":
            return ndtr(-z)
        case "logcdf":
            return log_ndtr(z)
        case "logsf":
            return log_ndtr(-z)
        case "pdf":
            return np.exp(-0.5 * z**2 - LOG_ROOT_TWO_PI) / sd
        case _:
            return -0.5 * z**2 - np.log(sd) - LOG_ROOT_TWO_PI


def rate_gap(
    first: GroupLaws, second: GroupLaws, t_first: Float[Array, "j k"], t_second: Float[Array, "j k"]
) -> Float[Array, "i k"]:
    """Return :math:`P_0(x > t_0) - P_1(x > t_1)`, from the small tails.

    Args:
        first: laws of group 0.
        second: laws of group 1.
        t_first: thresholds of group 0, by client.
        t_second: thresholds of group 1, by client.

    >>> same = make_group_laws([Gaussian(0.0, 1.0)])
    >>> float(rate_gap(same, same, np.array([[-9.0]]), np.array([[-8.5]]))[0, 0]) > 0
    True
    """
    sf_first, sf_second = first.ask("sf", t_first), second.ask("sf", t_second)
    # Two rates near 1 agree in all digits that a float can hold; their complements need not.
    near_one: Bool[Array, "i k"] = (sf_first > 0.5) & (sf_second > 0.5)
    if not near_one.any():
        return sf_first - sf_second
    by_lower = second.ask("cdf", t_second) - first.ask("cdf", t_first)
    return np.where(near_one, by_lower, sf_first - sf_second)


def rate_order(
    first: GroupLaws, second: GroupLaws, t_first: Float[Array, "j k"], t_second: Float[Array, "j k"]
) -> Float[Array, "i k"]:
    r"""Return the sign of :math:`P_0(x>t_0)-P_1(x>t_1)`: which rate is larger.

    The log odds :math:`\log P(x>t) - \log P(x\le t)` of the rates are compared. Their order
    survives where the rates underflow: in the paper's Fig. 1(b) rates differ by 1e-523.

    Args:
        first: laws of group 0.
        second: laws of group 1.
        t_first: thresholds of group 0, by client.
        t_second: thresholds of group 1, by client.

    >>> far = make_group_laws([Gaussian(10.0, 0.2)]), make_group_laws([Gaussian(9.8, 0.2)])
    >>> rate_order(*far, np.zeros((1, 1)), np.zeros((1, 1)))
    array([[1.]])
    """
    with np.errstate(invalid="ignore"):  # two rates that are both exactly 0 or 1 tie
        odds_first = first.ask_log("logsf", t_first) - first.ask_log("logcdf", t_first)
        odds_second = second.ask_log("logsf", t_second) - second.ask_log("logcdf", t_second)
        order = np.sign(odds_first - odds_second)
    return np.where(np.isnan(order), 0.0, order)


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
        """Return the gain in each cell between neighbouring edges, by four nodes a cell.

        Meant for short cells: the error is far below what the width of a cell costs.
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
        # Above a threshold beyond the knots lies all of a law, or nothing of it.
        clipped = np.clip(rows, self.knots[:, :1], self.knots[:, -1:])
        piece = np.minimum(_count_below(self.knots, clipped), self.knots.shape[1] - 1)
        end = np.take_along_axis(self.knots, piece, axis=1)
        values = np.take_along_axis(self.above, piece, axis=1)
        values = values + _integral(self.laws, self.eta, clipped, end)
        return np.add.reduceat(self.laws.weight[:, None] * values, self.laws.starts, axis=0)


def make_gains(laws: GroupLaws, eta: Eta) -> Gains:
    r"""Integrate :math:`2\eta-1` under every part of the laws, piece by piece.

    Args:
        laws: of one group.
        eta: the chance of a positive label.

    >>> from fedfb.theory.eta import logistic
    >>> from fedfb.theory.laws import Gaussian
    >>> from fedfb.theory.tails import make_group_laws
    >>> table = make_gains(make_group_laws([Gaussian(0.0, 1.0)]), logistic())
    >>> bool(abs(table.at(np.array([[-np.inf]]))[0, 0]) < 1e-15)   # eta - 1/2 is odd, the law even
    True
    """
    # Rows of knots have one length: the last knot is repeated, and pieces of width 0 add nothing.
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
    # Ten nodes of Gauss and Legendre between neighbouring knots: laws are smooth there, and the
    # error is
    # that of rounding.
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
