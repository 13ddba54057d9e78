"""What data say of a population is what the population itself says."""

import numpy as np
import pytest
from scipy.special import expit

from fedfb.errors import ConfigError
from fedfb.experiments.spec import Experiment
from fedfb.theory import Gaussian, cfl_curve, client, ensemble_range, erm, population, setting
from fedfb.theory.achievable import achievable
from fedfb.theory.from_scores import (
    count_scores,
    describe_exchange,
    population_of,
    refuse_tiny,
    score_intervals,
)

LEVELS = (0.0, 0.05, 0.1, 0.2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "q"), [("fig2", (0.5, 0.5)), ("fig2", (0.3, 0.7)), ("fig3", (0.3, 0.5, 0.7))]
)
def test_two_hundred_thousand_rows_say_what_the_population_says(name, q):
    drawn = Experiment(data=name, q=q, rows=200_000, test_rows=100, rounds=5, local_epochs=3)
    agree(population_of(count_scores(drawn).counts), setting(name, *q))


def write_rows(truth, path, rows, seed):
    """Draw people of a population of Gaussians into one file, with the client as a column."""
    rng = np.random.default_rng(seed)
    cell = rng.choice(truth.joint.size, size=rows, p=truth.joint.ravel())
    client_of, group = np.divmod(cell, 2)
    mean, sd = (np.stack([getattr(law, name) for law in truth.laws], 1) for name in ("mean", "sd"))
    x = rng.normal(mean[client_of, group], sd[client_of, group])
    y = rng.random(rows) < expit(x)
    people = zip(client_of, group, x, y, strict=True)
    lines = [f"{i},{a},{value:.5f},{int(label)}" for i, a, value, label in people]
    path.write_text("\n".join(["site,group,x,y", *lines]) + "\n")
    return str(path)


@pytest.mark.slow
def test_rows_of_unequal_clients_say_what_their_population_says(tmp_path):
    """Unequal q and unequal shares: 200,000 rows from a file of one's own."""
    truth = population(
        [
            client(0.3, Gaussian(3, 1), Gaussian(5, 1), share=0.25),
            client(0.6, Gaussian(1, 1), Gaussian(-1, 1), share=0.75),
        ]
    )
    own = Experiment(
        data=write_rows(truth, tmp_path / "all.csv", 200_000, seed=1),
        test=write_rows(truth, tmp_path / "test.csv", 200, seed=2),
        label="y", positive="1", sensitive=("group",), client_column="site",
        rounds=5, local_epochs=3,
    )  # fmt: skip
    found = population_of(count_scores(own).counts)
    np.testing.assert_allclose(found.joint, truth.joint, atol=0.005)
    agree(found, truth)


def agree(found, truth):
    least = ensemble_range(truth).least_disparity
    assert ensemble_range(found).least_disparity == pytest.approx(least, abs=0.01)
    expected = [point.accuracy for point in cfl_curve(truth, LEVELS)]
    assert [p.accuracy for p in cfl_curve(found, LEVELS)] == pytest.approx(expected, abs=0.005)


def test_counts_are_of_all_rows_and_intervals_lie_around_the_estimate():
    drawn = Experiment(data="fig2", rows=4000, test_rows=100, rounds=2, local_epochs=2)
    scored = count_scores(drawn)
    assert scored.counts.sum() == 4000
    assert "2 clients" in describe_exchange(scored)
    low, high = score_intervals(scored.counts, seed=0)["lft_ensemble_min_disparity"]
    assert low < ensemble_range(population_of(scored.counts)).least_disparity < high


def spd(counts):
    """The disparity of plain training on scores of 1/4 and 3/4: it favours the latter."""
    favoured, rows = counts[:, :, 1].sum(axis=0), counts.sum(axis=(0, 2))
    return abs(np.subtract(*(favoured / rows)))


@pytest.mark.parametrize("apart", [0.0, 0.3])
def test_intervals_cover_the_disparity_of_plain_training(apart, monkeypatch):
    """Of two bins the disparity is a difference of shares; every figure takes the same way."""
    module = "fedfb.theory.from_scores"
    monkeypatch.setattr(f"{module}.population_of", lambda counts: counts)
    monkeypatch.setattr(f"{module}._figures", lambda counts: {"erm_disparity": spd(counts)})
    rng = np.random.default_rng(int(10 * apart))
    law = 0.25 * np.array([[1 + apart, 1 - apart], [1 - apart, 1 + apart]])
    covered = []
    for _ in range(1_000):
        counts = rng.multinomial(300, law.ravel(), size=2).reshape(2, 2, 2).astype(float)
        low, high = score_intervals(counts, seed=0)["erm_disparity"]
        covered.append(low <= apart <= high)
    # Of 1,000 intervals that truly cover 95 %, fewer than 93 % cover with probability 3e-3.
    assert np.mean(covered) >= 0.93
    assert spd(counts) == pytest.approx(erm(population_of(counts)).outcome.spd)


def test_a_client_without_a_group_is_none_the_worse():
    counts = np.ones((2, 2, 4)) * 50
    counts[0, 1] = 0
    assert population_of(counts).clients == 2


@pytest.mark.slow
def test_more_than_two_groups_stand_on_atoms_and_leave_the_vote_out():
    drawn = Experiment(groups=3, rows=3000, test_rows=100, rounds=2, local_epochs=2)
    counts = count_scores(drawn).counts
    record = achievable(population_of(counts), [0.0, 0.05, 0.5])
    assert record["measure"] == "demographic_parity"
    assert "two groups" in record["left_out"]
    strict, middle, loose = (point["accuracy"] for point in record["cfl"]["curve"])
    assert strict <= middle <= loose == pytest.approx(record["erm"]["accuracy"], abs=1e-9)
    assert record["cfl"]["at_least"]["demographic_parity"] < 1e-8
    assert record["lft_fedavg"]["curve"][2]["accuracy"] == pytest.approx(loose, abs=1e-9)
    told = score_intervals(counts, seed=0)
    assert set(told) == {"erm_disparity", "cost_of_parity"}
    low, high = told["erm_disparity"]
    assert low < record["erm"]["disparity"] < high


def test_clients_too_small_to_speak_of_a_law_are_refused():
    with pytest.raises(ConfigError, match="3 rows of group 1"):
        refuse_tiny(np.array([[[40.0], [3.0]]]))
