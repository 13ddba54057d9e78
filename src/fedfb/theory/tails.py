r"""The laws of one group over all clients, asked at many points at once.

A client's law is a mixture :math:`P_a^{(i)} = \sum_c w_c P_c` of its parts. Gaussian parts are
evaluated together, so a thousand clients cost about as much as one large array.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from scipy.special import log_ndtr, ndtr

from fedfb.shapes import Array, Bool, Float, Int
from fedfb.theory.laws import LOG_ROOT_TWO_PI, AnyLaw, Gaussian, Law, components

Question = Literal["pdf", "cdf", "sf"]
LogQuestion = Literal["logpdf", "logcdf", "logsf"]


@dataclass(frozen=True)
class GroupLaws:
    """Parts sorted by the client they belong to; ``starts`` is each client's first part.

    ``mean`` and ``sd`` are those of Gaussian parts and mean nothing for the ``others``.
    """

    weight: Float[Array, " c"]
    owner: Int[Array, " c"] = field(repr=False)
    starts: Int[Array, " i"] = field(repr=False)
    mean: Float[Array, " c"]
    sd: Float[Array, " c"]
    others: tuple[tuple[int, Law], ...]
    parts: tuple[Law, ...] = field(repr=False)
    plain: bool = field(repr=False)
    """Whether every client's law is a single part, so that nothing is left to sum."""

    def ask(self, question: Question, x: Float[Array, "j k"]) -> Float[Array, "i k"]:
        """Return density or tail of each client's law at its row of x (or at the only row)."""
        values = self.ask_parts(question, x)
        if self.plain:
            return values
        return np.add.reduceat(self.weight[:, None] * values, self.starts, axis=0)

    def ask_log(self, question: LogQuestion, x: Float[Array, "j k"]) -> Float[Array, "i k"]:
        r"""Return logarithms, :math:`\log\sum_c w_c e^{l_c}` without underflow."""
        values = self.ask_parts(question, x)
        if self.plain:
            return values
        values = values + np.log(self.weight)[:, None]
        top = np.maximum.reduceat(values, self.starts, axis=0)
        top = np.where(np.isfinite(top), top, 0.0)
        total = np.add.reduceat(np.exp(values - top[self.owner]), self.starts, axis=0)
        with np.errstate(divide="ignore"):  # a sum of zeros is a law without mass there
            return np.log(total) + top

    def ask_parts(
        self, question: Question | LogQuestion, x: Float[Array, "j k"]
    ) -> Float[Array, "c k"]:
        """Return density or tail of each part at its client's row of x (or at the only row)."""
        rows = x if len(x) == 1 else x[self.owner]
        values = gaussian(question, rows, self.mean[:, None], self.sd[:, None])
        for part, law in self.others:
            values[part] = getattr(law, question)(rows[0 if len(rows) == 1 else part])
        return values


def group_laws(laws: Sequence[AnyLaw]) -> GroupLaws:
    """Return the laws of one group, one for each client, ready to be asked.

    >>> pair = group_laws([Gaussian(0.0, 1.0), Gaussian(1.0, 2.0)])
    >>> pair.ask("cdf", np.array([[0.0], [1.0]])).ravel()
    array([0.5, 0.5])
    """
    flat = [(i, w, part) for i, law in enumerate(laws) for w, part in components(law)]
    return _assemble([i for i, _, _ in flat], [w for _, w, _ in flat], [p for _, _, p in flat])


def pooled(laws: GroupLaws, client_weights: Float[Array, " i"]) -> GroupLaws:
    r"""Return :math:`\sum_i w_i P_a^{(i)}` as the law of a single client; the weights sum to one.

    >>> two = group_laws([Gaussian(0.0, 1.0), Gaussian(0.0, 2.0)])
    >>> pooled(two, np.array([0.5, 0.5])).ask("sf", np.array([[0.0]]))
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


def gaussian(question: str, x: Array, mean: Array, sd: Array) -> Array:
    """Answer one question for many Gaussian laws at once.

    >>> gaussian("sf", np.zeros((1, 1)), np.zeros((2, 1)), np.ones((2, 1))).ravel()
    array([0.5, 0.5])
    """
    z = (x - mean) / sd
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
    r"""Return :math:`P_0(x > t_0) - P_1(x > t_1)`, from whichever tails are small.

    >>> same = group_laws([Gaussian(0.0, 1.0)])
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
    r"""Return which rate is larger, :math:`\operatorname{sign}(P_0(x>t_0)-P_1(x>t_1))`.

    The log odds :math:`\log P(x>t) - \log P(x\le t)` of the rates are compared: their order
    survives where the rates themselves underflow (the paper's Fig. 1(b) has rates that differ by
    1e-523).

    >>> far = group_laws([Gaussian(10.0, 0.2)]), group_laws([Gaussian(9.8, 0.2)])
    >>> rate_order(*far, np.zeros((1, 1)), np.zeros((1, 1)))
    array([[1.]])
    """
    with np.errstate(invalid="ignore"):  # two rates that are both exactly 0 or 1 tie
        odds_first = first.ask_log("logsf", t_first) - first.ask_log("logcdf", t_first)
        odds_second = second.ask_log("logsf", t_second) - second.ask_log("logcdf", t_second)
        order = np.sign(odds_first - odds_second)
    return np.where(np.isnan(order), 0.0, order)
