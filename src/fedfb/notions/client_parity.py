"""Client parity: the same mean loss on every client.

Paper, Appendix, "FedFB w.r.t. Client Parity".
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedfb.notions import shared_mass
from fedfb.notions.base import ratio
from fedfb.notions.values import enough
from fedfb.shapes import Array, Bool, Float, Int, Num

LOSS_ANSWER = 0.05
"""How fast a client's loss is guessed to fall as the logarithm of its weight grows."""


@dataclass(frozen=True)
class ClientParity:
    r"""Ask for the same mean loss on every client.

    .. math:: \mu^{(i)} = L^{(i)} - L^{(0)},\qquad \omega^{(i)}=\frac{n\lambda^{(i)}}{n^{(i)}},
              \qquad \sum_i\lambda^{(i)}=1

    The counts are the clients' sizes :math:`n^{(i)}`. Lambda is individual, so the server needs
    every client's loss; ``fedfb.algorithms.fedfb.search`` and :mod:`fedfb.algorithms.fedfb.sums`
    leave lambda with the clients, and need only sums. A client with fewer rows than ``minimum``
    stays out of the signal, and keeps weight 1: the mean loss of a few rows would steer all others.

    Departs from the paper: lambda weighs the average and not the loss as well (E13), and is
    projected (E15).
    """

    symmetric: bool = False
    name: str = "client_parity"
    reach: tuple[float, float] = (0.0, 1.3863)
    reduce: Literal["sum", "gather"] = "gather"
    minimum: int = 1

    @property
    def values(self) -> int:
        """How many numbers a client says of the signal: its loss."""
        return 1

    def present(self, counts: Num[Array, " i"]) -> Int[Array, " g"]:
        """Return the clients with enough rows; the first of them is the reference."""
        return np.flatnonzero(enough(counts, self.minimum))

    def init(self, counts: Num[Array, " i"]) -> Float[Array, " i"]:
        shares: Float[Array, " i"] = counts / counts.sum()
        return shares

    def omega(self, shift: Float[Array, "*s"]) -> Float[Array, "*s"]:
        return np.exp(shift)

    def shift(self, omega: Float[Array, "*s"]) -> Float[Array, "*s"]:
        return np.log(omega)

    def answer(self, counts: Num[Array, " i"]) -> Float[Array, " i"]:
        return np.full(len(counts), LOSS_ANSWER)

    def disparity(self, gaps: Float[Array, "r i"]) -> Float[Array, " r"]:
        return np.ptp(gaps, axis=1)

    def weights(self, lam: Float[Array, "r i"], counts: Num[Array, " i"]) -> Float[Array, "r i"]:
        return ratio(lam * counts.sum(), counts, empty=1.0)

    def cell_weights(
        self, weights: Float[Array, "r i"], client: int, groups: int
    ) -> Float[Array, "r 2 a"]:
        own = weights[:, client, None, None]
        return np.broadcast_to(own, (len(weights), 2, groups)).copy()

    def share(
        self, loss_sums: Float[Array, "r 2 a"], counts: Num[Array, " i"], client: int
    ) -> Float[Array, "r s"]:
        return ratio(loss_sums.sum(axis=(1, 2))[:, None], counts[client : client + 1], empty=0.0)

    def signal(
        self,
        total: Float[Array, "i r s"],
        counts: Num[Array, " i"],
        lacking: Bool[Array, " i"] | None = None,
    ) -> Float[Array, "r i"]:
        losses, here = total[:, :, 0].T, self.present(counts)
        parts = shared_mass.differences(losses, here)
        return shared_mass.direction(parts, here, len(counts), self.symmetric, lacking)

    def step(
        self,
        lam: Float[Array, "r i"],
        signal: Float[Array, "r i"],
        counts: Num[Array, " i"],
        step_size: Float[Array, " r"],
    ) -> Float[Array, "r i"]:
        step = step_size[:, None] * signal
        here = self.present(counts)
        return shared_mass.move(
            lam, step, float(self.init(counts)[here].sum()), here, self.symmetric
        )

    def feasible(self, lam: Float[Array, "r i"], counts: Num[Array, " i"]) -> bool:
        here = self.present(counts)
        return shared_mass.within(lam, float(self.init(counts)[here].sum()), here)


@dataclass(frozen=True)
class PooledClientParity:
    r"""Client parity where all rows lie in one place (CFL).

    The group of a row is the client it came from. The same rule as :class:`ClientParity`, on counts
    by (label, client) and in sums: :math:`\omega_{yi}=n\lambda^{(i)}/n^{(i)}` for both labels.
    """

    groups: int
    symmetric: bool = False
    name: str = "client_parity"
    reach: tuple[float, float] = (-1.3863, 1.3863)
    reduce: Literal["sum", "gather"] = "sum"
    minimum: int = 1

    @property
    def values(self) -> int:
        """How many numbers are said of the signal."""
        return self.groups - 1

    def present(self, counts: Num[Array, "2 i"]) -> Int[Array, " g"]:
        """Return the clients with enough rows; the first of them is the reference."""
        return np.flatnonzero(enough(counts.sum(axis=0), self.minimum))

    def init(self, counts: Num[Array, "2 i"]) -> Float[Array, " i"]:
        shares: Float[Array, " i"] = counts.sum(axis=0) / counts.sum()
        return shares

    def omega(self, shift: Float[Array, "*s"]) -> Float[Array, "*s"]:
        return np.exp(shift)

    def shift(self, omega: Float[Array, "*s"]) -> Float[Array, "*s"]:
        return np.log(omega)

    def answer(self, counts: Num[Array, "2 i"]) -> Float[Array, " i"]:
        return np.full(self.groups, LOSS_ANSWER)

    def disparity(self, gaps: Float[Array, "r i"]) -> Float[Array, " r"]:
        return np.ptp(gaps, axis=1)

    def weights(self, lam: Float[Array, "r i"], counts: Num[Array, "2 i"]) -> Float[Array, "r 2 i"]:
        by_client = ratio(lam * counts.sum(), counts.sum(axis=0), empty=1.0)
        return np.stack([by_client, by_client], axis=1)

    def cell_weights(
        self, weights: Float[Array, "r 2 i"], client: int, groups: int
    ) -> Float[Array, "r 2 i"]:
        return weights

    def share(
        self, loss_sums: Float[Array, "r 2 i"], counts: Num[Array, "2 i"], client: int
    ) -> Float[Array, "r s"]:
        means = ratio(loss_sums.sum(axis=1), counts.sum(axis=0), empty=0.0)
        return shared_mass.differences(means, self.present(counts))

    def signal(
        self,
        total: Float[Array, "r s"],
        counts: Num[Array, "2 i"],
        lacking: Bool[Array, " i"] | None = None,
    ) -> Float[Array, "r i"]:
        return shared_mass.direction(
            total, self.present(counts), self.groups, self.symmetric, lacking
        )

    def step(
        self,
        lam: Float[Array, "r i"],
        signal: Float[Array, "r i"],
        counts: Num[Array, "2 i"],
        step_size: Float[Array, " r"],
    ) -> Float[Array, "r i"]:
        step = step_size[:, None] * signal
        here = self.present(counts)
        return shared_mass.move(
            lam, step, float(self.init(counts)[here].sum()), here, self.symmetric
        )

    def feasible(self, lam: Float[Array, "r i"], counts: Num[Array, "2 i"]) -> bool:
        here = self.present(counts)
        return shared_mass.within(lam, float(self.init(counts)[here].sum()), here)
