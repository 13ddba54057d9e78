"""Client parity: the same mean loss on every client.

Paper, Appendix, "FedFB w.r.t. Client Parity".
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedfb.notions.base import has_mass, make_signal, move_mass, ratio, subtract_reference
from fedfb.notions.values import enough
from fedfb.shapes import Array, Bool, Float, Int, Num

LOSS_SLOPE = 0.05
"""A guess: how much a client's loss falls when the logarithm of its weight grows by 1."""


@dataclass(frozen=True)
class ClientParity:
    r"""Ask for the same mean loss on every client.

    .. math:: \mu^{(i)} = L^{(i)} - L^{(0)},\qquad \omega^{(i)}=\frac{n\lambda^{(i)}}{n^{(i)}},
              \qquad \sum_i\lambda^{(i)}=1

    The counts are the clients' sizes :math:`n^{(i)}`. Each client has its own lambda, so the server
    needs every client's loss. ``fedfb.algorithms.fedfb.search`` and
    :mod:`fedfb.algorithms.fedfb.sums` keep lambda at the clients, and need only sums. A client with
    fewer rows than ``minimum`` is left out of the signal and keeps weight 1: the mean loss of a few
    rows would decide the weights of all clients.

    Departs from the paper: lambda weighs the average, not the loss as well (E13), and lambda is
    projected (E15).
    """

    symmetric: bool = False
    name: str = "client_parity"
    reach: tuple[float, float] = (0.0, 1.3863)
    reduce: Literal["sum", "gather"] = "gather"
    minimum: int = 1

    @property
    def values(self) -> int:
        """The number of values that a client sends for the signal: its loss."""
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

    def guess_slope(self, counts: Num[Array, " i"]) -> Float[Array, " i"]:
        return np.full(len(counts), LOSS_SLOPE)

    def disparity(self, gaps: Float[Array, "r i"]) -> Float[Array, " r"]:
        return np.ptp(gaps, axis=1)

    def weights(self, lam: Float[Array, "r i"], counts: Num[Array, " i"]) -> Float[Array, "r i"]:
        return ratio(lam * counts.sum(), counts, empty=1.0)

    def cell_weights(
        self, weights: Float[Array, "r i"], client: int, groups: int
    ) -> Float[Array, "r 2 a"]:
        weight = weights[:, client, None, None]
        return np.broadcast_to(weight, (len(weights), 2, groups)).copy()

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
        losses, compared = total[:, :, 0].T, self.present(counts)
        parts = subtract_reference(losses, compared)
        return make_signal(parts, compared, len(counts), self.symmetric, lacking)

    def step(
        self,
        lam: Float[Array, "r i"],
        signal: Float[Array, "r i"],
        counts: Num[Array, " i"],
        step_size: Float[Array, " r"],
    ) -> Float[Array, "r i"]:
        return _move(self, lam, step_size[:, None] * signal, counts)

    def feasible(self, lam: Float[Array, "r i"], counts: Num[Array, " i"]) -> bool:
        return has_mass(lam, *_mass(self, counts))


@dataclass(frozen=True)
class PooledClientParity:
    r"""Client parity where one client holds the rows of all (CFL).

    The group of a row is the client it came from. The rule is that of :class:`ClientParity`, with
    counts by (label, client) and with sums: :math:`\omega_{yi}=n\lambda^{(i)}/n^{(i)}` for both
    labels.
    """

    groups: int
    symmetric: bool = False
    name: str = "client_parity"
    reach: tuple[float, float] = (-1.3863, 1.3863)
    reduce: Literal["sum", "gather"] = "sum"
    minimum: int = 1

    @property
    def values(self) -> int:
        """The number of values that are sent for the signal."""
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

    def guess_slope(self, counts: Num[Array, "2 i"]) -> Float[Array, " i"]:
        return np.full(self.groups, LOSS_SLOPE)

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
        return subtract_reference(means, self.present(counts))

    def signal(
        self,
        total: Float[Array, "r s"],
        counts: Num[Array, "2 i"],
        lacking: Bool[Array, " i"] | None = None,
    ) -> Float[Array, "r i"]:
        return make_signal(total, self.present(counts), self.groups, self.symmetric, lacking)

    def step(
        self,
        lam: Float[Array, "r i"],
        signal: Float[Array, "r i"],
        counts: Num[Array, "2 i"],
        step_size: Float[Array, " r"],
    ) -> Float[Array, "r i"]:
        return _move(self, lam, step_size[:, None] * signal, counts)

    def feasible(self, lam: Float[Array, "r i"], counts: Num[Array, "2 i"]) -> bool:
        return has_mass(lam, *_mass(self, counts))


def _move(
    notion: ClientParity | PooledClientParity,
    lam: Float[Array, "r i"],
    step: Float[Array, "r i"],
    counts: Num[Array, "..."],
) -> Float[Array, "r i"]:
    """Return lambda after a step of the compared clients, which keep their mass together."""
    return move_mass(lam, step, *_mass(notion, counts), notion.symmetric)


def _mass(
    notion: ClientParity | PooledClientParity, counts: Num[Array, "..."]
) -> tuple[float, Int[Array, " g"]]:
    """Return the mass of the compared clients at the start, and these clients."""
    compared = notion.present(counts)
    return float(notion.init(counts)[compared].sum()), compared
