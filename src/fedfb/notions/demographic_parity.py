"""Demographic parity: the same rate of positive predictions in every group (paper, Section 4)."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedfb.notions.base import box, centre, largest_size, place_gaps, ratio
from fedfb.notions.values import enough
from fedfb.shapes import Array, Bool, Float, Int, Num

EXPLAINED = 0.4
"""A guess: the part of the labels' variance that the scores of a usual model explain."""


@dataclass(frozen=True)
class DemographicParity:
    r"""Ask for the same rate of positive predictions in every group.

    With :math:`L_{ya}` the summed loss and :math:`n_{ya}` the rows of label y in group a, the
    surrogate rate is

    .. math:: P_a = \frac{L_{0a} - L_{1a} + n_{1a}}{n_a},\qquad F_a = P_a - P_0

    (Proposition 1). With the 0-1 loss :math:`P_a` is exact: false positives plus true positives.
    The direction is :math:`\mu_a=F_a` for :math:`a\ge 1` and :math:`\mu_0=-\sum_a F_a`; a row of
    label 0 in group a weighs :math:`n\lambda_a/n_a`, one of label 1 weighs
    :math:`2-n\lambda_a/n_a`, and :math:`\Lambda=\prod_a[0, 2n_a/n]`.

    Departs from the released code: the constant is added once, not once per client, and every group
    has its own bound. ``symmetric`` compares each group with the mean of all groups, not with the
    first group. A group with fewer rows than ``minimum`` is left out of the signal, and its rows
    keep weight 1: the rate of a few rows would decide the weights of all groups.

    >>> notion = DemographicParity(groups=2)
    >>> notion.rates(np.array([[[1., 0.], [2., 3.]]]), np.array([[4, 5], [6, 5]]))
    array([[0.5, 0.2]])
    """

    groups: int
    symmetric: bool = False
    name: str = "demographic_parity"
    reach: tuple[float, float] = (-2.0, 2.0)
    reduce: Literal["sum", "gather"] = "sum"
    minimum: int = 1

    @property
    def values(self) -> int:
        """The number of values that a client sends for the signal."""
        return self.groups - 1

    def present(self, counts: Num[Array, "2 a"]) -> Int[Array, " g"]:
        """Return the groups with enough rows; the first of them is the reference."""
        return np.flatnonzero(enough(counts.sum(axis=0), self.minimum))

    def init(self, counts: Num[Array, "2 a"]) -> Float[Array, " a"]:
        shares: Float[Array, " a"] = counts.sum(axis=0) / counts.sum()
        return shares

    def omega(self, shift: Float[Array, "*s"]) -> Float[Array, "*s"]:
        """Return the weight of label 0; the weight of label 1 is 2 minus it."""
        return 1.0 + np.tanh(0.5 * shift)

    def shift(self, omega: Float[Array, "*s"]) -> Float[Array, "*s"]:
        return np.log(omega / (2.0 - omega))

    def guess_slope(self, counts: Num[Array, "2 a"]) -> Float[Array, " a"]:
        r"""Return :math:`(1-R^2)\,q_a(1-q_a)`, q the share of positive labels.

        A rate falls by the mean of p(1-p). For a calibrated score this mean is the variance q(1-q)
        of the label, less the part :math:`R^2` that the score explains (here ``EXPLAINED``).
        """
        q = ratio(counts[1], counts.sum(axis=0), empty=0.5)
        return (1.0 - EXPLAINED) * q * (1.0 - q)

    def disparity(self, gaps: Float[Array, "r a"]) -> Float[Array, " r"]:
        return largest_size(gaps)

    def weights(self, lam: Float[Array, "r a"], counts: Num[Array, "2 a"]) -> Float[Array, "r 2 a"]:
        negative = ratio(lam * counts.sum(), counts.sum(axis=0), empty=1.0)
        return np.stack([negative, 2.0 - negative], axis=1)

    def cell_weights(
        self, weights: Float[Array, "r 2 a"], client: int, groups: int
    ) -> Float[Array, "r 2 a"]:
        return weights

    def rates(
        self, loss_sums: Float[Array, "r 2 a"], counts: Num[Array, "2 a"]
    ) -> Float[Array, "r a"]:
        """Return the surrogate rate of positive predictions P_a of each group, 0 if empty."""
        positives = loss_sums[:, 0] - loss_sums[:, 1] + counts[1]
        return ratio(positives, counts.sum(axis=0), empty=0.0)

    def share(
        self, loss_sums: Float[Array, "r 2 a"], counts: Num[Array, "2 a"], client: int
    ) -> Float[Array, "r s"]:
        r"""Return the client's part of F_a without constants.

        .. math:: f_a=(L_{0a}-L_{1a})/n_a-(L_{00}-L_{10})/n_0
        """
        terms = ratio(loss_sums[:, 0] - loss_sums[:, 1], counts.sum(axis=0), empty=0.0)
        compared = self.present(counts)
        return terms[:, compared[1:]] - terms[:, compared[:1]]

    def signal(
        self,
        total: Float[Array, "r s"],
        counts: Num[Array, "2 a"],
        lacking: Bool[Array, " a"] | None = None,
    ) -> Float[Array, "r a"]:
        # The label shares are the same for every client. They are added once, after the sum:
        # otherwise they would count once per client.
        compared = self.present(counts)
        label_share = ratio(counts[1], counts.sum(axis=0), empty=0.0)[compared]
        difference = total + label_share[1:] - label_share[:1]
        mu = place_gaps(difference, compared, self.groups, lacking)
        if self.symmetric:
            return centre(mu, compared, lacking)
        mu[:, compared[:1]] = -mu.sum(axis=1, keepdims=True)
        return mu

    def upper(self, counts: Num[Array, "2 a"]) -> Float[Array, " a"]:
        """Return the upper bound 2 n_a / n of each group's lambda."""
        return 2.0 * self.init(counts)

    def step(
        self,
        lam: Float[Array, "r a"],
        signal: Float[Array, "r a"],
        counts: Num[Array, "2 a"],
        step_size: Float[Array, " r"],
    ) -> Float[Array, "r a"]:
        return box(lam + step_size[:, None] * signal, self.upper(counts))

    def feasible(self, lam: Float[Array, "r a"], counts: Num[Array, "2 a"]) -> bool:
        return bool(np.all(lam >= 0) and np.all(lam <= self.upper(counts) + 1e-12))
