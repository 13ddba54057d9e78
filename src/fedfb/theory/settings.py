"""The paper's own populations, by the name of the figure or example that shows them."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from fedfb.data.datasets.gaussians import POPULATIONS, Gaussians
from fedfb.errors import ConfigError, unknown_name
from fedfb.theory.laws import Atoms, Gaussian
from fedfb.theory.population import (
    AtomPopulation,
    ContinuousPopulation,
    Population,
    client,
    population,
)

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
