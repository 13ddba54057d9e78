"""The paper's synthetic data: two Gaussian classes, and a group drawn by the rotated point."""

import numpy as np

from fedfb.core import generator
from fedfb.data.federation import Source
from fedfb.data.loading import PaperClients, PublicData
from fedfb.data.request import DataRequest
from fedfb.errors import ConfigError, unknown_name
from fedfb.shapes import Array, Float
from fedfb.tables.table import Table, Words

MEANS = np.array([[-2.0, -2.0], [2.0, 2.0], [0.0, 0.0]])
COVARIANCES = np.array(
    [[[10.0, 1.0], [1.0, 3.0]], [[5.0, 1.0], [1.0, 5.0]], [[7.5, 1.0], [1.0, 4.0]]]
)
"""Of label 0, label 1, and the middle density of a third group (ours, not the paper's)."""

SHARES = {
    (2, "medium"): ((0.6, 0.4), (0.2, 0.8), (0.5, 0.5)),
    (3, "low"): ((0.33, 0.33, 0.34),) * 3,
    (3, "medium"): ((0.5, 0.3, 0.2), (0.2, 0.4, 0.4), (0.3, 0.3, 0.4)),
    (3, "high"): ((0.7, 0.1, 0.2), (0.1, 0.8, 0.1), (0.2, 0.1, 0.7)),
    (4, "medium"): ((0.2, 0.2, 0.2, 0.4),) * 3,
}
"""Share of each group's rows per client, by (clients, heterogeneity), as in the paper's text."""

ROWS = {2: (2333, 1000), 3: (3500, 1500), 4: (4667, 2000)}
"""Training and test rows by number of clients."""


def read(request: DataRequest, split_seed: int) -> PublicData:
    """Draw the synthetic data. The third group is ours, not the paper's."""
    clients, shares = _choose_shares(request)
    train, test = request.rows or ROWS[clients][0], request.test_rows or ROWS[clients][1]
    table = draw(train + test, request.groups, split_seed)
    source = Source(
        name="synthetic",
        table=table,
        train=np.arange(train),
        test=np.arange(train, train + test),
        label="y",
        positive="1",
        sensitive=("group",),
        features=("x1", "x2"),
    )
    names = tuple(f"client {number}" for number in range(clients))
    return PublicData(source, PaperClients(names, table.text("group").codes, shares))


def draw(rows: int, groups: int, seed: int) -> Table:
    r"""Draw rows (x1, x2, group, y) of the paper's distribution.

    .. math:: y \sim \mathrm{Bern}(0.6),\quad x \mid y \sim N(\mu_y, \Sigma_y),\quad
              P(a \mid x) = \frac{p_a(x')}{\sum_b p_b(x')},\quad x' = R(+\pi/4)\, x

    where :math:`p_0, p_1` are the densities of the classes; with three groups :math:`p_2` is a
    density between them, :math:`N(0, \Sigma_2)`.
    """
    rng = generator((seed, 11))
    y = (rng.random(rows) < 0.6).astype(int)
    factors = np.linalg.cholesky(COVARIANCES)
    x = MEANS[y] + np.einsum("nij,nj->ni", factors[y], rng.standard_normal((rows, 2)))
    densities = np.stack([_evaluate_density(_rotate(x), a) for a in range(groups)], axis=1)
    cumulative = np.cumsum(densities, axis=1)
    group = (rng.random((rows, 1)) * cumulative[:, -1:] >= cumulative[:, :-1]).sum(axis=1)
    return Table(
        {
            "x1": x[:, 0],
            "x2": x[:, 1],
            "group": Words(("0", "1", "2"), group),
            "y": Words(("0", "1"), y),
        },
        "synthetic",
    )


def _rotate(x: Float[Array, "n 2"]) -> Float[Array, "n 2"]:
    c, s = np.cos(np.pi / 4), np.sin(np.pi / 4)
    return np.stack([x[:, 0] * c - x[:, 1] * s, x[:, 0] * s + x[:, 1] * c], axis=1)


def _evaluate_density(x: Float[Array, "n 2"], number: int) -> Float[Array, " n"]:
    centred = x - MEANS[number]
    distance = np.einsum("ni,ij,nj->n", centred, np.linalg.inv(COVARIANCES[number]), centred)
    density: Array = np.exp(-0.5 * distance) / np.sqrt(np.linalg.det(COVARIANCES[number]))
    return density


def _choose_shares(request: DataRequest) -> tuple[int, Float[Array, "v i"]]:
    """Check the options. Return the number of clients and the paper's shares."""
    partition, clients = request.partition, request.clients
    groups, heterogeneity = request.groups, request.heterogeneity
    if groups not in (2, 3):
        raise ConfigError(f"synthetic data have 2 or 3 groups, not {groups}.")
    if heterogeneity not in ("low", "medium", "high"):
        raise ConfigError(unknown_name("heterogeneity", heterogeneity, ("low", "medium", "high")))
    if partition != "paper" and (clients is not None or heterogeneity != "medium"):
        raise ConfigError(
            f"the partition {partition!r} decides the clients: clients and heterogeneity belong "
            "to the partition 'paper'. Leave them out, or choose the partition 'paper'."
        )
    number = 3 if clients is None else clients
    if number not in ROWS:
        raise ConfigError(
            f"synthetic data have 2, 3 or 4 clients, not {number}. For another number choose a "
            "partition such as shares:0.2,0.2,0.2,0.2,0.2/0.1,0.1,0.1,0.1,0.6."
        )
    if (number, heterogeneity) not in SHARES:
        raise ConfigError(
            f"heterogeneity {heterogeneity!r} is defined for 3 clients only, not {number}. "
            "Choose 3 clients, or heterogeneity 'medium'."
        )
    return number, np.array(SHARES[number, heterogeneity][:groups])
