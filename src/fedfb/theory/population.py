r"""A population: clients, groups, the laws of the feature, and the chance of a positive label.

A person is at client i and in group a with probability :math:`n_{ia} = P(i) P(a\mid i)`. Her
feature follows :math:`P_a^{(i)}`, her label :math:`\eta(x)`, the same function everywhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from fedfb.errors import ConfigError
from fedfb.shapes import Array, Bool, Float
from fedfb.theory.eta import Eta, eta_named, refuse_what_falls, refuse_what_is_no_probability
from fedfb.theory.laws import AnyLaw, Atoms
from fedfb.theory.tails import Gains, GroupLaws, make_gains, make_group_laws, pool_laws


@dataclass(frozen=True)
class Client:
    """One client: P(a | i) for every group a, the law of every group, and its share P(i).

    Where a group's share is 0 its law may be None. Without a share clients are of equal size.
    """

    group_shares: tuple[float, ...]
    laws: tuple[AnyLaw | None, ...]
    share: float | None = None


def client(
    q: float, group0: AnyLaw | None, group1: AnyLaw | None, share: float | None = None
) -> Client:
    """Return a client with two groups.

    Args:
        q: P(a=1 | i), the share of group 1.
        group0: law of the feature in group 0; None if the group is absent.
        group1: law of the feature in group 1; None if the group is absent.
        share: P(i); without it all clients are of equal size.

    >>> from fedfb.theory.laws import Gaussian
    >>> client(0.25, Gaussian(3, 1), Gaussian(5, 1)).group_shares
    (0.75, 0.25)
    """
    if not 0 <= q <= 1:
        raise ConfigError(f"q = P(a=1 | client) is {q}; it must lie in [0, 1].")
    return Client((1.0 - q, float(q)), (group0, group1), share)


class Weights:
    """What follows from :math:`n_{ia}` alone, for populations of either kind."""

    joint: Float[Array, "i a"]

    @property
    def clients(self) -> int:
        return len(self.joint)

    @property
    def groups(self) -> int:
        return self.joint.shape[1]

    @property
    def shares(self) -> Float[Array, " i"]:
        """P(i)."""
        return self.joint.sum(axis=1)

    @property
    def within(self) -> Float[Array, "i a"]:
        """P(a | i)."""
        return self.joint / self.shares[:, None]

    @property
    def group_shares(self) -> Float[Array, " a"]:
        """P(a)."""
        return self.joint.sum(axis=0)

    @property
    def client_weights(self) -> Float[Array, "i a"]:
        """P(i | a)."""
        return self.joint / self.group_shares

    @property
    def constrained(self) -> Bool[Array, " i"]:
        """Whether a client holds two groups or more; if not, no local constraint binds it."""
        return np.asarray((self.joint > 0).sum(axis=1) > 1)

    @property
    def equal_mix(self) -> bool:
        """Whether all clients have the same P(a | i), to rounding (the paper: equal q)."""
        return bool(np.all(np.ptp(self.within, axis=0) < 1e-12))


@dataclass(frozen=True)
class ContinuousPopulation(Weights):
    """Laws with densities. ``pooled`` and ``pooled_gains`` are those of all clients together."""

    joint: Float[Array, "i a"]
    eta: Eta
    laws: tuple[GroupLaws, ...]
    gains: tuple[Gains, ...] = field(repr=False)
    pooled: tuple[GroupLaws, ...] = field(repr=False)
    pooled_gains: tuple[Gains, ...] = field(repr=False)


@dataclass(frozen=True)
class AtomPopulation(Weights):
    """Laws on common atoms: ``masses[i, a, k]`` at ``points[k]`` with the chance ``eta[k]``."""

    joint: Float[Array, "i a"]
    points: Float[Array, " k"]
    eta: Float[Array, " k"]
    masses: Float[Array, "i a k"]


Population = ContinuousPopulation | AtomPopulation


def population(clients: Sequence[Client], eta: Eta | str = "logistic") -> Population:
    """Return a checked population.

    Args:
        clients: all laws are on atoms, or all have densities.
        eta: the chance of a positive label, or its name.

    >>> from fedfb.theory.laws import Gaussian
    >>> member = client(0.5, Gaussian(3, 1), Gaussian(5, 1))
    >>> population([member, member]).joint
    array([[0.25, 0.25],
           [0.25, 0.25]])
    """
    clients = list(clients)
    if not clients:
        raise ConfigError("a population needs at least one client, found none.")
    joint = _joint(clients)
    eta = eta_named(eta) if isinstance(eta, str) else eta
    laws = [_fill_in_laws(number, client) for number, client in enumerate(clients)]
    on_atoms = [isinstance(law, Atoms) for row in laws for law in row]
    if all(on_atoms):
        return _on_atoms(joint, eta, laws)
    if any(on_atoms):
        raise ConfigError(
            "some laws are on atoms and others have densities. Give histograms in place of atoms, "
            "or put every law on atoms."
        )
    return _with_densities(joint, eta, laws)


def _joint(clients: list[Client]) -> Float[Array, "i a"]:
    groups = len(clients[0].group_shares)
    for number, member in enumerate(clients):
        shares = np.asarray(member.group_shares, float)
        if len(shares) != groups or len(member.laws) != groups or groups < 2:
            raise ConfigError(
                f"client {number} has {len(shares)} group shares and {len(member.laws)} laws; "
                f"every client needs {max(groups, 2)} of both. A group it lacks has "
                "share 0, law None."
            )
        if not np.all(shares >= 0) or abs(shares.sum() - 1) > 1e-9:
            raise ConfigError(
                f"the shares of the groups at client {number} are {shares.tolist()}: they must "
                "be at least 0 and sum to 1. Divide counts by the client's total."
            )
    shares_stated = [member.share for member in clients]
    if any(share is None for share in shares_stated) and any(
        share is not None for share in shares_stated
    ):
        raise ConfigError("some clients state a share and others do not. Give all, or none.")
    sizes = np.array(
        [1 / len(clients) if share is None else share for share in shares_stated], float
    )
    if not np.all(sizes > 0) or abs(sizes.sum() - 1) > 1e-9:
        raise ConfigError(
            f"the shares of the clients are {sizes.tolist()}: they must be above 0 and sum to 1. "
            "Divide each client's rows by the total; leave out a client without any."
        )
    joint = sizes[:, None] * np.array([member.group_shares for member in clients], float)
    if np.any(joint.sum(axis=0) <= 0):
        absent = int(np.argmin(joint.sum(axis=0)))
        raise ConfigError(f"nobody is in group {absent}: nothing to compare. Leave it out.")
    return joint


def _fill_in_laws(number: int, member: Client) -> list[AnyLaw]:
    """Put a law of the client in the place of an absent one; it has no weight."""
    for group, (share, law) in enumerate(zip(member.group_shares, member.laws, strict=True)):
        if law is None and share > 0:
            raise ConfigError(f"client {number} holds group {group} but gives no law for it.")
    present = next(law for law in member.laws if law is not None)
    return [present if law is None else law for law in member.laws]


def _with_densities(
    joint: Float[Array, "i a"], eta: Eta, laws: list[list[AnyLaw]]
) -> ContinuousPopulation:
    groups = range(joint.shape[1])
    by_group = tuple(make_group_laws([row[a] for row in laws]) for a in groups)
    weights = joint / joint.sum(axis=0)
    together = tuple(pool_laws(by_group[a], weights[:, a]) for a in groups)
    knots = np.unique(np.concatenate([part.knots for group in by_group for part in group.parts]))
    values = eta.value(knots)
    refuse_what_is_no_probability(eta.name, knots, values)
    refuse_what_falls(eta.name, knots, values, strictly=True)
    own_gains = tuple(make_gains(group, eta) for group in by_group)
    return ContinuousPopulation(
        joint,
        eta,
        by_group,
        own_gains,
        together,
        tuple(make_gains(group, eta) for group in together),
    )


def _on_atoms(joint: Float[Array, "i a"], eta: Eta, laws: list[list[AnyLaw]]) -> AtomPopulation:
    atoms = [[law for law in row if isinstance(law, Atoms)] for row in laws]
    points = np.unique(np.concatenate([law.points for row in atoms for law in row]))
    values = np.asarray(eta.value(points), float)
    refuse_what_is_no_probability(eta.name, points, values)
    refuse_what_falls(eta.name, points, values, strictly=False)
    masses = np.zeros((*joint.shape, len(points)))
    for i, row in enumerate(atoms):
        for a, law in enumerate(row):
            masses[i, a, np.searchsorted(points, law.points)] = law.masses
    return AtomPopulation(joint, points, values, masses)
