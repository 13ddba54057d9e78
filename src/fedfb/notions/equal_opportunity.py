"""Equal opportunity: the same rate of positive predictions among the positives of every group."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedfb.notions import shared_mass
from fedfb.notions.base import largest_size, ratio
from fedfb.notions.values import enough
from fedfb.shapes import Array, Bool, Float, Int, Num


@dataclass(frozen=True)
class EqualOpportunity:
    r"""Ask for the same true positive rate in every group.

    .. math:: \mu_a = \frac{L_{1a}}{n_{1a}} - \frac{L_{10}}{n_{10}},\qquad
              \omega_{1a}=\frac{n\lambda_a}{n_{1a}},\qquad \omega_{0a}=1,\qquad
              \sum_a\lambda_a=\frac{n_{1*}}{n}

    (paper, Appendix, "FedFB w.r.t. Equal Opportunity"). With the 0-1 loss :math:`\mu_a` is the
    difference of false negative rates. A group with fewer positive rows than ``minimum`` cannot be
    compared: it stays out of the signal and its rows keep weight 1.

    Departs from the paper: clients weigh their cells with pooled counts, so that their sum is the
    global objective (errata E8, E9), and lambda is projected (E15).
    """

    groups: int
    symmetric: bool = False
    name: str = "equal_opportunity"
    reach: tuple[float, float] = (-1.0, 1.0)
    reduce: Literal["sum", "gather"] = "sum"
    minimum: int = 1

    @property
    def values(self) -> int:
        """How many numbers a client says of the signal."""
        return self.groups - 1

    def present(self, counts: Num[Array, "2 a"]) -> Int[Array, " g"]:
        """Return the groups with enough positive rows; the first of them is the reference."""
        return np.flatnonzero(enough(counts[1], self.minimum))

    def mass(self, counts: Num[Array, "2 a"]) -> float:
        """Return the share of all rows that are positives of compared groups."""
        return float(counts[1, self.present(counts)].sum() / counts.sum())

    def init(self, counts: Num[Array, "2 a"]) -> Float[Array, " a"]:
        shares: Float[Array, " a"] = counts[1] / counts.sum()
        return shares

    def omega(self, shift: Float[Array, "*s"]) -> Float[Array, "*s"]:
        return np.exp(shift)

    def shift(self, omega: Float[Array, "*s"]) -> Float[Array, "*s"]:
        return np.log(omega)

    def answer(self, counts: Num[Array, "2 a"]) -> Float[Array, " a"]:
        # The slope of the logistic curve where it is steepest: true positive rates are near 1/2.
        return np.full(self.groups, 0.25)

    def disparity(self, gaps: Float[Array, "r *l"]) -> Float[Array, " r"]:
        return largest_size(gaps)

    def weights(self, lam: Float[Array, "r a"], counts: Num[Array, "2 a"]) -> Float[Array, "r 2 a"]:
        positive = ratio(lam * counts.sum(), counts[1], empty=1.0)
        return np.stack([np.ones_like(positive), positive], axis=1)

    def cell_weights(
        self, weights: Float[Array, "r 2 a"], client: int, groups: int
    ) -> Float[Array, "r 2 a"]:
        return weights

    def share(
        self, loss_sums: Float[Array, "r 2 a"], counts: Num[Array, "2 a"], client: int
    ) -> Float[Array, "r s"]:
        means = ratio(loss_sums[:, 1], counts[1], empty=0.0)
        return shared_mass.differences(means, self.present(counts))

    def signal(
        self,
        total: Float[Array, "r s"],
        counts: Num[Array, "2 a"],
        lacking: Bool[Array, " a"] | None = None,
    ) -> Float[Array, "r a"]:
        return shared_mass.direction(
            total, self.present(counts), self.groups, self.symmetric, lacking
        )

    def step(
        self,
        lam: Float[Array, "r a"],
        signal: Float[Array, "r a"],
        counts: Num[Array, "2 a"],
        step_size: Float[Array, " r"],
    ) -> Float[Array, "r a"]:
        step = step_size[:, None] * signal
        return shared_mass.move(lam, step, self.mass(counts), self.present(counts), self.symmetric)

    def feasible(self, lam: Float[Array, "r a"], counts: Num[Array, "2 a"]) -> bool:
        return shared_mass.within(lam, self.mass(counts), self.present(counts))
