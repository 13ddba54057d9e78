"""A network is as good as its logistic regression, also on few rows of a straight line."""

import os

import numpy as np
import pytest

from fedfb.data.own import federation_from_frames
from fedfb.experiments.outcome import run
from fedfb.experiments.spec import Experiment

WORSE = 0.005


def straight(rng, rows):
    x = rng.normal(size=(rows, 6))
    return x, x[:, 0] + 0.5 * x[:, 1]


def weak(rng, rows):
    x = rng.normal(size=(rows, 10))
    return x, 0.3 * x[:, 0]


def curved(rng, rows):
    x = rng.normal(size=(rows, 4))
    return x, 2 * np.abs(x[:, 0]) - 1.6 + x[:, 1] * x[:, 2]


def categories(rng, rows):
    values = rng.integers(0, 40, (rows, 3))
    effect = np.random.default_rng(1).normal(size=(3, 40)) * 0.6
    x = np.concatenate([np.eye(40)[values[:, column]] for column in range(3)], axis=1)
    return x, sum(effect[column][values[:, column]] for column in range(3))


def federation_of(make, rows, deal, seed):
    rng = np.random.default_rng(seed)
    x, logit = make(rng, rows + 4000)
    label = rng.random(len(x)) < 1 / (1 + np.exp(-logit))
    group = rng.integers(0, 2, len(x))
    owner = rng.integers(0, 5, len(x))
    if deal == "by label":
        owner = np.where(rng.random(len(x)) < 0.9, np.where(label, 0, 1), owner)
    columns = {f"x{number}": values for number, values in enumerate(x.T)} | {
        "group": np.array(["a", "b"], object)[group],
        "label": np.where(label, "yes", "no"),
        "bank": np.array([f"bank {number}" for number in owner], object),
    }
    train, test = (
        {name: of[part] for name, of in columns.items()}
        for part in (slice(rows), slice(rows, None))
    )
    return federation_from_frames(train, "label", "yes", "group", client_column="bank", test=test)


def accuracies(model, federations):
    """Return the accuracy on 4,000 test rows by seed."""
    return np.array(
        [
            run(
                Experiment(data="frames.csv", algorithm="fedavg", model=model, seeds=(seed,)),
                federations={seed: federation},
                warn=False,
                watched=False,
            ).summary.accuracy.mean
            for seed, federation in federations.items()
        ]
    )


@pytest.mark.slow
@pytest.mark.parametrize("deal", ["at random", "by label"])
@pytest.mark.parametrize(
    ("make", "rows"), [(straight, 400), (weak, 2000), (curved, 1000), (categories, 1500)]
)
def test_on_made_tables_a_network_keeps_up_with_its_logistic_regression(make, rows, deal):
    federations = {seed: federation_of(make, rows, deal, seed) for seed in range(9300, 9306)}
    plain, network = (accuracies(model, federations) for model in ("logistic", "mlp"))
    # Three standard errors of the mean of the pairs, beside what is allowed.
    chance = 3 * np.std(network - plain, ddof=1) / np.sqrt(len(plain))
    assert network.mean() - plain.mean() >= -WORSE - chance, (network, plain)
    if make is curved:
        assert network.mean() > plain.mean() + 0.05


@pytest.mark.slow
@pytest.mark.skipif("FEDFB_DATA" not in os.environ, reason="needs the published tables")
@pytest.mark.parametrize("algorithm", ["fedavg", "fedfb"])
@pytest.mark.parametrize("data", ["adult", "bank", "compas"])
@pytest.mark.parametrize("partition", ["paper", "dirichlet:.1,10"])
def test_on_published_tables_too(algorithm, data, partition):
    settings = {"data": data, "partition": partition, "algorithm": algorithm, "seeds": (9300, 9301)}
    plain, network = (
        run(
            Experiment(model=model, sensitive_at_prediction=True, **settings),
            warn=False,
            watched=False,
        ).summary
        for model in ("logistic", "mlp")
    )
    assert network.accuracy.mean >= plain.accuracy.mean - WORSE
    if algorithm == "fedfb":
        gaps = (one.disparity["demographic_parity"].mean for one in (network, plain))
        assert next(gaps) <= next(gaps) + 0.02
