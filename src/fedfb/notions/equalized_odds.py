"""Equalized odds: the same true and false positive rates in every group."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedfb.notions import shared_mass
from fedfb.notions.base import largest_size, ratio
from fedfb.notions.values import enough
from fedfb.shapes import Array, Bool, Float, Int, Num


@dataclass(frozen=True)
class EqualizedOdds:
    r"""Ask for the same true and false positive rates in every group.

    For each label y on its own

    .. math:: \mu_{ya} = \frac{L_{ya}}{n_{ya}} - \frac{L_{y0}}{n_{y0}},\qquad
              \omega_{ya}=\frac{n\lambda_{ya}}{n_{ya}},\qquad \sum_a\lambda_{ya}=\frac{n_{y*}}{n}

    (paper, Appendix, "... Equalized Odds"). A group with fewer rows of one label than
    ``minimum`` cannot be compared: it stays out of both signals and its rows keep weight 1.

    Departs from the paper: the base terms stand outside the sum over groups (E11), cells are
    weighed with pooled counts (E8, E9), lambda is projected label by label (E15).
    """

    groups: int
    symmetric: bool = False
    name: str = "equalized_odds"
    reach: tuple[float, float] = (-1.0, 1.0)
    reduce: Literal["sum", "gather"] = "sum"
    minimum: int = 1

    @property
    def values(self) -> int:
        """How many numbers a client says of the signal."""
        return 2 * (self.groups - 1)

    def present(self, counts: Num[Array, "2 a"]) -> Int[Array, " g"]:
        """Return the groups with enough rows of both labels; the first is the reference."""
        return np.flatnonzero(np.all(enough(counts, self.minimum), axis=0))

    def masses(self, counts: Num[Array, "2 a"]) -> tuple[float, float]:
        """Return, for each label, the share of all rows that its compared groups deal out."""
        negative, positive = counts[:, self.present(counts)].sum(axis=1) / counts.sum()
        return float(negative), float(positive)

    def init(self, counts: Num[Array, "2 a"]) -> Float[Array, "2 a"]:
        shares: Float[Array, "2 a"] = counts / counts.sum()
        return shares

    def omega(self, shift: Float[Array, "*s"]) -> Float[Array, "*s"]:
        return np.exp(shift)

    def shift(self, omega: Float[Array, "*s"]) -> Float[Array, "*s"]:
        return np.log(omega)

    def answer(self, counts: Num[Array, "2 a"]) -> Float[Array, "2 a"]:
        # The slope of the logistic curve where it is steepest; smaller guesses overshoot.
        return np.full((2, self.groups), 0.25)

    def disparity(self, gaps: Float[Array, "r *l"]) -> Float[Array, " r"]:
        return largest_size(gaps)

    def weights(
        self, lam: Float[Array, "r 2 a"], counts: Num[Array, "2 a"]
    ) -> Float[Array, "r 2 a"]:
        return ratio(lam * counts.sum(), counts, empty=1.0)

    def cell_weights(
        self, weights: Float[Array, "r 2 a"], client: int, groups: int
    ) -> Float[Array, "r 2 a"]:
        return weights

    def share(
        self, loss_sums: Float[Array, "r 2 a"], counts: Num[Array, "2 a"], client: int
    ) -> Float[Array, "r s"]:
        means, here = ratio(loss_sums, counts, empty=0.0), self.present(counts)
        parts = [shared_mass.differences(means[:, y], here) for y in (0, 1)]
        return np.concatenate(parts, axis=1)

    def signal(
        self,
        total: Float[Array, "r s"],
        counts: Num[Array, "2 a"],
        lacking: Bool[Array, " a"] | None = None,
    ) -> Float[Array, "r 2 a"]:
        here = self.present(counts)
        halves = np.split(total, 2, axis=1)
        parts = [
            shared_mass.direction(h, here, self.groups, self.symmetric, lacking) for h in halves
        ]
        return np.stack(parts, axis=1)

    def step(
        self,
        lam: Float[Array, "r 2 a"],
        signal: Float[Array, "r 2 a"],
        counts: Num[Array, "2 a"],
        step_size: Float[Array, " r"],
    ) -> Float[Array, "r 2 a"]:
        here, step = self.present(counts), step_size[:, None, None] * signal
        moved = [
            shared_mass.move(lam[:, y], step[:, y], mass, here, self.symmetric)
            for y, mass in enumerate(self.masses(counts))
        ]
        return np.stack(moved, axis=1)

    def feasible(self, lam: Float[Array, "r 2 a"], counts: Num[Array, "2 a"]) -> bool:
        here = self.present(counts)
        return all(
            shared_mass.within(lam[:, y], mass, here) for y, mass in enumerate(self.masses(counts))
        )
