import numpy as np
import pytest

from fedfb.data import DataRequest, load
from fedfb.data.datasets.gaussians import POPULATIONS, draw
from fedfb.data.request import POPULATIONS as NAMES
from fedfb.errors import ConfigError


def test_every_name_has_a_population():
    assert tuple(POPULATIONS) == NAMES


@pytest.mark.parametrize("name", POPULATIONS)
def test_rows_have_the_stated_shares_and_means(name):
    """Margins are above four standard errors."""
    population = POPULATIONS[name]
    client, table = draw(population, 60_000, seed=1, source=name)
    group, x = table.columns["group"] == "1", table.columns["x"]
    for number, (means, sd, q) in enumerate(zip(*population, strict=True)):
        mine = client == number
        assert abs(mine.mean() - 1 / len(population.q)) < 0.01
        assert abs(group[mine].mean() - q) < 0.015
        for a in (0, 1):
            rows = x[mine & (group == a)]
            assert abs(rows.mean() - means[a]) < 0.07 * sd
            assert abs(rows.std() / sd - 1) < 0.05


def test_labels_follow_the_logistic_curve():
    _, table = draw(POPULATIONS["fig2"], 100_000, seed=0, source="fig2")
    x, y = table.columns["x"], table.columns["y"] == "1"
    for low in (-2.0, -1.0, 0.0, 1.0, 2.0):
        near = abs(x - low) < 0.25
        assert abs(y[near].mean() - np.mean(1 / (1 + np.exp(-x[near])))) < 0.03


def test_the_best_classifier_is_as_unequal_and_accurate_as_the_theory_says():
    """THEORY.md, section 2: Fig. 2 at (.3, .7); 40,000 rows, standard errors below .004."""
    population = POPULATIONS["fig2"]._replace(q=(0.3, 0.7))
    _, table = draw(population, 40_000, seed=3, source="fig2")
    group, positive = table.columns["group"], table.columns["x"] > 0
    rates = [positive[group == a].mean() for a in "01"]
    assert abs(abs(rates[0] - rates[1]) - 0.5404) < 0.02
    assert abs((positive == (table.columns["y"] == "1")).mean() - 0.8418) < 0.01


def test_clients_are_those_of_the_population():
    federation = load(DataRequest("fig3", q=(0.2, 0.5, 0.8), rows=3000, test_rows=300), 0)
    shares = [client.group.mean() for client in federation.clients]
    np.testing.assert_allclose(shares, (0.2, 0.5, 0.8), atol=0.06)  # four standard errors
    assert set(np.unique(federation.test.client)) == {0, 1, 2}


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"data": "fig2", "q": (0.5,)}, "2 numbers"),
        ({"data": "fig2", "q": (0.5, 1.5)}, "0 to 1"),
        ({"data": "synthetic", "q": (0.5, 0.5)}, "populations"),
        ({"data": "fig2", "heterogeneity": "high"}, "synthetic"),
        ({"data": "adult", "rows": 50}, "data that are drawn"),
    ],
)
def test_options_that_do_not_apply_are_refused(options, what):
    with pytest.raises(ConfigError, match=what):
        load(DataRequest(**options), split_seed=0)
