"""Equalized odds, and equal opportunity: equalized odds on the positive label alone."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from fedfb.notions.base import (
    has_mass,
    largest_size,
    make_signal,
    move_mass,
    ratio,
    subtract_reference,
)
from fedfb.notions.values import enough
from fedfb.shapes import Array, Bool, Float, Int, Num


@dataclass(frozen=True)
class EqualizedOdds:
    r"""Ask for the same true and false positive rates in every group.

    For each label y on its own

    .. math:: \mu_{ya} = \frac{L_{ya}}{n_{ya}} - \frac{L_{y0}}{n_{y0}},\qquad
              \omega_{ya}=\frac{n\lambda_{ya}}{n_{ya}},\qquad \sum_a\lambda_{ya}=\frac{n_{y*}}{n}

    (paper, Appendix, "... Equalized Odds"). A group with fewer rows of one label than ``minimum``
    is not compared: both signals leave it out, and its rows keep weight 1.

    Departs from the paper: the base terms stand outside the sum over groups (E11), cells are
    weighed with pooled counts, so that the sum over clients is the global objective (E8, E9), and
    lambda is projected label by label (E15).
    """

    labels: ClassVar[tuple[int, ...]] = (0, 1)
    """The labels whose rates are compared. With one label, lambda has no axis of labels."""

    groups: int
    symmetric: bool = False
    name: str = "equalized_odds"
    reach: tuple[float, float] = (-1.0, 1.0)
    reduce: Literal["sum", "gather"] = "sum"
    minimum: int = 1

    @property
    def values(self) -> int:
        """The number of values that a client sends for the signal."""
        return len(self.labels) * (self.groups - 1)

    def present(self, counts: Num[Array, "2 a"]) -> Int[Array, " g"]:
        """Return the groups with enough rows of every label; the first is the reference."""
        return np.flatnonzero(np.all(enough(counts[list(self.labels)], self.minimum), axis=0))

    def masses(self, counts: Num[Array, "2 a"]) -> list[float]:
        """Return for each label the share of all rows that belongs to the compared groups."""
        rows: Num[Array, " y"] = counts[list(self.labels)][:, self.present(counts)].sum(axis=1)
        return [float(mass) for mass in rows / counts.sum()]

    def init(self, counts: Num[Array, "2 a"]) -> Float[Array, "*l"]:
        return _stack_labels([counts[None, label] / counts.sum() for label in self.labels])[0]

    def omega(self, shift: Float[Array, "*s"]) -> Float[Array, "*s"]:
        return np.exp(shift)

    def shift(self, omega: Float[Array, "*s"]) -> Float[Array, "*s"]:
        return np.log(omega)

    def guess_slope(self, counts: Num[Array, "2 a"]) -> Float[Array, "*l"]:
        # The slope of the logistic curve where it is steepest. Smaller guesses overshoot.
        return np.full(self.init(counts).shape, 0.25)

    def disparity(self, gaps: Float[Array, "r *l"]) -> Float[Array, " r"]:
        return largest_size(gaps)

    def weights(
        self, lam: Float[Array, "r *l"], counts: Num[Array, "2 a"]
    ) -> Float[Array, "r 2 a"]:
        weights = np.ones((len(lam), 2, self.groups))
        for label, part in zip(self.labels, self._split_labels(lam), strict=True):
            weights[:, label] = ratio(part * counts.sum(), counts[label], empty=1.0)
        return weights

    def cell_weights(
        self, weights: Float[Array, "r 2 a"], client: int, groups: int
    ) -> Float[Array, "r 2 a"]:
        return weights

    def share(
        self, loss_sums: Float[Array, "r 2 a"], counts: Num[Array, "2 a"], client: int
    ) -> Float[Array, "r s"]:
        means, compared = ratio(loss_sums, counts, empty=0.0), self.present(counts)
        parts = [subtract_reference(means[:, label], compared) for label in self.labels]
        return np.concatenate(parts, axis=1)

    def signal(
        self,
        total: Float[Array, "r s"],
        counts: Num[Array, "2 a"],
        lacking: Bool[Array, " a"] | None = None,
    ) -> Float[Array, "r *l"]:
        compared = self.present(counts)
        return _stack_labels(
            [
                make_signal(part, compared, self.groups, self.symmetric, lacking)
                for part in np.split(total, len(self.labels), axis=1)
            ]
        )

    def step(
        self,
        lam: Float[Array, "r *l"],
        signal: Float[Array, "r *l"],
        counts: Num[Array, "2 a"],
        step_size: Float[Array, " r"],
    ) -> Float[Array, "r *l"]:
        compared, signals = self.present(counts), self._split_labels(signal)
        return _stack_labels(
            [
                move_mass(part, step_size[:, None] * mu, mass, compared, self.symmetric)
                for part, mu, mass in zip(
                    self._split_labels(lam), signals, self.masses(counts), strict=True
                )
            ]
        )

    def feasible(self, lam: Float[Array, "r *l"], counts: Num[Array, "2 a"]) -> bool:
        parts, compared = self._split_labels(lam), self.present(counts)
        pairs = zip(parts, self.masses(counts), strict=True)
        return all(has_mass(part, mass, compared) for part, mass in pairs)

    def _split_labels(self, lam: Float[Array, "r *l"]) -> list[Float[Array, "r a"]]:
        return list(np.moveaxis(lam.reshape(len(lam), len(self.labels), self.groups), 1, 0))


@dataclass(frozen=True)
class EqualOpportunity(EqualizedOdds):
    r"""Ask for the same true positive rate in every group: equalized odds on label 1.

    .. math:: \mu_a = \frac{L_{1a}}{n_{1a}} - \frac{L_{10}}{n_{10}},\qquad
              \omega_{1a}=\frac{n\lambda_a}{n_{1a}},\qquad \omega_{0a}=1,\qquad
              \sum_a\lambda_a=\frac{n_{1*}}{n}

    (paper, Appendix, "FedFB w.r.t. Equal Opportunity"). With the 0-1 loss :math:`\mu_a` is the
    difference of false negative rates. A group with fewer positive rows than ``minimum`` is not
    compared: the signal leaves it out, and its rows keep weight 1.

    Departs from the paper as :class:`EqualizedOdds` does (E8, E9, E15).
    """

    labels: ClassVar[tuple[int, ...]] = (1,)

    name: str = "equal_opportunity"


def _stack_labels(parts: list[Float[Array, "r a"]]) -> Float[Array, "r *l"]:
    return parts[0] if len(parts) == 1 else np.stack(parts, axis=1)
