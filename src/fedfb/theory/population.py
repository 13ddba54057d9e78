r"""A population: clients, groups, the laws of the feature, and the chance of a positive label.

A person is at client i and in group a with probability :math:`n_{ia} = P(i) P(a\mid i)`. Her
feature follows :math:`P_a^{(i)}`, her label :math:`\eta(x)`, the same function everywhere.

``SETTINGS`` holds the paper's own populations, by the name of the figure that shows them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from fedfb.data.datasets.gaussians import POPULATIONS, Gaussians
from fedfb.errors import ConfigError, unknown_name
from fedfb.shapes import Array, Bool, Float
from fedfb.theory.eta import Eta, eta_named, refuse_what_falls, refuse_what_is_no_probability
from fedfb.theory.laws import AnyLaw, Atoms, Gaussian
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


FIG2_PANELS: tuple[tuple[float, float], ...] = ((0.5, 0.5), (0.4, 0.6), (0.3, 0.7), (0.2, 0.8))
"""The shares (q_0, q_1); the text does not state them, the released result files do."""

FIG3_PANELS: tuple[tuple[float, float, float], ...] = (
    (0.5, 0.5, 0.5),
    (0.4, 0.5, 0.6),
    (0.3, 0.5, 0.7),
    (0.2, 0.5, 0.8),
)


TOY = (
    ((0.1, 0.2), (0.7, 0.95)),
    ((0.15, 0.4), (0.35, 0.85)),
    ((0.35, 0.75), (0.15, 0.3)),
)
"""Three clients with two people of each group; a person is her chance of a positive label."""


def gaussian_population(drawn: Gaussians, eta: str = "logistic") -> ContinuousPopulation:
    """Return clients of equal size whose two groups are Gaussian with a common deviation.

    Args:
        drawn: means, deviations and shares of the clients.
        eta: name of the chance of a positive label.

    >>> gaussian_population(Gaussians(((0.0, 1.0),), (1.0,), (0.5,))).clients
    1
    """
    clients = [
        client(q, Gaussian(mean0, sd), Gaussian(mean1, sd))
        for (mean0, mean1), sd, q in zip(*drawn, strict=True)
    ]
    result = population(clients, eta)
    assert isinstance(result, ContinuousPopulation)
    return result


def example1() -> ContinuousPopulation:
    """Return Example 1 and Fig. 1(a): one client with a much larger variance than the other."""
    return gaussian_population(POPULATIONS["example1"])


def fig1b() -> ContinuousPopulation:
    """Return Fig. 1(b): both clients favour group 0, at very different rates."""
    return gaussian_population(POPULATIONS["fig1b"])


def fig1c() -> ContinuousPopulation:
    """Return Fig. 1(c): the clients favour different groups."""
    return gaussian_population(POPULATIONS["fig1c"])


def fig2(q0: float = 0.5, q1: float = 0.5) -> ContinuousPopulation:
    """Return a panel of Fig. 2; see ``FIG2_PANELS`` for the paper's four.

    >>> fig2(0.3, 0.7).group_shares
    array([0.5, 0.5])
    """
    return gaussian_population(POPULATIONS["fig2"]._replace(q=(q0, q1)))


def fig3(q0: float = 0.5, q1: float = 0.5, q2: float = 0.5) -> ContinuousPopulation:
    """Return a panel of the figure with three clients; see ``FIG3_PANELS``.

    >>> fig3(0.3, 0.5, 0.7).clients
    3
    """
    return gaussian_population(POPULATIONS["fig3"]._replace(q=(q0, q1, q2)))


def toy() -> AtomPopulation:
    """Return the toy example: clients whose rules are fair at home and unfair as a vote.

    The paper shows it as a picture, without numbers; these are ours.

    >>> toy().joint.shape
    (3, 2)
    """
    halves = [0.5, 0.5]
    clients = [client(0.5, Atoms(first, halves), Atoms(second, halves)) for first, second in TOY]
    result = population(clients, "identity")
    assert isinstance(result, AtomPopulation)
    return result


SETTINGS: Mapping[str, Callable[..., Population]] = MappingProxyType(
    {"example1": example1, "fig1b": fig1b, "fig1c": fig1c, "fig2": fig2, "fig3": fig3, "toy": toy}
)


def setting(name: str, *qs: float) -> Population:
    """Return a population of the paper.

    Args:
        name: example1, fig1b, fig1c, fig2, fig3 or toy.
        qs: share of group 1 at each client, for fig2 and fig3.

    >>> setting("fig2", 0.3, 0.7).within[:, 1]
    array([0.3, 0.7])
    """
    if name not in SETTINGS:
        raise ConfigError(unknown_name("setting", name, SETTINGS))
    expected = {"fig2": 2, "fig3": 3}.get(name, 0)
    if len(qs) not in {0, expected}:
        raise ConfigError(
            f"setting {name!r} takes {expected or 'no'} shares q, found {len(qs)}. "
            "Leave them out for the paper's first panel."
        )
    return SETTINGS[name](*qs)
