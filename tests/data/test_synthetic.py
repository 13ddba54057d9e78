import numpy as np
import pytest
from scipy.optimize import minimize

from fedfb.data import DataRequest, load
from fedfb.data.datasets.synthetic import ROWS, SHARES, draw
from fedfb.errors import ConfigError
from fedfb.experiments.spec_file import from_values


def load_synthetic(split_seed=0, **settings):
    return load(DataRequest("synthetic", **settings), split_seed)


def test_logistic_regression_is_as_accurate_and_as_unequal_as_in_the_paper():
    """T15. At 40,000 rows standard errors are below .004; every margin is above four of them."""
    table = draw(40_000, groups=2, seed=0)
    x = np.stack([np.ones(len(table)), table.columns["x1"], table.columns["x2"]], axis=1)
    y = (table.columns["y"] == "1").astype(float)
    a = table.columns["group"] == "1"

    def loss(w):
        z = x @ w
        return (np.logaddexp(0, z) - y * z).mean(), x.T @ (1 / (1 + np.exp(-z)) - y) / len(y)

    positive = x @ minimize(loss, np.zeros(3), jac=True).x > 0
    rate = positive.mean()
    assert 0.85 <= (positive == y).mean() <= 0.90
    assert 0.34 <= max(abs(positive[a].mean() - rate), abs(positive[~a].mean() - rate)) <= 0.44
    assert abs(a.mean() - 0.60) < 0.02


def test_classes_have_the_stated_means_and_covariances():
    table = draw(50_000, groups=2, seed=1)
    x = np.stack([table.columns["x1"], table.columns["x2"]])
    for label, mean, covariance in (
        ("0", [-2, -2], [[10, 1], [1, 3]]),
        ("1", [2, 2], [[5, 1], [1, 5]]),
    ):
        rows = x[:, table.columns["y"] == label]
        np.testing.assert_allclose(rows.mean(axis=1), mean, atol=0.1)  # 4.5 standard errors
        np.testing.assert_allclose(np.cov(rows), covariance, atol=0.5)


def test_a_third_group_stands_between_the_other_two():
    table = draw(20_000, groups=3, seed=0)
    rates = [(table.columns["y"][table.columns["group"] == a] == "1").mean() for a in "012"]
    assert rates[0] < rates[2] < rates[1]


@pytest.mark.parametrize("clients", [None, 2, 3, 4])
def test_defaults_have_the_papers_sizes(clients):
    federation = load(DataRequest("synthetic", clients=clients), split_seed=0)
    rows, test_rows = ROWS[clients or 3]
    assert len(federation.clients) == (clients or 3)
    assert sum(len(client.y) for client in federation.clients) == rows
    assert len(federation.test.y) == test_rows
    assert federation.feature_names == ("x1", "x2")
    given = DataRequest("synthetic", clients=clients, sensitive_at_prediction=True)
    assert load(given, split_seed=0).feature_names == ("x1", "x2", "group=0", "group=1")


@pytest.mark.parametrize(("clients", "heterogeneity"), list(SHARES))
def test_clients_hold_the_stated_shares_of_every_group(clients, heterogeneity):
    federation = load_synthetic(clients=clients, heterogeneity=heterogeneity, groups=3)
    counts = np.array([np.bincount(c.group, minlength=3) for c in federation.clients]).T
    expected = np.array(SHARES[clients, heterogeneity])
    np.testing.assert_allclose(counts / counts.sum(axis=1, keepdims=True), expected, atol=0.005)
    test = np.array([federation.test.client[federation.test.group == a].mean() for a in range(3)])
    np.testing.assert_allclose(test, expected @ np.arange(clients), atol=0.02)


def test_the_same_seed_draws_the_same_and_another_does_not():
    first, second, other = (load_synthetic(split_seed=s).test.x for s in (1, 1, 2))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, other)


def test_one_client_per_group():
    federation = load_synthetic(partition="group", groups=3)
    assert federation.client_names == ("0", "1", "2")
    assert all((client.group == client.id).all() for client in federation.clients)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": 4}, "2 or 3 groups, not 4"),
        ({"clients": 5}, "2, 3 or 4 clients, not 5"),
        ({"clients": 2, "heterogeneity": "high"}, "defined for 3 clients only, not 2"),
        ({"partition": "group", "clients": 2}, "the partition 'group' decides the clients"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        load_synthetic(**options)


def test_a_word_that_is_no_choice_is_refused():
    with pytest.raises(ConfigError, match="did you mean 'high'"):
        from_values({"heterogeneity": "hihg"})
