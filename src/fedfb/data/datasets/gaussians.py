"""The paper's populations of Figures 1 to 3, to draw rows from: one feature, Gaussian in a group.

The distribution of x given the group differs between clients, unlike in the synthetic data. What is
fair on each client need not be fair on all clients together.
"""

from typing import NamedTuple

import numpy as np

from fedfb.core import generator
from fedfb.data.federation import Source
from fedfb.data.loading import PaperClients, PublicData
from fedfb.data.request import DataRequest
from fedfb.errors import ConfigError, unknown_name
from fedfb.shapes import Array, Float, Int
from fedfb.tables.table import Table, Words

_ROWS = (12_000, 12_000)
"""Training and test rows."""


class Gaussians(NamedTuple):
    r"""Clients of equal size with :math:`a\mid i\sim\mathrm{Bern}(q_i)`.

    There :math:`x\mid a,i\sim N(\mu_a^{(i)},\sigma^{(i)2})`; means are given as (group 0, group 1).
    """

    means: tuple[tuple[float, float], ...]
    sd: tuple[float, ...]
    q: tuple[float, ...]


POPULATIONS = {
    "example1": Gaussians(((0.0, 0.0), (3.0, -1.0)), (70.0, 1.0), (0.5, 0.5)),
    "fig1b": Gaussians(((10.0, 9.8), (0.2, 0.0)), (0.2, 0.2), (0.2, 0.2)),
    "fig1c": Gaussians(((3.0, 5.0), (1.0, -1.0)), (1.0, 1.0), (0.5, 0.5)),
    "fig2": Gaussians(((3.0, 5.0), (1.0, -1.0)), (1.0, 1.0), (0.5, 0.5)),
    "fig3": Gaussians(((3.0, 5.0), (1.0, -1.0), (1.0, 2.0)), (1.0, 1.0, 1.0), (0.5, 0.5, 0.5)),
}
"""By the paper's figure. Figures 2 and 3 show several q; Figure 3 has three clients."""


def read(request: DataRequest, split_seed: int) -> PublicData:
    """Draw rows of the population that a request names, 12,000 each if it states no number."""
    name = request.data
    population = _choose_population(name, request.q)
    train, test = request.rows or _ROWS[0], request.test_rows or _ROWS[1]
    client, table = draw(population, train + test, split_seed, name)
    clients = len(population.q)
    source = Source(
        name=name,
        table=table,
        train=np.arange(train),
        test=np.arange(train, train + test),
        label="y",
        positive="1",
        sensitive=("group",),
        features=("x",),
    )
    names = tuple(f"client {number}" for number in range(clients))
    return PublicData(source, PaperClients(names, client, np.eye(clients)))


def draw(
    population: Gaussians, rows: int, seed: int, source: str
) -> tuple[Int[Array, " n"], Table]:
    r"""Draw the client and (x, group, y) of rows, :math:`P(y=1\mid x)=1/(1+e^{-x})`."""
    rng = generator((seed, 12))
    client = rng.integers(len(population.q), size=rows)
    group = (rng.random(rows) < np.array(population.q)[client]).astype(int)
    spread = np.array(population.sd)[client]
    x = np.array(population.means)[client, group] + spread * rng.standard_normal(rows)
    y = (rng.random(rows) < _logistic(x)).astype(int)
    names = ("0", "1")
    columns = {"x": x, "group": Words(names, group), "y": Words(names, y)}
    return client, Table(columns, source)


def _logistic(x: Float[Array, " n"]) -> Float[Array, " n"]:
    return 0.5 + 0.5 * np.tanh(0.5 * x)


def _choose_population(name: str, q: tuple[float, ...]) -> Gaussians:
    if name not in POPULATIONS:
        raise ConfigError(unknown_name("population", name, POPULATIONS))
    population = POPULATIONS[name]
    if not q:
        return population
    if len(q) != len(population.q) or not all(0 <= share <= 1 for share in q):
        usual = ",".join(map(str, population.q))
        raise ConfigError(
            f"q is {','.join(map(str, q))}: expected {len(population.q)} numbers from 0 to 1, the "
            f"share of group 1 in each client of {name}, such as --q {usual}."
        )
    return population._replace(q=q)
