"""g against lambda and Lemma ufl_limit, against closed forms and a search over budgets."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import logit, ndtr

from fedfb import theory
from fedfb.errors import ConfigError
from theory.populations import gaussians


def closed_form(lam, zero, one, sd, q):
    """The paper's g_i of a Gaussian client with a logistic eta."""
    t0, t1 = logit(0.5 - lam / (2 * (1 - q))), logit(0.5 + lam / (2 * q))
    return ndtr((t1 - one) / sd) - ndtr((t0 - zero) / sd)


def test_g_is_the_papers_closed_form():
    means, sds, qs = [(3.0, 5.0), (1.0, -1.0)], [1.0, 2.0], (0.3, 0.6)
    lam = np.linspace(-0.29, 0.29, 59)
    curves = theory.gap_curves(gaussians(means, sds, qs), lam)
    for client, (pair, sd, q) in enumerate(zip(means, sds, qs, strict=True)):
        np.testing.assert_allclose(
            curves.clients[client], closed_form(lam, *pair, sd, q), atol=1e-12
        )


def test_with_one_q_g_is_the_mean_of_the_clients_and_increases():
    both = theory.setting("fig2", 0.4, 0.4)
    curves = theory.gap_curves(both, theory.lambda_axis(both))
    np.testing.assert_allclose(curves.together, curves.clients.mean(axis=0), atol=1e-12)
    assert np.all(np.diff(curves.together) >= 0)
    assert curves.lam[0] == pytest.approx(-0.4)
    assert curves.lam[-1] == pytest.approx(0.4)


def test_g_on_atoms_counts_who_is_let_in():
    """Shares 1/2: at lambda = .1 group 0 needs eta > .4 and group 1 eta > .6."""
    first = theory.client(0.5, theory.Atoms([0.3, 0.45], [0.5, 0.5]), theory.Atoms([0.55], [1.0]))
    curves = theory.gap_curves(theory.population([first], "identity"), np.array([0.0, 0.1]))
    assert curves.clients[0].tolist() == [-1.0, 0.5]
    assert curves.together.tolist() == [-1.0, 0.5]


def test_a_client_that_lacks_a_group_has_no_gap():
    curves = theory.gap_curves(theory.setting("fig2", 0.0, 0.5), np.zeros(1))
    assert np.isnan(curves.clients[0, 0])
    assert np.isfinite(curves.clients[1, 0])
    assert np.isfinite(curves.together[0])


def psi(e0, e1, clients):
    """The paper's psi, with roots by brentq."""
    lam = []
    for budget, client in zip((e0, e1), clients, strict=True):
        start = closed_form(0.0, *client)
        goal = np.sign(start) * min(budget, abs(start))
        ends = -0.4999999, 0.4999999
        lam.append(brentq(lambda x, c=client, g=goal: closed_form(x, *c) - g, *ends))
    return np.mean([closed_form(x, *client) for x in lam for client in clients])


@pytest.mark.parametrize(
    ("means", "sds"),
    [
        ([(3.0, 5.0), (1.0, -1.0)], [1.0, 1.0]),
        ([(0.0, 0.4), (1.0, -1.0)], [5.0, 0.5]),
        ([(-1.0, 1.5), (0.5, -0.2)], [1.0, 0.5]),
        ([(-1.0, 1.0), (1.0, -1.0)], [1.0, 0.7]),
        ([(2.0, -1.0), (-1.0, 0.3)], [0.6, 2.0]),
    ],
)
def test_the_verdict_is_that_of_a_search_over_all_budgets(means, sds):
    clients = [(*pair, sd, 0.5) for pair, sd in zip(means, sds, strict=True)]
    starts = [closed_form(0.0, *client) for client in clients]
    budgets = np.linspace(0.0, min(map(abs, starts)), 9)
    values = np.array([[psi(e0, e1, clients) for e1 in budgets] for e0 in budgets])
    expected = np.all(values * sum(starts) > 0)
    limit = theory.vote_limit(gaussians(means, sds, (0.5, 0.5)))
    assert limit.applies == expected
    if expected:
        assert limit.bound == pytest.approx(np.abs(values).min(), abs=1e-9)
        least = theory.ensemble_range(gaussians(means, sds, (0.5, 0.5))).least_disparity
        assert limit.bound == pytest.approx(least, abs=1e-9)


def test_both_verdicts_occur_above():
    applies = theory.vote_limit(gaussians([(3.0, 5.0), (1.0, -1.0)], [1.0, 1.0], (0.5, 0.5)))
    fails = theory.vote_limit(gaussians([(-1.0, 1.0), (1.0, -1.0)], [1.0, 0.7], (0.5, 0.5)))
    assert applies.applies
    assert not fails.applies
    assert fails.conditions[-1].statement.startswith("psi")


@pytest.mark.parametrize(
    ("population", "fails", "numbers"),
    [
        (theory.setting("example1"), "favour different groups", "g_0(0) = 0"),
        (theory.setting("fig1b"), "favour different groups", "g_1(0) = 0.3413"),
        (theory.setting("fig3"), "two clients", "3 clients"),
        (theory.setting("fig2", 0.3, 0.7), "one q", "0.3, 0.7"),
        (theory.setting("toy"), "densities", "atoms"),
    ],
    ids=["example1", "fig1b", "fig3", "unequal-q", "toy"],
)
def test_the_condition_that_fails_is_named_with_its_numbers(population, fails, numbers):
    limit = theory.vote_limit(population)
    assert limit.bound is None
    assert any(
        fails in one.statement and numbers in one.numbers
        for one in limit.conditions
        if not one.holds
    )


def test_clients_of_different_size_are_outside_the_lemma():
    laws = theory.Gaussian(3.0, 1.0), theory.Gaussian(5.0, 1.0)
    uneven = [theory.client(0.5, *laws, share=0.3), theory.client(0.5, *laws[::-1], share=0.7)]
    limit = theory.vote_limit(theory.population(uneven))
    assert [one.statement for one in limit.conditions if not one.holds] == [
        "the clients are of equal size"
    ]


def test_three_groups_are_refused():
    law = theory.Atoms([0.2, 0.8], [0.5, 0.5])
    three = theory.population([theory.Client((0.2, 0.3, 0.5), (law, law, law))], "identity")
    with pytest.raises(ConfigError, match="two groups"):
        theory.vote_limit(three)
