"""What data say of a population is what the population itself says."""

import numpy as np
import pytest

from fedfb.errors import ConfigError
from fedfb.experiments.score_population import (
    count_scores,
    intervals,
    population_of,
    refuse_tiny,
    revealed,
)
from fedfb.experiments.spec import Experiment
from fedfb.theory import cfl_curve, ensemble_range, setting

LEVELS = (0.0, 0.05, 0.1, 0.2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "q"), [("fig2", (0.5, 0.5)), ("fig2", (0.3, 0.7)), ("fig3", (0.3, 0.5, 0.7))]
)
def test_two_hundred_thousand_rows_say_what_the_population_says(name, q):
    drawn = Experiment(data=name, q=q, rows=200_000, test_rows=100, rounds=5, local_epochs=3)
    found, truth = population_of(count_scores(drawn).counts), setting(name, *q)
    least = ensemble_range(truth).least_disparity
    assert ensemble_range(found).least_disparity == pytest.approx(least, abs=0.01)
    expected = [point.accuracy for point in cfl_curve(truth, LEVELS)]
    assert [p.accuracy for p in cfl_curve(found, LEVELS)] == pytest.approx(expected, abs=0.005)


def test_counts_are_of_all_rows_and_intervals_lie_around_the_estimate():
    drawn = Experiment(data="fig2", rows=4000, test_rows=100, rounds=2, local_epochs=2)
    scored = count_scores(drawn)
    assert scored.counts.sum() == 4000
    assert "2 clients" in revealed(scored)
    low, high = intervals(scored.counts, seed=0)["lft_ensemble_min_disparity"]
    assert low < ensemble_range(population_of(scored.counts)).least_disparity < high


def test_a_client_without_a_group_is_none_the_worse():
    counts = np.ones((2, 2, 4)) * 50
    counts[0, 1] = 0
    assert population_of(counts).clients == 2


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(ConfigError, match="two groups"):
        count_scores(Experiment(groups=3, rows=200, test_rows=100))
    with pytest.raises(ConfigError, match="3 rows of group 1"):
        refuse_tiny(np.array([[[40.0], [3.0]]]))
