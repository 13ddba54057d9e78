"""What the difference of two sums shows of a client that is in one of them only (see errata)."""

import numpy as np
import pytest

from fedfb.notions import DemographicParity, EqualizedOdds, EqualOpportunity

RNG = np.random.default_rng(0)


def solve_counts(notion, groups, others):
    """Return what weights after a drop-out tell of its counts, and the rank of the equations.

    Before the drop-out all counts were summed once; after it, rounds sum weights at known lambda.
    """
    counts = RNG.integers(20, 200, (5, 2, groups)).astype(float)
    total, left = counts.sum(axis=0), counts[:others].sum(axis=0)
    lam = notion.init(total)
    lams = lam * (1 + 0.3 * RNG.standard_normal((2 * groups, *np.shape(lam))))
    weights = np.asarray(notion.weights(lams, total)).reshape(2 * groups, -1)
    sums = weights @ left.reshape(-1)
    found = np.linalg.lstsq(weights, sums, rcond=None)[0].reshape(2, groups)
    own = counts[others:].sum(axis=0)
    return weights, total - found, own


@pytest.mark.parametrize("groups", [2, 3, 4])
def test_weights_of_equalized_odds_show_the_counts_of_a_client_that_drops_out(groups):
    weights, found, own = solve_counts(EqualizedOdds(groups), groups, others=4)
    assert np.linalg.matrix_rank(weights) == 2 * groups
    np.testing.assert_allclose(found, own, atol=1e-6)


@pytest.mark.parametrize("notion", [DemographicParity, EqualOpportunity])
@pytest.mark.parametrize("groups", [2, 3, 4])
def test_weights_of_other_notions_show_one_number_less_than_two_a_group(notion, groups):
    """Whatever lies in the space of the weights is shown exactly: groups + 1 numbers."""
    weights, found, own = solve_counts(notion(groups), groups, others=4)
    assert np.linalg.matrix_rank(weights) == groups + 1
    np.testing.assert_allclose(weights @ found.ravel(), weights @ own.ravel(), rtol=1e-9)


def test_at_the_optimum_of_all_the_others_gradients_are_minus_that_of_the_one_that_left():
    x, y = RNG.standard_normal((300, 3)), RNG.random(300) < 0.5
    client, w = np.arange(300) % 5, np.zeros(3)

    def gradient(rows):
        return x[rows].T @ (1 / (1 + np.exp(-x[rows] @ w)) - y[rows])

    everybody = np.ones(300, bool)
    for _ in range(30):
        p = 1 / (1 + np.exp(-x @ w))
        w = w - np.linalg.solve(x.T @ (x * (p * (1 - p))[:, None]), gradient(everybody))
    np.testing.assert_allclose(-gradient(client != 4), gradient(client == 4), atol=1e-9)
